//! Tensor copies of every rank, swizzle, type and edge, against an independent formula.

use warpsmith_emulator::{Fill, Swizzle, TensorMapDesc, TensorMapType};

use super::machine::{Machine, shape};

/// A tensor store writes whole units of this many bytes, as an H200 does.
const UNIT: u64 = 16;

/// A tensor in memory, and the box that is copied.
struct Tensor {
    map: TensorMapDesc,
    start: [i32; 5],
}

impl Tensor {
    fn rank(&self) -> usize {
        self.map.dims.len()
    }

    /// Bytes from the first element to the end of the last, in whole units of a store.
    fn bytes(&self) -> usize {
        let outer =
            (1..self.rank()).map(|i| (self.map.dims[i] - 1) * self.map.strides_bytes[i - 1]);
        let row = self.map.dims[0] * self.map.data_type.bytes();
        (outer.sum::<u64>() + row.next_multiple_of(UNIT)) as usize
    }

    fn extents(&self) -> Vec<u32> {
        let stride = |i: usize| {
            if i == 0 {
                1
            } else {
                self.map.element_strides[i]
            }
        };
        let extent = |i: usize| self.map.box_dims[i].div_ceil(stride(i));
        (0..self.rank()).map(extent).collect()
    }

    /// For each byte of shared memory, from an address that is a multiple of 1024 on: the byte of
    /// the tensor that it comes from, or `None` outside the tensor. Rows of the tensor have
    /// `row_bytes`.
    fn image(&self, row_bytes: u64) -> Vec<Option<usize>> {
        let element = self.map.data_type.bytes() as usize;
        let extents = self.extents();
        let total: usize = extents.iter().map(|e| *e as usize).product::<usize>() * element;
        let mut image = vec![None; total];
        for linear in 0..total {
            let mut rest = linear / element;
            let mut from = Some(linear % element);
            for (axis, extent) in extents.iter().enumerate() {
                let own = rest % *extent as usize;
                rest /= *extent as usize;
                let stride = if axis == 0 {
                    1
                } else {
                    self.map.element_strides[axis]
                };
                let at = i64::from(self.start[axis]) + own as i64 * i64::from(stride);
                let dim = match axis {
                    0 => row_bytes / element as u64,
                    _ => self.map.dims[axis],
                };
                let inside = at >= 0 && at < dim as i64;
                let bytes = match axis {
                    0 => element as u64,
                    _ => self.map.strides_bytes[axis - 1],
                };
                from = from
                    .filter(|_| inside)
                    .map(|from| from + (at as u64 * bytes) as usize);
            }
            // Row and 16-byte column in the pattern that the swizzle works on.
            let (row, column) = (linear / 128, linear % 128 / 16);
            let column = match self.map.swizzle {
                Swizzle::None => column,
                Swizzle::B32 => column ^ (row % 2),
                Swizzle::B64 => column ^ (row % 4),
                Swizzle::B128 => column ^ (row % 8),
            };
            image[128 * row + 16 * column + linear % 16] = from;
        }
        image
    }

    /// The bytes that a load brings.
    fn read(&self) -> Vec<Option<usize>> {
        self.image(self.map.dims[0] * self.map.data_type.bytes())
    }

    /// The bytes that a store writes.
    fn written(&self) -> Vec<Option<usize>> {
        let row = self.map.dims[0] * self.map.data_type.bytes();
        match i64::from(self.start[0]) < self.map.dims[0] as i64 {
            true => self.image(row.next_multiple_of(UNIT)),
            false => self.read(), // nothing
        }
    }

    fn params(&self, map: &[u8; 128], buffer: u64, bytes: usize) -> Vec<Vec<u8>> {
        let mut params = vec![
            map.to_vec(),
            buffer.to_le_bytes().to_vec(),
            (bytes as u32).to_le_bytes().to_vec(),
        ];
        params.extend(self.start.iter().map(|at| at.to_le_bytes().to_vec()));
        params
    }

    /// Loads the box and compares shared memory with the formula. Loads must begin at multiples of
    /// 16 bytes, so the box is moved to one.
    fn check_load(&mut self, seed: u64) {
        let step = 16 / self.map.data_type.bytes() as i32;
        self.start[0] = self.start[0].div_euclid(step) * step;
        let machine = Machine::new("pass", "tensor_tile", seed);
        let data: Vec<u8> = (0..self.bytes())
            .map(|i| ((i * 31) >> 3 ^ i) as u8)
            .collect();
        self.map.address = machine.buffer(&data);
        let map = self.map.encode().expect("the map is valid");
        let image = self.read();
        let out = machine.buffer(&vec![0xaa; image.len()]);
        let kernel = format!("load{}", self.rank());
        let params = self.params(&map, out, image.len());
        machine
            .launch(&kernel, &shape(1, 64, image.len() as u32), &params)
            .unwrap_or_else(|error| panic!("{:?}: {error}", self.map));
        let want: Vec<u8> = image
            .iter()
            .map(|from| from.map_or(0, |from| data[from]))
            .collect();
        let got = machine.bytes(out, image.len());
        let wrong = (0..got.len()).find(|i| got[*i] != want[*i]);
        assert_eq!(wrong, None, "{:?} at {:?}", self.map, self.start);
    }

    /// Stores the box and compares the tensor with the formula.
    fn check_store(&mut self, seed: u64) {
        let machine = Machine::new("pass", "tensor_tile", seed);
        let mut want = vec![0x55; self.bytes()];
        self.map.address = machine.buffer(&want);
        let map = self.map.encode().expect("the map is valid");
        let image = self.written();
        let data: Vec<u8> = (0..image.len())
            .map(|i| ((i * 37) >> 2 ^ i) as u8)
            .collect();
        let source = machine.buffer(&data);
        let kernel = format!("store{}", self.rank());
        let params = self.params(&map, source, image.len());
        machine
            .launch(&kernel, &shape(1, 96, image.len() as u32), &params)
            .unwrap_or_else(|error| panic!("{:?}: {error}", self.map));
        for (byte, to) in data.iter().zip(&image) {
            if let Some(to) = to {
                want[*to] = *byte;
            }
        }
        let got = machine.bytes(self.map.address, want.len());
        let wrong = (0..got.len()).find(|i| got[*i] != want[*i]);
        assert_eq!(wrong, None, "{:?} at {:?}", self.map, self.start);
    }
}

/// A tensor of this rank, with odd extents and a box that is not aligned to it.
fn tensor(rank: usize, data_type: TensorMapType, swizzle: Swizzle) -> Tensor {
    let dims = [100, 9, 7, 5, 4];
    let mut strides = vec![100 * data_type.bytes() + 112];
    strides[0] = strides[0].next_multiple_of(16);
    for dim in &dims[1..4] {
        let before = strides[strides.len() - 1];
        strides.push(before * dim + 16);
    }
    let row = swizzle.span().unwrap_or(64);
    let inner = (row / data_type.bytes()) as u32;
    Tensor {
        map: TensorMapDesc {
            data_type,
            address: 0,
            dims: dims[..rank].to_vec(),
            strides_bytes: strides[..rank - 1].to_vec(),
            box_dims: [inner, 6, 3, 2, 3][..rank].to_vec(),
            element_strides: vec![1; rank],
            swizzle,
            fill: Fill::Zeros,
        },
        start: [0; 5],
    }
}

#[test]
fn boxes_of_every_rank_load_and_store_at_every_edge() {
    for rank in 1..=5 {
        for start in [
            [0, 0, 0, 0, 0],
            [-3, -2, -1, -1, -2],
            [93, 5, 5, 4, 2],
            [100, 9, 7, 5, 4],
            [17, 1, 2, 3, -1],
        ] {
            let mut tensor = tensor(rank, TensorMapType::F16, Swizzle::None);
            tensor.start = start;
            tensor.check_load(0);
            // A store does not begin before the innermost dimension.
            tensor.start[0] = start[0].max(0);
            tensor.check_store(0);
        }
    }
}

#[test]
fn every_swizzle_is_the_hardware_s() {
    for swizzle in Swizzle::ALL {
        for data_type in [TensorMapType::U8, TensorMapType::Bf16, TensorMapType::F32] {
            for rank in [2, 3] {
                let mut tensor = tensor(rank, data_type, swizzle);
                tensor.start = [4, 2, 3, 0, 0];
                tensor.check_store(rank as u64);
                tensor.check_load(rank as u64);
            }
        }
    }
}

#[test]
fn every_type_moves_its_bytes() {
    for data_type in TensorMapType::ALL {
        let flushes = matches!(
            data_type,
            TensorMapType::F32Ftz | TensorMapType::Tf32 | TensorMapType::Tf32Ftz
        );
        let mut tensor = tensor(2, data_type, Swizzle::None);
        tensor.start = [90, -1, 0, 0, 0];
        tensor.check_store(1);
        if !flushes {
            tensor.check_load(1);
        }
    }
}

#[test]
fn element_strides_leave_elements_out() {
    let mut tensor = tensor(4, TensorMapType::U16, Swizzle::B64);
    tensor.map.box_dims = vec![32, 7, 4, 2];
    tensor.map.element_strides = vec![1, 3, 2, 8];
    tensor.start = [-5, 1, -1, 0, 0];
    tensor.check_load(0);
    tensor.start[0] = 5;
    tensor.check_store(0);
}

/// Words of shared memory after a load of a `[16, 16]` box of f32 from `[8, 4]`, of a tensor that
/// counts from 0 in rows of 64.
fn short_rows(swizzle: Swizzle) -> Vec<u32> {
    let machine = Machine::new("pass", "tensor_short_rows", 0);
    let data: Vec<u8> = (0..40 * 64)
        .flat_map(|i| (i as f32).to_le_bytes())
        .collect();
    let map = TensorMapDesc {
        data_type: TensorMapType::F32,
        address: machine.buffer(&data),
        dims: vec![64, 40],
        strides_bytes: vec![256],
        box_dims: vec![16, 16],
        element_strides: vec![1, 1],
        swizzle,
        fill: Fill::Zeros,
    };
    let map = map.encode().expect("the map is valid");
    let image = 16 * 128u32;
    let out = machine.buffer(&vec![0; image as usize]);
    let mut params = vec![map.to_vec(), out.to_le_bytes().to_vec()];
    params.extend([1024, image, 8, 4].map(|value: u32| value.to_le_bytes().to_vec()));
    machine
        .launch("load2", &shape(1, 64, image), &params)
        .unwrap_or_else(|error| panic!("{swizzle:?}: {error}"));
    let bytes = machine.bytes(out, image as usize);
    let words = bytes.as_chunks::<4>().0;
    words.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// With a 128-byte swizzle, rows of 64 bytes are 128 bytes apart, as measured on an H200.
#[test]
fn rows_shorter_than_the_swizzle_have_a_span_each() {
    let words = short_rows(Swizzle::B128);
    for row in 0..16 {
        for column in 0..32 {
            let chunk = (column / 4) ^ (row % 8);
            let got = words[32 * row + 4 * chunk + column % 4];
            let value = (64 * (row + 4) + column + 8) as f32;
            let want = if column < 16 { value.to_bits() } else { 1 };
            assert_eq!(got, want, "row {row}, column {column}");
        }
    }
}

#[test]
fn a_load_from_between_16_bytes_is_an_illegal_instruction() {
    let mut tensor = tensor(2, TensorMapType::F16, Swizzle::None);
    tensor.start = [3, 0, 0, 0, 0];
    let machine = Machine::new("pass", "tensor_tile", 0);
    tensor.map.address = machine.buffer(&vec![0; tensor.bytes()]);
    let map = tensor.map.encode().expect("the map is valid");
    let params = tensor.params(&map, machine.buffer(&[0; 1024]), 768);
    let error = machine
        .launch("load2", &shape(1, 64, 1024), &params)
        .expect_err("the innermost coordinate is 6 bytes in");
    assert!(error.to_string().contains("coordinate 3"), "{error}");
}

#[test]
fn a_store_before_the_innermost_dimension_is_an_illegal_instruction() {
    let mut tensor = tensor(2, TensorMapType::F32, Swizzle::None);
    tensor.start = [-4, 0, 0, 0, 0];
    let machine = Machine::new("pass", "tensor_tile", 0);
    tensor.map.address = machine.buffer(&vec![0; tensor.bytes()]);
    let map = tensor.map.encode().expect("the map is valid");
    let params = tensor.params(&map, machine.buffer(&[0; 1024]), 768);
    let error = machine
        .launch("store2", &shape(1, 96, 1024), &params)
        .expect_err("the innermost coordinate is negative");
    assert!(error.to_string().contains("coordinate -4"), "{error}");
}

#[test]
fn outside_reads_as_the_nan_of_an_h200() {
    for data_type in [TensorMapType::F16, TensorMapType::F32, TensorMapType::F64] {
        let mut tensor = tensor(2, data_type, Swizzle::None);
        tensor.start = [112, 0, 0, 0, 0];
        tensor.map.fill = Fill::Nan;
        let machine = Machine::new("pass", "tensor_tile", 0);
        tensor.map.address = machine.buffer(&vec![0; tensor.bytes()]);
        let map = tensor.map.encode().expect("the map is valid");
        let bytes = tensor.read().len();
        let out = machine.buffer(&vec![0; bytes]);
        let params = tensor.params(&map, out, bytes);
        machine
            .launch("load2", &shape(1, 64, bytes as u32), &params)
            .unwrap_or_else(|error| panic!("{data_type:?}: {error}"));
        let got = machine.bytes(out, bytes);
        assert!(
            got.as_chunks::<2>()
                .0
                .iter()
                .all(|half| *half == [0xf7, 0x7f])
        );
    }
}
