//! Operands of instructions.

use super::cursor::{Cursor, Result};
use super::expression::{self, continues_constant, starts_constant};
use crate::ast::{AddressBase, Operand};
use crate::constant::Value;
use crate::lexer::Kind;

/// Operands up to the `;`, which is not consumed.
pub(super) fn operands(c: &mut Cursor, is_call: bool) -> Result<Vec<Operand>> {
    if c.is(";") {
        return Ok(Vec::new());
    }
    c.list(|c| {
        if is_call && c.is("(") {
            call_list(c)
        } else {
            operand(c)
        }
    })
}

/// `(a, b)` or `()`.
fn call_list(c: &mut Cursor) -> Result<Operand> {
    c.expect("(")?;
    if c.eat(")") {
        return Ok(Operand::List(Vec::new()));
    }
    let items = c.list(operand)?;
    c.expect(")")?;
    Ok(Operand::List(items))
}

fn operand(c: &mut Cursor) -> Result<Operand> {
    let first = c.nested(single)?;
    if !c.is("|") {
        return Ok(first);
    }
    c.next();
    let second = if c.peek().text == "_" {
        single(c)?
    } else {
        named(c)?
    };
    Ok(Operand::Pair(Box::new(first), Box::new(second)))
}

fn single(c: &mut Cursor) -> Result<Operand> {
    let token = c.peek();
    match token.kind {
        Kind::Name if token.text == "_" => {
            c.next();
            Ok(Operand::Sink)
        }
        Kind::Name => named(c),
        Kind::Punct if token.text == "{" => vector(c),
        Kind::Punct if token.text == "[" => address(c),
        Kind::Punct if matches!(token.text, "!" | "-") && is_register(c) => {
            c.next();
            let inner = Box::new(named(c)?);
            Ok(if token.text == "!" {
                Operand::Not(inner)
            } else {
                Operand::Negated(inner)
            })
        }
        _ if starts_constant(c) => Ok(constant(expression::constant(c)?)),
        _ => Err(c.expected("an operand")),
    }
}

/// Whether the token after the sign is a name and not a constant.
fn is_register(c: &Cursor) -> bool {
    let token = c.peek_at(1);
    token.kind == Kind::Name && token.text != "WARP_SZ"
}

fn constant(value: Value) -> Operand {
    match value {
        Value::F32(bits) => Operand::F32(bits),
        Value::F64(bits) => Operand::F64(bits),
        Value::Integer {
            bits,
            unsigned: true,
        } => Operand::Integer(i128::from(bits)),
        Value::Integer {
            bits,
            unsigned: false,
        } => Operand::Integer(i128::from(bits.cast_signed())),
    }
}

/// A name with its suffix, if any: `.x`, `+4`, `[3]`.
fn named(c: &mut Cursor) -> Result<Operand> {
    if c.peek().text == "WARP_SZ" && {
        let after = c.peek_at(1);
        after.kind == Kind::Punct && !matches!(after.text, "," | ";" | "}" | ")" | "]")
    } {
        return Ok(constant(expression::constant(c)?));
    }
    let name = dotted_name(c, "a name")?;
    if c.is("[") {
        return element(c, name);
    }
    if c.is("+") {
        return Ok(Operand::SymbolOffset {
            name,
            offset: offset(c)?,
        });
    }
    Ok(Operand::Name(name))
}

/// `%tid.x`, `%v.y`, `%r1.b0`: components are part of the name.
fn dotted_name(c: &mut Cursor, what: &str) -> Result<String> {
    let mut name = c.name(what)?;
    while c.peek().kind == Kind::Word {
        name.push_str(c.next().text);
    }
    Ok(name)
}

/// `+ expression`, or nothing; a negative offset is `+-4`.
fn offset(c: &mut Cursor) -> Result<i64> {
    if !c.eat("+") {
        return Ok(0);
    }
    expression::number(c, "an offset")
}

fn element(c: &mut Cursor, array: String) -> Result<Operand> {
    c.expect("[")?;
    let (register, offset) = if starts_constant(c) {
        (None, expression::number(c, "an index")?)
    } else {
        (Some(dotted_name(c, "an index")?), offset(c)?)
    };
    c.expect("]")?;
    Ok(Operand::Element {
        array,
        register,
        offset,
    })
}

fn vector(c: &mut Cursor) -> Result<Operand> {
    c.expect("{")?;
    let items = c.list(operand)?;
    c.expect("}")?;
    Ok(Operand::Vector(items))
}

/// `[base]`, `[base+4]`, `[0x100]`, `[map, {x, y}]`.
fn address(c: &mut Cursor) -> Result<Operand> {
    c.expect("[")?;
    let (base, offset) = if starts_constant(c) {
        (AddressBase::Absolute(absolute(c)?), 0)
    } else {
        let name = dotted_name(c, "an address")?;
        if c.is("[") {
            return Err(c.error("an element is not an address: write `[name+bytes]`".into()));
        }
        (AddressBase::Name(name), offset(c)?)
    };
    let extra = if c.eat(",") {
        c.list(operand)?
    } else {
        Vec::new()
    };
    c.expect("]")?;
    if continues_constant(c) {
        return Err(c.expected("`,` or `;`"));
    }
    Ok(Operand::Address {
        base,
        offset,
        extra,
    })
}

fn absolute(c: &mut Cursor) -> Result<u64> {
    let at = c.error("expected an address, found a float".into());
    match expression::constant(c)? {
        Value::Integer { bits, .. } => Ok(bits),
        Value::F32(_) | Value::F64(_) => Err(at),
    }
}
