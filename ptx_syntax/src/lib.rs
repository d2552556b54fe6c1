//! PTX as text: lexer, parser, printers, lint, the table of the instruction set; and the manifest
//! that describes compiled modules.
//!
//! [`parse`] turns the text of a module into the tree of [`ast`]. Symbols are not resolved, and
//! nothing is executed. It accepts the syntax that ptxas accepts: the output of LLVM, nvcc and
//! Triton as well as handwritten code. Debug sections are skipped.
#![forbid(unsafe_code)]

pub mod ast;
mod constant;
pub mod contract;
pub mod cut;
pub mod explain;
pub mod isa;
mod layout;
mod lexer;
mod lines;
pub mod link;
pub mod lint;
pub mod manifest;
mod named;
pub mod origins;
mod parser;
mod print;
mod scalar;
pub mod target;
pub mod twin;
pub mod unwritten;
mod walk;

pub use parser::{ParseError, parse};
