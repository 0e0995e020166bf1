//! What a request asks for by name: models, and the tools that it offers, chooses or calls.
//!
//! Names are looked for in all of a request, whichever API it is taken for: who decides about names must not be talked out
//! of looking. Only content is left out: what was said, the arguments and examples of a tool, the
//! properties of a schema, the caller's notes; a property that is called `model` is none. The fields of a form are read
//! as members of a request.
//!
//! A tool that has no name of its own goes by its type (`web_search`), one that has neither by [`UNNAMED`], and a skill by
//! `skill:` and its id. Where its name is the caller's choice and says nothing of what works there, it goes by more than
//! its name: a provider's own tool by its type too, and a server of MCP by `mcp:` and its address.

use super::dialect::Dialects;
use super::json::Document;
use super::json::JsonLimits;

mod form;
mod keys;
mod search;

use self::search::Search;

/// What a tool is called that has no name at all.
pub const UNNAMED: &str = "(unnamed)";

/// Where a path names a model: `…/models/NAME:generateContent`, `…/model/NAME/invoke`, `…/deployments/NAME/…`. Some
/// providers read paths and names of parameters in any case, and nothing behind a semicolon.
const PATH_MARKS: [&str; 6] = ["models", "model", "deployments", "engines", "tunedModels", "endpoints"];
/// Those after whose name a colon and a verb may follow.
const VERB_MARKS: [&str; 3] = ["models", "tunedModels", "endpoints"];
/// What stands in the place of an endpoint's name where the body names the model (Vertex AI).
const OPEN_ENDPOINT: &str = "openapi";
/// Parameters of a query that name one.
const QUERY_NAMES: [&str; 3] = ["model", "modelId", "deployment"];
/// Where a path asks for a session that only writes down what is said.
const TRANSCRIBING: &str = "transcription_sessions";
/// What ends the paths by which Ollama gives a model another name, and the members that say which.
const RENAMING: [(&str, &[&str]); 2] =
    [("/api/create", &["from", "modelfile"]), ("/api/copy", &["source", "destination"])];

/// What a request asks for; names may be there several times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The models, those of tools among them.
    pub models: Vec<String>,
    /// The tools.
    pub tools: Vec<String>,
    /// Whether it names the model that answers it, and not only such as tools of it use.
    pub names_own: bool,
    /// Whether it opens a session, and leaves the model of that to the provider.
    pub is_model_left: bool,
    /// Whether it uses what was stored before, of which neither is known.
    pub is_stored: bool,
    /// Whether what was stored decides on the model as well.
    pub is_model_stored: bool,
    /// Whether it opens what goes past whoever reads requests.
    pub goes_past: bool,
    /// Whether a member reads as one that names these, and is written otherwise: some providers take it for that.
    pub is_disguised: bool,
    /// Whether it asks for a session that only writes down what is said.
    transcribes: bool,
    /// The members that name models on its path alone.
    renames: &'static [&'static str],
}

impl Asked {
    /// Adds what a path and a query (as it was written) name.
    pub fn in_target(&mut self, path: &str, query: Option<&str>) {
        self.transcribes = path.split('/').any(|part| part == TRANSCRIBING);
        let renaming = RENAMING.into_iter().find(|(end, _)| path.trim_end_matches('/').ends_with(end));
        self.renames = renaming.map_or(&[], |(_, members)| members);
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            if is_among(&PATH_MARKS, part)
                && let Some(name) = parts.peek()
            {
                let has_verb = is_among(&VERB_MARKS, part);
                let name = name.split_once(':').filter(|_| has_verb).map_or(*name, |(name, _)| name);
                if name != OPEN_ENDPOINT {
                    self.own_model(name);
                }
            }
        }
        for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if is_among(&QUERY_NAMES, &key) {
                self.own_model(&value);
            }
        }
    }

    /// Adds what is opened or run at a path, whatever a body that is sent there names.
    pub fn at_path(&mut self, dialects: &Dialects, path: &str, body: &[u8]) {
        self.goes_past |= dialects.goes_past(path, !body.is_empty());
        let path = path.trim_end_matches('/');
        // The graders of a stored evaluation have models of their own.
        self.is_model_stored |= is_run_of_evaluation(path) && !body.is_empty();
    }

    /// Adds what a JSON body names, or a message of a socket.
    pub fn in_json(&mut self, body: &[u8], document: &Document) {
        Search { body, document, asked: self }.all();
    }

    /// Adds what the parts of a form name; tells whether all that matter could be read.
    #[must_use]
    pub fn in_form(&mut self, body: &[u8], boundary: &str, limits: &JsonLimits) -> bool {
        form::parts(self, body, boundary, limits)
    }

    /// Adds what the fields of a form of one line name; tells whether all that matter could be read.
    #[must_use]
    pub fn in_fields(&mut self, body: &[u8], limits: &JsonLimits) -> bool {
        let fields = form_urlencoded::parse(body);
        fields.fold(true, |is_read, (name, value)| {
            form::field(self, name.trim(), value.as_bytes(), limits) && is_read
        })
    }

    /// Adds the model that answers the request.
    pub fn own_model(&mut self, name: &str) {
        self.names_own |= !bare(name).is_empty();
        self.model(name);
    }

    fn model(&mut self, name: &str) {
        let name = bare(name);
        if !name.is_empty() {
            self.models.push(name.to_owned());
        }
    }
}

/// Tells whether a part of a path, or the name of a parameter, is one of these to whoever reads it in any case.
fn is_among(names: &[&str], part: &str) -> bool {
    let part = part.split(';').next().unwrap_or_default();
    names.iter().any(|name| name.eq_ignore_ascii_case(part))
}

/// Tells whether a path is `…/evals/ID/runs`.
fn is_run_of_evaluation(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let is = |part: Option<&str>, name: &str| part.is_some_and(|part| is_among(&[name], part));
    is(parts.next(), "runs") && is(parts.nth(1), "evals")
}

/// Returns the name of a model without its collection, which Gemini writes before it.
fn bare(name: &str) -> &str {
    name.strip_prefix("models/").unwrap_or(name)
}

#[cfg(test)]
mod tests;
