//! Tensor copies of every rank, swizzle, type and edge, against a formula of the test's own.

use warpsmith_emulator::{Fill, Swizzle, TensorMapDesc, TensorMapType};

use crate::machine::{Machine, shape};

/// A tensor in memory, and the box that is copied.
struct Tensor {
    map: TensorMapDesc,
    start: [i32; 5],
}

impl Tensor {
    fn rank(&self) -> usize {
        self.map.dims.len()
    }

    /// Bytes from the first element to behind the last.
    fn bytes(&self) -> usize {
        let outer =
            (1..self.rank()).map(|i| (self.map.dims[i] - 1) * self.map.strides_bytes[i - 1]);
        (outer.sum::<u64>() + self.map.dims[0] * self.map.data_type.bytes()) as usize
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

    /// For each byte of shared memory from an address that is a multiple of 1024: the byte of the
    /// tensor that it comes from, or `None` outside of the tensor.
    fn image(&self) -> Vec<Option<usize>> {
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
                let inside = at >= 0 && at < self.map.dims[axis] as i64;
                let bytes = match axis {
                    0 => element as u64,
                    _ => self.map.strides_bytes[axis - 1],
                };
                from = from
                    .filter(|_| inside)
                    .map(|from| from + (at as u64 * bytes) as usize);
            }
            // Row and 16-byte column of the span that the swizzle works in.
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

    fn params(&self, map: &[u8; 128], buffer: u64, bytes: usize) -> Vec<Vec<u8>> {
        let mut params = vec![
            map.to_vec(),
            buffer.to_le_bytes().to_vec(),
            (bytes as u32).to_le_bytes().to_vec(),
        ];
        params.extend(self.start.iter().map(|at| at.to_le_bytes().to_vec()));
        params
    }

    /// Loads the box and holds shared memory against the formula.
    fn check_load(&mut self, seed: u64) {
        let machine = Machine::new("pass", "tensor_tile", seed);
        let data: Vec<u8> = (0..self.bytes())
            .map(|i| ((i * 31) >> 3 ^ i) as u8)
            .collect();
        self.map.address = machine.buffer(&data);
        let map = self.map.encode().expect("the map is valid");
        let image = self.image();
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

    /// Stores the box and holds the tensor against the formula.
    fn check_store(&mut self, seed: u64) {
        let machine = Machine::new("pass", "tensor_tile", seed);
        let mut want = vec![0x55; self.bytes()];
        self.map.address = machine.buffer(&want);
        let map = self.map.encode().expect("the map is valid");
        let image = self.image();
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

/// A tensor of that rank, with odd extents and a box that is not aligned to it.
fn tensor(rank: usize, data_type: TensorMapType, swizzle: Swizzle) -> Tensor {
    let dims = [100, 9, 7, 5, 4];
    let mut strides = vec![100 * data_type.bytes() + 112];
    strides[0] = strides[0].next_multiple_of(16);
    for dim in &dims[1..4] {
        let before = strides[strides.len() - 1];
        strides.push(before * dim + 16);
    }
    let row = swizzle.span().unwrap_or(64).min(64 * data_type.bytes());
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
                tensor.check_load(rank as u64);
                tensor.check_store(rank as u64);
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
        if !flushes {
            tensor.check_load(1);
        }
        tensor.check_store(1);
    }
}

#[test]
fn element_strides_leave_elements_out() {
    let mut tensor = tensor(4, TensorMapType::U16, Swizzle::B64);
    tensor.map.box_dims = vec![32, 7, 4, 2];
    tensor.map.element_strides = vec![1, 3, 2, 8];
    tensor.start = [-5, 1, -1, 0, 0];
    tensor.check_load(0);
    tensor.check_store(0);
}
