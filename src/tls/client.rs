//! TLS towards others, for what the gateway asks on its own account: identity providers, receivers, databases.
//!
//! The system's certificates are trusted, and those of one file of the operator's; names are always checked.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::CertificateFault;
use super::certificates;

/// A connection that is secured.
pub type Secured<S> = TlsStream<S>;

/// Opens TLS connections to servers whose certificates are trusted.
#[derive(Clone)]
pub struct TlsClient {
    connector: TlsConnector,
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsClient")
    }
}

impl TlsClient {
    /// Trusts the system's certificates, and those in a PEM file beside them.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn new(ca_file: Option<&Path>) -> Result<Self, CertificateFault> {
        let mut roots = RootCertStore::empty();
        // A system without certificates, or with an odd one among them, trusts what is left.
        let system = rustls_native_certs::load_native_certs().unwrap_or_default();
        roots.add_parsable_certificates(system);
        if let Some(path) = ca_file {
            for certificate in certificates(path)? {
                let unusable = |source| CertificateFault::Unusable { path: path.to_owned(), source };
                roots.add(certificate).map_err(unusable)?;
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has the default protocol versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { connector: TlsConnector::from(Arc::new(config)) })
    }

    /// Returns the settings, for clients that open their connections themselves.
    pub fn config(&self) -> ClientConfig {
        ClientConfig::clone(self.connector.config())
    }

    /// Shakes hands with the server of a name, or of an address, over an open connection.
    ///
    /// # Errors
    /// The name is none, or the server is not whom the certificates vouch for.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: &str,
        stream: S,
    ) -> io::Result<Secured<S>> {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(bare.to_owned()).map_err(io::Error::other)?;
        self.connector.connect(name, stream).await
    }
}
