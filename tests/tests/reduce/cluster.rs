//! Single rows of medium length, whose parts one cluster has. Results are within their bounds, with
//! the same bits as through tickets, and nothing but the result is written to global memory.

use abi::reduce::Variant;
use half::bf16;
use ndarray::ArrayD;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::{Device, Reduce, ReduceOp, Reducible, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::profiled;
use warpsmith_tests::values::Values;

use super::portable::{portable, turing};
use super::{Case, check};

/// The operations of the entries, and of those of small rows.
pub(crate) const OPS: [ReduceOp; 8] = [
    ReduceOp::Sum,
    ReduceOp::Mean,
    ReduceOp::Prod,
    ReduceOp::Max,
    ReduceOp::Min,
    ReduceOp::Norm1,
    ReduceOp::Norm2,
    ReduceOp::NormInf,
];

/// Vectors of 16 bytes: where the number of parts changes, or a part gets a vector more than another.
const VECTORS: [usize; 10] = [
    4096, 4097, 8191, 8192, 8193, 16_384, 16_385, 65_535, 65_536, 65_537,
];

fn lanes<T>() -> usize {
    16 / size_of::<T>()
}

#[test]
fn rows_of_every_number_of_parts_match_the_reference() {
    for device in warpsmith::testing::devices() {
        for vectors in VECTORS {
            within_bounds::<f32>(&device, vectors);
            within_bounds::<bf16>(&device, vectors);
        }
    }
}

fn within_bounds<T: TestElement>(device: &Device, vectors: usize) {
    // All operations of rows that do not take long, one after the other for the rest.
    let ops = match vectors < 10_000 {
        true => &OPS[..],
        false => &[OPS[vectors % OPS.len()], ReduceOp::Sum],
    };
    for &op in ops {
        let case = Case {
            shape: vec![vectors * lanes::<T>()],
            axes: None,
            keep_dims: false,
            op: Some(op.name().into()),
            wide: false,
            ddof: 0,
            dtype: T::DTYPE,
            view: View::Contiguous,
            view_y: View::Contiguous,
            values: Values::Wide,
            seed: vectors as u64,
        };
        check(&case, device).unwrap_or_else(|error| panic!("{op:?} of {vectors}: {error}"));
    }
}

#[test]
fn bits_are_the_same_in_a_cluster_and_through_tickets() {
    let turing = turing(0);
    for device in warpsmith::testing::devices() {
        if device.arch() < (9, 0) {
            continue;
        }
        for vectors in VECTORS {
            same_bits::<f32>(&device, &turing, vectors);
            same_bits::<bf16>(&device, &turing, vectors);
        }
    }
}

/// Warps of other blocks come first, or last: no block's slots are written before it runs, and none
/// is read before it is written.
#[test]
fn bits_do_not_depend_on_the_order_of_blocks_and_warps() {
    for seed in 1..6 {
        let config = EmulatorConfig {
            seed,
            ..EmulatorConfig::default()
        };
        let device = Device::emulator_with(config).expect("an emulator");
        let turing = turing(seed);
        same_bits::<f32>(&device, &turing, 4097);
        same_bits::<bf16>(&device, &turing, 16_385);
    }
}

fn same_bits<T>(device: &Device, turing: &Device, vectors: usize)
where
    T: Reducible<Value: TestElement> + TestElement,
{
    let stream = device.stream().expect("a stream");
    let shape = [vectors * lanes::<T>()];
    for values in [Values::Wide, Values::Special] {
        let drawn = values.draw(&shape, vectors as u64);
        for op in OPS {
            // Products of numbers near 1 neither overflow nor vanish.
            let near = |x: f64| if x.is_finite() { 1.0 + x / 2048.0 } else { x };
            let xs = match (op, values) {
                (ReduceOp::Prod, Values::Special) => drawn.mapv(near),
                (ReduceOp::Prod, _) => Values::Uniform.draw(&shape, 1).mapv(|x| 1.0 + x / 64.0),
                _ => drawn.clone(),
            };
            let x = laid_out::<T>(device, xs);
            let sum = Reduce::new(op, &x).run(&stream).expect("a reduction");
            let got = sum.item().expect("one").bits();
            // What devices without clusters do: the same parts, merged by the block that is last.
            let (form, want) = portable(op, &x, 0, turing);
            assert_eq!(form, Variant::Long);
            assert_eq!(
                vec![got],
                want,
                "{op:?} of {vectors} vectors of {}",
                T::DTYPE
            );
        }
    }
}

fn laid_out<T: TestElement>(device: &Device, xs: ArrayD<f64>) -> Tensor<T> {
    let x = Operand::<T>::lay_out(device, xs, View::Contiguous);
    x.expect("an operand").tensor
}

#[test]
fn one_block_or_cluster_writes_nothing_but_the_result() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    for (vectors, is_alone) in [(4096, true), (4097, true), (65_536, true), (65_537, false)] {
        let n = vectors * lanes::<f32>();
        let x = Tensor::full(&stream, &[n], 1.0_f32).expect("a tensor");
        let sum = Reduce::new(ReduceOp::Sum, &x).run(&stream).expect("a sum");
        assert_eq!(sum.item().expect("one"), n as f32);
        let launch = device.last_launch().expect("a launch");
        let global = &launch.counters().global;
        assert_eq!(global.stores.bytes == 4, is_alone, "{vectors}");
        assert_eq!(global.atomics.bytes == 0, is_alone, "{vectors}");
        assert_eq!(global.loads.bytes == 16 * vectors as u64, is_alone);
    }
}
