//! See the module above.
