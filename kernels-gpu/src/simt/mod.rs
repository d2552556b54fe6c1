//! Parts of all portable kernels: elements and their chunks of four, copies of operand tiles from
//! global to shared memory, and the register-blocked outer product of staged tiles. Also stores of
//! results to global memory.
#![expect(
    clippy::needless_range_loop,
    reason = "iterators and closures over arrays are not always inlined, and cost local memory then"
)]

pub(crate) mod element;
pub(crate) mod operand;
pub(crate) mod product;
pub(crate) mod results;
pub(crate) mod staged;
