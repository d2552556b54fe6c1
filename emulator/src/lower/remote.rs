//! `st.async`, `red.async`, and the `tensormap` instructions.

use ptx_syntax::ast::{Instruction, Operand, ScalarType as T};
use ptx_syntax::isa::Opcode;

use super::atomic::{atomic_op, atomic_type};
use super::mbarrier::{Reach, reach};
use super::mods::Mods;
use super::{FunctionLowering, Lowered};
use crate::error::LoadError;
use crate::memory::space::Space;
use crate::program::{
    Asynchronous, AtomicOp as O, Combine, MapField, Pointer, Reg, RemoteStore, ReplaceField, Width,
};

/// Since this PTX version, `tensormap.replace` takes strides in bytes, not in units of 16 bytes.
const STRIDES_IN_BYTES: (u32, u32) = (8, 5);

impl<'a> FunctionLowering<'a, '_> {
    /// `st.async` and `red.async`
    pub(super) fn remote_store(
        &mut self,
        inst: &'a Instruction,
        opcode: Opcode,
        mut mods: Mods<'a>,
    ) -> Lowered {
        mods.take("async");
        let reduces = opcode == Opcode::Red;
        mods.ignore(if reduces {
            &["relaxed", "cluster"]
        } else {
            &["weak"]
        });
        let reach = match reach(&mut mods) {
            Reach::Own => return Err(Mods::new(inst).unsupported()),
            reach => reach,
        };
        mods.require("mbarrier::complete_tx::bytes")?;
        let ty = mods.ty()?;
        let op = reduces.then(|| mods.take_map(atomic_op)).flatten();
        let count = mods.take_map(|word| match word {
            "v2" if !reduces => Some(2),
            "v4" if !reduces => Some(4),
            _ => None,
        });
        let combine = match (reduces, op) {
            (false, _) => Some(Combine::Replace),
            (true, Some(op)) => remote_type(op, ty).map(|ty| Combine::Reduce(op, ty)),
            (true, None) => None,
        };
        let bytes = ty.bytes() as usize * count.unwrap_or(1);
        let width = match ty.bytes() {
            4 => Width::B32,
            8 => Width::B64,
            _ => return Err(Mods::new(inst).unsupported()),
        };
        let (Some(combine), true) = (combine, bytes <= 16) else {
            return Err(Mods::new(inst).unsupported());
        };
        mods.finish()?;
        let [to, value, barrier] =
            self.operands(inst, "an address, a value and the address of an mbarrier")?;
        let items = match value {
            Operand::Vector(items) => items.as_slice(),
            one => std::slice::from_ref(one),
        };
        if items.len() != count.unwrap_or(1) {
            return Err(self.invalid(format!("{} values given", items.len())));
        }
        let values = items
            .iter()
            .map(|item| self.source_reg(item, width))
            .collect::<Result<_, LoadError>>()?;
        let (to, mbarrier) = (self.pointer(to, reach)?, self.pointer(barrier, reach)?);
        self.emit_asynchronous(Asynchronous::RemoteStore(RemoteStore {
            to,
            mbarrier,
            values,
            combine,
        }));
        Ok(())
    }

    /// `tensormap`
    pub(super) fn tensor_map(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        if mods.take("cp_fenceproxy") {
            return self.copy_map(inst, mods);
        }
        if !mods.take("replace") || !mods.take("tile") || !mods.take("b1024") {
            return Err(Mods::new(inst).unsupported());
        }
        let field = mods.take_map(Some).unwrap_or_default();
        let space = mods.take_map(|word| match word {
            "global" => Some(Space::Global),
            "shared::cta" => Some(Space::Shared),
            _ => None,
        });
        let ty = mods.ty()?;
        mods.finish()?;
        let (address, axis, value) = match (field, inst.operands.as_slice()) {
            (
                "box_dim" | "global_dim" | "global_stride" | "element_stride",
                [address, Operand::Integer(axis), value],
            ) => (address, usize::try_from(*axis).unwrap_or(usize::MAX), value),
            (_, [address, value]) => (address, 0, value),
            _ => return Err(self.invalid("an address, an index where needed, and a value")),
        };
        let unit = if self.build.module.version >= STRIDES_IN_BYTES {
            1
        } else {
            16
        };
        let (field, want) = match field {
            "global_address" => (MapField::GlobalAddress, T::B64),
            "rank" => (MapField::Rank, T::B32),
            "box_dim" => (MapField::BoxDim(axis), T::B32),
            "global_dim" => (MapField::GlobalDim(axis), T::B32),
            "global_stride" => (MapField::GlobalStride(axis, unit), T::B64),
            "element_stride" => (MapField::ElementStride(axis), T::B32),
            "elemtype" => (MapField::ElementType, T::B32),
            "interleave_layout" => (MapField::Interleave, T::B32),
            "swizzle_mode" => (MapField::Swizzle, T::B32),
            "fill_mode" => (MapField::Fill, T::B32),
            _ => return Err(Mods::new(inst).unsupported()),
        };
        if ty != want {
            return Err(Mods::new(inst).unsupported());
        }
        let width = match ty {
            T::B64 => Width::B64,
            _ => Width::B32,
        };
        let map = self.pointer_in(address, space)?;
        let slot = self.source(value, width)?;
        let value = Reg { slot, width };
        self.emit_asynchronous(Asynchronous::ReplaceField(ReplaceField {
            map,
            field,
            value,
        }));
        Ok(())
    }

    /// `tensormap.cp_fenceproxy`
    fn copy_map(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        for word in ["global", "shared::cta", "tensormap::generic", "release"] {
            if !mods.take(word) {
                return Err(Mods::new(inst).unsupported());
            }
        }
        mods.ignore(&["cta", "cluster", "gpu", "sys", "sync", "aligned"]);
        mods.finish()?;
        let [to, from, Operand::Integer(128)] = inst.operands.as_slice() else {
            return Err(self.invalid("two addresses and a size of 128 are needed"));
        };
        let to = self.pointer_in(to, Some(Space::Global))?;
        let from = self.pointer_in(from, Some(Space::Shared))?;
        self.emit_asynchronous(Asynchronous::CopyMap { to, from });
        Ok(())
    }

    /// An address in a state space; `None` means generic.
    fn pointer_in(
        &mut self,
        operand: &Operand,
        space: Option<Space>,
    ) -> Result<Pointer, LoadError> {
        match space {
            Some(Space::Shared) => self.pointer(operand, Reach::Own),
            Some(_) => self.global_pointer(operand),
            None => {
                let address = self.address(operand)?;
                Ok(Pointer {
                    space: address.space.unwrap_or(Space::Generic),
                    base: address.base,
                    offset: address.offset,
                })
            }
        }
    }
}

/// The type in which `red.async` works; `None` if PTX has no such form.
fn remote_type(op: O, ty: T) -> Option<crate::program::AtomicType> {
    let known = match op {
        O::Inc | O::Dec => ty == T::U32,
        O::Min | O::Max => matches!(ty, T::U32 | T::S32),
        O::Add => matches!(ty, T::U32 | T::S32 | T::U64),
        O::And | O::Or | O::Xor => ty == T::B32,
        O::Exch | O::Cas => false,
    };
    known.then(|| atomic_type(op, ty)).flatten()
}
