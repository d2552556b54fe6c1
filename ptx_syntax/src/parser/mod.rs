//! The parser: PTX tokens to the tree of [`crate::ast`].
//!
//! Recursive descent over a token list with one token of lookahead (three at most). Nesting is
//! limited to [`MAX_DEPTH`], so that hostile text gives an error and not a stack overflow.

mod body;
mod cursor;
mod declaration;
mod expression;
mod function;
mod module;
mod operand;

use thiserror::Error;

use crate::ast::Module;
use crate::lexer;
use cursor::Cursor;

/// Deepest nesting of blocks, lists and constant expressions that is accepted.
pub(crate) const MAX_DEPTH: u32 = 128;

/// A syntax error and its place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{line}:{column}: {message}")]
pub struct ParseError {
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
    /// What was found and what was expected.
    pub message: String,
}

/// Parses the text of a PTX module.
///
/// Symbols are not resolved, and mnemonics and operand types are not checked: an unknown mnemonic
/// parses.
///
/// # Errors
/// [`ParseError`] at the first place where the text is not valid PTX syntax.
///
/// # Examples
/// ```
/// let ptx = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k() { ret; }";
/// let module = ptx_syntax::parse(ptx)?;
/// assert_eq!(module.functions[0].name, "k");
/// # Ok::<(), ptx_syntax::ParseError>(())
/// ```
pub fn parse(text: &str) -> Result<Module, ParseError> {
    let tokens = lexer::tokenize(text)?;
    module::module(&mut Cursor::new(&tokens))
}
