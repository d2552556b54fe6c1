//! Memory of the virtual GPU.
//!
//! Every memory is an array of 32-bit words, with a shadow bit for each byte that says whether the
//! byte was written. The words of global memory are `AtomicU32`, accessed with relaxed loads and
//! stores. So kernels that race are not undefined behaviour here, and each access compiles to plain
//! moves. There are no atomic accesses of mixed sizes: bytes and halfwords are merged into their
//! word.

pub(crate) mod global;
pub(crate) mod host;
pub(crate) mod lanes;
pub(crate) mod local;
pub(crate) mod shared;
pub(crate) mod space;
pub(crate) mod stack;
pub(crate) mod words;
