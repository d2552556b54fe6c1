//! Rows in order, with the indices that elements had: `abi::sort` has keys and digits.
//!
//! **Roles**: all of a block's 512 threads do the same. A warp has neighbours of a tile, and a thread
//! every 32nd of those. Thread d below 256 also has what is counted of digit d.
//!
//! **Timeline** of a tile:
//! - `match` tells a lane which others have its digit (`rank`). How many come before it is counted for
//!   the warp, then over the warps, then over digits: its place in the tile.
//! - Elements go to their places through shared memory, then their indices by the same room. So
//!   neighbouring threads have neighbours of one digit, which lie together in the result too.
//! - *block* does so for all digits in which its elements differ, and has a row's number for the last, if it has several rows.
//! - *pass* publishes its counts before, and looks back for those of earlier tiles (`back`).
//!
//! **Shared memory**: room of 32 KiB, for the counts of warps, then for elements, then for indices; where
//! each digit begins in the tile, and in the row.
//!
//! **Numerics**: nothing is computed but keys. Elements keep their bits.
//!
//! | file | what |
//! |---|---|
//! | `word` | elements' bits, keys and digits |
//! | `tile` | a tile of a block: its order, and the exchange |
//! | `block` | whole rows in a block |
//! | `count` | the counts of digits of long rows |
//! | `back` | what earlier tiles have of a digit |
//! | `pass` | one digit of long rows |
//!
//! **Sources**: Adinets and Merrill, Onesweep: A Faster Least Significant Digit Radix Sort for GPUs, 2022.
//!
//! **Before you change this**: `cargo test -p warpsmith-tests sort::`.

// Arrays are indexed by what unrolled loops make constant: iterators over them would keep them in
// local memory.
#![allow(clippy::needless_range_loop)]

mod back;
mod block;
mod count;
pub mod entries;
mod pass;
mod tile;
mod word;
