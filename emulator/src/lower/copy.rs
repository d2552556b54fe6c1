//! Asynchronous copies and their groups.

use ptx_syntax::ast::{Instruction, Operand, ScalarType as T};

use super::atomic::{atomic_op, atomic_type};
use super::mbarrier::{Reach, reach};
use super::mods::Mods;
use super::{FunctionLowering, Lowered};
use crate::error::LoadError;
use crate::memory::space::Space;
use crate::program::{
    Asynchronous, AtomicOp, AtomicType, Base, BulkCopy, Combine, Direction, GlobalSide, GroupKind,
    LaneCopy, Pointer, Width,
};

/// Cache hints, which change no value.
const HINTS: [&str; 4] = ["L2::cache_hint", "L2::64B", "L2::128B", "L2::256B"];

impl<'a> FunctionLowering<'a, '_> {
    /// The `cp` instructions.
    pub(super) fn copy(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        let reduces = mods.take("reduce");
        mods.require("async")?;
        let bulk = mods.take("bulk");
        let kind = if bulk {
            GroupKind::Bulk
        } else {
            GroupKind::CpAsync
        };
        let first = mods.rest().first().copied().unwrap_or_default();
        match (first, bulk) {
            ("commit_group", _) => {
                mods.take("commit_group");
                mods.finish()?;
                self.emit_asynchronous(Asynchronous::CommitGroup(kind));
                Ok(())
            }
            ("wait_group" | "wait_all", _) => self.wait_group(inst, mods, kind),
            ("mbarrier", false) => self.arrive_after_copies(inst, mods),
            ("ca" | "cg", false) => self.lane_copy(inst, mods),
            (_, true) => {
                let prefetch = mods.take("prefetch");
                if prefetch {
                    mods.take("L2");
                }
                if mods.take("tensor") {
                    mods.take("L2");
                    self.tensor_copy(inst, mods, prefetch, reduces)
                } else {
                    self.linear_copy(inst, mods, prefetch, reduces)
                }
            }
            _ => Err(Mods::new(inst).unsupported()),
        }
    }

    fn wait_group(
        &mut self,
        inst: &'a Instruction,
        mut mods: Mods<'a>,
        kind: GroupKind,
    ) -> Lowered {
        let all = kind == GroupKind::CpAsync && mods.take("wait_all");
        mods.take("wait_group");
        let read = kind == GroupKind::Bulk && mods.take("read");
        mods.finish()?;
        let leave = match (all, inst.operands.as_slice()) {
            (true, []) => None,
            (false, [Operand::Integer(leave)]) => {
                let count = u32::try_from(*leave);
                Some(count.map_err(|_| {
                    self.invalid(format!("{leave} groups: a count from 0 is needed"))
                })?)
            }
            (true, _) => return Err(self.invalid("`wait_all` takes no operands")),
            (false, _) => return Err(self.invalid("`wait_group` takes a constant")),
        };
        self.emit_asynchronous(Asynchronous::WaitGroup { kind, leave, read });
        Ok(())
    }

    /// `cp.async.mbarrier.arrive`
    fn arrive_after_copies(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        mods.take("mbarrier");
        mods.require("arrive")?;
        let expected = mods.take("noinc");
        let reach = reach(&mut mods);
        mods.ignore(&["b64"]);
        mods.finish()?;
        let [at] = self.operands(inst, "an arrival takes the address of an mbarrier")?;
        let at = self.pointer(at, reach)?;
        self.emit_asynchronous(Asynchronous::ArriveAfterCopies { at, expected });
        Ok(())
    }

    /// `cp.async`
    fn lane_copy(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        let only_16 = mods.take("cg");
        mods.take("ca");
        let shared = reach(&mut mods);
        let global = mods.take("global");
        if shared != Reach::Own || !global {
            return Err(Mods::new(inst).unsupported());
        }
        let hint = mods.rest().contains(&"L2::cache_hint");
        mods.ignore(&HINTS);
        mods.finish()?;
        let mut operands = inst.operands.as_slice();
        if hint {
            operands = self.cache_policy(operands)?;
        }
        let [to, from, Operand::Integer(bytes), rest @ ..] = operands else {
            return Err(self.invalid("`cp.async` takes two addresses and a constant size"));
        };
        let allowed: &[i128] = if only_16 { &[16] } else { &[4, 8, 16] };
        if !allowed.contains(bytes) {
            return Err(self.invalid(format!("{bytes} bytes: `cp.async` copies {allowed:?}")));
        }
        let (source_bytes, ignore) = match rest {
            [] => (None, None),
            [one] if self.is_predicate(one) => (None, Some(self.predicate(one)?)),
            [size] => (Some(self.source(size, Width::B32)?), None),
            _ => return Err(self.invalid("too many operands")),
        };
        let copy = LaneCopy {
            to: self.pointer(to, Reach::Own)?,
            from: self.global_pointer(from)?,
            bytes: *bytes as u32,
            source_bytes,
            ignore,
        };
        self.emit_asynchronous(Asynchronous::LaneCopy(copy));
        Ok(())
    }

    /// Whether an operand is a predicate register.
    fn is_predicate(&self, operand: &Operand) -> bool {
        match operand {
            Operand::Not(_) => true,
            Operand::Name(name) => self
                .register(name)
                .is_ok_and(|reg| reg.width == Width::Pred),
            _ => false,
        }
    }

    /// Takes the state spaces that a copy goes between, and the mechanism that completes it.
    fn direction(mods: &mut Mods<'_>) -> Option<(Direction, bool)> {
        let words: Vec<&str> = mods.rest().to_vec();
        let at = |word: &str| words.iter().position(|have| *have == word);
        let cluster = at("shared::cluster");
        let found = match (at("global"), at("shared::cta"), cluster) {
            (Some(global), Some(shared), None) if global < shared => (Direction::Store, false),
            (Some(_), Some(_), None) => (Direction::Load, false),
            (Some(global), None, Some(shared)) if shared < global => (Direction::Load, true),
            (None, Some(shared), Some(cluster)) if cluster < shared => (Direction::Across, true),
            _ => return None,
        };
        mods.ignore(&["global", "shared::cta", "shared::cluster"]);
        let completion = match found.0 {
            Direction::Store => "bulk_group",
            _ => "mbarrier::complete_tx::bytes",
        };
        mods.take(completion).then_some(found)
    }

    /// Takes the operation of a reduction.
    fn combine(
        &mut self,
        inst: &Instruction,
        mods: &mut Mods<'_>,
        reduces: bool,
        mapped: bool,
    ) -> Result<Combine, LoadError> {
        if !reduces {
            return Ok(Combine::Replace);
        }
        let unsupported = || LoadError::Unsupported {
            what: inst.mnemonic(),
            line: inst.line,
        };
        // With floats, the order in which blocks add decides the bits.
        self.build.ordered = true;
        let op = mods.take_map(atomic_op).ok_or_else(unsupported)?;
        if mapped {
            return Ok(Combine::ReduceMapped(op));
        }
        let ty = mods.ty()?;
        mods.ignore(&["noftz"]);
        let found = bulk_type(op, ty).ok_or_else(unsupported)?;
        Ok(Combine::Reduce(op, found))
    }

    /// `cp.async.bulk` of a range.
    fn linear_copy(
        &mut self,
        inst: &'a Instruction,
        mut mods: Mods<'a>,
        prefetch: bool,
        reduces: bool,
    ) -> Lowered {
        let (direction, remote) = match prefetch {
            true if mods.take("global") => (Direction::Prefetch, false),
            true => return Err(Mods::new(inst).unsupported()),
            false => Self::direction(&mut mods).ok_or_else(|| Mods::new(inst).unsupported())?,
        };
        let multicast = direction == Direction::Load && mods.take("multicast::cluster");
        let combine = self.combine(inst, &mut mods, reduces, false)?;
        if reduces && direction == Direction::Load {
            return Err(Mods::new(inst).unsupported());
        }
        let hint = mods.take("L2::cache_hint");
        mods.finish()?;
        let mut operands = inst.operands.as_slice();
        if hint {
            operands = self.cache_policy(operands)?;
        }
        let wrong = |this: &Self| this.invalid("wrong operands of a bulk copy");
        let (to, from, bytes, barrier, rest) = match (direction, operands) {
            (Direction::Load | Direction::Across, [to, from, bytes, barrier, rest @ ..]) => {
                (Some(to), from, bytes, Some(barrier), rest)
            }
            (Direction::Store, [to, from, bytes, rest @ ..]) => (Some(from), to, bytes, None, rest),
            (Direction::Prefetch, [from, bytes, rest @ ..]) => (None, from, bytes, None, rest),
            _ => return Err(wrong(self)),
        };
        let multicast = match (multicast, rest) {
            (true, [mask]) => Some(self.source(mask, Width::B16)?),
            (false, []) => None,
            _ => return Err(wrong(self)),
        };
        let bytes = self.source(bytes, Width::B32)?;
        let global = match direction {
            Direction::Across => GlobalSide::Shared {
                from: self.pointer(from, Reach::Own)?,
                bytes,
            },
            _ => GlobalSide::Linear {
                at: self.global_pointer(from)?,
                bytes,
            },
        };
        let mut pointer = |operand: &Operand| self.pointer(operand, Reach::Cluster);
        let shared = to.map(&mut pointer).transpose()?;
        let mbarrier = barrier.map(&mut pointer).transpose()?;
        self.emit_asynchronous(Asynchronous::BulkCopy(BulkCopy {
            direction,
            combine,
            global,
            shared,
            remote,
            mbarrier,
            multicast,
        }));
        Ok(())
    }

    /// `cp.async.bulk.tensor`
    fn tensor_copy(
        &mut self,
        inst: &'a Instruction,
        mut mods: Mods<'a>,
        prefetch: bool,
        reduces: bool,
    ) -> Lowered {
        let rank = mods
            .take_map(|word| match word {
                "1d" => Some(1),
                "2d" => Some(2),
                "3d" => Some(3),
                "4d" => Some(4),
                "5d" => Some(5),
                _ => None,
            })
            .ok_or_else(|| Mods::new(inst).unsupported())?;
        mods.take("L2");
        let (direction, remote) = match prefetch {
            true if mods.take("global") => (Direction::Prefetch, false),
            true => return Err(Mods::new(inst).unsupported()),
            false => match Self::direction(&mut mods) {
                Some((Direction::Across, _)) | None => return Err(Mods::new(inst).unsupported()),
                Some(found) => found,
            },
        };
        let combine = self.combine(inst, &mut mods, reduces, true)?;
        if reduces && direction != Direction::Store {
            return Err(Mods::new(inst).unsupported());
        }
        mods.ignore(&["tile"]);
        let im2col = mods.take(if direction == Direction::Store {
            "im2col_no_offs"
        } else {
            "im2col"
        });
        let multicast = direction == Direction::Load && mods.take("multicast::cluster");
        let hint = mods.take("L2::cache_hint");
        mods.finish()?;
        let mut operands = inst.operands.as_slice();
        if hint {
            operands = self.cache_policy(operands)?;
        }
        let wrong = |this: &Self| this.invalid("wrong operands of a tensor copy");
        let (shared, map, barrier, mut rest) = match (direction, operands) {
            (Direction::Load, [to, map, barrier, rest @ ..]) => {
                (Some(to), map, Some(barrier), rest)
            }
            (Direction::Store, [map, from, rest @ ..]) => (Some(from), map, None, rest),
            (Direction::Prefetch, [map, rest @ ..]) => (None, map, None, rest),
            _ => return Err(wrong(self)),
        };
        let offsets: &[Operand] = match im2col && direction != Direction::Store {
            true => self.im2col_offsets(&mut rest, rank)?,
            false => &[],
        };
        let multicast = match (multicast, rest) {
            (true, [mask]) => Some(self.source(mask, Width::B16)?),
            (false, []) => None,
            _ => return Err(wrong(self)),
        };
        let offsets = offsets
            .iter()
            .map(|item| self.source(item, Width::B16))
            .collect::<Result<_, _>>()?;
        let global = self.map_operand(map, rank, im2col.then_some(offsets))?;
        let mut pointer = |operand: &Operand| self.pointer(operand, Reach::Cluster);
        let shared = shared.map(&mut pointer).transpose()?;
        let mbarrier = barrier.map(&mut pointer).transpose()?;
        self.emit_asynchronous(Asynchronous::BulkCopy(BulkCopy {
            direction,
            combine,
            global,
            shared,
            remote,
            mbarrier,
            multicast,
        }));
        Ok(())
    }

    /// The offsets that `rest` begins with, which it loses: of a tensor of `rank` dimensions.
    fn im2col_offsets<'o>(
        &self,
        rest: &mut &'o [Operand],
        rank: usize,
    ) -> Result<&'o [Operand], LoadError> {
        let [Operand::Vector(items), others @ ..] = *rest else {
            return Err(self.invalid("im2col needs its offsets"));
        };
        if items.len() + 2 != rank {
            return Err(self.invalid(format!(
                "{} offsets given, a tensor of {rank} dimensions needs {}",
                items.len(),
                rank.saturating_sub(2)
            )));
        }
        *rest = others;
        Ok(items)
    }

    /// `createpolicy`: a cache policy, which has no effect here.
    pub(super) fn create_policy(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        let known = ["fractional", "range", "cvt"].map(|kind| mods.take(kind));
        mods.ignore(&["L2", "global", "b64"]);
        mods.ignore(&[
            "L2::evict_last",
            "L2::evict_normal",
            "L2::evict_first",
            "L2::evict_unchanged",
        ]);
        if !known.contains(&true) {
            return Err(Mods::new(inst).unsupported());
        }
        mods.finish()?;
        let (d, _) = self.result(inst, "`createpolicy` takes a destination")?;
        let d = self.destination_of(d, Width::B64)?;
        let none = self.build.pool.slot(Width::B64, 0);
        let recipe = super::recipe::op!(|x, a: u64| -> u64 { a });
        self.emit_unary(&recipe, d, none);
        Ok(())
    }

    /// Removes the cache policy at the end of the operands; it has no effect here.
    fn cache_policy<'o>(&mut self, operands: &'o [Operand]) -> Result<&'o [Operand], LoadError> {
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
        im2col: Option<Box<[crate::exec::registers::Slot]>>,
    ) -> Result<GlobalSide, LoadError> {
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
        let map = self.map_pointer(&Operand::Address {
            base: base.clone(),
            offset: *offset,
            extra: Vec::new(),
        })?;
        let coordinates = coordinates
            .iter()
            .map(|item| self.source(item, Width::B32))
            .collect::<Result<_, _>>()?;
        Ok(GlobalSide::Tensor {
            map,
            coordinates,
            im2col,
        })
    }

    /// The address of a tensor map: generic, or a variable's.
    fn map_pointer(&mut self, operand: &Operand) -> Result<Pointer, LoadError> {
        let address = self.address(operand)?;
        let space = match address.space {
            Some(space) if !matches!(address.base, Base::Register(_)) => space,
            _ => Space::Generic,
        };
        Ok(Pointer {
            space,
            base: address.base,
            offset: address.offset,
        })
    }

    /// An address in global memory.
    pub(super) fn global_pointer(&mut self, operand: &Operand) -> Result<Pointer, LoadError> {
        let address = self.address(operand)?;
        match address.space {
            None | Some(Space::Global) => Ok(Pointer {
                space: Space::Global,
                base: address.base,
                offset: address.offset,
            }),
            Some(other) => Err(self.invalid(format!(
                "an address of {} memory, not of global",
                other.name()
            ))),
        }
    }
}

/// The type in which a bulk reduction works; `None` if PTX has no such form.
fn bulk_type(op: AtomicOp, ty: T) -> Option<AtomicType> {
    use AtomicOp as O;
    match (op, ty) {
        (O::Exch | O::Cas, _) => None,
        (O::And | O::Or | O::Xor, T::B32 | T::B64) => atomic_type(op, ty),
        (O::And | O::Or | O::Xor, _) => None,
        (_, T::F16x2 | T::Bf16x2) => None,
        _ => atomic_type(op, ty),
    }
}
