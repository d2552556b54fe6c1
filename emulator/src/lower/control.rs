//! Branches, exits, barriers and fences.

use ptx_syntax::ast::{Instruction, Operand};
use ptx_syntax::isa::Opcode;

use super::mods::Mods;
use super::scope::Symbol;
use super::{FunctionLowering, Lowered};
use crate::error::LoadError;
use crate::program::{Barrier, BarrierKind, Op, Width};

impl<'a> FunctionLowering<'a, '_> {
    pub(super) fn branch(&mut self, inst: &Instruction, mut mods: Mods<'_>) -> Lowered {
        mods.ignore(&["uni"]);
        mods.finish()?;
        let [Operand::Name(label)] = inst.operands.as_slice() else {
            return Err(self.invalid("`bra` takes a label"));
        };
        let target = self.label(label)?;
        self.emit(Op::Branch { target });
        Ok(())
    }

    pub(super) fn ret(&mut self, mut mods: Mods<'_>) -> Lowered {
        mods.ignore(&["uni"]);
        mods.finish()?;
        self.leave();
        Ok(())
    }

    pub(super) fn label(&self, name: &str) -> Result<u32, LoadError> {
        match self.scopes.get(name) {
            Some(Symbol::Label(label)) => Ok(*label),
            Some(_) => Err(self.invalid(format!("`{name}` is not a label"))),
            None => Err(self.undeclared(name)),
        }
    }

    pub(super) fn branch_indexed(&mut self, inst: &Instruction, mut mods: Mods<'_>) -> Lowered {
        mods.require("idx")?;
        mods.ignore(&["uni"]);
        mods.finish()?;
        let [index, Operand::Name(list)] = inst.operands.as_slice() else {
            return Err(self.invalid("`brx.idx` takes an index and a target list"));
        };
        let targets = match self.scopes.get(list) {
            Some(Symbol::BranchTargets(targets)) => targets.clone(),
            _ => return Err(self.undeclared(list)),
        };
        let index = self.source(index, Width::B32)?;
        self.emit(Op::BranchIndexed { index, targets });
        Ok(())
    }

    pub(super) fn fence(&mut self, mut mods: Mods<'_>) -> Lowered {
        mods.ignore(&[
            "sc", "acq_rel", "acquire", "release", "cta", "cluster", "gpu", "sys", "gl",
        ]);
        mods.ignore(&[
            "sync_restrict::shared::cta",
            "sync_restrict::shared::cluster",
        ]);
        mods.finish()?;
        self.emit(Op::Fence);
        Ok(())
    }

    pub(super) fn barrier(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        if mods.take("warp") {
            return self.collective(inst, mods, Self::sync_warp);
        }
        mods.ignore(&["cta"]);
        let aligned = mods.take("aligned") || inst.known() == Some(Opcode::Bar);
        let kind = if mods.take("sync") {
            BarrierKind::Sync
        } else if mods.take("arrive") {
            BarrierKind::Arrive
        } else if mods.take("red") {
            mods.need(|word| match word {
                "and" => Some(BarrierKind::RedAnd),
                "or" => Some(BarrierKind::RedOr),
                "popc" => Some(BarrierKind::RedPopc),
                _ => None,
            })?
        } else {
            return Err(mods.unsupported());
        };
        let reduces = !matches!(kind, BarrierKind::Sync | BarrierKind::Arrive);
        if reduces {
            mods.ignore(&["pred", "u32"]);
        }
        mods.finish()?;
        let mut operands = inst.operands.as_slice();
        let d = match (reduces, operands) {
            (true, [d, rest @ ..]) => {
                operands = rest;
                let popc = kind == BarrierKind::RedPopc;
                let width = if popc { Width::B32 } else { Width::Pred };
                Some(self.destination_reg(d, width)?)
            }
            _ => None,
        };
        let operand = match (reduces, operands) {
            (true, [rest @ .., last]) => {
                operands = rest;
                Some(self.predicate(last)?)
            }
            _ => None,
        };
        let (id, count) = match operands {
            [id] if kind != BarrierKind::Arrive => (id, None),
            [id, count] => (id, Some(count)),
            _ => return Err(self.invalid("a barrier takes an id, and a count to arrive at")),
        };
        if let Operand::Integer(id) = id
            && !(0..16).contains(id)
        {
            return Err(self.invalid(format!("barrier {id}: there are 16, 0 to 15")));
        }
        let id = self.source(id, Width::B32)?;
        let count = count
            .map(|count| self.source(count, Width::B32))
            .transpose()?;
        self.emit(Op::Barrier(Box::new(Barrier {
            kind,
            aligned,
            id,
            count,
            d,
            operand,
        })));
        Ok(())
    }
}
