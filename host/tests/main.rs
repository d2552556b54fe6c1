//! The library's tests, a module for each subject, as one program.
//!
//! Three files are programs of their own: `fault` ends a GPU's context for the whole process, `gpu`
//! counts allocations by an allocator of its own and measures launches, and `cust_interop` needs the
//! feature `cust`.

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
