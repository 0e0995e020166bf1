//! Vectors of every check; filled from the published rules.
