//! Reductions over everything, one axis or several: `abi::reduce` has the layouts and the order.
//!
//! `out[outer, inner] = fold over [segments, n] of x`; the operations are those of
//! [`abi::reduce::ReduceOp`].
//!
//! | file | what |
//! |---|---|
//! | `load` | loads of 16 bytes of a dtype, as numbers |
//! | `number` | f32, f64 and i64 as the folds need them |
//! | `fold` | what a fold is: how a thread accumulates elements, how results merge |
//! | `value` | the fold of sums, products, norms and extremes |
//! | `partial` | products and norms whose parts leave the range of their type |
//! | `moments`, `arg`, `lse` | the longer folds |
//! | `extreme` | extremes of bf16, two elements at a time |
//! | `fragment` | where the elements of an item are |
//! | `body` | the general kernel: items, threads, chunks |
//! | `own` | stores of results that one thread or warp has alone |
//! | `short` | a kernel for rows of a few vectors |
//! | `short16` | the same for bf16, with fewer instructions |
//! | `small` | a kernel for few rows of up to 16 KiB |
//! | `long` | a kernel for rows of which a block has one, or a part of one |
//! | `cluster` | a kernel for one row in parts that the blocks of a cluster have |
//! | `columns` | a kernel for columns of whole vectors |
//! | `settle` | the reduction over a block's threads, and over the parts of a split axis |
//! | `store` | results as they are stored |
//! | `entries` | the entries |
//!
//! **Roles.** All threads do the same. An *item* is a part of the axis of some outputs; a block has
//! one item or several, and the threads of an item share its elements. If an axis is split into
//! parts, the block that finishes the last part of an output merges all of them.
//!
//! **Shared memory**: a slot for each thread's accumulators, and a word for the ticket
//! (`settle`).
//!
//! **Numerics**: every merge is in an order that the plan alone decides: the same bits every run.
//!
//! **Before you change this**: docs/decisions/0049 to 0052 have the measurements.

mod arg;
mod body;
mod cluster;
mod columns;
mod count;
#[cfg(feature = "reduce")]
pub mod entries;
mod extreme;
mod fold;
mod fragment;
pub(crate) mod load;
mod long;
mod lse;
mod moments;
pub(crate) mod number;
mod own;
pub(crate) mod partial;
mod settle;
mod short;
mod short16;
mod small;
mod store;
mod value;
