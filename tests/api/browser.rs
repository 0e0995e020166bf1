//! A browser, as far as the plane can tell: it keeps cookies, follows nothing, and says where a call began.

use std::collections::BTreeMap;

use axum::body::Body;
use http::HeaderMap;
use http::Request;
use http_body_util::BodyExt;

use crate::world::World;

/// A browser with its cookies.
pub struct Browser<'a> {
    world: &'a World,
    pub jar: BTreeMap<String, String>,
    /// What it says in `Sec-Fetch-Site`; nothing: it is an old one.
    pub site: Option<&'static str>,
    /// Further fields of every call.
    pub fields: Vec<(&'static str, String)>,
}

/// What came back.
pub struct Shown {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Shown {
    /// Returns where it leads.
    pub fn location(&self) -> &str {
        self.headers.get("location").map_or("", |place| place.to_str().unwrap())
    }

    /// Returns a parameter of the address it leads to.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let (_, query) = self.location().split_once('?')?;
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
    }

    /// Returns what it sets as cookies.
    pub fn cookies(&self) -> Vec<&str> {
        self.headers.get_all("set-cookie").iter().map(|value| value.to_str().unwrap()).collect()
    }
}

impl<'a> Browser<'a> {
    /// Opens one; calls begin on pages of ours.
    pub fn open(world: &'a World) -> Self {
        Self { world, jar: BTreeMap::new(), site: Some("same-origin"), fields: Vec::new() }
    }

    pub async fn get(&mut self, path: &str) -> Shown {
        self.call("GET", path, "").await
    }

    /// Sends a form.
    pub async fn post(&mut self, path: &str, pairs: &[(&str, &str)]) -> Shown {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        self.call("POST", path, &body).await
    }

    pub async fn call(&mut self, method: &str, path: &str, body: &str) -> Shown {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost:9090");
        if !self.jar.is_empty() {
            let pairs: Vec<String> = self.jar.iter().map(|(name, value)| format!("{name}={value}")).collect();
            request = request.header("cookie", pairs.join("; "));
        }
        if let Some(site) = self.site {
            request = request.header("sec-fetch-site", site);
        }
        for (name, value) in &self.fields {
            request = request.header(*name, value);
        }
        let response = self.world.send(request.body(Body::from(body.to_owned())).unwrap()).await;
        let (head, body) = response.into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        let shown = Shown { status: head.status.as_u16(), headers: head.headers, text };
        for cookie in shown.cookies() {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            match value {
                "" => drop(self.jar.remove(name)),
                value => drop(self.jar.insert(name.to_owned(), value.to_owned())),
            }
        }
        shown
    }

    /// Signs in with the key of a role.
    pub async fn sign_in(&mut self, role: &str) -> Shown {
        let key = self.world.key(role).to_owned();
        let shown = self.post("/login", &[("key", &key)]).await;
        assert_eq!((shown.status, shown.location()), (303, "/"), "{}", shown.text);
        shown
    }
}
