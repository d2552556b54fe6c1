//! Runs PTX on the CPU, and finds what is wrong with it.

pub mod semantics;
