//! The built-in sample provider.
