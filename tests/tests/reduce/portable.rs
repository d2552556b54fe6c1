//! Reductions by the kernels that any device has, beside which others must have the same bits.

use abi::reduce::Variant;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::{Device, Reduce, ReduceOp, Reducible, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::emulator;

/// An emulator of an architecture without clusters, and without instructions for pairs of bf16.
pub(crate) fn turing(seed: u64) -> Device {
    let config = EmulatorConfig {
        seed,
        ..EmulatorConfig::default()
    };
    emulator((7, 5), 2, config)
}

/// The form of the plan for the elements of `x` on `device`, and the bits of the results.
pub(crate) fn portable<T>(
    op: ReduceOp,
    x: &Tensor<T>,
    axis: isize,
    device: &Device,
) -> (Variant, Vec<u64>)
where
    T: Reducible<Value: TestElement> + TestElement,
{
    let elements = x.to_vec().expect("the elements");
    let x = Tensor::from_slice(device, x.shape(), &elements).expect("a tensor");
    let reduce = Reduce::new(op, &x).axis(axis);
    let plan = reduce.plan().expect("a plan");
    let values = reduce.run(&device.default_stream()).expect("a reduction");
    let values = values.to_vec().expect("the results");
    let bits = values.into_iter().map(TestElement::bits).collect();
    (plan.variant, bits)
}
