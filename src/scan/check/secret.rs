//! Checksums and structure of credentials.
