//! Counters of shared memory: no entry has a bank conflict.

use std::collections::BTreeSet;

use abi::gemm::sm90::Sm90Entry;
use half::{bf16, f16};
use warpsmith::{Device, E4m3, E5m2, Float, Gemm, GemmInput, Precision};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::profiled;
use warpsmith_tests::values::Values;

/// Extents: tiles for any number of rows, and those for up to 128.
const SHAPES: [[usize; 3]; 2] = [[256, 256, 128], [128, 448, 128]];

/// Entries that there are, those that were run, and what had conflicts.
#[derive(Default)]
struct Seen {
    wanted: BTreeSet<String>,
    entries: BTreeSet<String>,
    conflicts: Vec<String>,
}

impl Seen {
    /// Runs every candidate that is one launch, but for copies, of `a @ b` in every layout.
    fn run<A, B, Out>(&mut self, device: &Device)
    where
        A: GemmInput<B> + TestElement,
        B: TestElement,
        Out: Float + TestElement,
    {
        self.want::<A, B, Out>();
        for shape in SHAPES {
            for views in [
                [View::Contiguous, View::Transposed],
                [View::Contiguous, View::Contiguous],
                [View::Transposed, View::Contiguous],
                [View::Transposed, View::Transposed],
            ] {
                self.run_layout::<A, B, Out>(device, shape, views);
            }
        }
    }

    /// All entries of these types.
    fn want<A: TestElement, B: TestElement, Out: TestElement>(&mut self) {
        let dtypes = (A::DTYPE, B::DTYPE, Out::DTYPE);
        let of_these = |entry: &&Sm90Entry| (entry.a, entry.b, entry.output) == dtypes;
        let entries = Sm90Entry::ALL.iter().filter(of_these);
        self.wanted.extend(entries.map(Sm90Entry::to_string));
    }

    fn run_layout<A, B, Out>(&mut self, device: &Device, [m, n, k]: [usize; 3], views: [View; 2])
    where
        A: GemmInput<B> + TestElement,
        B: TestElement,
        Out: Float + TestElement,
    {
        let stream = device.stream().expect("there is a stream");
        let draw = |shape: [usize; 2], seed| (device, shape, Values::Integers, seed);
        let a = operand::<A>(draw([m, k], 1), views[0]);
        let b = operand::<B>(draw([k, n], 2), views[1]);
        let bias = operand::<Out>((device, [1, n], Values::Integers, 3), View::Contiguous);
        let bias = bias.tensor.reshape(&[n]).expect("it is contiguous");
        let gemm = Gemm::new(&a.tensor, &b.tensor)
            .output::<Out>()
            .precision(Precision::Tf32);
        for gemm in [gemm, gemm.column_bias(&bias)]
            .into_iter()
            .flat_map(|gemm| [gemm, gemm.fast_accumulation(true)])
        {
            let plan = gemm.plan(&stream).expect("it is a product");
            for candidate in plan.candidates() {
                let (name, entry) = (&candidate.name, &candidate.entry);
                // Partial results and stream-K have the same main loop and more launches.
                if !name.starts_with("gemm_sm90") || name != entry || self.entries.contains(entry) {
                    continue;
                }
                let run = gemm.with_kernel(name).run(&stream);
                run.unwrap_or_else(|error| panic!("{name}: {error}"));
                stream.synchronize().expect("it ran");
                let stats = device.last_launch().expect("there was a launch");
                let counters = stats.counters();
                if counters.tensor.wgmma == 0 {
                    continue; // the last launch reduced its partial results
                }
                let conflicts = counters.shared.bank_conflicts;
                if conflicts != 0 {
                    self.conflicts.push(format!("{name}: {conflicts}"));
                }
                self.entries.insert(entry.clone());
            }
        }
    }
}

fn operand<T: TestElement>(
    (device, shape, values, seed): (&Device, [usize; 2], Values, u64),
    view: View,
) -> Operand<T> {
    Operand::draw(device, &shape, values, view, seed).expect("the device has memory")
}

#[test]
fn no_entry_has_a_bank_conflict() {
    let device = profiled();
    let mut seen = Seen::default();
    seen.run::<bf16, bf16, bf16>(&device);
    seen.run::<bf16, bf16, f32>(&device);
    seen.run::<f16, f16, f16>(&device);
    seen.run::<f16, f16, f32>(&device);
    seen.run::<f32, f32, f32>(&device);
    seen.run::<E4m3, E4m3, bf16>(&device);
    seen.run::<E4m3, E4m3, f32>(&device);
    seen.run::<E4m3, E5m2, bf16>(&device);
    seen.run::<E4m3, E5m2, f32>(&device);
    seen.run::<E5m2, E4m3, bf16>(&device);
    seen.run::<E5m2, E4m3, f32>(&device);
    let left: Vec<_> = seen.wanted.difference(&seen.entries).collect();
    assert!(left.is_empty(), "not run: {left:#?}");
    assert!(seen.conflicts.is_empty(), "{:#?}", seen.conflicts);
}
