//! A user-defined function (that of example 07) on tensors of any layout.

use half::bf16;
use proptest::prelude::*;
use warpsmith::reference::Expected;
use warpsmith::{DType, Device, Error, KernelError, Map, ShapeError, Tensor};
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{agrees, run_repeatedly};
use warpsmith_tests::output::Output;
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say};

pub(super) const PTX: &str = include_str!("../../../examples/kernels/ptx/sm_75/swish_gate.ptx");

/// x sigmoid(beta x) gate: the shape, which extents of beta and gate are 1, layouts, seed.
type Case = (Vec<usize>, [bool; 4], [View; 4], u32);

fn check((shape, ones, views, seed): &Case, device: &Device) -> Checked {
    let stream = device.stream().map_err(say)?;
    let kernel = device
        .load_ptx(PTX)
        .and_then(|module| module.kernel("swish_gate"));
    let kernel = kernel.map_err(say)?;
    let draw = |t: usize, shape: &[usize]| {
        let seed = u64::from(*seed) + t as u64;
        Operand::<bf16>::draw(device, shape, Values::Uniform, views[t], seed)
    };
    let part = |ones: &[bool]| -> Vec<usize> {
        let extents = shape.iter().zip(ones);
        extents
            .map(|(&extent, &one)| if one { 1 } else { extent })
            .collect()
    };
    let x = draw(0, shape)?;
    let (beta, gate) = (draw(1, &part(&ones[..2]))?, draw(2, &part(&ones[2..]))?);
    let map = Map::new(&kernel)
        .input(&x.tensor)
        .input(&beta.tensor)
        .input(&gate.tensor)
        .output::<bf16>();
    let output = || Output::<bf16>::new(device, shape, views[3]);
    // SAFETY: the kernel maps three inputs of bf16 to one output of bf16.
    let got = run_repeatedly(output, |y| unsafe { map.run_into(&y.tensor, &stream) })?;
    let [beta, gate] = [&beta, &gate].map(|t| t.values.broadcast(shape.clone()));
    let (Some(beta), Some(gate)) = (beta, gate) else {
        return Err("the operands do not broadcast".into());
    };
    let mut want = x.values.clone();
    ndarray::Zip::from(&mut want)
        .and(&beta)
        .and(&gate)
        .for_each(|x, beta, gate| {
            *x = *x / (1.0 + (-beta * *x).exp()) * gate;
        });
    // Products and quotients are rounded; the exponential has the error of its argument's rounding.
    agrees(&got, &Expected::within_ulps(DType::Bf16, want, 8.0))
}

#[test]
fn a_function_of_ones_own_broadcasts_and_takes_any_layout() {
    let effort = Effort {
        cases: [100, 500],
        largest: [90, 5000],
    };
    let case = |largest: usize| {
        let shape = (extent(largest), extent(50)).prop_map(|(rows, columns)| vec![rows, columns]);
        let views = [
            View::any().boxed(),
            View::any().boxed(),
            View::any().boxed(),
            View::writable().boxed(),
        ];
        (shape, any::<[bool; 4]>(), views, any::<u32>())
    };
    holds(effort, case, check);
}

#[test]
fn maps_refuse_what_does_not_fit() {
    let device = Device::emulator().expect("an emulator");
    let stream = device.stream().expect("a stream");
    let kernel = device
        .load_ptx(PTX)
        .and_then(|module| module.kernel("swish_gate"));
    let kernel = kernel.expect("a kernel");
    let x = Tensor::<bf16>::zeros(&stream, &[4]).expect("a tensor");
    let y = Tensor::<bf16>::zeros(&stream, &[4]).expect("a tensor");
    // SAFETY: nothing is launched.
    let run = |map: Map<'_, bf16>, y: &Tensor<bf16>| unsafe { map.run_into(y, &stream) };
    let two = Map::new(&kernel).input(&x).input(&x).output::<bf16>();
    assert!(matches!(
        run(two, &y).as_ref().map_err(Error::root),
        Err(Error::Kernel(KernelError::ArgumentCount { .. }))
    ));
    let five = two.input(&x).input(&x).input(&x);
    assert!(matches!(
        run(five, &y).as_ref().map_err(Error::root),
        Err(Error::Shape(ShapeError::OutOfBounds { got: 5, .. }))
    ));
    let longer = Tensor::<bf16>::zeros(&stream, &[5]).expect("a tensor");
    assert!(matches!(
        run(two.input(&x), &longer).as_ref().map_err(Error::root),
        Err(Error::Shape(ShapeError::Mismatch { .. }))
    ));
}
