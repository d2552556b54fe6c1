//! Variables, registers and initial values as text, without the closing `;`.

use std::fmt::{self, Display, Formatter};

use super::{attributes, linkage, separated};
use crate::ast::{Constant, Initializer, RegisterNames, Registers, Space, Variable};

impl Display for Space {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Space::Reg => ".reg",
            Space::Const => ".const",
            Space::Global => ".global",
            Space::Local => ".local",
            Space::Param => ".param",
            Space::Shared => ".shared",
        })
    }
}

impl Display for Variable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        linkage(f, self.linkage)?;
        write!(f, "{} ", self.space)?;
        attributes(f, &self.attributes)?;
        if let Some(align) = self.align {
            write!(f, ".align {align} ")?;
        }
        if let Some(lanes) = self.vector {
            write!(f, ".v{lanes} ")?;
        }
        write!(f, ".{} ", self.ty.word())?;
        if let Some(pointer) = self.pointer {
            f.write_str(".ptr ")?;
            if let Some(space) = pointer.space {
                write!(f, "{space} ")?;
            }
            if let Some(align) = pointer.align {
                write!(f, ".align {align} ")?;
            }
        }
        f.write_str(&self.name)?;
        for extent in &self.dims {
            match extent {
                Some(extent) => write!(f, "[{extent}]")?,
                None => f.write_str("[]")?,
            }
        }
        match &self.init {
            Some(init) => write!(f, " = {init}"),
            None => Ok(()),
        }
    }
}

impl Display for Registers {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(".reg ")?;
        if let Some(lanes) = self.vector {
            write!(f, ".v{lanes} ")?;
        }
        write!(f, ".{} ", self.ty.word())?;
        separated(f, &self.names)
    }
}

impl Display for RegisterNames {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            RegisterNames::One(name) => f.write_str(name),
            RegisterNames::Range { prefix, count } => write!(f, "{prefix}<{count}>"),
        }
    }
}

impl Display for Initializer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Initializer::Value(value) => write!(f, "{value}"),
            Initializer::List(items) => {
                f.write_str("{")?;
                separated(f, items)?;
                f.write_str("}")
            }
        }
    }
}

impl Display for Constant {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Constant::Integer(value) => write!(f, "{value}"),
            Constant::F32(bits) => write!(f, "0f{bits:08X}"),
            Constant::F64(bits) => write!(f, "0d{bits:016X}"),
            Constant::Symbol {
                name,
                offset,
                generic,
                mask,
            } => {
                if let Some(mask) = mask {
                    write!(f, "{mask:#X}(")?;
                }
                if *generic {
                    write!(f, "generic({name})")?;
                } else {
                    f.write_str(name)?;
                }
                if *offset != 0 {
                    write!(f, "{offset:+}")?;
                }
                f.write_str(if mask.is_some() { ")" } else { "" })
            }
        }
    }
}
