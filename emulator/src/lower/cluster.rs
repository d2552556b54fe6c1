//! Clusters, proxy fences and `setmaxnreg`.

use ptx_syntax::ast::{Instruction, Operand, ScalarType as T};

use super::mods::Mods;
use super::recipe::op;
use super::{FunctionLowering, Lowered};
use crate::exec::cluster::RANK_SHIFT;
use crate::exec::kernel::Args;
use crate::program::{Asynchronous, Op, Width};

impl<'a> FunctionLowering<'a, '_> {
    pub(super) fn emit_asynchronous(&mut self, op: Asynchronous) {
        self.emit(Op::Asynchronous(Box::new(op)));
    }

    /// `barrier.cluster`
    pub(super) fn cluster_barrier(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        mods.take("cluster");
        let wait = mods.take("wait");
        if !wait && !mods.take("arrive") {
            return Err(mods.unsupported());
        }
        let aligned = mods.take("aligned");
        let relaxed = !wait && mods.take("relaxed");
        mods.ignore(if wait { &["acquire"] } else { &["release"] });
        mods.finish()?;
        if !inst.operands.is_empty() {
            return Err(self.invalid("`barrier.cluster` takes no operands"));
        }
        self.emit_asynchronous(Asynchronous::ClusterBarrier {
            wait,
            aligned,
            ordered: !relaxed,
        });
        Ok(())
    }

    /// `mapa`: the address of a variable in another block of the cluster.
    pub(super) fn map_rank(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        mods.ignore(&["shared::cluster"]);
        let ty = mods.ty()?;
        mods.finish()?;
        let [d, a, rank] =
            self.operands(inst, "`mapa` takes a destination, an address and a rank")?;
        let rank = self.source(rank, Width::B32)?;
        let (width, recipe) = match ty {
            T::U32 => (
                Width::B32,
                op!(|x, a: u32, rank: u32| -> u32 {
                    a & ((1 << RANK_SHIFT) - 1) | rank.wrapping_add(1) << RANK_SHIFT
                }),
            ),
            T::U64 => (
                Width::B64,
                op!(|x, a: u64, rank: u32| -> u64 {
                    a & !(0xff << RANK_SHIFT) | u64::from(rank.wrapping_add(1) & 0xff) << RANK_SHIFT
                }),
            ),
            _ => return Err(Mods::new(inst).unsupported()),
        };
        let d = self.destination_of(d, width)?;
        let a = self.source(a, width)?;
        self.emit(Op::Lanes(
            recipe.kernel,
            Args {
                d,
                a,
                b: rank,
                ..recipe.args
            },
        ));
        Ok(())
    }

    /// `getctarank`: the rank of the block in whose shared memory an address lies.
    pub(super) fn rank_of(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        mods.ignore(&["shared::cluster"]);
        let width = match mods.ty()? {
            T::U32 => Width::B32,
            T::U64 => Width::B64,
            _ => return Err(Mods::new(inst).unsupported()),
        };
        mods.finish()?;
        let [d, a] = self.operands(inst, "`getctarank` takes a destination and an address")?;
        let d = self.destination_reg(d, Width::B32)?;
        let a = self.source_reg(a, width)?;
        self.emit_asynchronous(Asynchronous::RankOf { d, a });
        Ok(())
    }

    /// `fence.proxy.*`, and `fence.mbarrier_init`.
    pub(super) fn proxy_fence(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        if mods.take("mbarrier_init") {
            mods.ignore(&["release", "cluster"]);
            mods.finish()?;
            self.emit(Op::Fence);
            return Ok(());
        }
        mods.take("proxy");
        let kind = mods.take_map(Some).unwrap_or_default();
        let fences = match kind {
            "async"
            | "async::generic"
            | "async::shared::cta"
            | "async::shared::cluster"
            | "async::global" => true,
            "alias" | "generic" | "tensormap" | "tensormap::generic" => false,
            _ => return Err(Mods::new(inst).unsupported()),
        };
        mods.ignore(&["global", "shared::cta", "shared::cluster"]);
        mods.ignore(&[
            "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys",
        ]);
        mods.ignore(&[
            "sync_restrict::shared::cta",
            "sync_restrict::shared::cluster",
        ]);
        mods.finish()?;
        match inst.operands.as_slice() {
            [] => {}
            // `fence.proxy.tensormap::generic.acquire` has the map as its operand.
            [address @ Operand::Address { .. }, size] => {
                self.address(address)?;
                self.source(size, Width::B32)?;
            }
            _ => return Err(self.invalid("a fence takes no operands, or an address and a size")),
        }
        if fences {
            self.emit_asynchronous(Asynchronous::ProxyFence);
        } else {
            self.emit(Op::Nothing);
        }
        Ok(())
    }

    /// `setmaxnreg`
    pub(super) fn set_registers(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        let increase = mods.take("inc");
        let known = (increase || mods.take("dec")) && mods.take("sync") && mods.take("aligned");
        if !known || mods.ty()? != T::U32 {
            return Err(Mods::new(inst).unsupported());
        }
        mods.finish()?;
        let [Operand::Integer(count)] = inst.operands.as_slice() else {
            return Err(self.invalid("`setmaxnreg` takes a constant"));
        };
        let count = *count;
        if !(24..=256).contains(&count) || count % 8 != 0 {
            return Err(self.invalid(format!(
                "{count} registers: `setmaxnreg` takes 24 to 256, in steps of 8"
            )));
        }
        self.emit_asynchronous(Asynchronous::SetRegisters {
            count: count as u32,
            increase,
        });
        Ok(())
    }
}
