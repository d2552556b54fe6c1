//! Elementwise operations over strided tensors with broadcasting; casts, copies, transposes.
//!
//! Functions and casts are skeleton kernels (`fused`), which the host fills with the
//! [`crate::fragments`] that it picks. Copies and transposes move bits.

mod copy;
mod fused;
mod transpose;

pub use copy::*;
pub use fused::*;
pub use transpose::*;
