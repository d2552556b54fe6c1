//! Warp-wide instructions: shuffles, votes, matches, reductions. `.sync` is mandatory since sm_70.

use ptx_syntax::ast::{Instruction, Operand, ScalarType as T};

use super::mods::Mods;
use super::{FunctionLowering, Lowered};
use crate::error::LoadError;
use crate::program::{Collective, CollectiveKind as Kind, Op, Redux, Shuffle, Width};

/// A collective whose operands are resolved.
type Resolved = Result<Collective, LoadError>;

/// A collective without operands.
const EMPTY: Collective = Collective {
    kind: Kind::ActiveMask,
    d: None,
    p: None,
    a: None,
    b: None,
    c: None,
    source: None,
    members: None,
};

impl<'a> FunctionLowering<'a, '_> {
    /// A collective of the operands that `of` resolves.
    pub(super) fn collective(
        &mut self,
        inst: &'a Instruction,
        mods: Mods<'a>,
        of: fn(&mut Self, &'a Instruction, Mods<'a>) -> Resolved,
    ) -> Lowered {
        let collective = of(self, inst, mods)?;
        self.emit(Op::Collective(Box::new(collective)));
        Ok(())
    }

    pub(super) fn active_mask(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Resolved {
        mods.ignore(&["b32"]);
        mods.finish()?;
        let [d] = self.operands(inst, "`activemask` takes a destination")?;
        let d = Some(self.destination_reg(d, Width::B32)?);
        Ok(Collective { d, ..EMPTY })
    }

    pub(super) fn shuffle(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Resolved {
        mods.require("sync")?;
        let mode = mods.need(|word| match word {
            "up" => Some(Shuffle::Up),
            "down" => Some(Shuffle::Down),
            "bfly" => Some(Shuffle::Butterfly),
            "idx" => Some(Shuffle::Index),
            _ => None,
        })?;
        mods.ignore(&["b32"]);
        mods.finish()?;
        let [d, a, b, c, members] = self.operands(inst, "`shfl.sync` takes five operands")?;
        let (d, p) = match d {
            Operand::Pair(d, p) => (d.as_ref(), Some(self.destination_of(p, Width::Pred)?)),
            d => (d, None),
        };
        Ok(Collective {
            kind: Kind::Shuffle(mode),
            d: Some(self.destination_reg(d, Width::B32)?),
            p,
            a: Some(self.source_reg(a, Width::B32)?),
            b: Some(self.source(b, Width::B32)?),
            c: Some(self.source(c, Width::B32)?),
            members: Some(self.source(members, Width::B32)?),
            ..EMPTY
        })
    }

    pub(super) fn vote(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Resolved {
        mods.require("sync")?;
        let kind = mods.need(|word| match word {
            "all" => Some(Kind::VoteAll),
            "any" => Some(Kind::VoteAny),
            "uni" => Some(Kind::VoteUni),
            "ballot" => Some(Kind::Ballot),
            _ => None,
        })?;
        mods.ignore(&["pred", "b32"]);
        mods.finish()?;
        let [d, source, members] = self.operands(inst, "`vote.sync` takes three operands")?;
        let (d, p) = if kind == Kind::Ballot {
            (Some(self.destination_reg(d, Width::B32)?), None)
        } else {
            (None, Some(self.destination_of(d, Width::Pred)?))
        };
        Ok(Collective {
            kind,
            d,
            p,
            source: Some(self.predicate(source)?),
            members: Some(self.source(members, Width::B32)?),
            ..EMPTY
        })
    }

    pub(super) fn matching(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Resolved {
        let all = mods.take("all");
        if !all && !mods.take("any") {
            return Err(mods.unsupported());
        }
        mods.require("sync")?;
        let width = match mods.ty()? {
            T::B32 => Width::B32,
            T::B64 => Width::B64,
            _ => return Err(mods.unsupported()),
        };
        mods.finish()?;
        let [d, a, members] = self.operands(inst, "`match.sync` takes three operands")?;
        let (d, p) = match d {
            Operand::Pair(d, p) => (d.as_ref(), Some(self.destination_of(p, Width::Pred)?)),
            d => (d, None),
        };
        Ok(Collective {
            kind: if all { Kind::MatchAll } else { Kind::MatchAny },
            d: Some(self.destination_reg(d, Width::B32)?),
            p,
            a: Some(self.source_reg(a, width)?),
            members: Some(self.source(members, Width::B32)?),
            ..EMPTY
        })
    }

    pub(super) fn redux(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Resolved {
        mods.require("sync")?;
        let ty = mods.ty()?;
        let op = mods.need(|word| {
            Some(match (word, ty) {
                ("add", T::U32 | T::S32) => Redux::Add,
                ("min", T::U32) => Redux::MinU,
                ("max", T::U32) => Redux::MaxU,
                ("min", T::S32) => Redux::MinS,
                ("max", T::S32) => Redux::MaxS,
                ("and", T::B32) => Redux::And,
                ("or", T::B32) => Redux::Or,
                ("xor", T::B32) => Redux::Xor,
                _ => return None,
            })
        })?;
        mods.finish()?;
        let [d, a, members] = self.operands(inst, "`redux.sync` takes three operands")?;
        Ok(Collective {
            kind: Kind::Redux(op),
            d: Some(self.destination_reg(d, Width::B32)?),
            a: Some(self.source_reg(a, Width::B32)?),
            members: Some(self.source(members, Width::B32)?),
            ..EMPTY
        })
    }

    pub(super) fn elect(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Resolved {
        mods.require("sync")?;
        mods.finish()?;
        let [Operand::Pair(d, p), members] = inst.operands.as_slice() else {
            return Err(self.invalid("`elect.sync` takes `d|p` and a member mask"));
        };
        Ok(Collective {
            kind: Kind::Elect,
            d: Some(self.destination_reg(d, Width::B32)?),
            p: Some(self.destination_of(p, Width::Pred)?),
            members: Some(self.source(members, Width::B32)?),
            ..EMPTY
        })
    }

    /// `bar.warp.sync`
    pub(super) fn sync_warp(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Resolved {
        mods.require("sync")?;
        mods.finish()?;
        let [members] = self.operands(inst, "`bar.warp.sync` takes a member mask")?;
        Ok(Collective {
            kind: Kind::SyncWarp,
            members: Some(self.source(members, Width::B32)?),
            ..EMPTY
        })
    }
}
