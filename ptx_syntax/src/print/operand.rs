//! Operands as text.

use std::fmt::{self, Display, Formatter};

use super::separated;
use crate::ast::{AddressBase, Operand};

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Name(name) => f.write_str(name),
            Operand::Integer(value) => write!(f, "{value}"),
            Operand::F32(bits) => write!(f, "0f{bits:08X}"),
            Operand::F64(bits) => write!(f, "0d{bits:016X}"),
            Operand::Address {
                base,
                offset,
                extra,
            } => {
                write!(f, "[{base}")?;
                print_offset(f, *offset)?;
                if !extra.is_empty() {
                    f.write_str(", ")?;
                }
                separated(f, extra)?;
                f.write_str("]")
            }
            Operand::Vector(items) => enclosed(f, "{", items, "}"),
            Operand::List(items) => enclosed(f, "(", items, ")"),
            Operand::Pair(first, second) => write!(f, "{first}|{second}"),
            Operand::Not(inner) => write!(f, "!{inner}"),
            Operand::Negated(inner) => write!(f, "-{inner}"),
            Operand::SymbolOffset { name, offset } => write!(f, "{name}+{offset}"),
            Operand::Element {
                array,
                register: None,
                offset,
            } => write!(f, "{array}[{offset}]"),
            Operand::Element {
                array,
                register: Some(register),
                offset,
            } => {
                write!(f, "{array}[{register}")?;
                print_offset(f, *offset)?;
                f.write_str("]")
            }
            Operand::Sink => f.write_str("_"),
        }
    }
}

impl Display for AddressBase {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            AddressBase::Name(name) => f.write_str(name),
            AddressBase::Absolute(address) => write!(f, "{address:#x}"),
        }
    }
}

fn enclosed(f: &mut Formatter<'_>, open: &str, items: &[Operand], close: &str) -> fmt::Result {
    f.write_str(open)?;
    separated(f, items)?;
    f.write_str(close)
}

/// `+4`, `+-4` as LLVM writes it, or nothing for 0.
fn print_offset(f: &mut Formatter<'_>, offset: i64) -> fmt::Result {
    if offset == 0 {
        Ok(())
    } else {
        write!(f, "+{offset}")
    }
}
