//! The typed pass over textual LLVM IR, between `llvm-link` and `opt`; [`atomics`] follows `opt`.
//!
//! rustc cannot express most of what a kernel needs, so it is added here. Each step is one file and
//! reads or changes a [`Module`]:
//!
//! | step | what it does |
//! |---|---|
//! | [`kernels`] | reads the metadata statics of `#[kernel]` and removes them |
//! | [`fragments`] | the same for `#[fragment]`; also checks the compiled fragments |
//! | [`cpu`] | removes the processor that rustc names |
//! | [`panics`] | lets panics name their text, file and line |
//! | [`traps`] | replaces panics by `llvm.trap` |
//! | [`spaces`] | moves statics in sections `.shared` and `.constant` to their address space |
//! | [`convergent`] | marks every function, call and `asm` convergent |
//! | [`by_value`] | makes `TensorMapParam` and `ByValue` parameters `byval` |
//! | [`aliases`] | marks the pointers of safe kernels `noalias` and `readonly` |
//! | [`bounds`] | adds launch bounds, block and cluster size as `nvvm.*` attributes |
//! | [`families`] | splits the module: one for each family of kernels, with only what it reaches |
//! | [`collectives`] | counts barriers and wgmma instructions, for the lint |
//! | [`names`] | makes names and order independent of where the crate is |
//! | [`atomics`] | gives atomics the order that LLVM would drop, and device scope |

pub mod aliases;
pub mod atomics;
pub mod bounds;
pub mod by_value;
pub mod collectives;
pub mod convergent;
pub mod cpu;
pub mod families;
pub mod fragments;
pub mod kernels;
pub mod names;
pub mod panics;
pub mod spaces;
mod text;
pub mod traps;

pub use text::{Function, Global, Item, Module, symbols};
pub(crate) use text::{map_symbols, written};
