//! A gateway whose SAML provider is the forger, and browsers in between.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis::access::role::Role;
use portcullis::access::secret::NodeSecret;
use portcullis::access::sso::IdentityProvider;
use portcullis::access::sso::Mapping;
use portcullis::access::sso::saml::SamlConfig;
use portcullis::access::sso::saml::SigningFiles;
use portcullis::access::sso::saml::client::SamlClient;
use portcullis::access::tier::Tier;
use portcullis::access::url::Origin;
use portcullis::clock::Clock;
use portcullis::store::Store;
use rcgen::CertificateParams;
use rcgen::KeyPair;
use tempfile::TempDir;

use crate::browser::Browser;
use crate::browser::Shown;
use crate::forger::Forger;
use crate::forger::OURS;
use crate::forger::Said;
use crate::forger::question_in;
use crate::world::World;

/// A gateway whose provider is the forger.
pub struct Stage {
    pub world: World,
    /// What another node knows of the provider, or the next process of this one.
    pub other: SamlClient,
    pub forger: Forger,
    pub folder: TempDir,
}

impl Stage {
    pub fn set() -> Self {
        let (forger, folder) = (Forger::new(), tempfile::tempdir().unwrap());
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("idp.xml"), &forger.metadata).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::default().self_signed(&key).unwrap();
        std::fs::write(at("key.pem"), key.serialize_pem()).unwrap();
        std::fs::write(at("cert.pem"), certificate.pem()).unwrap();
        let config = SamlConfig {
            metadata_file: at("idp.xml"),
            entity_id: OURS.to_owned(),
            public: Origin::parse("https://gate.example").unwrap(),
            signing: Some(SigningFiles { key: at("key.pem"), certificate: at("cert.pem") }),
            mapping: Mapping {
                name: "email".to_owned(),
                role: "groups".to_owned(),
                role_map: vec![("bosses".to_owned(), Role::Admin), ("readers".to_owned(), Role::Auditor)],
                default_role: None,
            },
        };
        let (store, secret) = (Store::in_memory(), NodeSecret::random());
        let node = |clock: Arc<dyn Clock>| {
            SamlClient::new(config.clone(), secret.clone(), &store, (Arc::clone(&clock), clock)).unwrap()
        };
        let mut other = None;
        let world = World::start_as(Tier::Enterprise, |office| {
            let client = node(office.clock.clone());
            office.authenticator.provider = Some(IdentityProvider::Saml(Arc::new(client)));
            other = Some(node(office.clock.clone()));
        });
        Self { world, other: other.unwrap(), forger, folder }
    }

    /// Goes to the provider, and brings back what `answer` makes of an honest one.
    pub async fn sign_in(&self, browser: &mut Browser<'_>, answer: impl FnOnce(Said) -> String) -> Shown {
        let left = browser.get("/auth/login").await;
        assert_eq!(left.status, 303, "{}", left.text);
        let said = Said::honestly(&question(&left), portcullis::clock::Clock::now(&*self.world.clock));
        let relay = left.parameter("RelayState").unwrap();
        bring(browser, &answer(said), &relay).await
    }
}

/// Posts a response, as the provider's page makes a browser do.
pub async fn bring(browser: &mut Browser<'_>, xml: &str, relay: &str) -> Shown {
    let (site, fields) = (browser.site, browser.fields.clone());
    browser.site = Some("cross-site");
    browser.fields.push(("origin", "https://id.example".to_owned()));
    let pairs = [("SAMLResponse", STANDARD.encode(xml)), ("RelayState", relay.to_owned())];
    let pairs = pairs.each_ref().map(|(name, value)| (*name, value.as_str()));
    let shown = browser.post("/auth/callback", &pairs).await;
    (browser.site, browser.fields) = (site, fields);
    shown
}

/// Returns the id of the request that a redirect carries.
pub fn question(left: &Shown) -> String {
    question_in(&left.parameter("SAMLRequest").unwrap())
}
