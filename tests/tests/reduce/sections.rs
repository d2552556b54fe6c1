//! Long rows of so many parts that they are merged by sections first. The host cuts rows so from 512
//! MiB on; here the parts of a short one are made shorter.

use std::mem::offset_of;

use abi::reduce::ReduceParams;
use half::bf16;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::{Element, Reduce, ReduceOp, Reducible, Tensor};
use warpsmith_tests::replay::{launches, read_after, set};
use warpsmith_tests::{emulator, recording};

/// Parameters of the kernel.
const TICKETS: usize = 2;
const PARAMS: usize = 4;

/// Of which sums and extremes are taken by the same entry.
const ARCH: (u32, u32) = (7, 5);

struct Sectioned {
    rows: usize,
    vectors: usize,
    /// Vectors of a part.
    of_part: usize,
    section: usize,
}

impl Sectioned {
    /// Sums and extremes of small integers are exact.
    fn check<T: Reducible<Value = f32> + Element>(&self, convert: impl Fn(f32) -> T) {
        let lanes = 16 / size_of::<T>();
        let n = self.vectors * lanes;
        let of_row =
            |row: usize| (0..n).map(move |i| ((i * 7 + row) % 5) as f32 - (row % 2) as f32);
        let xs: Vec<T> = (0..self.rows).flat_map(of_row).map(convert).collect();
        for op in [ReduceOp::Sum, ReduceOp::Max] {
            let expected: Vec<f32> = (0..self.rows)
                .map(|row| match op {
                    ReduceOp::Sum => of_row(row).sum(),
                    _ => of_row(row).fold(f32::MIN, f32::max),
                })
                .collect();
            let recording = recording(ARCH, 2, EmulatorConfig::default());
            let device = recording.device();
            let stream = device.default_stream();
            let x = Tensor::from_slice(device, &[self.rows, n], &xs).expect("a tensor");
            let out = Tensor::<f32>::empty(&stream, &[self.rows]).expect("a tensor");
            // The second launch takes the tickets that the first one has left.
            for _ in 0..2 {
                out.fill(f32::NAN, &stream).expect("a fill");
                let reduce = Reduce::new(op, &x).axis(1);
                reduce.run_into(&out, &stream).expect("a reduction");
                assert_eq!(out.to_vec().expect("the results"), expected);
            }
            let mut capture = recording.capture().expect("a capture");
            for launch in launches(&mut capture, "reduce_value") {
                let parts = self.vectors.div_ceil(self.of_part);
                launch.config.grid = [(self.rows * parts) as u32, 1, 1];
                for (offset, value) in [
                    (offset_of!(ReduceParams, chunks), parts),
                    (offset_of!(ReduceParams, chunk_len), self.of_part * lanes),
                    (offset_of!(ReduceParams, section), self.section),
                ] {
                    set(launch, PARAMS, offset, (value as u64).to_le_bytes());
                }
            }
            let left = read_after(&mut capture, "reduce_value", TICKETS, 0);
            let left = left.expect("the tickets");
            // SAFETY: the emulator checks every access.
            let mut read = unsafe { capture.replay(&emulator(ARCH, 2, EmulatorConfig::default())) }
                .expect("the same launches in more parts");
            let sections = self.vectors.div_ceil(self.of_part).div_ceil(self.section);
            let tickets = &read.remove(left)[..4 * self.rows * (sections + 1)];
            assert!(tickets.iter().all(|&byte| byte == 0), "{tickets:?}");
            let want: Vec<u8> = expected.into_iter().flat_map(f32::to_le_bytes).collect();
            assert_eq!(read, [want.clone(), want], "{op:?}");
        }
    }
}

#[test]
fn sections_are_merged_to_the_same_sums() {
    for (rows, vectors, of_part, section) in [
        (2, 1100, 33, 4),
        (3, 1100, 33, 5),
        (2, 1285, 5, 256),
        (2, 1088, 136, 7),
        (2, 1400, 2, 2),
    ] {
        let sectioned = Sectioned {
            rows,
            vectors,
            of_part,
            section,
        };
        sectioned.check::<f32>(|x| x);
        sectioned.check::<bf16>(bf16::from_f32);
    }
}
