//! Who is at the other end of a connection: client certificates that are asked for, and judged afterwards.
//!
//! **A finished handshake authenticates nobody.** Whoever holds the key of whatever certificate gets a
//! connection, because a refusal must be told in the contract's words, which need one. What a certificate is
//! worth is asked of [`PeerIdentity::verified`] and of nothing else, at each request anew: an authority that
//! was replaced, or a certificate that has ended or was revoked since, counts at once, on open connections too.
//!
//! Where lists of revoked certificates are given, each certificate below an authority has to be covered by one that is
//! in date: what is not known to be good is refused, a list that was forgotten included.

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use jiff::Timestamp;
use parking_lot::Mutex;
use pingora::listeners::TlsAccept;
use pingora::protocols::tls::SslDigest;
use pingora::protocols::tls::TlsRef;
use rustls::DigitallySignedStruct;
use rustls::DistinguishedName;
use rustls::RootCertStore;
use rustls::SignatureScheme;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::crypto::ring;
use rustls::crypto::verify_tls12_signature;
use rustls::crypto::verify_tls13_signature;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::UnixTime;
use rustls::pki_types::pem::PemObject;
use rustls::server::VerifierBuilderError;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerified;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::parse_x509_certificate;
use x509_parser::parse_x509_crl;

use super::CertificateFault;
use super::certificates;

/// Who may sign the certificates of callers; replaced while connections are open.
#[derive(Default)]
pub struct Authorities {
    current: ArcSwapOption<Authority>,
}

/// The authorities of one reading of their file.
struct Authority {
    verifier: Arc<dyn ClientCertVerifier>,
    /// Whether there are lists of revoked certificates.
    has_lists: bool,
    /// Until when its lists of revoked certificates count; whoever was verified before is verified again then.
    lists_until: Option<Timestamp>,
}

/// The certificate that a caller presented, and what it is worth.
pub struct PeerIdentity {
    chain: Vec<CertificateDer<'static>>,
    authorities: Arc<Authorities>,
    /// What was found last: by which authority, and until when it holds.
    held: Mutex<Option<Held>>,
}

struct Held {
    authority: Arc<Authority>,
    until: Timestamp,
    name: String,
}

/// Why a caller is nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerFault {
    /// It presented no certificate.
    #[error("no client certificate was presented")]
    Absent,
    /// There is no authority to verify its certificate by.
    #[error("no client certificate can be verified")]
    Unverifiable,
    /// Its certificate has no Common Name.
    #[error("the client certificate has no Common Name")]
    Nameless,
    /// Its certificate does not lead to a trusted authority, is not valid now, was revoked, is not for clients, or
    /// names several.
    #[error("the client certificate does not count")]
    Refused,
}

impl Authorities {
    /// Reads the authorities of a file, and the lists of what they have revoked (CRLs) from another, both in PEM.
    ///
    /// # Errors
    /// One cannot be read or holds nothing usable; what was before stays.
    pub fn load(&self, file: &Path, revoked: Option<&Path>) -> Result<(), CertificateFault> {
        self.current.store(Some(Arc::new(Authority::read(file, revoked)?)));
        Ok(())
    }

    /// Trusts nobody any more, and asks for no certificates.
    pub fn clear(&self) {
        self.current.store(None);
    }

    /// Tells whether there is an authority, and certificates are asked for.
    pub fn is_set(&self) -> bool {
        self.current.load().is_some()
    }

    /// Tells whether certificates are looked up in lists of revoked ones.
    pub fn has_lists(&self) -> bool {
        self.current.load().as_ref().is_some_and(|authority| authority.has_lists)
    }

    /// Returns until when all lists of revoked certificates count; whoever is on none that does is refused.
    pub fn lists_until(&self) -> Option<Timestamp> {
        self.current.load().as_ref().and_then(|authority| authority.lists_until)
    }

    /// Tries files without trusting them.
    ///
    /// # Errors
    /// As [`Authorities::load`].
    pub fn check(file: &Path, revoked: Option<&Path>) -> Result<(), CertificateFault> {
        Authority::read(file, revoked).map(drop)
    }
}

impl Authority {
    fn read(file: &Path, revoked: Option<&Path>) -> Result<Self, CertificateFault> {
        let mut roots = RootCertStore::empty();
        let unusable = |source| CertificateFault::Untrusted { path: file.to_owned(), source };
        for certificate in certificates(file)? {
            roots.add(certificate).map_err(unusable)?;
        }
        let provider = Arc::new(ring::default_provider());
        let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let mut lists_until = None;
        if let Some(path) = revoked {
            let lists = lists(path)?;
            lists_until = lists.iter().filter_map(next_update).min();
            builder = builder.with_crls(lists).enforce_revocation_expiration();
        }
        match builder.build() {
            Ok(verifier) => Ok(Self { verifier, has_lists: revoked.is_some(), lists_until }),
            Err(VerifierBuilderError::InvalidCrl(_)) => {
                Err(CertificateFault::Unlisted { path: revoked.unwrap_or(file).to_owned() })
            }
            Err(_) => Err(unusable(rustls::Error::General("no authority".to_owned()))),
        }
    }
}

/// Reads lists of revoked certificates.
fn lists(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, CertificateFault> {
    let unreadable = |source| CertificateFault::Unreadable { path: path.to_owned(), source };
    let found = CertificateRevocationListDer::pem_file_iter(path).map_err(unreadable)?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(unreadable)?;
    if found.is_empty() { Err(CertificateFault::Unlisted { path: path.to_owned() }) } else { Ok(found) }
}

/// Returns until when a list counts.
fn next_update(list: &CertificateRevocationListDer<'_>) -> Option<Timestamp> {
    let (_, parsed) = parse_x509_crl(list).ok()?;
    Timestamp::from_second(parsed.next_update()?.timestamp()).ok()
}

impl PeerIdentity {
    /// Returns what is known of a connection's other end.
    pub fn of(connection: Option<&SslDigest>) -> Option<&Self> {
        connection?.extension.get()
    }

    /// Returns the Common Name of the caller's certificate, if that counts at this moment.
    ///
    /// # Errors
    /// The caller is nobody, and why.
    pub fn verified(&self, now: Timestamp) -> Result<String, PeerFault> {
        let authority = self.authorities.current.load_full().ok_or(PeerFault::Unverifiable)?;
        let mut held = self.held.lock();
        let holds = |held: &&Held| Arc::ptr_eq(&held.authority, &authority) && now <= held.until;
        if let Some(held) = held.as_ref().filter(holds) {
            return Ok(held.name.clone());
        }
        *held = None;
        let (leaf, rest) = self.chain.split_first().ok_or(PeerFault::Absent)?;
        let since = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or_default());
        let moment = UnixTime::since_unix_epoch(since);
        let verified = authority.verifier.verify_client_cert(leaf, rest, moment);
        verified.map_err(|_| PeerFault::Refused)?;
        let name = common_name(leaf)?;
        let ends = self.chain.iter().map(not_after).chain(authority.lists_until.map(Some));
        let until = ends.min().flatten().unwrap_or(now);
        *held = Some(Held { authority, until, name: name.clone() });
        Ok(name)
    }
}

impl fmt::Debug for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerIdentity").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}

/// Returns the one Common Name of a certificate.
fn common_name(certificate: &CertificateDer<'_>) -> Result<String, PeerFault> {
    let (_, parsed) = parse_x509_certificate(certificate).map_err(|_| PeerFault::Refused)?;
    let mut names = parsed.subject().iter_common_name();
    let name = match (names.next(), names.next()) {
        (None, _) => return Err(PeerFault::Nameless),
        (Some(name), None) => name.as_str().map_err(|_| PeerFault::Refused)?,
        (Some(_), Some(_)) => return Err(PeerFault::Refused),
    };
    if name.is_empty() { Err(PeerFault::Nameless) } else { Ok(name.to_owned()) }
}

fn not_after(certificate: &CertificateDer<'_>) -> Option<Timestamp> {
    let (_, parsed) = parse_x509_certificate(certificate).ok()?;
    Timestamp::from_second(parsed.validity().not_after.timestamp()).ok()
}

/// Asks for a certificate and takes whatever comes; only that its key is held is checked here.
#[derive(Debug)]
pub(super) struct AskForCertificate {
    authorities: Arc<Authorities>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl AskForCertificate {
    pub(super) fn new(authorities: Arc<Authorities>) -> Self {
        Self { authorities, algorithms: ring::default_provider().signature_verification_algorithms }
    }
}

impl ClientCertVerifier for AskForCertificate {
    fn offer_client_auth(&self) -> bool {
        self.authorities.is_set()
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _rest: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        // Judged by `PeerIdentity`, once a refusal can be told.
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, leaf, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, leaf, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorities").field("is_set", &self.is_set()).finish_non_exhaustive()
    }
}

/// Keeps what a caller presented beside its connection.
pub(super) struct KeepCertificate {
    pub(super) authorities: Arc<Authorities>,
}

#[async_trait]
impl TlsAccept for KeepCertificate {
    async fn handshake_complete_callback(&self, tls: &TlsRef) -> Option<Arc<dyn Any + Send + Sync>> {
        let chain = tls.peer_cert_chain_der()?.to_vec();
        let authorities = Arc::clone(&self.authorities);
        Some(Arc::new(PeerIdentity { chain, authorities, held: Mutex::default() }))
    }
}
