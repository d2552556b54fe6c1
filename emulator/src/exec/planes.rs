//! Conversion between the bytes of an access and registers of any width.

use super::registers::{Constants, Registers};
use super::row::{LANES, Row};
use crate::memory::lanes::Planes;
use crate::program::{Access, Reg, Width};

/// Writes loaded bytes to the destination registers.
#[inline(always)]
pub(super) fn unpack_planes(regs: &mut Registers, planes: &Planes, access: &Access, mask: u32) {
    for (i, reg) in access.regs.iter().enumerate() {
        let Some(reg) = reg else { continue };
        if access.element == 8 {
            let (low, high) = (&planes[2 * i].0, &planes[2 * i + 1].0);
            let mut whole = Row([0u64; LANES]);
            for lane in 0..LANES {
                whole.0[lane] = u64::from(low[lane]) | u64::from(high[lane]) << 32;
            }
            regs.put(reg.slot, &whole, mask);
            continue;
        }
        let at = i * access.element;
        put_extended(regs, *reg, &planes[at / 4], at % 4, access, mask);
    }
}

/// Extends an element of up to 4 bytes into a register.
#[inline(always)]
fn put_extended(
    regs: &mut Registers,
    reg: Reg,
    plane: &Row<u32>,
    byte: usize,
    access: &Access,
    mask: u32,
) {
    if access.element == 4 && reg.width == Width::B32 {
        return regs.put(reg.slot, plane, mask);
    }
    let unused = 32 - 8 * access.element as u32;
    let left = unused - 8 * byte as u32;
    let mut value = Row([0u32; LANES]);
    for lane in 0..LANES {
        let top = plane.0[lane] << left;
        value.0[lane] = if access.signed {
            ((top as i32) >> unused) as u32
        } else {
            top >> unused
        };
    }
    match reg.width {
        Width::B16 => regs.put(reg.slot, &value.map(|v| v as u16), mask),
        Width::B32 => regs.put(reg.slot, &value, mask),
        _ if access.signed => {
            regs.put(reg.slot, &value.map(|v| v as i32 as i64 as u64), mask);
        }
        _ => regs.put(reg.slot, &value.map(u64::from), mask),
    }
}

/// Collects the source registers of a store into the planes.
#[inline(always)]
pub(super) fn pack_planes(
    regs: &Registers,
    constants: &Constants,
    planes: &mut Planes,
    access: &Access,
) {
    for (i, reg) in access.regs.iter().enumerate() {
        let Some(reg) = reg else { continue };
        if access.element == 8 {
            let value = regs.row::<u64>(constants, reg.slot);
            for lane in 0..LANES {
                planes[2 * i].0[lane] = value.0[lane] as u32;
                planes[2 * i + 1].0[lane] = (value.0[lane] >> 32) as u32;
            }
            continue;
        }
        let at = i * access.element;
        let (plane, shift) = (&mut planes[at / 4], 8 * (at % 4) as u32);
        let value = match reg.width {
            Width::B16 => regs.row::<u16>(constants, reg.slot).map(u32::from),
            Width::B64 => regs.row::<u64>(constants, reg.slot).map(|v| v as u32),
            _ => *regs.row::<u32>(constants, reg.slot),
        };
        if access.element == 4 {
            *plane = value;
            continue;
        }
        let bits = (1u32 << (8 * access.element)) - 1;
        for lane in 0..LANES {
            let kept = if shift == 0 {
                0
            } else {
                plane.0[lane] & ((1 << shift) - 1)
            };
            plane.0[lane] = kept | (value.0[lane] & bits) << shift;
        }
    }
}
