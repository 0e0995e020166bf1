//! State on disk, behind one seam.

pub mod config;
