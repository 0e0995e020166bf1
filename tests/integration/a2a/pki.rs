//! Authorities and certificates of agents, good and bad, and connections that present them.

use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::BasicConstraints;
use rcgen::CertificateParams;
use rcgen::CertificateRevocationListParams;
use rcgen::CertifiedIssuer;
use rcgen::DistinguishedName;
use rcgen::DnType;
use rcgen::ExtendedKeyUsagePurpose;
use rcgen::IsCa;
use rcgen::KeyIdMethod;
use rcgen::KeyPair;
use rcgen::KeyUsagePurpose;
use rcgen::RevokedCertParams;
use rcgen::SerialNumber;
use rcgen::date_time_ymd;
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::h2::Certificate;

/// Who signs the certificates of agents.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// What an agent presents.
pub struct Identity {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: Vec<u8>,
    pub cert_pem: String,
    pub key_pem: String,
}

impl Authority {
    pub fn make() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name = named(&["agents' authority"]);
        let issuer = CertifiedIssuer::self_signed(params, key()).expect("an authority");
        Self { issuer }
    }

    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Returns a sound certificate of an agent.
    pub fn agent(&self, name: &str) -> Identity {
        self.issue(|params| params.distinguished_name = named(&[name]))
    }

    /// Returns a list of revoked certificates, by serial number, that counts until a year.
    pub fn revoking(&self, serials: &[u64], until: i32) -> String {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).expect("a list").pem().expect("PEM")
    }

    /// Returns a certificate that differs from a sound one.
    pub fn issue(&self, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let (params, key) = (params(change), key());
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Identity::new(certificate.der().clone(), certificate.pem(), &key)
    }
}

impl Identity {
    pub fn self_signed(name: &str) -> Self {
        let (params, key) = (params(|params| params.distinguished_name = named(&[name])), key());
        let certificate = params.self_signed(&key).expect("a certificate");
        Self::new(certificate.der().clone(), certificate.pem(), &key)
    }

    fn new(der: CertificateDer<'static>, cert_pem: String, key: &KeyPair) -> Self {
        Self { chain: vec![der], key: key.serialize_der(), cert_pem, key_pem: key.serialize_pem() }
    }
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

/// Returns a subject with these Common Names.
pub fn named(names: &[&str]) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, "Northwind");
    // One type holds one value: a second name goes where X.509 puts it just as well.
    for (at, name) in names.iter().enumerate() {
        let kind = if at == 0 { DnType::CommonName } else { DnType::CustomDnType(vec![2, 5, 4, 3]) };
        subject.push(kind, *name);
    }
    subject
}

fn params(change: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name = named(&["planner"]);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2190, 1, 1));
    change(&mut params);
    params
}

/// Connects with TLS, presenting a certificate or none.
pub async fn connect(
    address: SocketAddr,
    server: &Certificate,
    client: Option<&Identity>,
    protocol: &str,
) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(server.der.clone()).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("protocol versions").with_root_certificates(roots);
    let mut config = match client {
        None => config.with_no_client_auth(),
        Some(identity) => {
            let key = PrivateKeyDer::try_from(identity.key.clone()).expect("a key");
            config.with_client_auth_cert(identity.chain.clone(), key).expect("a certificate and its key")
        }
    };
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let socket = TcpStream::connect(address).await.expect("it listens");
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, socket).await.expect("a handshake")
}
