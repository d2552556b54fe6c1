//! `atom` and `red`: executed lane by lane, lowest first.

use super::access::{Intent, count};
use super::block::Block;
use super::fault::Checked;
use super::row::{Lanes, Row};
use super::warp::Warp;
use crate::memory::lanes::Planes;
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
        let rows = |regs: &[Reg]| regs.iter().map(|reg| self.widened(block, *reg)).collect();
        let (b, c): (Vec<Row<u64>>, Vec<Row<u64>>) = (rows(&atomic.b), rows(&atomic.c));
        let mut old = vec![Row::<u64>::default(); b.len()];
        self.site.atomic = true;
        // What an exchange reads does not decide what it writes.
        let exchanges = atomic.op == AtomicOp::Exch;
        self.tolerates = exchanges;
        let element = atomic.ty.bytes();
        let bytes = element * b.len();
        let done = self.each_space(atomic.space, &addresses, mask, |warp, space, own, mask| {
            let launch = block.launch;
            let _excluded = (space == Space::Global).then(|| launch.global.lock_atomics());
            for lane in Lanes(mask) {
                warp.transfer(block, space, own, 1 << lane, bytes, Intent::Read)?;
                for (part, old) in old.iter_mut().enumerate() {
                    old.0[lane] = part_of(&warp.planes, lane, part, element);
                }
                let same = b.iter().zip(&old).all(|(b, old)| b.0[lane] == old.0[lane]);
                for (part, (b, old)) in b.iter().zip(&old).enumerate() {
                    let c = c.get(part).map_or(0, |c| c.0[lane]);
                    let (old, b) = (old.0[lane], b.0[lane]);
                    let new = match atomic.op {
                        AtomicOp::Cas if same => c,
                        AtomicOp::Cas => old,
                        op if space == Space::Global => update_global(op, atomic.ty, old, b),
                        op => update(op, atomic.ty, old, b),
                    };
                    if new != old {
                        // An attempt at a lock that fails (the value stays) changes nothing that
                        // another thread can see.
                        block.cluster.effect();
                    }
                    set_part(&mut warp.planes, lane, part, element, new);
                }
                warp.transfer(block, space, own, 1 << lane, bytes, Intent::Write)?;
            }
            count(block, space, Touch::Atomic, own, mask, bytes);
            Ok(())
        });
        self.tolerates = false;
        done?;
        for (d, old) in atomic.d.iter().zip(&old) {
            match d.width {
                Width::B16 => self.regs.put(d.slot, &old.map(|v| v as u16), mask),
                Width::B32 => self.regs.put(d.slot, &old.map(|v| v as u32), mask),
                _ => self.regs.put(d.slot, old, mask),
            }
        }
        if exchanges {
            self.settle_exchange(&atomic.d, mask);
        }
        Ok(())
    }

    /// A register of any width, extended to 64 bits.
    fn widened(&self, block: &Block<'_>, reg: Reg) -> Row<u64> {
        let constants = &block.launch.program.constants;
        match reg.width {
            Width::B16 => self.regs.row::<u16>(constants, reg.slot).map(u64::from),
            Width::B64 => *self.regs.row::<u64>(constants, reg.slot),
            _ => self.regs.row::<u32>(constants, reg.slot).map(u64::from),
        }
    }
}

/// Part `part` of `element` bytes of what one lane has read.
fn part_of(planes: &Planes, lane: usize, part: usize, element: usize) -> u64 {
    match element {
        2 => u64::from(planes[part / 2].0[lane] >> (16 * (part % 2)) & 0xffff),
        4 => u64::from(planes[part].0[lane]),
        _ => u64::from(planes[2 * part].0[lane]) | u64::from(planes[2 * part + 1].0[lane]) << 32,
    }
}

/// Replaces a part of what one lane will write.
fn set_part(planes: &mut Planes, lane: usize, part: usize, element: usize, value: u64) {
    match element {
        2 => {
            let shift = 16 * (part % 2);
            let word = &mut planes[part / 2].0[lane];
            *word = *word & !(0xffff << shift) | (value as u32 & 0xffff) << shift;
        }
        4 => planes[part].0[lane] = value as u32,
        _ => {
            planes[2 * part].0[lane] = value as u32;
            planes[2 * part + 1].0[lane] = (value >> 32) as u32;
        }
    }
}

/// [`update`] for global memory, where f32 additions flush subnormals; in shared memory they do
/// not.
fn update_global(op: AtomicOp, ty: AtomicType, old: u64, b: u64) -> u64 {
    if (op, ty) != (AtomicOp::Add, AtomicType::F32) {
        return update(op, ty, old, b);
    }
    let mode = FloatMode {
        ftz: true,
        ..FloatMode::default()
    };
    let sum = fp32::add_with(mode, f32::from_bits(old as u32), f32::from_bits(b as u32));
    u64::from(sum.to_bits())
}

/// The new value in memory after an operation other than `cas`.
pub(in crate::exec) fn update(op: AtomicOp, ty: AtomicType, old: u64, b: u64) -> u64 {
    match op {
        AtomicOp::Exch => return b,
        AtomicOp::Cas => return old,
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
        AtomicType::B16 | AtomicType::B128 => old,
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
