//! Long rows of so many parts that they are merged by sections first.

use abi::reduce::{ReduceEntry, ReduceParams, ReducePlan, ReduceView, THREADS, Variant};
use half::bf16;
use warpsmith::testing::launch;
use warpsmith::{Device, Element, LaunchConfig, ReduceOp, Reducible, Tensor};

/// Rows in short parts, so that few elements make many sections.
struct Sectioned {
    rows: u64,
    vectors: u64,
    /// Vectors of a part.
    of_part: u64,
    section: u64,
}

impl Sectioned {
    fn plan(&self, lanes: u64) -> ReducePlan {
        let parts = self.vectors.div_ceil(self.of_part);
        ReducePlan {
            along: THREADS,
            across: 1,
            is_across: false,
            rows: abi::reduce::ROWS_WHOLE,
            variant: Variant::Long,
            chunks: parts,
            chunk_len: self.of_part * lanes,
            width: 1,
            groups: self.rows,
            parts,
            section: self.section,
            blocks: (self.rows * parts) as u32,
        }
    }

    /// Sums and extremes of small integers in direct launches: they are exact.
    fn check<T: Reducible + Element>(&self, device: &Device, convert: impl Fn(f32) -> T) {
        let stream = device.stream().expect("a stream");
        let lanes = 16 / size_of::<T>() as u64;
        let plan = self.plan(lanes);
        let n = self.vectors * lanes;
        let of_row = |row: u64| (0..n).map(move |i| ((i * 7 + row) % 5) as f32 - (row % 2) as f32);
        let xs: Vec<T> = (0..self.rows).flat_map(of_row).map(convert).collect();
        let x = Tensor::from_slice(device, &[xs.len()], &xs).expect("a tensor");
        let view = ReduceView::contiguous(self.rows, n, 1);
        for op in [ReduceOp::Sum, ReduceOp::Max] {
            let entry = ReduceEntry::of(op.family(), T::DTYPE, false).expect("an entry");
            let params = ReduceParams::new(op, view, &plan, T::DTYPE);
            let words = plan.partials() as usize * entry.partial_words();
            let partials = Tensor::<f32>::zeros(&stream, &[words]).expect("a tensor");
            let tickets =
                Tensor::<i32>::zeros(&stream, &[plan.tickets() as usize]).expect("a tensor");
            let out = Tensor::full(&stream, &[self.rows as usize], f32::NAN).expect("a tensor");
            let entry = entry.for_plan(&plan).expect("an entry");
            let config = LaunchConfig::linear(plan.blocks, THREADS);
            let expected: Vec<f32> = (0..self.rows)
                .map(|row| match op {
                    ReduceOp::Sum => of_row(row).sum(),
                    _ => of_row(row).fold(f32::MIN, f32::max),
                })
                .collect();
            // The second launch takes the tickets that the first one has left.
            for _ in 0..2 {
                out.fill(f32::NAN, &stream).expect("a fill");
                let memory = (&x, &partials, &tickets, &out);
                // SAFETY: x has the view's elements; there are the plan's partial results and
                // tickets, which are 0, and one output a row.
                unsafe { launch(&stream, entry, config, memory, &params) }.expect("a launch");
                assert_eq!(out.to_vec().expect("sums"), expected, "{plan:?}");
                let left = tickets.to_vec().expect("tickets");
                assert!(left.iter().all(|&ticket| ticket == 0), "{plan:?}");
            }
        }
    }
}

#[test]
fn sections_are_merged_to_the_same_sums() {
    for device in warpsmith::testing::devices() {
        for (rows, vectors, of_part, section) in [
            (1, 100, 3, 4),
            (3, 100, 3, 5),
            (2, 257, 1, 256),
            (2, 64, 8, 7),
            (1, 700, 1, 2),
        ] {
            let sectioned = Sectioned {
                rows,
                vectors,
                of_part,
                section,
            };
            sectioned.check::<f32>(&device, |x| x);
            sectioned.check::<bf16>(&device, bf16::from_f32);
        }
    }
}
