//! Addition of rows to the rows that indices name: `y[a.., indices[j..], b..] += src[a.., j.., b..]`;
//! with axis 0 of a table, the gradient of an embedding. `abi::scatter_add` has the order of additions.
//!
//! **Roles**, of kernels that sort: all of a block's 1,024 threads do the same. A warp has 128
//! neighbours of a tile of 4,096 pairs, and a thread every 32nd of those. In kernels that add, a
//! warp has 32 columns (elements of a row, or vectors of 16 bytes) of up to 32 neighbouring pairs.
//! It adds the segments that begin there, and warps share nothing. `scatter_add_finish` has 16
//! warps for 32 columns, a group of parts each. Of few indices, a warp has one, and a block has all
//! in shared memory.
//!
//! **Shared memory**, of kernels that sort: how many pairs each warp has of each digit; where each
//! digit begins; of `scatter_order` in place of the first, then, the pairs.
//!
//! **Timeline**, of a tile: `match` tells a lane which others have its digit; how many come before it
//! is counted for the warp, then over the warps, then over digits. Of what is added: the element of y
//! is asked for before the first row, and two rows at a time.
//!
//! **Numerics**: sums in f32 (f64 of f64, wrapping i64 of integers), each rounded once when it is
//! added to y. There are no atomics on numbers, so bits do not depend on time.
//!
//! | file | what |
//! |---|---|
//! | `pairs` | pairs, and the kernels' walks |
//! | `sort` | the kernels that sort, by `rank` of the crate |
//! | `segments` | where segments and parts begin in sorted pairs |
//! | `lanes`, `single` | vectors of elements, and single ones, as numbers |
//! | `any_vector` | vectors of the dtype that the launch says |
//! | `add`, `finish` | the kernels that add in the order of sorted pairs |
//! | `few` | the kernel that adds by few indices, without a sort |
//!
//! **Sources**: Merrill and Grimshaw, High Performance and Scalable Radix Sorting, 2011.
//!
//! **Before you change this**: `cargo test -p warpsmith-tests scatter::`, and
//! `compare.py scatter`.

// Arrays are indexed by what unrolled loops make constant: iterators over them would keep them in
// local memory.
#![allow(clippy::needless_range_loop)]

pub mod add;
mod any_vector;
pub mod few;
pub mod finish;
mod lanes;
mod pairs;
mod segments;
mod single;
pub mod sort;
