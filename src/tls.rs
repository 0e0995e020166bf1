//! TLS listeners and their certificates.

use std::path::PathBuf;

/// Where a listener's certificate lies; both files are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, in PEM, the listener's own first.
    pub cert: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
}
