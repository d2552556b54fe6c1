//! The k largest or smallest elements of rows, with their indices: `abi::topk` has the order.
//!
//! **Pairs.** An element and its index make one integer: above, the element's bits as an unsigned
//! number that grows with it (the *key*); below, the complement of the index. No two pairs of a row
//! are equal, so a row has one answer, whoever finds which part of it first.
//!
//! **Roles.** A block has a row, or a part of one, and its threads all do the same; or, of short
//! rows, a few lanes of a warp have one.
//!
//! **Timeline** of a block:
//! - Read the row once, and keep the largest element of each group of a thread's vectors, as f32.
//!   Of floats of up to 32 bits; others go on where a bound is looked for among all pairs.
//! - The k-th largest of these is a bound: k elements at least reach it, and not many more. Where k is
//!   small beside the threads, it is found among the largest elements of threads, else of groups.
//! - List the groups that reach it, read those again, from L2, and collect the pairs of the elements
//!   that do.
//! - There may be more than shared memory has room for (equal elements, an order that puts all
//!   large ones into few groups), or too few (NaN). Then find a bound among all pairs of the row,
//!   byte by byte (`cut`), and collect those that reach that.
//! - Sort what was collected, and write the first k (`sort`).
//!
//! **Shared memory**: a histogram and a few words, then the pairs and the list of groups; before there
//! are any, the largest elements of groups.
//!
//! **Numerics**: nothing is computed but comparisons. Zeros of both signs are equal, and NaN is above
//! everything: the value is read from the row again, so its bits are those that were there.
//!
//! | file | what |
//! |---|---|
//! | `key` | elements in vectors, keys |
//! | `row` | the elements of a part of a row, where its vectors are |
//! | `groups` | the largest elements of groups, and the groups that reach a bound |
//! | `cut` | a bound by histograms of bytes |
//! | `sort` | pairs in order, and the results |
//! | `body` | a block's steps |
//! | `short` | rows of lanes |
//!
//! **Before you change this**: docs/topk.md says what the steps cost.

// Arrays are indexed by what unrolled loops make constant: iterators over them would keep them in
// local memory.
#![allow(clippy::needless_range_loop)]

mod body;
mod cut;
pub mod entries;
mod groups;
mod key;
mod row;
mod short;
mod sort;
