//! State on disk, behind one seam.
