//! `suld` and `sust`: bytes of surfaces.

use super::super::access::Intent;
use super::super::block::Block;
use super::super::fault::{Checked, Fault};
use super::super::row::{LANES, Lanes, Row};
use super::super::warp::Warp;
use crate::image::ImageDesc;
use crate::program::{ImageOp, Outside, Raw, Width};
use crate::report::FaultKind;

impl Warp {
    pub(super) fn load_raw(
        &mut self,
        block: &mut Block<'_>,
        op: &ImageOp,
        raw: &Raw,
        image: &ImageDesc,
        mask: u32,
    ) -> Checked<()> {
        let (addresses, inside) = self.places(block, op, raw, image, mask)?;
        let bytes = raw.element * raw.regs.len();
        self.texels(block, &addresses, inside, bytes, Intent::Read)?;
        for (number, reg) in raw.regs.iter().enumerate() {
            let Some(reg) = reg else { continue };
            let mut values = Row::<u64>::default();
            for lane in Lanes(inside) {
                values.0[lane] = self.element(lane, number * raw.element, raw.element);
            }
            match reg.width {
                Width::B16 => self.regs.put(reg.slot, &values.map(|v| v as u16), mask),
                Width::B64 => self.regs.put(reg.slot, &values, mask),
                _ => self.regs.put(reg.slot, &values.map(|v| v as u32), mask),
            }
        }
        Ok(())
    }

    pub(super) fn store_raw(
        &mut self,
        block: &mut Block<'_>,
        op: &ImageOp,
        raw: &Raw,
        image: &ImageDesc,
        mask: u32,
    ) -> Checked<()> {
        let (addresses, inside) = self.places(block, op, raw, image, mask)?;
        block.cluster.effect();
        let constants = &block.launch.program.constants;
        for plane in self.planes.iter_mut().take(4) {
            *plane = Row([0; LANES]);
        }
        for (number, reg) in raw.regs.iter().enumerate() {
            let Some(reg) = reg else { continue };
            let values = match reg.width {
                Width::B16 => self.regs.row::<u16>(constants, reg.slot).map(u64::from),
                Width::B64 => *self.regs.row::<u64>(constants, reg.slot),
                _ => self.regs.row::<u32>(constants, reg.slot).map(u64::from),
            };
            let at = number * raw.element;
            for lane in Lanes(inside) {
                let value = values.0[lane];
                match raw.element {
                    8 => {
                        self.planes[at / 4].0[lane] = value as u32;
                        self.planes[at / 4 + 1].0[lane] = (value >> 32) as u32;
                    }
                    element => {
                        let kept = value as u32 & (u32::MAX >> (32 - 8 * element));
                        self.planes[at / 4].0[lane] |= kept << (8 * (at % 4));
                    }
                }
            }
        }
        let bytes = raw.element * raw.regs.len();
        self.texels(block, &addresses, inside, bytes, Intent::Write)
    }

    /// Bytes of what a lane has read.
    fn element(&self, lane: usize, at: usize, element: usize) -> u64 {
        let word = |at: usize| u64::from(self.planes[at / 4].0[lane]);
        match element {
            8 => word(at) | word(at + 4) << 32,
            _ => word(at) >> (8 * (at % 4)) & (u64::MAX >> (64 - 8 * element)),
        }
    }

    /// The address of each lane, and the lanes that access the image at all.
    fn places(
        &self,
        block: &Block<'_>,
        op: &ImageOp,
        raw: &Raw,
        image: &ImageDesc,
        mask: u32,
    ) -> Checked<(Row<u64>, u32)> {
        let layers = self.layers(block, op, image);
        let bytes = (raw.element * raw.regs.len()) as i64;
        let rows: Vec<Row<u32>> = raw
            .coordinates
            .iter()
            .map(|slot| self.row32(block, *slot))
            .collect();
        let width = i64::from(image.size()[0]) * i64::from(image.texel());
        let [_, height, depth] = image.size().map(i64::from);
        let mut addresses = Row::default();
        let mut inside = 0;
        for lane in Lanes(mask) {
            let given = rows.iter().map(|row| i64::from(row.0[lane] as i32));
            let mut at = [0; 3];
            at.iter_mut().zip(given).for_each(|(at, given)| *at = given);
            let last = [width - bytes, height - 1, depth - 1];
            let is_outside = at.iter().zip(&last).any(|(at, last)| *at < 0 || at > last);
            if is_outside {
                match raw.outside {
                    Outside::Zeros => continue,
                    Outside::Clamps => {
                        at.iter_mut()
                            .zip(last)
                            .for_each(|(at, last)| *at = (*at).clamp(0, last.max(0)));
                    }
                    Outside::Traps => {
                        let [x, y, z] = at;
                        let message = format!(
                            "{bytes} bytes at byte {x}, row {y}, slice {z} of a surface of {width} \
                             bytes, {height} rows and {depth} slices"
                        );
                        return Err(Fault::new(
                            FaultKind::OutOfBounds,
                            Some(lane as u32),
                            message,
                        ));
                    }
                }
            }
            let [x, y, z] = at.map(|at| at as u64);
            inside |= 1 << lane;
            addresses.0[lane] =
                image.address + x + y * image.pitch + (z + layers.0[lane]) * image.slice;
        }
        Ok((addresses, inside))
    }
}
