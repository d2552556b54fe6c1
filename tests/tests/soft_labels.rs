//! `CrossEntropy` of targets that are probabilities: against its reference, in every layout and by
//! every candidate.

use half::{bf16, f16};
use proptest::prelude::*;
use warpsmith::reference::cross_entropy::{
    CrossEntropy as Reference, Reduction as Reduced, cross_entropy_of_probabilities,
};
use warpsmith::testing::devices;
use warpsmith::{
    CrossEntropy, DType, Device, Error, Float, LossAndGradient, Reduction, ShapeError, Tensor,
};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::agrees;
use warpsmith_tests::output::{Output, same_bits};
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::rows::{RowAxes, flat};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say, with_float};

#[derive(Clone, Debug)]
struct Case {
    shape: Vec<usize>,
    axes: RowAxes,
    dtype: DType,
    reduction: Reduction,
    label_smoothing: f32,
    has_weights: bool,
    has_dloss: bool,
    views: [View; 2],
    view_dx: View,
    values: Values,
    seed: u64,
}

const SCALE: f32 = 0.75;

fn check(case: &Case, device: &Device) -> Checked {
    with_float!(case.dtype, check_typed(case, device))
}

fn operation<'a, T: Float>(
    case: &Case,
    x: &'a Tensor<T>,
    (p, weights, dloss): (&'a Tensor<T>, &'a Tensor<f32>, &'a Tensor<f32>),
) -> CrossEntropy<'a, T> {
    let mut of = CrossEntropy::new(x, p);
    if let [axis] = case.axes.signed(case.shape.len())[..] {
        of = of.axis(axis);
    }
    if case.has_weights {
        of = of.class_weights(weights);
    }
    if case.has_dloss {
        of = of.dloss(dloss);
    }
    of.label_smoothing(case.label_smoothing)
        .gradient_scale(SCALE)
        .reduction(case.reduction)
}

fn check_typed<T: Float + TestElement>(case: &Case, device: &Device) -> Checked {
    let stream = device.stream().map_err(say)?;
    let [view, view_p] = case.views;
    let x = Operand::<T>::draw(device, &case.shape, case.values, view, case.seed)?;
    // Some are 0, and they do not add up to 1.
    let p = Values::Uniform.draw(&case.shape, case.seed + 1);
    let p = Operand::<T>::nearest(device, p.mapv(|p| p.max(0.0)), view_p)?;
    let outer: &[usize] = &case.axes.of_rows(&case.shape);
    let n = case.axes.of_row(&case.shape);
    let weights = Values::Uniform.draw(&n, case.seed + 2);
    let weights = weights.mapv(|x| f64::from((x.abs() + 0.125) as f32));
    let weights = Operand::<f32>::lay_out(device, weights, View::Sliced)?;
    let (of_loss, reduced) = match case.reduction {
        Reduction::None => (outer, Reduced::None),
        Reduction::Mean => (&[][..], Reduced::Mean),
        Reduction::Sum => (&[][..], Reduced::Sum),
    };
    let values = Values::Uniform;
    let dloss = Operand::<f32>::draw(device, of_loss, values, View::Sliced, case.seed + 3)?;
    let inputs = (&p.tensor, &weights.tensor, &dloss.tensor);
    let of_x = operation(case, &x.tensor, inputs);
    let class_weights: Vec<f64> = weights.values.iter().copied().collect();
    let of_losses: Vec<f64> = dloss.values.iter().copied().collect();
    let of = Reference {
        class_weights: case.has_weights.then_some(&class_weights),
        ignore_index: 0,
        label_smoothing: f64::from(case.label_smoothing),
        gradient_scale: f64::from(SCALE),
        dloss: case.has_dloss.then_some(&of_losses),
        reduction: reduced,
    };
    let (loss, gradient) = cross_entropy_of_probabilities(
        &case.axes.rows(&x.values).view(),
        &case.axes.rows(&p.values).view(),
        T::DTYPE,
        &of,
        &of_x.model().map_err(say)?,
    )
    .map_err(say)?;
    let check = |of: CrossEntropy<'_, T>, dx: &Output<T>| {
        let got = Output::<f32>::new(device, of_loss, View::Contiguous)?;
        let out = LossAndGradient {
            loss: got.tensor.clone(),
            dlogits: dx.tensor.clone(),
        };
        let alone = of.run(&stream).map_err(say)?.to_ndarray().map_err(say)?;
        of.gradient().run_into(&out, &stream).map_err(say)?;
        let got = got.read()?;
        match case.reduction {
            Reduction::None => agrees(&flat(&got), &loss),
            Reduction::Mean | Reduction::Sum => agrees(&got, &loss),
        }
        .map_err(|error| format!("loss: {error}"))?;
        same_bits(&got, &alone).map_err(|error| format!("without a gradient: {error}"))?;
        agrees(&case.axes.rows(&dx.read()?), &gradient)
            .map_err(|error| format!("gradient: {error}"))
    };
    let copy = || Output::with(device, &x.values.mapv(|x| T::from_f64(x)), case.view_dx);
    for is_in_place in [false, true] {
        let place = copy()?;
        let itself = place.tensor.clone();
        let of = match is_in_place {
            true => operation(case, &itself, inputs),
            false => of_x,
        };
        let plan = of.plan(&stream).map_err(say)?;
        check(of, &place)?;
        for candidate in plan.candidates() {
            let place = copy()?;
            let itself = place.tensor.clone();
            let of = match is_in_place {
                true => operation(case, &itself, inputs),
                false => of_x,
            };
            check(of.with_kernel(&candidate.name), &place)
                .map_err(|error| format!("{}: {error}", candidate.name))?;
        }
    }
    x.expect_unchanged()?;
    p.expect_unchanged()
}

fn case(largest: usize) -> impl Strategy<Value = Case> {
    let shape = prop_oneof![
        extent(largest * 8).prop_map(|n| vec![n + 1]),
        (extent(40), extent(largest)).prop_map(|(a, b)| vec![a, b + 1]),
        (extent(7), extent(17), extent(33)).prop_map(|(a, b, c)| vec![a, b, c + 1]),
    ];
    let axes = |rank: usize| {
        prop_oneof![
            2 => Just(RowAxes::default()),
            1 => (0..rank).prop_map(|axis| RowAxes(vec![axis])),
        ]
    };
    let shape = shape.prop_flat_map(move |shape| (axes(shape.len()), Just(shape)));
    let dtype = prop::sample::select(vec![DType::F32, DType::F16, DType::Bf16]);
    let reductions = vec![Reduction::None, Reduction::Mean, Reduction::Sum];
    let smoothing = prop::sample::select(vec![0.0, 0.0, 0.1, 1.0]);
    let options = (
        prop::sample::select(reductions),
        smoothing,
        any::<[bool; 2]>(),
    );
    let views = (View::any(), View::any(), View::writable());
    let rest = (Values::finite(), any::<u32>());
    (shape, dtype, options, views, rest).prop_map(
        |((axes, shape), dtype, (reduction, label_smoothing, has), views, (values, seed))| Case {
            shape,
            axes,
            dtype,
            reduction,
            label_smoothing,
            has_weights: has[0],
            has_dloss: has[1],
            views: [views.0, views.1],
            view_dx: views.2,
            values,
            seed: u64::from(seed),
        },
    )
}

#[test]
fn probabilities_match_the_reference_in_every_layout_with_every_option() {
    holds(
        Effort {
            cases: [120, 600],
            largest: [300, 20_000],
        },
        case,
        check,
    );
}

#[test]
fn a_class_of_probability_0_may_have_a_logit_of_minus_infinity() {
    fn of<T: Float>(device: &Device) {
        let stream = device.stream().expect("a stream");
        let tensor = |values: [f32; 3]| {
            let values = values.map(T::from_f32);
            Tensor::from_slice(device, &[1, 3], &values).expect("a tensor")
        };
        let logits = tensor([1.0, f32::NEG_INFINITY, 1.0]);
        let loss = |p| {
            let p = tensor(p);
            let out = CrossEntropy::new(&logits, &p).gradient().run(&stream);
            let out = out.expect("a loss");
            let dlogits: Vec<T> = out.dlogits.to_vec().expect("a gradient");
            let dlogits = dlogits.into_iter().map(T::to_f32).collect::<Vec<f32>>();
            (out.loss.item().expect("a loss"), dlogits)
        };
        let (value, dlogits) = loss([0.25, 0.0, 0.75]);
        assert!((value - 2.0_f32.ln()).abs() < 1e-6, "{value}");
        assert_eq!(dlogits, [0.25, 0.0, -0.25]);
        assert_eq!(loss([0.25, 0.25, 0.5]).0, f32::INFINITY);
        assert!(loss([0.25, f32::NAN, 0.5]).0.is_nan());
    }
    for device in devices() {
        of::<f32>(&device);
        of::<f16>(&device);
        of::<bf16>(&device);
    }
}

#[test]
fn the_mean_of_no_rows_is_nan() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let none = Tensor::<f32>::zeros(&stream, &[0, 4]).expect("a tensor");
        let loss = CrossEntropy::new(&none, &none)
            .run(&stream)
            .expect("a loss");
        assert!(loss.item().expect("a loss").is_nan());
    }
}

#[test]
fn probabilities_of_another_shape_or_over_the_gradient_are_refused() {
    let device = Device::emulator().expect("an emulator");
    let stream = device.stream().expect("a stream");
    let logits = Tensor::<f32>::zeros(&stream, &[3, 4]).expect("a tensor");
    let p = Tensor::<f32>::zeros(&stream, &[3]).expect("a tensor");
    let error = CrossEntropy::new(&logits, &p)
        .run(&stream)
        .expect_err("a shape");
    let is_shape = |error: &Error| {
        matches!(
            error.root(),
            Error::Shape(ShapeError::Mismatch {
                operand: "targets",
                ..
            })
        )
    };
    assert!(is_shape(&error), "{error}");
    let p = Tensor::<f32>::zeros(&stream, &[3, 4]).expect("a tensor");
    let out = LossAndGradient {
        loss: Tensor::zeros(&stream, &[]).expect("a tensor"),
        dlogits: p.clone(),
    };
    let error = CrossEntropy::new(&logits, &p)
        .gradient()
        .run_into(&out, &stream);
    let error = error.expect_err("an overlap");
    let is_overlap = matches!(error.root(), Error::Shape(ShapeError::Overlap { .. }));
    assert!(is_overlap, "{error}");
}

/// Rows that lie alike are in slices, also of clusters; others go element by element.
#[test]
fn rows_of_all_lengths_match_the_reference_by_every_candidate() {
    for device in devices() {
        for (rows, n, dtype, views) in [
            (9, 5, DType::Bf16, [View::Contiguous, View::Contiguous]),
            (3, 64, DType::F16, [View::Contiguous, View::Contiguous]),
            (2, 1001, DType::F32, [View::Behind1, View::Behind1]),
            (2, 1001, DType::Bf16, [View::Behind1, View::Contiguous]),
            (2, 9000, DType::F16, [View::Contiguous, View::Contiguous]),
            (2, 50_257, DType::Bf16, [View::Contiguous, View::Contiguous]),
        ] {
            let case = Case {
                shape: vec![rows, n],
                axes: RowAxes::default(),
                dtype,
                reduction: Reduction::Mean,
                label_smoothing: 0.1,
                has_weights: false,
                has_dloss: true,
                views,
                view_dx: View::Contiguous,
                values: Values::Normal,
                seed: n as u64,
            };
            check(&case, &device).unwrap_or_else(|error| panic!("{case:?}: {error}"));
        }
        let stream = device.stream().expect("a stream");
        let x = Tensor::<bf16>::zeros(&stream, &[4, 96]).expect("a tensor");
        let plan = CrossEntropy::new(&x, &x).plan(&stream).expect("a plan");
        if device.arch() == (9, 0) {
            let name = &plan.chosen().expect("a kernel").name;
            assert_eq!(name, "cross_entropy_soft_bf16_cluster_any");
        }
    }
}
