//! im2col copies, reductions through tensor maps, and maps that a kernel changes.

use warpsmith_emulator::{Fill, Im2col, Swizzle, TensorMapDesc, TensorMapType};

use super::machine::{Machine, shape};

/// The input of a convolution: channels innermost, images outermost.
struct Input {
    map: TensorMapDesc,
    window: Im2col,
    start: Vec<i32>,
    offsets: Vec<u16>,
}

impl Input {
    fn new(rank: usize, swizzle: Swizzle) -> Self {
        // 24 channels of 16 bits; W, H, D; 3 images.
        let dims = match rank {
            3 => vec![24, 11, 3],
            4 => vec![24, 7, 5, 3],
            _ => vec![24, 5, 4, 3, 3],
        };
        let mut strides: Vec<u64> = vec![48];
        for dim in &dims[1..rank - 1] {
            strides.push(strides[strides.len() - 1] * dim);
        }
        let spatial = rank - 2;
        Self {
            map: TensorMapDesc {
                data_type: TensorMapType::F16,
                address: 0,
                dims,
                strides_bytes: strides,
                box_dims: Vec::new(),
                element_strides: vec![1; rank],
                swizzle,
                fill: Fill::Zeros,
            },
            window: Im2col {
                lower_corner: vec![-1; spatial],
                upper_corner: vec![-1; spatial],
                channels_per_pixel: 16,
                pixels_per_column: 40,
            },
            start: vec![0; rank],
            offsets: vec![0; spatial],
        }
    }

    /// The positions of the column's pixels, as coordinates in the bounding box and the image:
    /// found by counting through all positions in order.
    fn positions(&self) -> Vec<Vec<i64>> {
        let spatial = self.window.lower_corner.len();
        let mut all = vec![Vec::new()];
        for axis in (0..=spatial).rev() {
            let (first, last, step) = if axis == spatial {
                (i64::from(self.start[spatial + 1]), 100, 1)
            } else {
                let dim = self.map.dims[axis + 1] as i64;
                let upper = dim - 1 + i64::from(self.window.upper_corner[axis]);
                let step = i64::from(self.map.element_strides[axis + 1]);
                (i64::from(self.window.lower_corner[axis]), upper, step)
            };
            all = all
                .into_iter()
                .flat_map(|outer: Vec<i64>| {
                    (first..=last).step_by(step as usize).map(move |at| {
                        let mut inner = vec![at];
                        inner.extend(&outer);
                        inner
                    })
                })
                .collect();
        }
        let begin: Vec<i64> = self.start[1..].iter().map(|at| i64::from(*at)).collect();
        let from = all.iter().position(|at| *at == begin);
        let from = from.expect("the start is in the bounding box");
        all[from..][..self.window.pixels_per_column as usize].to_vec()
    }

    /// Byte offset in the tensor of a pixel's channel, moved by `offsets`.
    fn offset(&self, channel: i64, position: &[i64], offsets: &[u16]) -> Option<usize> {
        let inside = |at: i64, axis: usize| at >= 0 && at < self.map.dims[axis] as i64;
        if !inside(channel, 0) {
            return None;
        }
        let mut byte = 2 * channel;
        for (i, at) in position.iter().enumerate() {
            let at = at + i64::from(offsets.get(i).copied().unwrap_or(0));
            if !inside(at, i + 1) {
                return None;
            }
            byte += at * self.map.strides_bytes[i] as i64;
        }
        Some(byte as usize)
    }

    fn check(&mut self, seed: u64) {
        let machine = Machine::new("pass", "tensor_columns", seed);
        let rank = self.map.dims.len();
        let bytes = self.map.strides_bytes[rank - 2] * self.map.dims[rank - 1];
        let data: Vec<u8> = (0..bytes).map(|i| (i * 29 + (i >> 7)) as u8).collect();
        let target = vec![0xee; bytes as usize];
        let places = [machine.buffer(&data), machine.buffer(&target)];
        let maps = places.map(|address| {
            self.map.address = address;
            self.map.encode_im2col(&self.window).expect("it is valid")
        });
        let column = 32 * self.window.pixels_per_column as usize;
        let out = machine.buffer(&vec![0; column]);
        let mut params = vec![maps[0].to_vec(), maps[1].to_vec()];
        params.push(out.to_le_bytes().to_vec());
        params.push((column as u32).to_le_bytes().to_vec());
        for i in 0..5 {
            let at = self.start.get(i).copied().unwrap_or(0);
            params.push(at.to_le_bytes().to_vec());
        }
        for i in 0..3 {
            let offset = self.offsets.get(i).copied().unwrap_or(0);
            params.push(offset.to_le_bytes().to_vec());
        }
        machine
            .launch(&format!("column{rank}"), &shape(1, 32, 2048), &params)
            .unwrap_or_else(|error| panic!("{error}"));
        let mut want = vec![0; column];
        let mut stored = target;
        for (pixel, position) in self.positions().iter().enumerate() {
            for channel in 0..16 {
                let linear = 32 * pixel + 2 * channel;
                let (row, chunk) = (linear / 128, linear % 128 / 16);
                let chunk = match self.map.swizzle {
                    Swizzle::None => chunk,
                    Swizzle::B32 => chunk ^ (row % 2),
                    _ => chunk ^ (row % 4),
                };
                let to = 128 * row + 16 * chunk + linear % 16;
                let at = i64::from(self.start[0]) + channel as i64;
                if let Some(from) = self.offset(at, position, &self.offsets) {
                    want[to..to + 2].copy_from_slice(&data[from..from + 2]);
                }
                if let Some(back) = self.offset(at, position, &[]) {
                    let value = [want[to], want[to + 1]];
                    stored[back..back + 2].copy_from_slice(&value);
                }
            }
        }
        assert_eq!(machine.bytes(out, column), want, "{:?}", self.map);
        let got = machine.bytes(places[1], stored.len());
        assert_eq!(got, stored, "{:?}", self.map);
    }
}

#[test]
fn columns_run_through_bounding_box_and_images() {
    for rank in 3..=5 {
        for (swizzle, channel) in [(Swizzle::None, 0), (Swizzle::B32, 4), (Swizzle::B32, 12)] {
            let mut input = Input::new(rank, swizzle);
            input.start[0] = channel;
            input.start[1] = 2;
            input.offsets = vec![2; rank - 2];
            input.offsets[0] = 1;
            input.check(rank as u64);
        }
    }
}

#[test]
fn columns_step_by_the_convolution_s_stride() {
    let mut input = Input::new(4, Swizzle::None);
    input.map.element_strides = vec![1, 2, 3, 1];
    input.window.pixels_per_column = 16;
    input.start = vec![8, 1, -1, 1];
    input.check(0);
}

#[test]
fn tensor_reductions_add_and_compare() {
    let machine = Machine::new("pass", "tensor_columns", 1);
    let matrix: Vec<i32> = (0..64).map(|i| 5 * i - 160).collect();
    let addend: Vec<i32> = (0..32).map(|i| 100 - 7 * i).collect();
    let bytes = |words: &[i32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
    let address = machine.buffer(&bytes(&matrix));
    let map = TensorMapDesc {
        data_type: TensorMapType::I32,
        address,
        dims: vec![12, 5],
        strides_bytes: vec![48],
        box_dims: vec![8, 4],
        element_strides: vec![1, 1],
        swizzle: Swizzle::None,
        fill: Fill::Zeros,
    };
    let map = machine.buffer(&map.encode().expect("the map is valid"));
    let input = machine.buffer(&bytes(&addend));
    let params = [map, input].map(|address| address.to_le_bytes().to_vec());
    machine
        .launch("reduce", &shape(1, 32, 0), &params)
        .unwrap_or_else(|error| panic!("{error}"));
    let mut want = matrix;
    for (i, value) in addend.iter().enumerate() {
        let (x, y) = (i % 8, i / 8);
        if y + 2 < 5 {
            want[12 * (y + 2) + x] += value;
        }
        if x + 8 < 12 {
            let place = &mut want[12 * y + x + 8];
            *place = (*place).max(*value);
        }
    }
    assert_eq!(machine.bytes(address, 256), bytes(&want));
}

#[test]
fn kernels_change_maps_field_by_field() {
    let machine = Machine::new("pass", "tensor_columns", 0);
    let matrix: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let bytes = |words: &[f32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
    let address = machine.buffer(&bytes(&matrix));
    let template = TensorMapDesc {
        data_type: TensorMapType::U8,
        address: 0,
        dims: vec![64, 1, 1],
        strides_bytes: vec![64, 64],
        box_dims: vec![16, 1, 1],
        element_strides: vec![1; 3],
        swizzle: Swizzle::None,
        fill: Fill::Zeros,
    };
    let map = machine.buffer(&[0; 128]);
    let out = machine.buffer(&[0; 64]);
    let mut params = vec![template.encode().expect("the map is valid").to_vec()];
    params.extend([address, map, out].map(|address| address.to_le_bytes().to_vec()));
    machine
        .launch("replace", &shape(1, 32, 0), &params)
        .unwrap_or_else(|error| panic!("{error}"));
    let got = machine.bytes(out, 64);
    // Two rows of 8 words: rows 1 and 3 of the matrix, which are 48 bytes apart.
    for (i, got) in got.chunks(4).enumerate() {
        let (x, y) = (4 + i % 8, 1 + 2 * (i / 8));
        let got = f32::from_le_bytes([got[0], got[1], got[2], got[3]]);
        if x < 10 {
            assert_eq!(got, matrix[12 * y + x], "word {i}");
        } else {
            assert!(got.is_nan(), "word {i} is {got}");
        }
    }
}
