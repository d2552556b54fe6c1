//! The builder's tests as one program.

mod atomics;
mod builds;
mod common;
mod environment;
mod expectations;
mod safe;
