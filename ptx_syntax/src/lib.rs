//! PTX as text: lexer, parser, printer, lint; and the manifest that describes compiled modules.
#![forbid(unsafe_code)]

pub mod ast;
pub mod manifest;
