//! Parts that the portable kernels share: elements and their chunks of four, the way of an operand
//! tile from global to shared memory, and the register-blocked product of staged tiles.
#![expect(
    clippy::needless_range_loop,
    reason = "LLVM keeps an array in registers where it is indexed, not where it is iterated over"
)]

pub(crate) mod element;
pub(crate) mod operand;
pub(crate) mod product;
