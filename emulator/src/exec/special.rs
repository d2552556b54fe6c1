//! Special registers, and moves between registers of different widths.

use super::block::Block;
use super::row::{LANES, Row};
use super::warp::Warp;
use crate::emulator::MULTIPROCESSORS;
use crate::program::{Reg, Special, Width};

impl Warp {
    /// Reads a special register.
    pub(crate) fn special(&mut self, block: &Block<'_>, d: Reg, source: Special, mask: u32) {
        self.on_copies(|warp| warp.special(block, d, source, mask));
        let launch = block.launch;
        let by_lane = |f: fn(u32) -> u32| Row(std::array::from_fn(|lane| f(lane as u32)));
        let all = |value: u32| Row([value; LANES]);
        let row = match source {
            Special::Tid(axis) => self.tid[axis as usize],
            Special::Ntid(axis) => all(launch.config.block[axis as usize]),
            Special::Ctaid(axis) => all(block.index[axis as usize]),
            Special::Nctaid(axis) => all(launch.config.grid[axis as usize]),
            Special::Laneid => by_lane(|lane| lane),
            Special::Warpid => all(self.index),
            Special::Nwarpid => all(64),
            Special::LanemaskEq => by_lane(|lane| 1 << lane),
            Special::LanemaskLe => by_lane(|lane| u32::MAX >> (31 - lane)),
            Special::LanemaskLt => by_lane(|lane| (1 << lane) - 1),
            Special::LanemaskGe => by_lane(|lane| u32::MAX << lane),
            Special::LanemaskGt => by_lane(|lane| u32::MAX << lane << 1),
            Special::Smid => all((block.linear % u64::from(MULTIPROCESSORS)) as u32),
            Special::Nsmid => all(MULTIPROCESSORS),
            Special::Clock(high) => {
                let now = self.warp_instructions;
                if d.width == Width::B64 {
                    return self.regs.splat(d.slot, now, mask);
                }
                all((now >> if high { 32 } else { 0 }) as u32)
            }
            Special::ClusterCtaid(axis) => {
                let axis = axis as usize;
                all(block.index[axis] % launch.cluster[axis])
            }
            Special::ClusterNctaid(axis) => all(launch.cluster[axis as usize]),
            Special::ClusterCtarank => all(block.rank),
            Special::ClusterNctarank => all(launch.cluster_blocks() as u32),
            Special::Clusterid(axis) => {
                let axis = axis as usize;
                all(block.index[axis] / launch.cluster[axis])
            }
            Special::Nclusterid(axis) => {
                let axis = axis as usize;
                all(launch.config.grid[axis] / launch.cluster[axis])
            }
            Special::IsExplicitCluster => {
                let explicit =
                    launch.config.cluster.is_some() || launch.program.bounds.explicit_cluster;
                let lanes = if explicit { u32::MAX } else { 0 };
                return self.regs.set_pred(d.slot, lanes, mask);
            }
            Special::Gridid => return self.regs.splat(d.slot, 0u64, mask),
            Special::DynamicSharedSize => all(launch.config.shared_bytes),
            Special::GridWorkspace { high } => {
                let shift = if high { 32 } else { 0 };
                all((launch.grid_workspace.unwrap_or(0) >> shift) as u32)
            }
            Special::TotalSharedSize => {
                all((block.shared().len() - crate::memory::shared::SHARED_BASE) as u32)
            }
        };
        self.regs.put(d.slot, &row, mask);
    }

    /// Joins registers into a wider one; the first is the lowest part.
    pub(crate) fn pack(&mut self, block: &Block<'_>, d: Reg, parts: &[Reg], mask: u32) {
        self.on_copies(|warp| warp.pack(block, d, parts, mask));
        let constants = &block.launch.program.constants;
        let mut whole = Row([0u64; LANES]);
        let bits = d.width.bits() / parts.len() as u32;
        for (i, part) in parts.iter().enumerate() {
            let shift = i as u32 * bits;
            match part.width {
                Width::B16 => {
                    let part = self.regs.row::<u16>(constants, part.slot);
                    // A part may have eight bits.
                    let kept = (1 << bits) - 1;
                    for lane in 0..LANES {
                        whole.0[lane] |= (u64::from(part.0[lane]) & kept) << shift;
                    }
                }
                _ => {
                    let part = self.regs.row::<u32>(constants, part.slot);
                    for lane in 0..LANES {
                        whole.0[lane] |= u64::from(part.0[lane]) << shift;
                    }
                }
            }
        }
        match d.width {
            Width::B64 => self.regs.put(d.slot, &whole, mask),
            Width::B16 => self
                .regs
                .put(d.slot, &whole.map(|value| value as u16), mask),
            _ => self
                .regs
                .put(d.slot, &whole.map(|value| value as u32), mask),
        }
    }

    /// Splits a register into narrower ones; the first is the lowest part.
    pub(crate) fn unpack(&mut self, block: &Block<'_>, parts: &[Reg], a: Reg, mask: u32) {
        self.on_copies(|warp| warp.unpack(block, parts, a, mask));
        let constants = &block.launch.program.constants;
        let whole = match a.width {
            Width::B64 => *self.regs.row::<u64>(constants, a.slot),
            Width::B16 => self.regs.row::<u16>(constants, a.slot).map(u64::from),
            _ => self.regs.row::<u32>(constants, a.slot).map(u64::from),
        };
        let bits = a.width.bits() / parts.len() as u32;
        for (i, part) in parts.iter().enumerate() {
            let shift = i as u32 * bits;
            match part.width {
                Width::B16 => {
                    let kept = (1 << bits) - 1;
                    self.regs
                        .put(part.slot, &whole.map(|v| (v >> shift & kept) as u16), mask);
                }
                _ => self
                    .regs
                    .put(part.slot, &whole.map(|v| (v >> shift) as u32), mask),
            }
        }
    }
}
