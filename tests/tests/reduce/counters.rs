//! The emulator's counters: each byte of the input is read once, without bank conflicts.

use abi::reduce::{SHORT_ROWS_OF_THREAD, Variant};
use half::bf16;
use warpsmith::{Device, Element, Reduce, ReduceOp, Reducible, Tensor};
use warpsmith_tests::profiled;

use super::portable::variant;

fn check<T: Reducible + Element>(device: &Device, shape: [usize; 2], axis: Option<usize>, one: T) {
    let stream = device.stream().expect("a stream");
    let ones = || Tensor::full(&stream, &shape, one).expect("a tensor");
    let (x, y) = (ones(), ones());
    for op in [
        ReduceOp::Sum,
        ReduceOp::Argmax,
        ReduceOp::Variance,
        ReduceOp::Max,
        ReduceOp::Prod,
        ReduceOp::Norm1,
        ReduceOp::Norm2,
        ReduceOp::NormInf,
        ReduceOp::Logsumexp,
        ReduceOp::CountNonzero,
        ReduceOp::Dot,
    ] {
        let (reduce, operands) = match op {
            ReduceOp::Dot => (Reduce::dot(&x, &y), 2),
            op => (Reduce::new(op, &x), 1),
        };
        let reduce = match axis {
            Some(axis) => reduce.axis(axis as isize),
            None => reduce,
        };
        let plan = match op.is_index() {
            true => {
                let reduce = reduce.output::<i64>();
                drop(reduce.run(&stream).expect("a reduction"));
                reduce.plan(&stream)
            }
            false => {
                drop(reduce.run(&stream).expect("a reduction"));
                reduce.plan(&stream)
            }
        };
        let plan = plan.expect("a plan");
        let chosen = plan.chosen().expect("a reduction");
        let launch = device.last_launch().expect("a launch");
        let counters = launch.counters();
        let what = format!("{op:?} of {shape:?} over {axis:?} by {chosen}");
        let input = (operands * shape[0] * shape[1] * size_of::<T>()) as u64;
        // The last block reads each partial result once: 4 to 24 bytes.
        let outputs = axis.map_or(1, |axis| shape[1 - axis]) as u64;
        let partials = match chosen.split {
            1 => 0,
            parts => outputs.next_multiple_of(256) * u64::from(parts) * 24,
        };
        // A warp takes as many short rows of bf16 as have 8 vectors a lane. Where the last one has
        // fewer, it reads others again.
        let vectors = (shape[1] * size_of::<T>() / 16) as u64;
        let again = match variant(&chosen.entry) {
            Variant::Short if T::DTYPE == bf16::DTYPE => {
                let rows = 32 * SHORT_ROWS_OF_THREAD / vectors.next_power_of_two();
                let too_few = (rows - shape[0] as u64 % rows) % rows;
                too_few * (shape[1] * size_of::<T>()) as u64
            }
            _ => 0,
        };
        let read = counters.global.loads.bytes;
        assert!(
            read >= input && read <= input + partials + again,
            "{what}: {read} of {input}"
        );
        assert_eq!(counters.shared.bank_conflicts, 0, "{what}");
    }
}

#[test]
fn every_byte_is_read_once_and_no_bank_met_twice() {
    let device = profiled();
    for axis in [None, Some(0), Some(1)] {
        check(&device, [64, 1024], axis, 1.0_f32);
        check(&device, [64, 1000], axis, bf16::ONE);
        check(&device, [700, 16], axis, 1.0_f32);
        check(&device, [3, 20_000], axis, 1.0_f64);
        check(&device, [5000, 16], axis, 1.0_f32);
        check(&device, [2100, 24], axis, bf16::ONE);
        check(&device, [16, 20_000], axis, bf16::ONE);
    }
}
