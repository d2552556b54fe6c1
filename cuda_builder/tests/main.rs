//! The builder's tests as one program.

mod builds;
mod common;
mod environment;
mod expectations;
