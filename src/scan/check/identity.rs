//! Check digits of personal and business identifiers.
