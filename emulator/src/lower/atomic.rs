//! `atom` and `red`.

use ptx_syntax::ast::{Instruction, Operand, ScalarType as T};

use super::memory::ORDERING;
use super::mods::Mods;
use super::{FunctionLowering, Lowered};
use crate::error::LoadError;
use crate::memory::space::Space;
use crate::program::{Atomic, AtomicOp, AtomicType, Op, Reg, Width};

impl<'a> FunctionLowering<'a, '_> {
    pub(super) fn atomic(
        &mut self,
        inst: &'a Instruction,
        mut mods: Mods<'a>,
        returns: bool,
    ) -> Lowered {
        let operands = self.without_policy(inst, &mut mods)?;
        let ty = mods.ty()?;
        mods.ignore(&ORDERING);
        mods.ignore(&["noftz"]);
        let space = Self::space(&mut mods).unwrap_or(Space::Generic);
        let op = mods.need(atomic_op)?;
        let count = mods.take_map(vector_count);
        let ty = atomic_type(op, ty).ok_or_else(|| mods.unsupported())?;
        let count = match count {
            None => 1,
            // PTX has vectors only of additions, and for 16-bit floats minima and maxima, in global
            // memory.
            Some(count) if is_vector(ty, count) => count,
            Some(_) => return Err(mods.unsupported()),
        };
        mods.finish()?;
        let parts = if ty == AtomicType::B128 { 2 } else { count };
        let mut operands = operands.iter();
        let mut next = |what: &str| {
            operands.next().ok_or_else(|| LoadError::Invalid {
                message: format!("no {what}"),
                line: inst.line,
            })
        };
        let d = returns.then(|| next("destination")).transpose()?;
        let (address, b) = (next("address")?, next("operand")?);
        let c = (op == AtomicOp::Cas)
            .then(|| next("new value"))
            .transpose()?;
        if operands.next().is_some() {
            return Err(self.invalid("an operand too many"));
        }
        let address = self.address(address)?;
        let width = ty.width();
        let d = match d {
            None | Some(Operand::Sink) => Box::default(),
            Some(d) => self.atomic_results(d, width, parts)?,
        };
        let b = self.atomic_sources(b, width, parts)?;
        let c = match c {
            None => Box::default(),
            Some(c) => self.atomic_sources(c, width, parts)?,
        };
        if matches!(space, Space::Global | Space::Generic) {
            self.build.ordered = true;
        }
        let (base, offset) = (address.base, address.offset);
        self.emit(Op::Atomic(Box::new(Atomic {
            space,
            base,
            offset,
            op,
            ty,
            d,
            b,
            c,
        })));
        Ok(())
    }

    fn atomic_results(
        &mut self,
        operand: &Operand,
        width: Width,
        parts: usize,
    ) -> Result<Box<[Reg]>, LoadError> {
        let items = self.atomic_parts(operand, parts)?;
        items
            .iter()
            .map(|item| {
                let slot = self.destination_of(item, width)?;
                Ok(Reg { slot, width })
            })
            .collect()
    }

    fn atomic_sources(
        &mut self,
        operand: &Operand,
        width: Width,
        parts: usize,
    ) -> Result<Box<[Reg]>, LoadError> {
        let items = self.atomic_parts(operand, parts)?;
        items
            .iter()
            .map(|item| self.source_reg(item, width))
            .collect()
    }

    /// The parts of an operand, as many as the instruction needs.
    fn atomic_parts<'o>(
        &self,
        operand: &'o Operand,
        parts: usize,
    ) -> Result<&'o [Operand], LoadError> {
        let items = match operand {
            Operand::Vector(items) => items.as_slice(),
            other => std::slice::from_ref(other),
        };
        if items.len() == parts {
            return Ok(items);
        }
        Err(self.invalid(format!("{} parts given, {parts} are needed", items.len())))
    }
}

/// The operation of a modifier.
pub(super) fn atomic_op(word: &str) -> Option<AtomicOp> {
    Some(match word {
        "exch" => AtomicOp::Exch,
        "cas" => AtomicOp::Cas,
        "add" => AtomicOp::Add,
        "min" => AtomicOp::Min,
        "max" => AtomicOp::Max,
        "inc" => AtomicOp::Inc,
        "dec" => AtomicOp::Dec,
        "and" => AtomicOp::And,
        "or" => AtomicOp::Or,
        "xor" => AtomicOp::Xor,
        _ => return None,
    })
}

fn vector_count(word: &str) -> Option<usize> {
    match word {
        "v2" => Some(2),
        "v4" => Some(4),
        "v8" => Some(8),
        _ => None,
    }
}

/// Whether sm_90 has vectors of `count` elements of a type: up to 8 for 16-bit floats, up to 4 for
/// pairs and f32.
fn is_vector(ty: AtomicType, count: usize) -> bool {
    match ty {
        AtomicType::F16 | AtomicType::Bf16 => count <= 8,
        AtomicType::F16x2 | AtomicType::Bf16x2 | AtomicType::F32 => count <= 4,
        _ => false,
    }
}

/// The type in which an atomic of PTX type `ty` works; `None` if PTX has no such form.
pub(super) fn atomic_type(op: AtomicOp, ty: T) -> Option<AtomicType> {
    use AtomicOp as O;
    Some(match (op, ty) {
        (O::Cas | O::Exch, T::B16) => AtomicType::B16,
        (O::Cas | O::Exch | O::And | O::Or | O::Xor, T::B32 | T::U32 | T::S32) => AtomicType::B32,
        (O::Exch, T::F32) => AtomicType::B32,
        (O::Cas | O::Exch | O::And | O::Or | O::Xor, T::B64 | T::U64 | T::S64) => AtomicType::B64,
        (O::Cas | O::Exch, T::B128) => AtomicType::B128,
        (O::Add | O::Min | O::Max, T::U32) | (O::Inc | O::Dec, T::U32) => AtomicType::B32,
        (O::Add | O::Min | O::Max, T::S32) => AtomicType::S32,
        (O::Add | O::Min | O::Max, T::U64) => AtomicType::B64,
        (O::Add | O::Min | O::Max, T::S64) => AtomicType::S64,
        (O::Add, T::F32) => AtomicType::F32,
        (O::Add, T::F64) => AtomicType::F64,
        (O::Add | O::Min | O::Max, T::F16) => AtomicType::F16,
        (O::Add | O::Min | O::Max, T::Bf16) => AtomicType::Bf16,
        (O::Add | O::Min | O::Max, T::F16x2) => AtomicType::F16x2,
        (O::Add | O::Min | O::Max, T::Bf16x2) => AtomicType::Bf16x2,
        _ => return None,
    })
}
