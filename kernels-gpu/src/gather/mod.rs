//! Selection along an axis by indices: `y[a.., j.., b..] = x[a.., indices[j..], b..]`; with axis 0 of
//! a table, an embedding.
//!
//! **Roles**: all of the 128 threads do the same. A thread has four elements of 16 bytes of y, or
//! eight narrower ones, a block apart: neighbouring threads read neighbours of a row of x, and a
//! thread has elements of several rows in flight where rows are short.
//!
//! **Timeline**: where its elements are; all indices; all elements of x whose index selects one; all
//! stores. What an index out of range selects is a number of the launch's, and nothing is read for
//! it.
//!
//! **Offsets** are of 64 bits; positions in the walk are below 2^31, and the host cuts what is larger.
//!
//! **Numerics**: bits are moved.
//!
//! **Before you change this**: `cargo test -p warpsmith-tests --test take`, and
//! `compare.py gather`.

// Arrays are indexed by what unrolled loops make constant: iterators over them would keep them in
// local memory.
#![allow(clippy::needless_range_loop)]

mod take;

pub use take::*;
