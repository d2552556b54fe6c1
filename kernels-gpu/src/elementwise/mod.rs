//! Elementwise operations over strided tensors with broadcasting, casts, copies, transposes.
//!
//! Functions and casts are skeletons (`fused`), filled with the [`crate::fragments`] that the host picks; copies and
//! transpositions move bits.

mod copy;
mod fused;
mod transpose;

pub use copy::*;
pub use fused::*;
pub use transpose::*;
