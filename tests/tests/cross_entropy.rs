//! `CrossEntropy` against its reference: layouts, ignored rows, label smoothing, every reduction,
//! in place, special values, every way to hold a row.

use ndarray::ArrayD;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use warpsmith::reference::cross_entropy::{
    CrossEntropy as Reference, Reduction as Reduced, cross_entropy,
};
use warpsmith::testing::devices;
use warpsmith::{
    ArgumentError, CrossEntropy, DType, Device, Error, Float, LossAndGradient, Reduction,
    ShapeError, Tensor,
};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{self, agrees, by_candidate, repeats};
use warpsmith_tests::output::{Output, same_bits};
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::rows::{RowAxes, flat};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, cases, say, with_float};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reduce {
    None,
    #[default]
    Mean,
    Sum,
}

#[derive(Clone, Debug, Deserialize)]
struct Case {
    shape: Vec<usize>,
    /// Axes of the classes; empty means the last.
    #[serde(default)]
    axes: RowAxes,
    /// Whether classes have weights.
    #[serde(default)]
    weights: bool,
    #[serde(deserialize_with = "operation::dtype")]
    dtype: DType,
    #[serde(default)]
    reduction: Reduce,
    #[serde(default)]
    label_smoothing: f32,
    /// Whether there is a gradient with respect to the loss.
    #[serde(default)]
    dloss: bool,
    #[serde(default)]
    view: View,
    #[serde(default)]
    view_dx: View,
    #[serde(default)]
    values: Values,
    /// Whether some rows have a target that is not a class.
    #[serde(default)]
    wrong_targets: bool,
    /// Whether all rows are ignored.
    #[serde(default)]
    all_ignored: bool,
    #[serde(default)]
    seed: u64,
    /// Number of the candidate that runs.
    #[serde(default)]
    candidate: Option<usize>,
}

const IGNORED: i64 = -7;
const SCALE: f32 = 0.75;

impl Case {
    fn targets(&self) -> Vec<i64> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let n = self.axes.of_row(&self.shape)[0];
        let outer = self.axes.of_rows(&self.shape);
        let target = |_| match rng.random_range(0..8) {
            0 => IGNORED,
            1 if self.wrong_targets => n as i64,
            2 if self.wrong_targets => -1,
            _ if self.all_ignored => IGNORED,
            _ => rng.random_range(0..n.max(1)) as i64,
        };
        (0..outer.iter().product()).map(target).collect()
    }
}

fn check(case: &Case, device: &Device) -> Checked {
    with_float!(case.dtype, check_typed(case, device))
}

fn check_typed<T: Float + TestElement>(case: &Case, device: &Device) -> Checked {
    let stream = device.stream().map_err(say)?;
    let x = Operand::<T>::draw(device, &case.shape, case.values, case.view, case.seed)?;
    let targets = case.targets();
    let outer: &[usize] = &case.axes.of_rows(&case.shape);
    let target_tensor = Tensor::from_slice(device, outer, &targets).map_err(say)?;
    let n = case.axes.of_row(&case.shape);
    let weights = Values::Uniform
        .draw(&n, case.seed + 9)
        .mapv(|x| f64::from((x.abs() + 0.125) as f32));
    let weights = Operand::<f32>::lay_out(device, weights, View::Sliced)?;
    let (reduction, reduced) = match case.reduction {
        Reduce::None => (Reduction::None, Reduced::None),
        Reduce::Mean => (Reduction::Mean, Reduced::Mean),
        Reduce::Sum => (Reduction::Sum, Reduced::Sum),
    };
    fn operation<'a, T: Float>(
        case: &Case,
        x: &'a Tensor<T>,
        (targets, weights, dloss): (&'a Tensor<i64>, &'a Tensor<f32>, &'a Tensor<f32>),
        reduction: Reduction,
    ) -> CrossEntropy<'a, T> {
        let mut of = CrossEntropy::new(x, targets);
        if let [axis] = case.axes.signed(x.rank())[..] {
            of = of.axis(axis);
        }
        if case.weights {
            of = of.class_weights(weights);
        }
        if case.dloss {
            of = of.dloss(dloss);
        }
        of.ignore_index(IGNORED)
            .label_smoothing(case.label_smoothing)
            .gradient_scale(SCALE)
            .reduction(reduction)
    }
    let of_loss = if reduction == Reduction::None {
        outer
    } else {
        &[]
    };
    let dloss = Operand::<f32>::draw(
        device,
        of_loss,
        Values::Uniform,
        View::Sliced,
        case.seed + 3,
    )?;
    let inputs = (&target_tensor, &weights.tensor, &dloss.tensor);
    let of_x = operation(case, &x.tensor, inputs, reduction);
    fn by<'a, T: Float>(of: CrossEntropy<'a, T>, kernel: Option<&'a str>) -> CrossEntropy<'a, T> {
        match kernel {
            Some(name) => of.with_kernel(name),
            None => of,
        }
    }
    let model = by_candidate(of_x.plan(&stream), case.candidate, |name| {
        by(of_x, name).model()
    });
    let model = model.map_err(say)?;
    let of_classes: Vec<f64> = weights.values.iter().copied().collect();
    let of_losses: Vec<f64> = dloss.values.iter().copied().collect();
    let of = Reference {
        class_weights: case.weights.then_some(&of_classes),
        ignore_index: IGNORED,
        label_smoothing: f64::from(case.label_smoothing),
        gradient_scale: f64::from(SCALE),
        dloss: case.dloss.then_some(&of_losses),
        reduction: reduced,
    };
    let (loss, gradient) = cross_entropy(
        &case.axes.rows(&x.values).view(),
        &targets,
        T::DTYPE,
        &of,
        &model,
    )
    .map_err(say)?;
    let agree_loss = |got: &ArrayD<f32>| match reduction {
        Reduction::None => agrees(&flat(got), &loss),
        Reduction::Mean | Reduction::Sum => agrees(got, &loss),
    };
    let agree = |got: &ArrayD<T>| agrees(&case.axes.rows(got), &gradient);
    let mut first = None;
    for _ in 0..repeats(device) {
        let got = Output::<f32>::new(device, of_loss, View::Contiguous)?;
        let dx = Output::<T>::new(device, &case.shape, case.view_dx)?;
        let out = LossAndGradient {
            loss: got.tensor.clone(),
            dlogits: dx.tensor.clone(),
        };
        by_candidate(of_x.plan(&stream), case.candidate, |name| {
            by(of_x, name).gradient().run_into(&out, &stream)
        })
        .map_err(say)?;
        let (got, dx) = (got.read()?, dx.read()?);
        agree_loss(&got).map_err(|error| format!("loss: {error}"))?;
        agree(&dx).map_err(|error| format!("gradient: {error}"))?;
        if let Some((loss, gradient)) = &first {
            same_bits(loss, &got)?;
            same_bits(gradient, &dx)?;
        }
        first = Some((got, dx));
    }
    x.expect_unchanged()?;
    let Some((first, _)) = first else {
        return Err("nothing was run".into());
    };
    let alone = by_candidate(of_x.plan(&stream), case.candidate, |name| {
        by(of_x, name).run(&stream)
    });
    let alone = alone.map_err(say)?.to_ndarray().map_err(say)?;
    agree_loss(&alone).map_err(|error| format!("without a gradient: {error}"))?;
    // With another layout of dx, another kernel may have been chosen.
    if case.view_dx == View::Contiguous && case.view == View::Contiguous {
        same_bits(&first, &alone).map_err(|error| format!("without a gradient: {error}"))?;
    }
    let place = Output::with(device, &x.values.mapv(|x| T::from_f64(x)), case.view_dx)?;
    let in_place = operation(case, &place.tensor, inputs, reduction);
    let got = Output::<f32>::new(device, of_loss, View::Contiguous)?;
    let out = LossAndGradient {
        loss: got.tensor.clone(),
        dlogits: place.tensor.clone(),
    };
    by_candidate(of_x.plan(&stream), case.candidate, |name| {
        by(in_place, name).gradient().run_into(&out, &stream)
    })
    .map_err(say)?;
    agree_loss(&got.read()?).map_err(|error| format!("in place, loss: {error}"))?;
    agree(&place.read()?).map_err(|error| format!("in place: {error}"))
}

/// No axis, or one axis.
fn axis(rank: usize) -> impl Strategy<Value = RowAxes> {
    prop_oneof![
        2 => Just(RowAxes::default()),
        1 => (0..rank).prop_map(|axis| RowAxes(vec![axis])),
    ]
}

fn case(largest: usize) -> impl Strategy<Value = Case> {
    let shape = prop_oneof![
        extent(largest * 8).prop_map(|n| vec![n + 1]),
        (extent(40), extent(largest)).prop_map(|(a, b)| vec![a, b + 1]),
        (extent(20), extent(largest / 8)).prop_map(|(a, b)| vec![a, b * 8 + 8]),
        (extent(7), extent(17), extent(33)).prop_map(|(a, b, c)| vec![a, b, c + 1]),
    ];
    let dtype = prop::sample::select(vec![DType::F32, DType::F16, DType::Bf16]);
    let reduction = prop::sample::select(vec![Reduce::None, Reduce::Mean, Reduce::Sum]);
    let smoothing = prop::sample::select(vec![0.0, 0.0, 0.1, 1.0]);
    let views = (View::any(), View::writable());
    let rest = (Values::any(), any::<u32>(), 0..6, any::<bool>());
    let of_shape = |shape: Vec<usize>| (axis(shape.len()), Just(shape));
    let shape = shape.prop_flat_map(of_shape);
    (shape, dtype, (reduction, smoothing), views, rest).prop_map(
        |((axes, shape), dtype, (reduction, smoothing), (view, view_dx), rest)| {
            let (values, seed, special, weights) = rest;
            Case {
                shape,
                axes,
                weights,
                dtype,
                reduction,
                label_smoothing: smoothing,
                dloss: seed % 2 == 1,
                view,
                view_dx,
                values,
                wrong_targets: special == 0,
                all_ignored: special == 1,
                seed: u64::from(seed),
                candidate: None,
            }
        },
    )
}

#[test]
fn cross_entropy_matches_its_reference_for_every_layout_and_option() {
    holds(
        Effort {
            cases: [200, 1000],
            largest: [300, 20_000],
        },
        case,
        check,
    );
}

#[test]
fn cross_entropy_matches_its_reference_on_the_table_of_cases() {
    cases::run(include_str!("../cases/cross_entropy.toml"), check);
}

#[test]
fn every_candidate_matches_the_reference() {
    for device in devices() {
        for (rows, n, dtype, reduction) in [
            (5, 64, DType::Bf16, Reduce::Mean),
            (3, 2048, DType::F32, Reduce::None),
            (2, 9000, DType::Bf16, Reduce::Sum),
            (3, 77, DType::F16, Reduce::Mean),
        ] {
            for candidate in 0..4 {
                let case = Case {
                    shape: vec![rows, n],
                    axes: RowAxes::default(),
                    weights: n == 64,
                    dtype,
                    reduction,
                    label_smoothing: if n == 2048 { 0.1 } else { 0.0 },
                    dloss: n >= 2048,
                    view: View::Contiguous,
                    view_dx: View::Contiguous,
                    values: Values::Uniform,
                    wrong_targets: false,
                    all_ignored: false,
                    seed: n as u64,
                    candidate: Some(candidate),
                };
                check(&case, &device).unwrap_or_else(|error| panic!("{case:?}: {error}"));
            }
        }
    }
}

/// Rows that begin anywhere, by every candidate, with targets among the ends of rows too.
#[test]
fn rows_that_begin_anywhere_match_the_reference() {
    for device in devices() {
        for (rows, n, dtype, reduction) in [
            (9, 5, DType::Bf16, Reduce::None),
            (40, 11, DType::F16, Reduce::None),
            (6, 333, DType::Bf16, Reduce::Mean),
            (3, 1001, DType::F32, Reduce::None),
            (3, 2056, DType::Bf16, Reduce::Sum),
            (2, 32_001, DType::Bf16, Reduce::Mean),
        ] {
            for (view, view_dx) in View::ANYWHERE {
                for candidate in 0..4 {
                    let case = Case {
                        shape: vec![rows, n],
                        axes: RowAxes::default(),
                        weights: n == 1001,
                        dtype,
                        reduction,
                        label_smoothing: if n % 5 == 1 && n != 1001 { 0.1 } else { 0.0 },
                        dloss: n % 2 == 1,
                        view,
                        view_dx,
                        values: Values::Uniform,
                        wrong_targets: n == 11,
                        all_ignored: false,
                        seed: n as u64,
                        candidate: Some(candidate),
                    };
                    check(&case, &device).unwrap_or_else(|error| panic!("{case:?}: {error}"));
                }
            }
        }
    }
}

#[test]
fn cross_entropy_refuses_what_does_not_fit() {
    macro_rules! refused {
        ($result:expr, $error:pat) => {
            let error = $result.expect_err("it does not fit");
            assert!(matches!(error.root(), $error), "{error}");
            let text = error.to_string();
            assert!(text.starts_with("cross_entropy: "), "{text}");
        };
    }
    let device = Device::emulator().expect("an emulator");
    let stream = device.stream().expect("a stream");
    let logits = Tensor::<f32>::zeros(&stream, &[3, 4]).expect("a tensor");
    let targets = Tensor::<i64>::zeros(&stream, &[2]).expect("a tensor");
    refused!(
        CrossEntropy::new(&logits, &targets).run(&stream),
        Error::Shape(ShapeError::Mismatch {
            operand: "targets",
            ..
        })
    );
    let targets = Tensor::<i64>::zeros(&stream, &[3]).expect("a tensor");
    let of = CrossEntropy::new(&logits, &targets);
    refused!(
        of.label_smoothing(1.5).run(&stream),
        Error::Argument(ArgumentError::Value {
            what: "label smoothing",
            ..
        })
    );
    let weights = Tensor::<f32>::zeros(&stream, &[3]).expect("a tensor");
    refused!(
        of.class_weights(&weights).run(&stream),
        Error::Shape(ShapeError::Mismatch {
            operand: "class_weights",
            ..
        })
    );
    refused!(
        of.axis(2).run(&stream),
        Error::Shape(ShapeError::Axis { axis: 2, rank: 2 })
    );
    let loss = Tensor::<f32>::zeros(&stream, &[3]).expect("a tensor");
    refused!(
        of.run_into(&loss, &stream),
        Error::Shape(ShapeError::Mismatch {
            operand: "loss",
            ..
        })
    );
}

/// In registers, read twice, and in slices.
#[test]
fn ignored_rows_have_no_gradient_even_if_their_class_weighs_infinitely_much() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        for n in [8, 7, 16_384] {
            let logits = Tensor::full(&stream, &[2, n], 0.5_f32).expect("logits");
            let targets = Tensor::from_slice(&device, &[2], &[0_i64, 1]).expect("targets");
            let mut weights = vec![1.0_f32; n];
            weights[0] = f32::INFINITY;
            let weights = Tensor::from_slice(&device, &[n], &weights).expect("weights");
            let op = CrossEntropy::new(&logits, &targets)
                .ignore_index(0)
                .class_weights(&weights);
            let out = op.gradient().run(&stream).expect("a gradient");
            let gradient = out.dlogits.to_vec().expect("its values");
            let (ignored, other) = gradient.split_at(n);
            assert!(ignored.iter().all(|&d| d == 0.0), "{n}: {ignored:?}");
            assert!(other[1] < 0.0, "{n}: {}", other[1]);
        }
    }
}

#[test]
fn losses_of_long_rows_are_not_below_0() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let targets = Tensor::from_slice(&device, &[1], &[0_i64]).expect("a tensor");
        for n in [2, 100, 8192, 20_000] {
            for (maximum, others) in [(1.7, 0.0), (20.0, 0.0), (100.0, 0.0), (1e10, 1e10)] {
                let mut values = vec![others; n];
                values[0] = maximum;
                let x = Tensor::<f32>::from_slice(&device, &[1, n], &values).expect("a tensor");
                for smoothing in [0.0, 0.1] {
                    let op = CrossEntropy::new(&x, &targets).label_smoothing(smoothing);
                    let plan = op.plan(&stream).expect("a plan");
                    for candidate in plan.candidates() {
                        let loss = op.with_kernel(&candidate.name).run(&stream);
                        let loss = loss.and_then(|loss| loss.to_vec()).expect("a number")[0];
                        assert!(loss >= 0.0, "{loss:e} of {n}, {maximum}: {candidate:?}");
                    }
                }
            }
        }
    }
}
