//! The emulator's counters: no entry has a bank conflict, and weights of few rows are read once.

use std::collections::BTreeSet;

use abi::gemm::MmaEntry;
use abi::gemm::sm90::Sm90Entry;
use half::{bf16, f16};
use warpsmith::emulator::EmulatorConfig;
use warpsmith::{Device, E4m3, E5m2, Float, Gemm, GemmInput, Precision};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::values::Values;
use warpsmith_tests::{emulator, profiled};

use super::ADA;

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
        self.want::<A, B, Out>(device);
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
    fn want<A: TestElement, B: TestElement, Out: TestElement>(&mut self, device: &Device) {
        let dtypes = (A::DTYPE, B::DTYPE, Out::DTYPE);
        let of_these = |entry: &&Sm90Entry| (entry.a, entry.b, entry.output) == dtypes;
        let entries = Sm90Entry::ALL.iter().filter(of_these);
        self.wanted.extend(entries.map(Sm90Entry::to_string));
        let of_these = |entry: &&MmaEntry| {
            let arch = device.arch();
            let runs = (8, 0) <= entry.arch() && entry.arch() <= arch;
            let is_own = arch == ADA || entry.arch() != ADA;
            let dtypes = (entry.a, entry.b) == (A::DTYPE, B::DTYPE);
            runs && is_own && dtypes && entry.writes(Out::DTYPE)
        };
        let entries = MmaEntry::ALL.iter().filter(of_these);
        self.wanted.extend(entries.map(MmaEntry::to_string));
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
                let is_of_family = ["gemm_sm90", "gemm_mma"]
                    .iter()
                    .any(|of| name.starts_with(of));
                if !is_of_family || name != entry || self.entries.contains(entry) {
                    continue;
                }
                let run = gemm.with_kernel(name).run(&stream);
                run.unwrap_or_else(|error| panic!("{name}: {error}"));
                stream.synchronize().expect("it ran");
                let stats = device.last_launch().expect("there was a launch");
                let counters = stats.counters();
                if counters.tensor.wgmma == 0 && counters.tensor.mma == 0 {
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
    let config = EmulatorConfig {
        profile: true,
        ..EmulatorConfig::default()
    };
    let ada = emulator(ADA, 2, config);
    seen.run::<E4m3, E4m3, bf16>(&ada);
    seen.run::<E4m3, E5m2, bf16>(&ada);
    seen.run::<E5m2, E4m3, bf16>(&ada);
    seen.run::<E5m2, E5m2, bf16>(&ada);
    let left: Vec<_> = seen.wanted.difference(&seen.entries).collect();
    assert!(left.is_empty(), "not run: {left:#?}");
    assert!(seen.conflicts.is_empty(), "{:#?}", seen.conflicts);
}

#[test]
fn weights_of_few_rows_are_read_once_and_no_bank_twice() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    let mut ran = BTreeSet::new();
    for (rows, columns_of_b) in [(16, 512), (32, 512), (64, 512), (128, 512), (16, 576)] {
        for view in [View::Contiguous, View::Transposed] {
            let (n, k) = (columns_of_b, 1024);
            let a = operand::<bf16>((&device, [rows, k], Values::Integers, 1), View::Contiguous);
            let b = operand::<bf16>((&device, [k, n], Values::Integers, 2), view);
            let gemm = Gemm::new(&a.tensor, &b.tensor);
            let plan = gemm.plan(&stream).expect("it is a product");
            let candidates = plan.candidates().iter();
            for way in candidates.filter(|way| way.name.starts_with("gemm_decode")) {
                // Whole tiles, of all CTAs that share A, and whole k alone.
                let [tile_m, tile_n, _] = way.tile.map(|extent| extent as usize);
                let shared = tile_n * way.cluster[0] as usize;
                if tile_m != rows || n % shared != 0 || way.split > 1 {
                    continue;
                }
                gemm.with_kernel(&way.name).run(&stream).expect("a product");
                let launch = device.last_launch().expect("a launch");
                let counters = launch.counters();
                let tiles = n / tile_n;
                let bytes = |rows: usize| (rows * k * 2) as u64;
                let (of_a, of_b) = (bytes(rows), bytes(n));
                // A is loaded for each tile along n. Multicast copies count at each destination.
                let of_all = of_b + tiles as u64 * of_a;
                assert_eq!(counters.global.copies_in.bytes, of_all, "{way}");
                assert!(counters.global.distinct_read >= of_a + of_b, "{way}");
                // Sums are read four at a time: if a row does not fill whole rounds of banks, some
                // reads span two rows.
                if tile_n.is_multiple_of(32) {
                    assert_eq!(counters.shared.bank_conflicts, 0, "{way}");
                }
                ran.insert(way.entry.clone());
            }
        }
    }
    assert!(ran.len() >= 7, "{ran:?}");
}
