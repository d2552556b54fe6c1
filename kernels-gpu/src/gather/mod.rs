//! Selection along an axis by indices: `y[a.., j.., b..] = x[a.., indices[j..], b..]`; with axis 0 of
//! a table, an embedding. And its opposite, which puts rows to where indices say:
//! `y[a.., indices[j..], b..] = src[a.., j.., b..]`.
//!
//! **Roles**: all of a block's 128 threads do the same. A thread has four elements of 16 bytes of
//! y, or eight narrower ones, a block apart. Neighbouring threads read neighbours of a row of x.
//! Where rows are short, a thread has elements of several rows in flight.
//!
//! **Timeline**: where its elements are; all indices; all elements of x whose index selects one;
//! all stores. An index out of range gives a value of the launch's parameters, and nothing is read
//! for it.
//!
//! Rows are put in the same way, once it is known that no later position has the same index. A block of
//! few indices has a part of one row, and all its threads compare later indices with its own while the
//! row is on its way. Of more, a launch before has written the last position of each place.
//!
//! **Offsets** are of 64 bits; positions in the walk are below 2^31, and the host cuts what is larger.
//!
//! **Numerics**: bits are moved. The last position of a place is a maximum of integers, which is the same
//! in any order.
//!
//! | file | what |
//! |---|---|
//! | `bits` | elements of each size |
//! | `walk` | where elements are |
//! | `take` | the kernels that select |
//! | `scatter` | the kernels that put rows |
//!
//! **Before you change this**: `cargo test -p warpsmith-tests -- take:: scatter::`, and
//! `compare.py gather` and `scatter`.

// Arrays are indexed by what unrolled loops make constant: iterators over them would keep them in
// local memory.
#![allow(clippy::needless_range_loop)]

mod bits;
pub mod scatter;
pub mod take;
mod walk;
