//! Signing in with a real browser at real identity providers: Chromium, npm's `oidc-provider` over TLS with a CA of
//! its own, PyPI's `oidc-provider-mock`, and npm's `samlp` for SAML. The gateway stands behind a proxy that speaks HTTPS, as it does where
//! people sign in.

use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;

use rcgen::BasicConstraints;
use rcgen::CertificateParams;
use rcgen::CertifiedIssuer;
use rcgen::IsCa;
use rcgen::KeyPair;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls;

use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;

/// What Chromium checks with either provider.
const CHECKS_MIN: usize = 17;
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// An identity provider in a process of its own; it ends when its standard input does.
struct Provider {
    process: Child,
    issuer: String,
}

/// Certificates for `localhost`, and the CA that signed them.
struct Certificates {
    folder: TempDir,
    server: Arc<rustls::ServerConfig>,
}

impl Provider {
    fn start(program: &str, arguments: &[&str]) -> Self {
        let mut process = Command::new(format!("{ROOT}/{program}"))
            .args(arguments)
            .current_dir(format!("{ROOT}/target/browser/node"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the provider is installed");
        let mut line = String::new();
        let out = process.stdout.as_mut().expect("it is piped");
        BufReader::new(out).read_line(&mut line).expect("the provider says where it is");
        assert!(line.starts_with("http"), "the provider did not start: {line}");
        Self { process, issuer: line.trim().to_owned() }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Certificates {
    fn make() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let mut ca = CertificateParams::new(Vec::new()).expect("no names");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().expect("a key")).expect("a CA");
        let key = KeyPair::generate().expect("a key");
        let names = vec!["localhost".to_owned()];
        let leaf =
            CertificateParams::new(names).expect("a name").signed_by(&key, &ca).expect("a certificate");
        for (name, text) in [("ca.pem", ca.pem()), ("cert.pem", leaf.pem()), ("key.pem", key.serialize_pem())]
        {
            fs::write(folder.path().join(name), text).expect("it is writable");
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let server = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)
            .expect("a certificate");
        Self { folder, server: Arc::new(server) }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

/// Takes HTTPS on a listener and passes it on in the clear, as a proxy in front would.
async fn front(listener: TcpListener, acceptor: TlsAcceptor, to: SocketAddr) {
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let Ok(mut outside) = acceptor.accept(stream).await else { return };
            let Ok(mut inside) = TcpStream::connect(to).await else { return };
            // Browsers close connections when they like.
            let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
        });
    }
}

/// Starts a provider and a gateway that trusts it, and lets Chromium sign in.
fn sign_in(
    kind: &str,
    start: impl FnOnce(&Certificates, &str) -> Provider,
    sso: impl FnOnce(&Certificates, &Provider) -> String,
) {
    let installed = Path::new(ROOT).join("tests/browser/setup.sh");
    let output = Command::new(installed).output().expect("bash runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let certificates = Certificates::make();
    let runtime = Runtime::new().expect("a runtime");
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
    let public = format!("https://localhost:{}", listener.local_addr().expect("an address").port());
    let provider = start(&certificates, &public);
    let sso = sso(&certificates, &provider);
    let gateway = Gateway::start(&format!("[admin]\npublic_url = \"{public}\"\n{sso}\n{UNLIMITED}"));
    let acceptor = TlsAcceptor::from(Arc::clone(&certificates.server));
    runtime.spawn(front(listener, acceptor, gateway.admin));
    let driven = Command::new(format!("{ROOT}/target/clients/bin/node"))
        .args([&format!("{ROOT}/target/browser/node/drive.mjs"), &public, kind])
        .output()
        .expect("node runs");
    let (out, err) = (String::from_utf8_lossy(&driven.stdout), String::from_utf8_lossy(&driven.stderr));
    assert!(driven.status.success(), "{out}{err}");
    assert!(out.lines().filter(|line| line.starts_with("ok ")).count() >= CHECKS_MIN, "{out}{err}");
    let log = gateway.log();
    let secret = fs::read_to_string(certificates.path("secret")).expect("the secret is there");
    for hidden in [secret.as_str(), "people.example", "code=", "eyJ", "SAMLRe"] {
        assert!(!log.contains(hidden), "{hidden} is in the log:\n{log}");
    }
}

/// Puts a script beside the packages it imports.
pub fn script(name: &str) -> String {
    let there = format!("{ROOT}/target/browser/node/{name}");
    let text = fs::read(format!("{ROOT}/tests/browser/{name}")).expect("it is in the tree");
    let fresh = format!("{there}.{}", std::process::id());
    fs::write(&fresh, text).expect("it is writable");
    fs::rename(fresh, &there).expect("it can be replaced");
    there
}

fn new_secret(certificates: &Certificates) -> String {
    let secret = format!("client-{}", certificates.folder.path().display()).replace('/', "-");
    fs::write(certificates.path("secret"), &secret).expect("it is writable");
    secret
}

#[test]
fn chromium_signs_in_at_the_npm_provider_over_tls() {
    let start = |certificates: &Certificates, public: &str| {
        script("drive.mjs");
        let (secret, program) = (new_secret(certificates), script("provider.mjs"));
        let (cert, key) = (certificates.path("cert.pem"), certificates.path("key.pem"));
        Provider::start("target/clients/bin/node", &[&program, &cert, &key, &secret, public])
    };
    sign_in("npm", start, |certificates, provider| oidc(certificates, provider, "gate-admins = \"admin\""));
}

#[test]
fn chromium_signs_in_at_the_pypi_provider() {
    let start = |certificates: &Certificates, _: &str| {
        script("drive.mjs");
        new_secret(certificates);
        Provider::start("target/browser/venv/bin/python", &[&format!("{ROOT}/tests/browser/provider.py")])
    };
    sign_in("pypi", start, |certificates, provider| {
        oidc(certificates, provider, "gate-auditors = \"auditor\"")
    });
}

#[test]
fn chromium_signs_in_at_the_saml_provider() {
    let start = |certificates: &Certificates, public: &str| {
        script("drive.mjs");
        new_secret(certificates);
        let (folder, program) = (certificates.folder.path().display().to_string(), script("saml.mjs"));
        let (cert, key) = (certificates.path("cert.pem"), certificates.path("key.pem"));
        Provider::start("target/clients/bin/node", &[&program, &cert, &key, &folder, public])
    };
    sign_in("saml", start, |certificates, _| {
        let [metadata, key, cert] = ["idp.xml", "saml.key", "saml.pem"].map(|name| certificates.path(name));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=gate", "-days", "2"])
            .args(["-keyout", &key, "-out", &cert])
            .output()
            .expect("openssl runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        format!(
            "[sso.saml]\nmetadata_file = \"{metadata}\"\nkey_file = \"{key}\"\ncertificate_file = \"{cert}\"\n\
             role_map = {{ gate-admins = \"admin\" }}"
        )
    });
}

/// Returns the section of an OpenID provider.
fn oidc(certificates: &Certificates, provider: &Provider, role: &str) -> String {
    format!(
        "[sso.oidc]\nissuer = \"{}\"\nclient_id = \"gate\"\nclient_secret_file = \"{}\"\nca_file = \"{}\"\n\
         role_map = {{ {role} }}",
        provider.issuer,
        certificates.path("secret"),
        certificates.path("ca.pem")
    )
}
