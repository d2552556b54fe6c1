//! Asynchronous copies and their groups.

use ptx_syntax::ast::{Instruction, Operand};

use super::FunctionLowering;
use super::mbarrier::Reach;
use super::mods::Mods;
use crate::error::LoadError;
use crate::exec::registers::Slot;
use crate::memory::space::Space;
use crate::program::{Asynchronous, Base, Direction, GroupKind, Pointer, TensorCopy, Width};

impl<'a> FunctionLowering<'a, '_> {
    /// `cp`
    pub(super) fn copy(&mut self, inst: &'a Instruction) -> Result<(), LoadError> {
        let mut mods = Mods::new(inst);
        if !mods.take("async") {
            return Err(mods.unsupported());
        }
        let kind = match mods.take("bulk") {
            true => GroupKind::Bulk,
            false => GroupKind::CpAsync,
        };
        if mods.take("commit_group") {
            mods.finish()?;
            self.emit_asynchronous(Asynchronous::CommitGroup(kind));
            return Ok(());
        }
        if mods.take("wait_group") {
            return self.wait_group(inst, mods, kind);
        }
        if kind == GroupKind::Bulk && mods.take("tensor") {
            return self.tensor_copy(inst, mods, false);
        }
        if kind == GroupKind::Bulk && mods.rest().starts_with(&["prefetch", "tensor"]) {
            mods.ignore(&["prefetch", "tensor", "L2"]);
            return self.tensor_copy(inst, mods, true);
        }
        Err(mods.unsupported())
    }

    fn wait_group(
        &mut self,
        inst: &'a Instruction,
        mut mods: Mods<'a>,
        kind: GroupKind,
    ) -> Result<(), LoadError> {
        let read = kind == GroupKind::Bulk && mods.take("read");
        mods.finish()?;
        let [Operand::Integer(leave)] = inst.operands.as_slice() else {
            return Err(self.invalid("`wait_group` takes a constant"));
        };
        let leave = u32::try_from(*leave)
            .map_err(|_| self.invalid(format!("{leave} groups: a count from 0 is needed")))?;
        self.emit_asynchronous(Asynchronous::WaitGroup {
            kind,
            leave: Some(leave),
            read,
        });
        Ok(())
    }

    fn tensor_copy(
        &mut self,
        inst: &'a Instruction,
        mut mods: Mods<'a>,
        prefetch: bool,
    ) -> Result<(), LoadError> {
        let rank = mods
            .take_map(|word| match word {
                "1d" => Some(1),
                "2d" => Some(2),
                "3d" => Some(3),
                "4d" => Some(4),
                "5d" => Some(5),
                _ => None,
            })
            .ok_or_else(|| mods.unsupported())?;
        let stores = mods.rest().first() == Some(&"global") && !prefetch;
        mods.take("global");
        let (direction, remote) = match (prefetch, stores) {
            (true, _) => (Direction::Prefetch, false),
            (_, true) if mods.take("shared::cta") && mods.take("bulk_group") => {
                (Direction::Store, false)
            }
            (_, false) => {
                let remote = mods.take("shared::cluster");
                if !remote && !mods.take("shared::cta")
                    || !mods.take("mbarrier::complete_tx::bytes")
                {
                    return Err(mods.unsupported());
                }
                (Direction::Load, remote)
            }
            _ => return Err(mods.unsupported()),
        };
        mods.ignore(&["tile"]);
        let multicast = direction == Direction::Load && mods.take("multicast::cluster");
        let hint = mods.take("L2::cache_hint");
        mods.finish()?;
        let mut operands = inst.operands.as_slice();
        if hint {
            operands = self.cache_policy(operands)?;
        }
        let wrong = |this: &Self| Err(this.invalid("wrong operands of a tensor copy"));
        let (shared, map, mbarrier, rest) = match (direction, operands) {
            (Direction::Load, [to, map, barrier, rest @ ..]) => {
                (Some(to), map, Some(barrier), rest)
            }
            (Direction::Store, [map, from, rest @ ..]) => (Some(from), map, None, rest),
            (Direction::Prefetch, [map, rest @ ..]) => (None, map, None, rest),
            _ => return wrong(self),
        };
        let multicast = match (multicast, rest) {
            (true, [mask]) => Some(self.source(mask, Width::B16)?),
            (false, []) => None,
            _ => return wrong(self),
        };
        let (map, coordinates) = self.map_operand(map, rank)?;
        let shared = shared
            .map(|shared| self.pointer(shared, Reach::Cluster))
            .transpose()?;
        let mbarrier = mbarrier
            .map(|barrier| self.pointer(barrier, Reach::Cluster))
            .transpose()?;
        self.emit_asynchronous(Asynchronous::TensorCopy(TensorCopy {
            direction,
            map,
            coordinates,
            shared,
            remote,
            mbarrier,
            multicast,
        }));
        Ok(())
    }

    /// Takes the cache policy off the end of the operands: it changes no value.
    pub(super) fn cache_policy<'o>(
        &mut self,
        operands: &'o [Operand],
    ) -> Result<&'o [Operand], LoadError> {
        let [rest @ .., policy] = operands else {
            return Err(self.invalid("`.L2::cache_hint` needs a cache policy"));
        };
        self.source(policy, Width::B64)?;
        Ok(rest)
    }

    /// `[map, {coordinates}]`
    fn map_operand(
        &mut self,
        operand: &Operand,
        rank: usize,
    ) -> Result<(Pointer, Box<[Slot]>), LoadError> {
        let Operand::Address {
            base,
            offset,
            extra,
        } = operand
        else {
            return Err(self.invalid("a tensor map and coordinates in brackets are needed"));
        };
        let coordinates = match extra.as_slice() {
            [Operand::Vector(items)] => items.as_slice(),
            [one] => std::slice::from_ref(one),
            _ => &[],
        };
        if coordinates.len() != rank {
            return Err(self.invalid(format!(
                "{} coordinates given, {rank} are needed",
                coordinates.len()
            )));
        }
        let address = self.address(&Operand::Address {
            base: base.clone(),
            offset: *offset,
            extra: Vec::new(),
        })?;
        let space = match address.space {
            Some(space) if !matches!(address.base, Base::Register(_)) => space,
            _ => Space::Generic,
        };
        let coordinates = coordinates
            .iter()
            .map(|item| self.source(item, Width::B32))
            .collect::<Result<_, _>>()?;
        let pointer = Pointer {
            space,
            base: address.base,
            offset: address.offset,
        };
        Ok((pointer, coordinates))
    }
}
