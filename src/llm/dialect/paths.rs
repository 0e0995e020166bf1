//! What is told of a request by its path alone, whichever API it is taken for.
//!
//! Whoever asks here decides about limits: all dialects are asked, for a path leads where the provider says, whatever a
//! route calls its dialect.

use super::Dialects;
use super::pattern::glob;

/// The globs over paths of one dialect.
#[derive(Debug)]
pub(super) struct Paths {
    /// Behind which no model works.
    pub(super) free: Vec<String>,
    /// Where a body is a file, whatever its type says.
    pub(super) files: Vec<String>,
    /// Behind which models work whose use no answer tells; in small letters, as the next ones.
    pub(super) unmetered: Vec<String>,
    /// Where something is to be had that goes past whoever reads requests.
    pub(super) past: Vec<String>,
    /// The same, where a body asks for it.
    pub(super) past_by_body: Vec<String>,
    /// Where files come in parts, each a request of its own.
    pub(super) parts: Vec<PartRule>,
}

/// Where a file comes in parts, and what names it.
#[derive(Debug)]
pub(super) struct PartRule {
    /// A glob over paths, in small letters.
    path: String,
    /// The member of the query that names the file; none: the path does.
    member: Option<String>,
}

impl PartRule {
    /// Reads a rule: a glob, and behind a question mark a member of the query.
    pub(super) fn read(written: &str) -> Self {
        let (path, member) = written.split_once('?').unzip();
        Self { path: path.unwrap_or(written).to_ascii_lowercase(), member: member.map(str::to_owned) }
    }
}

impl Dialects {
    /// Tells whether what is asked at a path (no query) works no model, however that is read: tokens are counted there,
    /// files brought.
    pub fn is_free(&self, path: &str) -> bool {
        self.has_path(path, |paths| &paths.free) && self.has_path(&decoded(path), |paths| &paths.free)
    }

    /// Tells whether the body of what is asked at a path (no query) is a file, whatever its type says, and however the
    /// path is read.
    pub fn takes_file(&self, path: &str) -> bool {
        self.has_path(path, |paths| &paths.files) && self.has_path(&decoded(path), |paths| &paths.files)
    }

    /// Tells whether what is asked at a path (no query) has models work whose use no answer to it tells: batches, training.
    /// Providers may read the path in more than one way.
    pub fn is_unmetered(&self, path: &str) -> bool {
        readings(path).iter().any(|path| self.has_path(path, |paths| &paths.unmetered))
    }

    /// Tells whether what is asked at a path (no query), with a body or without one, opens what goes past whoever reads
    /// requests: a secret, a key or a call. Providers may read the path in more than one way.
    pub fn goes_past(&self, path: &str, has_body: bool) -> bool {
        readings(path).iter().any(|path| {
            self.has_path(path, |paths| &paths.past)
                || has_body && self.has_path(path, |paths| &paths.past_by_body)
        })
    }

    /// Returns what the requests have in common that bring one file part by part, if that at a path, with a query (as it
    /// was written), is one of them.
    pub fn parted_file(&self, path: &str, query: Option<&str>) -> Option<String> {
        let path = decoded(path).trim_end_matches('/').to_ascii_lowercase();
        let named = |member: &str| {
            let mut members = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
            members.find(|(name, _)| name.eq_ignore_ascii_case(member)).map(|(_, value)| value)
        };
        let file = |rule: &PartRule| match &rule.member {
            None => Some(path.clone()),
            Some(member) => Some(format!("{path}?{}", named(member)?)),
        };
        let rules = self.ranked.iter().flat_map(|dialect| &dialect.paths.parts);
        rules.filter(|rule| glob(&rule.path, &path)).find_map(file)
    }

    /// Returns the names of the fields of an answer's head that tell its caller where to go on.
    pub fn leads(&self) -> impl Iterator<Item = &str> {
        self.ranked.iter().flat_map(|dialect| &dialect.leads).map(String::as_str)
    }

    fn has_path(&self, path: &str, globs: impl Fn(&Paths) -> &Vec<String>) -> bool {
        self.ranked.iter().flat_map(|dialect| globs(&dialect.paths)).any(|it| glob(it, path))
    }
}

/// Returns the ways in which providers may read a path, in small letters and without a slash at its end: as it stands,
/// without what is behind a semicolon, and decoded.
fn readings(path: &str) -> [String; 3] {
    let before = path.split(';').next().unwrap_or_default();
    [path, before, &decoded(path)].map(|path| path.trim_end_matches('/').to_ascii_lowercase())
}

/// Returns a path with the slashes that are escaped in it, and without the parameters of its segments (RFC 3986, section
/// 3.3).
fn decoded(path: &str) -> String {
    let path = path.replace("%2F", "/").replace("%3B", ";");
    let segments = path.split('/').map(|segment| segment.split(';').next().unwrap_or_default());
    segments.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_a_path_is_read_it_goes_past_nobody() {
        let dialects = Dialects::embedded().unwrap();
        for path in [
            "/v1/realtime/client_secrets",
            "/v1/Realtime/client_secrets/",
            "/v1/realtime%2Fclient_secrets",
            "/v1/realtime;a=1/client_secrets;b",
            "/v1/realtime/client_secrets;x/y",
            "/v1%2Frealtime%3Ba%2Fclient_secrets",
        ] {
            assert!(dialects.goes_past(path, true), "{path}");
        }
        for path in ["/v1/batches", "/v1%2Fbatches", "/v1/batches;x", "/V1/Batches/"] {
            assert!(dialects.is_unmetered(path), "{path}");
        }
        assert!(dialects.is_free("/v1/messages/count_tokens"));
        let path = "/v1/chat/completions;x/y";
        assert!(!dialects.goes_past(path, true) && !dialects.is_unmetered(path) && !dialects.is_free(path));
        let part = |path| dialects.parted_file(path, None);
        assert!(part("/v1/uploads/u/parts").is_some());
        assert_eq!(part("/v1/uploads%2Fu;x/Parts/"), part("/v1/uploads/u/parts"));
    }
}
