//! Scans: `spec::scan` has the order.

// Arrays are indexed by what unrolled loops make constant: iterators over them would keep them in
// local memory.
#![allow(clippy::needless_range_loop, clippy::manual_memcpy)]

mod back;
mod block;
mod body;
pub mod entries;
mod place;
mod tile;
mod totals;
