//! The emulator goes on after a kernel at fault, and so do operations: memory that launches share
//! is as the next one expects it.
#![cfg(feature = "emulator")]

use warpsmith::emulator::EmulatorConfig;
use warpsmith::half::bf16;
use warpsmith::{
    Attention, Device, EmulatorError, Error, Reduce, ReduceOp, Result, Stream, Tensor,
};

/// A stream of an emulator that nothing else uses.
fn stream() -> Stream {
    let device = Device::emulator_with(EmulatorConfig::default()).expect("an emulator");
    device.stream().expect("a stream")
}

fn assert_is_fault<T>(result: Result<T>) {
    let error = result.err().expect("what was never written is read");
    assert!(
        matches!(error.root(), Error::Emulator(EmulatorError::Launch(_))),
        "{error}"
    );
}

#[test]
fn a_reduction_by_many_blocks_is_right_after_one_that_faulted() {
    let stream = stream();
    let ones = Tensor::full(&stream, &[1 << 18], 1.0_f32).expect("a tensor");
    let sum = Reduce::new(ReduceOp::Sum, &ones);
    let plan = sum.plan(&stream).expect("a plan");
    assert!(plan.chosen().expect("a sum").split > 1, "{plan}");
    // The last block is the one at fault: by then others have taken their tickets.
    let unwritten = Tensor::<f32>::empty(&stream, ones.shape()).expect("a tensor");
    let written = unwritten.slice(0, ..ones.len() - 1).expect("a view");
    written.fill(1.0, &stream).expect("it is filled");
    assert_is_fault(Reduce::new(ReduceOp::Sum, &unwritten).run(&stream));
    let got = sum.run(&stream).expect("it runs").item();
    assert_eq!(got.expect("a number"), ones.len() as f32);
}

#[test]
fn attention_whose_blocks_take_tiles_is_right_after_one_that_faulted() {
    let stream = stream();
    let shape = [1, 512, 2, 64];
    let ones = Tensor::full(&stream, &shape, bf16::ONE).expect("a tensor");
    let unwritten = Tensor::<bf16>::empty(&stream, &shape).expect("a tensor");
    assert_is_fault(
        Attention::new(&ones, &ones, &unwritten)
            .causal()
            .run(&stream),
    );
    let causal = Attention::new(&ones, &ones, &ones).causal();
    let o = causal.run(&stream).expect("it runs").to_vec();
    assert!(o.expect("numbers").iter().all(|&o| o == bf16::ONE));
}
