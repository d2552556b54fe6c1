//! `atom` and `red`: lane after lane, lowest first.

use super::access::count;
use super::block::Block;
use super::fault::Checked;
use super::row::{Lanes, Row};
use super::warp::Warp;
use crate::memory::space::Space;
use crate::profile::Touch;
use crate::program::{Atomic, AtomicOp, AtomicType, Reg, Width};
use crate::semantics::fp16::{self, Bf16, F16};
use crate::semantics::fp32::{self, MinMaxMode};
use crate::semantics::{FloatMode, fp64, int};

impl Warp {
    /// Runs an atomic for the lanes of `mask`.
    pub(crate) fn atomic(
        &mut self,
        block: &mut Block<'_>,
        atomic: &Atomic,
        path: usize,
        mask: u32,
    ) -> Checked<()> {
        self.polls += u32::from(matches!(atomic.op, AtomicOp::Cas | AtomicOp::Exch));
        let addresses = self.addresses(block, atomic.base, atomic.offset, path);
        let b = self.widened(block, atomic.b);
        let c = atomic.c.map_or(Row::default(), |c| self.widened(block, c));
        let mut old = Row::<u64>::default();
        self.site.atomic = true;
        let bytes = atomic.ty.bytes();
        self.each_space(atomic.space, &addresses, mask, |warp, space, own, mask| {
            let launch = block.launch;
            let _excluded = (space == Space::Global).then(|| launch.global.lock_atomics());
            for lane in Lanes(mask) {
                warp.read(block, space, own, 1 << lane, bytes)?;
                let high = if bytes == 8 {
                    warp.planes[1].0[lane]
                } else {
                    0
                };
                old.0[lane] = u64::from(warp.planes[0].0[lane]) | u64::from(high) << 32;
                let new = update(atomic.op, atomic.ty, old.0[lane], b.0[lane], c.0[lane]);
                if new != old.0[lane] {
                    // A lock that is not got changes nothing that another could see.
                    block.cluster.effect();
                }
                warp.planes[0].0[lane] = new as u32;
                warp.planes[1].0[lane] = (new >> 32) as u32;
                warp.write(block, space, own, 1 << lane, bytes)?;
            }
            count(block, space, Touch::Atomic, own, mask, bytes);
            Ok(())
        })?;
        match atomic.d {
            Some(d) if d.width == Width::B16 => {
                self.regs.put(d.slot, &old.map(|v| v as u16), mask);
            }
            Some(d) if d.width == Width::B32 => {
                self.regs.put(d.slot, &old.map(|v| v as u32), mask);
            }
            Some(d) => self.regs.put(d.slot, &old, mask),
            None => {}
        }
        Ok(())
    }

    /// A register of any width as 64 bits.
    fn widened(&self, block: &Block<'_>, reg: Reg) -> Row<u64> {
        let constants = &block.launch.program.constants;
        match reg.width {
            Width::B16 => self.regs.row::<u16>(constants, reg.slot).map(u64::from),
            Width::B64 => *self.regs.row::<u64>(constants, reg.slot),
            _ => self.regs.row::<u32>(constants, reg.slot).map(u64::from),
        }
    }
}

/// What the memory holds afterwards.
pub(in crate::exec) fn update(op: AtomicOp, ty: AtomicType, old: u64, b: u64, c: u64) -> u64 {
    match op {
        AtomicOp::Exch => return b,
        AtomicOp::Cas => return if old == b { c } else { old },
        AtomicOp::And => return old & b,
        AtomicOp::Or => return old | b,
        AtomicOp::Xor => return old ^ b,
        AtomicOp::Inc => return if old >= b { 0 } else { old + 1 },
        AtomicOp::Dec => return if old == 0 || old > b { b } else { old - 1 },
        AtomicOp::Add | AtomicOp::Min | AtomicOp::Max => {}
    }
    let (a32, b32) = (old as u32, b as u32);
    match ty {
        AtomicType::B32 => u64::from(choose(op, a32, b32)),
        AtomicType::S32 => u64::from(choose(op, a32 as i32, b32 as i32) as u32),
        AtomicType::B64 => choose(op, old, b),
        AtomicType::S64 => choose(op, old as i64, b as i64) as u64,
        AtomicType::F32 => u64::from(fp32::add(f32::from_bits(a32), f32::from_bits(b32)).to_bits()),
        AtomicType::F64 => fp64::add(f64::from_bits(old), f64::from_bits(b)).to_bits(),
        AtomicType::F16 => u64::from(half::<F16>(op, old as u16, b as u16)),
        AtomicType::Bf16 => u64::from(half::<Bf16>(op, old as u16, b as u16)),
        AtomicType::F16x2 => pair(a32, b32, |a, b| half::<F16>(op, a, b)),
        AtomicType::Bf16x2 => pair(a32, b32, |a, b| half::<Bf16>(op, a, b)),
        AtomicType::B16 => old,
    }
}

fn choose<T: int::Integer>(op: AtomicOp, a: T, b: T) -> T {
    match op {
        AtomicOp::Min => int::min(a, b),
        AtomicOp::Max => int::max(a, b),
        _ => int::add(a, b),
    }
}

fn half<H: fp16::Half>(op: AtomicOp, a: u16, b: u16) -> u16 {
    match op {
        AtomicOp::Min => fp16::min::<H>(MinMaxMode::default(), a, b),
        AtomicOp::Max => fp16::max::<H>(MinMaxMode::default(), a, b),
        _ => fp16::add::<H>(FloatMode::default(), a, b),
    }
}

fn pair(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u64 {
    u64::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16 | u64::from(f(a as u16, b as u16))
}
