//! TLS listeners whose certificates change while they serve.
//!
//! A listener asks [`CertificateStore`] at each handshake, so a reload is seen by the next connection
//! and disturbs none that is open. A faulty pair of files changes nothing. Who is at the other end is
//! known, if at all, by [`peer::PeerIdentity`].

pub mod client;
pub mod facts;
pub mod peer;

use std::fmt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use pingora::listeners::tls::TlsSettings;
use pingora::protocols::ALPN;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem;
use rustls::pki_types::pem::PemObject;
use rustls::server::ClientHello;
use rustls::server::ResolvesServerCert;
use rustls::sign::CertifiedKey;

use self::facts::CertificateFacts;
use self::peer::AskForCertificate;
use self::peer::Authorities;
use self::peer::KeepCertificate;

/// Where a listener's certificate lies; both files are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, in PEM, the listener's own first.
    pub cert: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
}

/// Why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum CertificateFault {
    /// A file cannot be read, or holds no PEM.
    #[error("{} cannot be read as PEM", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: pem::Error,
    },
    /// The key does not fit, or the chain is empty.
    #[error("{} and its key cannot be used together", .path.display())]
    Unusable {
        /// The certificate file.
        path: PathBuf,
        /// What went wrong.
        source: rustls::Error,
    },
    /// The file holds no list of revoked certificates that can be used.
    #[error(
        "{} holds no usable list of revoked certificates: an X.509 CRL of version 2 in PEM is needed, as of \
         `openssl ca -gencrl -crlexts crl_ext`",
        .path.display()
    )]
    Unlisted {
        /// The file.
        path: PathBuf,
    },
    /// The file holds no authority that can be trusted.
    #[error("{} holds no usable certificate of an authority", .path.display())]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: rustls::Error,
    },
}

impl CertificateFault {
    /// Returns the file that is at fault.
    pub fn path(&self) -> &Path {
        match self {
            Self::Unreadable { path, .. }
            | Self::Unusable { path, .. }
            | Self::Unlisted { path }
            | Self::Untrusted { path, .. } => path,
        }
    }
}

/// A certificate that can be replaced while it is served.
pub struct CertificateStore {
    files: TlsFiles,
    current: ArcSwap<CertifiedKey>,
}

impl CertificateStore {
    /// Loads the files.
    pub fn load(files: TlsFiles) -> Result<Arc<Self>, CertificateFault> {
        let current = ArcSwap::from_pointee(read(&files)?);
        Ok(Arc::new(Self { files, current }))
    }

    /// Loads the files again; on a fault the old certificate stays.
    pub fn reload(&self) -> Result<(), CertificateFault> {
        self.current.store(Arc::new(read(&self.files)?));
        Ok(())
    }

    /// Returns the leaf certificate being served, in DER.
    pub fn leaf(&self) -> Option<CertificateDer<'static>> {
        self.current.load().cert.first().cloned()
    }

    /// Returns what it says of itself; `None` where it cannot be read.
    pub fn facts(&self) -> Option<CertificateFacts> {
        CertificateFacts::of(&self.leaf()?)
    }

    /// Returns listener settings with this certificate, for the protocols in `offered`.
    pub fn listener(self: &Arc<Self>, offered: ALPN) -> TlsSettings {
        let mut settings = TlsSettings::intermediate("", "").expect("no file is read here");
        settings.set_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        settings.set_alpn(offered);
        settings
    }

    /// Returns the same for a listener whose callers may present certificates of their own.
    pub fn listener_for_agents(
        self: &Arc<Self>,
        offered: ALPN,
        authorities: &Arc<Authorities>,
    ) -> TlsSettings {
        let keep = KeepCertificate { authorities: Arc::clone(authorities) };
        let mut settings = TlsSettings::with_callbacks(Box::new(keep)).expect("no file is read here");
        settings.set_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        settings.set_client_cert_verifier(Arc::new(AskForCertificate::new(Arc::clone(authorities))));
        settings.set_alpn(offered);
        settings
    }
}

impl fmt::Debug for CertificateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateStore").field("files", &self.files).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for CertificateStore {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

fn read(files: &TlsFiles) -> Result<CertifiedKey, CertificateFault> {
    let chain = certificates(&files.cert)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|source| CertificateFault::Unreadable { path: files.key.clone(), source })?;
    CertifiedKey::from_der(chain, key, &ring::default_provider())
        .map_err(|source| CertificateFault::Unusable { path: files.cert.clone(), source })
}

/// Reads every certificate of a PEM file.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateFault> {
    let unreadable = |source| CertificateFault::Unreadable { path: path.to_owned(), source };
    CertificateDer::pem_file_iter(path).map_err(unreadable)?.collect::<Result<_, _>>().map_err(unreadable)
}
