//! Elementwise operations, `y = f(x)` and `y = f(a, b)`, over strided tensors with broadcasting.
//!
//! Tensors: rank up to 8 after the host merged dimensions; f32, f16 or bf16, copies of any
//! element of 1 to 8 bytes.
//!
//! **Roles**: threads stride over the elements, four neighbours at once where all tensors are
//! contiguous and aligned. **Pipelines**, **Shared memory**: none.
//!
//! **Numerics**: computed in f32 (`cuda_std::math`, errors in `spec::elementwise`), one rounding at
//! the store. NaN results of arithmetic are canonical; neg, abs and copies keep a NaN's bits as far
//! as the dtype's conversion does.
//!
//! **Before you change this**: every entry holds the function six times (four vector elements, a
//! tail, strides), which is most of the module's size. `cargo test -p warpsmith-tests` runs it on the
//! emulator.

mod binary;
mod body;
mod unary;

pub use binary::*;
pub use unary::*;
