//! `tex` and `tld4`.

use super::super::access::Intent;
use super::super::block::Block;
use super::super::fault::Checked;
use super::super::row::{LANES, Lanes, Row};
use super::super::warp::Warp;
use crate::image::{AddressMode, ImageDesc, ImageKind, TextureDesc};
use crate::memory::lanes::Planes;
use crate::program::{Coordinates, Fetch, ImageOp, Shape};
use crate::semantics::texture::{Coordinate, ONE, weights};

/// Most texels that a fetch reads.
const TAPS: usize = 8;

/// A texel of a fetch by one lane: its index, or the border; and its weight. With a weight of 0 it
/// can still make a sum NaN.
#[derive(Clone, Copy, Debug)]
struct Tap {
    index: Option<[u32; 3]>,
    weight: i32,
}

/// The order in which `tld4` gives its four texels.
const GATHERED: [usize; 4] = [2, 3, 1, 0];

impl Warp {
    pub(super) fn fetch(
        &mut self,
        block: &mut Block<'_>,
        op: &ImageOp,
        fetch: &Fetch,
        texture: &TextureDesc,
        mask: u32,
    ) -> Checked<()> {
        let image = &texture.image;
        let mut layers = self.layers(block, op, image);
        let taps = self.taps(block, op, fetch, texture, mask, &mut layers);
        let bytes = image.texel() as usize;
        // For each texel and lane, the channels.
        let mut values = vec![[[0_u32; 4]; LANES]; TAPS];
        for (tap, values) in values.iter_mut().enumerate() {
            let mut addresses = Row::default();
            let mut inside = 0;
            for lane in Lanes(mask) {
                let Some(Tap { index, .. }) = taps[lane][tap] else {
                    continue;
                };
                match index {
                    Some([x, y, z]) => {
                        inside |= 1 << lane;
                        addresses.0[lane] = image.address
                            + u64::from(x) * bytes as u64
                            + u64::from(y) * image.pitch
                            + (u64::from(z) + layers.0[lane]) * image.slice;
                    }
                    None => {
                        let border = texture.border.map(|value| image.channel.border(value));
                        values[lane] = match image.kind {
                            ImageKind::Linear => [0; 4],
                            _ => border,
                        };
                    }
                }
            }
            self.texels(block, &addresses, inside, bytes, Intent::Read)?;
            for lane in Lanes(inside) {
                values[lane] = channels(&self.planes, lane, image);
            }
        }
        let filters = texture.linear && matches!(fetch.coordinates, Coordinates::Float(_));
        let mut result = [Row::<u32>::default(); 4];
        for lane in Lanes(mask) {
            for (channel, row) in result.iter_mut().enumerate() {
                row.0[lane] = match fetch.gathers {
                    Some(wanted) => values[GATHERED[channel]][lane][wanted],
                    None => {
                        let texels: Vec<(u32, i32)> = taps[lane]
                            .iter()
                            .zip(&values)
                            .filter_map(|(tap, values)| {
                                Some((values[lane][channel], tap.as_ref()?.weight))
                            })
                            .collect();
                        match texels.as_slice() {
                            [(value, _)] if !filters => *value,
                            texels => image.channel.filtered(texels).to_bits(),
                        }
                    }
                };
            }
        }
        for (d, row) in fetch.d.iter().zip(&result) {
            if let Some(d) = d {
                self.regs.put(d.slot, row, mask);
            }
        }
        if let Some(resident) = fetch.resident {
            self.regs.set_pred(resident, u32::MAX, mask);
        }
        Ok(())
    }

    /// The texels of each lane. Of a cube, the face is added to the layer.
    fn taps(
        &self,
        block: &Block<'_>,
        op: &ImageOp,
        fetch: &Fetch,
        texture: &TextureDesc,
        mask: u32,
        layers: &mut Row<u64>,
    ) -> Vec<[Option<Tap>; TAPS]> {
        let image = &texture.image;
        let mut taps = vec![[None; TAPS]; LANES];
        let size = image.size();
        let (Coordinates::Float(slots) | Coordinates::Integer(slots)) = &fetch.coordinates;
        let rows: Vec<Row<u32>> = slots.iter().map(|slot| self.row32(block, *slot)).collect();
        let modes = texture.modes.map(|mode| mode.allowed(texture.normalized));
        for lane in Lanes(mask) {
            let given = |axis: usize| rows.get(axis).map_or(0, |row| row.0[lane]);
            if matches!(fetch.coordinates, Coordinates::Integer(_)) {
                let mode = |axis: usize| match image.kind {
                    ImageKind::Linear => AddressMode::Border,
                    _ => modes[axis],
                };
                let index = [0, 1, 2].map(|axis| {
                    let at = i64::from(given(axis) as i32);
                    mode(axis).index(at, size[axis])
                });
                taps[lane][0] = Some(Tap {
                    index: all(index),
                    weight: ONE,
                });
                continue;
            }
            let values = [0, 1, 2].map(|axis| f32::from_bits(given(axis)));
            let (values, modes, normalized) = match op.shape {
                Shape::Flat(_) => (values, modes, texture.normalized),
                Shape::Cube => {
                    let (face, at) = on_face(values);
                    layers.0[lane] = 6 * layers.0[lane] + face;
                    ([at[0], at[1], 0.0], modes, true)
                }
            };
            // An axis that the instruction does not name has the coordinate 0 there, except depth.
            let axes = if matches!(op.shape, Shape::Flat(3)) {
                3
            } else {
                2
            };
            let at = [0, 1, 2].map(|axis| Coordinate::new(values[axis], size[axis], normalized));
            if !texture.linear && fetch.gathers.is_none() {
                let index = [0, 1, 2].map(|axis| modes[axis].index(at[axis].nearest(), size[axis]));
                taps[lane][0] = Some(Tap {
                    index: all(index),
                    weight: ONE,
                });
                continue;
            }
            let pairs = [0, 1, 2].map(|axis| match fetch.gathers {
                Some(_) => at[axis].pair(size[axis], AddressMode::Border),
                None => at[axis].pair(size[axis], modes[axis]),
            });
            let weight = |axis: usize| if axis < axes { pairs[axis].weight } else { 0 };
            let weights = match fetch.gathers {
                Some(_) => [ONE, ONE, ONE, ONE, 0, 0, 0, 0],
                None => weights([weight(0), weight(1), weight(2)]),
            };
            // Where a coordinate is that of a texel, the next one along the axis takes no part.
            let reads = |number: usize| {
                (0..3).all(|axis| {
                    let second = number >> axis & 1 == 1;
                    !second || axis < 2 && fetch.gathers.is_some() || weight(axis) != 0
                })
            };
            for (number, tap) in taps[lane].iter_mut().enumerate() {
                if !reads(number) {
                    continue;
                }
                let index = [0, 1, 2].map(|axis| {
                    let second = (number >> axis & 1) as i64;
                    if axis >= axes {
                        return Some(0);
                    }
                    modes[axis].index(pairs[axis].first + second, size[axis])
                });
                *tap = Some(Tap {
                    index: all(index),
                    weight: weights[number],
                });
            }
        }
        taps
    }
}

fn all(index: [Option<u32>; 3]) -> Option<[u32; 3]> {
    let [x, y, z] = index;
    Some([x?, y?, z?])
}

/// The channels of a texel that lies in the planes, as registers have them. Those that the image
/// lacks are 0.
fn channels(planes: &Planes, lane: usize, image: &ImageDesc) -> [u32; 4] {
    let bits = image.channel.bits();
    let mut values = [0; 4];
    for (number, value) in values.iter_mut().enumerate().take(image.channels as usize) {
        let at = number as u32 * bits;
        let word = planes[at as usize / 32].0[lane] >> (at % 32);
        let raw = if bits == 32 {
            word
        } else {
            word & ((1 << bits) - 1)
        };
        *value = image.channel.value(raw);
    }
    values
}

/// The face of a cube that a direction leads to, and where on it, from 0 to 1.
fn on_face([x, y, z]: [f32; 3]) -> (u64, [f32; 2]) {
    let [ax, ay, az] = [x, y, z].map(f32::abs);
    let (face, s, t, major) = if az >= ax && az >= ay {
        match z >= 0.0 {
            true => (4, x, -y, az),
            false => (5, -x, -y, az),
        }
    } else if ay >= ax {
        match y >= 0.0 {
            true => (2, x, z, ay),
            false => (3, x, -z, ay),
        }
    } else {
        match x >= 0.0 {
            true => (0, -z, -y, ax),
            false => (1, z, -y, ax),
        }
    };
    (face, [s, t].map(|value| (value / major + 1.0) * 0.5))
}
