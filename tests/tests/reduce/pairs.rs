//! Dot products of two tensors, with the same or with different layouts.

use proptest::prelude::*;
use warpsmith::reference::reduce::{Options, dot};
use warpsmith::{DType, Device, Reduce, Reducible};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::View;
use warpsmith_tests::operation::{agrees, run_repeatedly};
use warpsmith_tests::output::Output;
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::rows::signed;
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say};

use super::{operand, with_reducible};

#[derive(Clone, Debug)]
struct Case {
    shape: [usize; 2],
    axis: Option<usize>,
    dtype: DType,
    views: [View; 2],
    wide: bool,
    seed: u64,
}

fn check(case: &Case, device: &Device) -> Checked {
    with_reducible!(case.dtype, check_of(case, device))
}

fn check_of<T: Reducible<Value: TestElement> + TestElement>(
    case: &Case,
    device: &Device,
) -> Checked {
    let is_integer = matches!(T::DTYPE, DType::I32 | DType::I64);
    let values = if is_integer {
        Values::Integers
    } else {
        Values::Wide
    };
    let [x, y] = [0, 1].map(|i| {
        operand::<T>(
            device,
            &case.shape,
            values,
            case.views[i],
            case.seed + i as u64,
        )
    });
    let (x, y) = (x?, y?);
    let mut operation = Reduce::dot(&x.tensor, &y.tensor);
    if let Some(axis) = case.axis {
        operation = operation.axis(signed(axis, 2));
    }
    let stream = device.stream().map_err(say)?;
    let axes = case.axis.map(|axis| vec![axis]);
    let dtype = match T::DTYPE {
        DType::F64 | DType::I32 | DType::I64 => DType::F64,
        _ if case.wide => DType::F64,
        _ => DType::F32,
    };
    let model = operation.model().map_err(say)?;
    let options = Options { ddof: 0, dtype };
    let want = dot(
        &x.values.view(),
        &y.values.view(),
        axes.as_deref(),
        &options,
        &model,
    );
    let want = want.map_err(say)?;
    let shape = want.values.shape().to_vec();
    if case.wide {
        let output = || Output::<f64>::new(device, &shape, View::Contiguous);
        let got = run_repeatedly(output, |out| {
            operation.output::<f64>().run_into(&out.tensor, &stream)
        })?;
        return agrees(&got, &want);
    }
    let output = || Output::<T::Value>::new(device, &shape, View::Contiguous);
    let got = run_repeatedly(output, |out| operation.run_into(&out.tensor, &stream))?;
    agrees(&got, &want)
}

#[test]
fn dot_products_match_their_reference() {
    let case = |largest: usize| {
        let dtype = prop::sample::select(super::DTYPES.to_vec());
        let axis = prop::option::of(0..2_usize);
        let views = [View::any(), View::any()];
        let shape = (extent(60), extent(largest * 4));
        let rest = (any::<[bool; 3]>(), any::<u32>());
        (shape, axis, dtype, views, rest).prop_map(
            |((a, b), axis, dtype, views, ([turned, wide, alike], seed))| Case {
                shape: if turned { [b, a] } else { [a, b] },
                axis,
                dtype,
                views: if alike { [views[0]; 2] } else { views },
                wide,
                seed: u64::from(seed),
            },
        )
    };
    let effort = Effort {
        cases: [150, 750],
        largest: [300, 20_000],
    };
    holds(effort, case, check);
}

#[test]
fn tensors_of_two_shapes_are_refused() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let [x, y] = [[3, 4], [4, 3]]
            .map(|shape| warpsmith::Tensor::<f32>::zeros(&stream, &shape).expect("a tensor"));
        let refused = Reduce::dot(&x, &y).run(&stream).expect_err("two shapes");
        let text = refused.to_string();
        assert!(text.contains("[4, 3]") && text.contains("[3, 4]"), "{text}");
    }
}
