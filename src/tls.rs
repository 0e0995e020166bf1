//! TLS listeners and their certificates.
