//! The composition root: builds every part and runs it.
