//! Constant expressions, evaluated during parsing.

use super::cursor::{Cursor, Result};
use crate::constant::{Value, binary, precedence, unary};
use crate::lexer::Kind;

/// Threads per warp: the value of `WARP_SZ`.
const WARP_SIZE: i64 = 32;

/// A whole constant expression.
pub(super) fn constant(c: &mut Cursor) -> Result<Value> {
    c.nested(|c| {
        let condition = operation(c, 1)?;
        if !c.eat("?") {
            return Ok(condition);
        }
        let yes = constant(c)?;
        c.expect(":")?;
        let no = constant(c)?;
        Ok(if condition.is_true() { yes } else { no })
    })
}

/// A constant expression that is an integer.
pub(super) fn integer(c: &mut Cursor) -> Result<i128> {
    let at = c.error(String::new());
    let value = constant(c)?;
    value.integer().ok_or_else(|| super::ParseError {
        message: "expected an integer, found a float".into(),
        ..at
    })
}

/// An integer expression that fits `T`.
pub(super) fn number<T: TryFrom<i128>>(c: &mut Cursor, what: &str) -> Result<T> {
    let at = c.error(String::new());
    let value = integer(c)?;
    T::try_from(value).map_err(|_| super::ParseError {
        message: format!("{what} of {value} is out of range"),
        ..at
    })
}

/// Whether a constant follows (not a name, a bracket and so on).
pub(super) fn starts_constant(c: &Cursor) -> bool {
    let token = c.peek();
    match token.kind {
        Kind::Integer { .. } | Kind::F32(_) | Kind::F64(_) => true,
        Kind::Punct => matches!(token.text, "-" | "+" | "~" | "!" | "("),
        _ => false,
    }
}

/// Whether an operator that continues a constant expression follows.
pub(super) fn continues_constant(c: &Cursor) -> bool {
    let token = c.peek();
    token.kind == Kind::Punct && (precedence(token.text).is_some() || token.text == "?")
}

fn operation(c: &mut Cursor, weakest: u8) -> Result<Value> {
    let mut left = prefixed(c)?;
    loop {
        let token = c.peek();
        let strength = (token.kind == Kind::Punct)
            .then(|| precedence(token.text))
            .flatten();
        let Some(strength) = strength.filter(|strength| *strength >= weakest) else {
            return Ok(left);
        };
        let at = c.error(String::new());
        c.next();
        let right = operation(c, strength + 1)?;
        left = binary(token.text, left, right)
            .map_err(|message| super::ParseError { message, ..at })?;
    }
}

fn prefixed(c: &mut Cursor) -> Result<Value> {
    let token = c.peek();
    match token.kind {
        Kind::Integer { value, unsigned } => {
            c.next();
            Ok(Value::Integer {
                bits: value,
                unsigned,
            })
        }
        Kind::F32(bits) => {
            c.next();
            Ok(Value::F32(bits))
        }
        Kind::F64(bits) => {
            c.next();
            Ok(Value::F64(bits))
        }
        Kind::Name if token.text == "WARP_SZ" => {
            c.next();
            Ok(Value::signed(WARP_SIZE))
        }
        Kind::Punct if token.text == "(" => c.nested(parenthesised),
        Kind::Punct if matches!(token.text, "-" | "+" | "~" | "!") => {
            c.next();
            let value = c.nested(prefixed)?;
            unary(token.text, value).map_err(|message| c.error(message))
        }
        _ => Err(c.expected("a constant")),
    }
}

/// `(expression)`, or the cast `(.s64) value`.
fn parenthesised(c: &mut Cursor) -> Result<Value> {
    c.expect("(")?;
    let unsigned = c.is_word(".u64");
    if unsigned || c.is_word(".s64") {
        c.next();
        c.expect(")")?;
        return Ok(prefixed(c)?.cast(unsigned));
    }
    let value = constant(c)?;
    c.expect(")")?;
    Ok(value)
}
