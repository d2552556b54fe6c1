//! The library's tests, a module for each subject, as one program.
//!
//! Two files are programs of their own: `fault` ends a GPU's context for the whole process, and `gpu`
//! counts allocations by an allocator of its own and measures launches.

mod after_fault;
mod cluster;
mod device;
mod emulator;
mod graphs;
mod in_a_row;
mod in_parallel;
mod launch;
mod manifest;
mod overlap;
mod tensor;
mod tensor_map;
