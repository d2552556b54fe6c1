//! Reductions by the kernels that any device has, beside which others must have the same bits.

use abi::reduce::{ReduceEntry, Variant};
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

/// The variant of the plan for the elements of `x` on `device`, and the bits of the results.
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
    let stream = device.default_stream();
    let plan = reduce.plan(&stream).expect("a plan");
    let variant = variant(&plan.chosen().expect("a reduction").entry);
    let values = reduce.run(&stream).expect("a reduction");
    let values = values.to_vec().expect("the results");
    let bits = values.into_iter().map(TestElement::bits).collect();
    (variant, bits)
}

/// The variant of an entry.
pub(crate) fn variant(name: &str) -> Variant {
    let entry = ReduceEntry::find(|entry| entry.name() == name);
    entry.expect("an entry").variant
}
