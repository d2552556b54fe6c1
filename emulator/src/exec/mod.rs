//! The executor: runs a [`Program`](crate::program::Program) warp by warp.
//!
//! A warp is 32 lanes and a set of [paths](path): groups of lanes that share a position in the code
//! and a call stack. A divergent branch splits a path, and paths reconverge when they reach the
//! same position with the same stack. Of several paths the one with the deepest stack runs, and
//! among those the one with the lowest position, so that paths that are behind catch up. From time
//! to time another path gets a turn, so that lanes that spin on what other lanes write do not spin
//! forever.

pub(crate) mod access;
mod access_faults;
mod aftermath;
mod asynchronous;
pub(crate) mod atomic;
pub(crate) mod barrier;
pub(crate) mod block;
pub(crate) mod call;
pub(crate) mod cluster;
mod cluster_barrier;
pub(crate) mod collective;
mod copy;
mod deadlock;
pub(crate) mod engine;
mod explored;
pub(crate) mod fault;
pub(crate) mod findings;
pub(crate) mod grid;
mod groups;
mod heap;
mod image;
pub(crate) mod kernel;
pub(crate) mod mbarrier;
mod mbarrier_op;
mod merge;
pub(crate) mod open;
mod open_store;
pub(crate) mod path;
mod planes;
pub(crate) mod printf;
mod printing;
pub(crate) mod races;
mod random;
mod recording;
mod register_pool;
pub(crate) mod registers;
pub(crate) mod row;
pub(crate) mod special;
mod stack;
mod tensor;
pub(crate) mod warp;
mod watch;
