//! Rows that are read once: what softmax, norms and cross-entropy are made of. `spec::rows` chooses
//! which of these holds a row.

pub(crate) mod group;
pub(crate) mod held;
pub(crate) mod loose;
pub(crate) mod moments;
pub(crate) mod packed;
pub(crate) mod ring;
pub(crate) mod slices;
pub(crate) mod words;
