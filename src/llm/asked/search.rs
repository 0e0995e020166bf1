//! The search through a JSON text.

use super::Asked;
use super::UNNAMED;
use super::keys;
use super::keys::Says;
use crate::llm::json::Document;
use crate::llm::json::NodeId;

/// Where a tool of MCP says which server is meant.
const SERVER_KEYS: [&str; 3] = ["server_url", "url", "connector_id"];
/// Types of tools whose name says all: their caller runs them.
const OWN_TYPES: [&str; 2] = ["function", "custom"];
/// What begins the type of the one tool of a provider that goes by another name than its type.
const EDITOR: &str = "text_editor_";
/// Lists of function declarations within one tool.
const DECLARATIONS: [&str; 2] = ["functionDeclarations", "function_declarations"];
/// Choices that name no tool.
const NO_CHOICE: [&str; 5] = ["auto", "any", "none", "required", "function"];
/// Where a skill has its name, the first that is there.
const SKILL_KEYS: [&str; 4] = ["skill_id", "skillId", "id", "name"];
/// Where what stands for a model has its name.
const MODEL_KEYS: [&str; 2] = ["id", "name"];
/// Where a session that only writes down what is said names the model that does.
const TRANSCRIPTION: [&[&str]; 2] =
    [&["input_audio_transcription", "model"], &["audio", "input", "transcription", "model"]];

/// A text, and what was found in it.
pub(super) struct Search<'a, 's> {
    /// The text.
    pub(super) body: &'a [u8],
    /// What it says.
    pub(super) document: &'a Document,
    /// What was found.
    pub(super) asked: &'s mut Asked,
}

impl Search<'_, '_> {
    /// Looks at all of it: one request or several.
    pub(super) fn all(&mut self) {
        let document = self.document;
        match document.is_array(NodeId::ROOT) {
            true => document.children(NodeId::ROOT).for_each(|one| self.request(one)),
            false => self.request(NodeId::ROOT),
        }
        if self.asked.transcribes && self.names_transcription(NodeId::ROOT) {
            self.asked.names_own = true;
        }
        for key in self.asked.renames {
            let name = self.find(NodeId::ROOT, &[key]).and_then(|node| self.text(node));
            name.iter().for_each(|name| self.asked.own_model(name));
        }
        self.settings(NodeId::ROOT);
    }

    /// Looks at one request, and at those within it.
    fn request(&mut self, request: NodeId) {
        self.asked.names_own |= self.names_own(request);
        self.stored(request);
        self.asked.is_disguised |= self.has_disguised(request);
        let method = self.find(request, &["method"]).and_then(|method| self.text(method));
        if method.as_deref() == Some("tools/call") {
            let name = self.find(request, &["params", "name"]).and_then(|name| self.text(name));
            self.asked.tools.push(name.unwrap_or_else(|| UNNAMED.to_owned()));
        }
        let document = self.document;
        for key in keys::NESTED {
            let Some(inner) = self.find(request, &[key]) else { continue };
            match document.is_array(inner) {
                true => document.children(inner).for_each(|one| self.request(one)),
                false if document.is_object(inner) => self.request(inner),
                false => {}
            }
        }
        if let Some(session) = self.find(request, &[keys::SESSION]).filter(|it| document.is_object(*it)) {
            self.session(session);
        }
    }

    /// Looks at what a session is to be: what stands beside it names no model for it.
    fn session(&mut self, session: NodeId) {
        self.request(session);
        let kind = self.find(session, &["type"]).and_then(|kind| self.text(kind));
        let transcribes = kind.as_deref() == Some("transcription") && self.names_transcription(session);
        let names_own = transcribes || self.names_own(session);
        self.asked.names_own |= names_own;
        self.asked.is_model_left |= !names_own;
    }

    /// Tells whether a request names the model that answers it.
    fn names_own(&self, request: NodeId) -> bool {
        let named = |node: NodeId| {
            let inner = || keys::OWN_MODEL.iter().chain(&MODEL_KEYS).find_map(|key| self.find(node, &[key]));
            let name = self.text(node).or_else(|| self.text(inner()?));
            name.is_some_and(|name| !super::bare(&name).is_empty())
        };
        let mut found = keys::OWN_MODEL.iter().filter_map(|key| self.find(request, &[key]));
        found.any(|node| {
            named(node) || self.document.is_array(node) && self.document.children(node).any(named)
        })
    }

    fn names_transcription(&self, session: NodeId) -> bool {
        let mut names = TRANSCRIPTION.iter().filter_map(|path| self.text(self.find(session, path)?));
        names.any(|name| !super::bare(&name).is_empty())
    }

    fn stored(&mut self, request: NodeId) {
        for (path, has_model) in keys::STORED {
            if self.find(request, path).is_some_and(|stored| self.document.is_set(stored)) {
                self.asked.is_stored = true;
                self.asked.is_model_stored |= has_model;
            }
        }
    }

    fn has_disguised(&self, request: NodeId) -> bool {
        let mut keys =
            self.document.children(request).filter_map(|member| self.document.key_of(self.body, member));
        keys.any(|key| keys::is_disguise(&key))
    }

    /// Looks for names in a value and in all that is in it, content aside.
    fn settings(&mut self, node: NodeId) {
        let (body, document) = (self.body, self.document);
        for member in document.children(node) {
            match document.key_of(body, member) {
                Some(key) if keys::is_content(&key) => continue,
                // A conversation, which may bring tools.
                Some(key) if key == "input" && document.is_array(member) => {
                    for item in document.children(member) {
                        self.list(self.find(item, &["tools"]));
                    }
                    continue;
                }
                Some(key) => self.member(&key, member),
                None => {}
            }
            self.settings(member);
        }
    }

    fn member(&mut self, key: &str, member: NodeId) {
        if keys::names_model(key) {
            self.models(member);
        }
        match keys::says(key) {
            Some(Says::Tools) => self.list(Some(member)),
            Some(Says::Skills) => self.skills(member),
            // Amazon's is one step further in.
            Some(Says::Choice) => self.choice(self.find(member, &["tool"]).unwrap_or(member)),
            Some(Says::Names) => {
                let names = self.document.children(member).filter_map(|name| self.text(name));
                let names = names.collect::<Vec<_>>();
                self.asked.tools.extend(names);
            }
            Some(Says::Ids) => {
                for one in self.document.children(member) {
                    let id = self.find(one, &["id"]).and_then(|id| self.text(id));
                    self.asked.tools.push(id.unwrap_or_else(|| UNNAMED.to_owned()));
                }
            }
            Some(Says::WebSearch) if self.document.is_set(member) => {
                self.asked.tools.push("web_search".to_owned());
            }
            Some(Says::WebSearch) | None => {}
        }
    }

    fn models(&mut self, member: NodeId) {
        let document = self.document;
        let several = document.is_array(member).then(|| document.children(member).collect::<Vec<_>>());
        for one in several.unwrap_or_else(|| vec![member]) {
            let inner = MODEL_KEYS.iter().filter_map(|key| self.text(self.find(one, &[key])?));
            let names = self.text(one).into_iter().chain(inner).collect::<Vec<_>>();
            names.iter().for_each(|name| self.asked.model(name));
        }
    }

    fn skills(&mut self, member: NodeId) {
        for skill in self.document.children(member) {
            let inner = || SKILL_KEYS.iter().find_map(|key| self.text(self.find(skill, &[key])?));
            let name = self.text(skill).or_else(inner);
            self.asked.tools.push(name.map_or_else(|| UNNAMED.to_owned(), |name| format!("skill:{name}")));
        }
    }

    fn list(&mut self, list: Option<NodeId>) {
        for tool in list.into_iter().flat_map(|list| self.document.children(list)) {
            let declared = DECLARATIONS.iter().find_map(|key| self.find(tool, &[key]));
            match declared {
                Some(declared) => {
                    self.list(Some(declared));
                    // Beside declarations a tool of Gemini's may hold others.
                    let others = self
                        .document
                        .children(tool)
                        .filter_map(|member| self.document.key_of(self.body, member));
                    let others = others
                        .filter(|key| !DECLARATIONS.contains(&key.as_ref()))
                        .map(|key| key.into_owned());
                    self.asked.tools.extend(others.collect::<Vec<_>>());
                }
                None => {
                    let name = self.text(tool).unwrap_or_else(|| self.name(tool));
                    let more = self.known_by(tool, &name);
                    self.asked.tools.push(name);
                    self.asked.tools.extend(more);
                }
            }
        }
    }

    /// Returns what one tool is called.
    fn name(&self, tool: NodeId) -> String {
        let inside = ["function", "toolSpec", "custom"].into_iter().find_map(|key| self.find(tool, &[key]));
        let named = |key: &str| self.find(inside.unwrap_or(tool), &[key]).and_then(|name| self.text(name));
        let typed =
            || self.find(tool, &["type"]).and_then(|kind| self.text(kind)).filter(|kind| kind != "function");
        let only = || {
            // `{"googleSearch": {}}`: the one member is the name.
            let mut members = self.document.children(tool);
            let first = members.next().and_then(|member| self.document.key_of(self.body, member));
            first.filter(|_| members.next().is_none()).map(|key| key.into_owned())
        };
        let name = named("name").or_else(|| named("server_label")).or_else(typed);
        name.or_else(only).unwrap_or_else(|| UNNAMED.to_owned())
    }

    /// Returns what else one tool goes by than its name.
    fn known_by(&self, tool: NodeId, name: &str) -> Option<String> {
        let text = |key: &&str| self.find(tool, &[key]).and_then(|value| self.text(value));
        let kind = text(&"type")?;
        if matches!(kind.as_str(), "mcp" | "url") {
            return SERVER_KEYS.iter().find_map(text).map(|server| format!("mcp:{server}"));
        }
        let says_all =
            OWN_TYPES.contains(&kind.as_str()) || kind.starts_with(name) || kind.starts_with(EDITOR);
        (!says_all).then_some(kind)
    }

    fn choice(&mut self, choice: NodeId) {
        let name = match self.text(choice) {
            Some(word) => word,
            None if self.document.is_object(choice) => self.name(choice),
            None => return,
        };
        let is_list =
            self.find(choice, &["tools"]).or_else(|| self.find(choice, &["allowed_tools"])).is_some();
        if !is_list && !NO_CHOICE.contains(&name.as_str()) {
            self.asked.tools.push(name);
        }
    }

    fn find(&self, from: NodeId, path: &[&str]) -> Option<NodeId> {
        path.iter().try_fold(from, |node, step| self.document.child(self.body, node, step))
    }

    fn text(&self, node: NodeId) -> Option<String> {
        self.document.str_of(self.body, node).map(|text| text.into_owned())
    }
}
