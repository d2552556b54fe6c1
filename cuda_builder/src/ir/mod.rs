//! The typed pass over textual LLVM IR, between `llvm-link` and `opt`.
//!
//! rustc offers no way to say most of what a kernel needs, so it is said here. Each step is one
//! file, takes a [`Module`] and gives it back changed:
//!
//! | step | what it does |
//! |---|---|
//! | [`kernels`] | reads the metadata statics of `#[kernel]` and removes them |
//! | [`fragments`] | the same for `#[fragment]`, and what a fragment must not be |
//! | [`traps`] | panics become `llvm.trap` |
//! | [`spaces`] | statics in sections `.shared` and `.constant` get their address space |
//! | [`convergent`] | every function, call and `asm` is convergent |
//! | [`by_value`] | tensor maps among the parameters by value |
//! | [`bounds`] | launch bounds and cluster size as `nvvm.*` attributes |
//! | [`families`] | one module for each family of kernels, with what it reaches and no more |
//! | [`collectives`] | counts barriers, for the lint |
//! | [`names`] | names and order that do not depend on where the crate lies |

pub mod bounds;
pub mod by_value;
pub mod collectives;
pub mod convergent;
pub mod families;
pub mod fragments;
pub mod kernels;
pub mod names;
pub mod spaces;
mod text;
pub mod traps;

pub use text::{Function, Global, Item, Module, symbols};
pub(crate) use text::{map_symbols, written};
