//! Scans (running sums, products, extremes, logsumexps) of rows, in one pass over memory: `abi::scan` has the
//! order.
//!
//! `y[r, i] = op over j ≤ i of x[r, j]` (exclusive: j < i).
//!
//! **Roles.** All threads do the same. If a row fits a block, its threads have all of it, and a
//! block has several short rows. Longer rows are cut into tiles, which blocks take in order by a
//! counter.
//!
//! **Shared memory**: scratch for sums of warps and for the tiles that the block knows of; then
//! slots for all vectors of a tile, or of two.
//!
//! **Timeline**, for each tile:
//! - Load its vectors to the slots; prefetch a later tile into L2.
//! - Reduce the vectors, and scan their totals over lanes and warps.
//! - Publish the tile's total; draw the next tile; look back for what comes before this one
//!   (`back`).
//! - Read the vectors again, scan them from there, and store.
//!
//! If a block has slots for two tiles, it looks back for a tile only after it has published the
//! next one's total.
//!
//! | file | what |
//! |---|---|
//! | `body` | the kernel's loop |
//! | `block` | a block's steps: draw a tile, load it, look back |
//! | `back` | the totals that blocks publish, and the look-back |
//! | `kind` | how elements and partial results combine |
//! | `launch`, `tile` | where a thread's vectors are; loads, stores, slots |
//! | `totals` | the scan of a tile's totals |
//! | `marks` | where running extremes are reached |
//!
//! **Sources**: Merrill and Garland, Single-pass parallel prefix scan with decoupled look-back,
//! 2016.
//!
//! **Before you change this**: docs/decisions/0056-scans.md has the measurements.

// Arrays are indexed by what unrolled loops make constant: iterators over them would keep them in
// local memory.
#![allow(clippy::needless_range_loop, clippy::manual_memcpy)]

mod back;
mod block;
mod body;
pub mod entries;
mod kind;
mod launch;
pub mod marks;
mod tile;
mod totals;
