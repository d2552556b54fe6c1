//! Elementwise operations over strided tensors with broadcasting, casts, copies, transposes.
//!
//! **Roles**: each thread of [`chain`] takes 8 or 16 elements, in two accesses of 16 bytes a tensor
//! where the layout allows it. **Shared memory**: values that a program keeps, a thread's own.
//!
//! **Numerics**: computed in f32 (`cuda_std::math`, errors in `spec::elementwise`), one rounding at
//! the store. NaN results of arithmetic are canonical; neg, abs and copies keep a NaN's bits as far
//! as the dtype's conversion does.
//!
//! **Before you change this**: `cargo test -p warpsmith-tests --test elementwise` runs it on the
//! emulator; every function is in the module once, and only the common ones eight times unrolled.

mod brief;
mod cast;
mod chain;
mod copy;
mod transpose;

pub use brief::*;
pub use cast::*;
pub use chain::*;
pub use copy::*;
pub use transpose::*;
