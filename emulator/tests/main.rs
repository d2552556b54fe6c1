//! The emulator's tests, a module for each subject, as one program.

mod corpus;
mod fuzzed;
mod kernels;
mod semantics;
mod shipped_ptx;
mod tensor;
mod tensor_map;
