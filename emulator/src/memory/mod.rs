//! Memory of the virtual GPU.
//!
//! Every space is an array of 32-bit words with one shadow bit a byte that says whether the byte
//! was written. Global memory is words of `AtomicU32`, touched with relaxed loads and stores, so
//! that racing kernels are no undefined behaviour here: each access compiles to plain moves, and
//! there are no accesses of mixed sizes. Bytes and halves merge into their word.

pub(crate) mod global;
pub(crate) mod lanes;
pub(crate) mod local;
pub(crate) mod shared;
pub(crate) mod space;
pub(crate) mod stack;
pub(crate) mod words;
