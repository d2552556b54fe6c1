//! Reductions over everything, one axis or several: `spec::reduce` has the layouts and the order.
//!
//! | file | what |
//! |---|---|
//! | `load` | 16 bytes of a dtype, as numbers |
//! | `number` | f32, f64 and i64 as the folds need them |
//! | `fold` | what is computed: how a thread takes in elements, how results merge |
//! | `moments`, `arg`, `lse` | the folds that are longer |
//! | `place` | where the elements of an item are |
//! | `body` | the kernel: items, threads, chunks |
//! | `own` | columns that one thread has |
//! | `short` | rows of a few vectors, without all that |
//! | `long` | rows of which a block has one or a part, likewise |
//! | `columns` | columns of whole vectors, likewise |
//! | `settle` | results of threads to one, in shared memory |
//! | `entries` | the entries |

mod arg;
mod body;
mod columns;
pub mod entries;
mod fold;
pub(crate) mod load;
mod long;
mod lse;
mod moments;
pub(crate) mod number;
mod own;
mod place;
mod settle;
mod short;
