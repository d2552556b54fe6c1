//! Layer norm, RMS norm and their gradients against their references: any layout, weights in the
//! rows' dtype or f32, residuals, in place, special values, every way to hold a row.

mod gradient;

use half::bf16;
use ndarray::{Array1, ArrayD};
use proptest::prelude::*;
use serde::Deserialize;
use warpsmith::reference::norm::{Norm, NormModel, norm};
use warpsmith::reference::precision::round_to;
use warpsmith::{
    DType, Device, Float, LayerNorm, LayerNormGrad, NormGradients, Normalized, RmsNorm, Stream,
    Tensor,
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
enum Weights {
    None,
    #[default]
    Same,
    F32,
}

#[derive(Clone, Debug, Deserialize)]
struct Case {
    shape: Vec<usize>,
    #[serde(default)]
    axes: RowAxes,
    #[serde(deserialize_with = "operation::dtype")]
    dtype: DType,
    /// RMS norm instead of layer norm.
    #[serde(default)]
    rms: bool,
    #[serde(default)]
    weights: Weights,
    #[serde(default)]
    residual: bool,
    #[serde(default)]
    view: View,
    #[serde(default)]
    view_y: View,
    /// View of weight and bias.
    #[serde(default)]
    view_shared: View,
    #[serde(default)]
    values: Values,
    /// Added to all values, after they are multiplied: the variance must not suffer.
    #[serde(default)]
    shift: f64,
    #[serde(default = "one")]
    scale: f64,
    #[serde(default)]
    seed: u64,
    /// Number of the candidate that runs, for the norm and for its gradient.
    #[serde(default)]
    candidate: Option<usize>,
}

fn one() -> f64 {
    1.0
}

const EPSILON: f32 = 1e-3;

/// Weight and bias, on the device and in f64.
struct Shared<T: TestElement> {
    same: Option<[Operand<T>; 2]>,
    f32: Option<[Operand<f32>; 2]>,
}

impl<T: Float + TestElement> Shared<T> {
    fn draw(case: &Case, device: &Device) -> Result<Self, String> {
        let n = case.axes.of_row(&case.shape);
        let seed = case.seed ^ 77;
        let view = case.view_shared;
        let mut shared = Self {
            same: None,
            f32: None,
        };
        match case.weights {
            Weights::None => {}
            Weights::Same => {
                let draw = |seed| Operand::draw(device, &n, Values::Uniform, view, seed);
                shared.same = Some([draw(seed)?, draw(seed + 1)?]);
            }
            Weights::F32 => {
                let draw = |seed| Operand::draw(device, &n, Values::Uniform, view, seed);
                shared.f32 = Some([draw(seed)?, draw(seed + 1)?]);
            }
        }
        Ok(shared)
    }

    fn values(&self, which: usize) -> Option<Array1<f64>> {
        let of = |values: &ArrayD<f64>| Some(Array1::from_iter(values.iter().copied()));
        match (&self.same, &self.f32) {
            (Some(same), _) => of(&same[which].values),
            (_, Some(f32)) => of(&f32[which].values),
            _ => None,
        }
    }
}

fn check(case: &Case, device: &Device) -> Checked {
    with_float!(case.dtype, check_typed(case, device))
}

fn forward<T: Float + TestElement>(
    case: &Case,
    (x, residual): (&Tensor<T>, Option<&Tensor<T>>),
    shared: &Shared<T>,
    out: &Normalized<T>,
    stream: &Stream,
) -> warpsmith::Result<()> {
    macro_rules! run {
        ($norm:expr) => {{
            let mut norm = $norm.epsilon(EPSILON);
            if !case.axes.0.is_empty() {
                norm = norm.axes(&case.axes.signed(x.rank()));
            }
            if let Some(residual) = residual {
                norm = norm.residual(residual);
            }
            if let Some([weight, _]) = &shared.same {
                norm = norm.weight(&weight.tensor);
            }
            if let Some([weight, _]) = &shared.f32 {
                norm = norm.weight(&weight.tensor);
            }
            norm
        }};
    }
    macro_rules! run_into {
        ($norm:expr) => {{
            let norm = $norm;
            by_candidate(norm.plan(stream), case.candidate, |name| match name {
                Some(name) => norm.clone().with_kernel(name).stats().run_into(out, stream),
                None => norm.clone().stats().run_into(out, stream),
            })
        }};
    }
    if case.rms {
        return run_into!(run!(RmsNorm::new(x)));
    }
    let mut norm = run!(LayerNorm::new(x));
    if let Some([_, bias]) = &shared.same {
        norm = norm.bias(&bias.tensor);
    }
    if let Some([_, bias]) = &shared.f32 {
        norm = norm.bias(&bias.tensor);
    }
    run_into!(norm)
}

/// All outputs of the forward pass.
struct Outputs<T: TestElement> {
    y: Output<T>,
    sum: Option<Output<T>>,
    mean: Option<Output<f32>>,
    rstd: Output<f32>,
}

impl<T: Float + TestElement> Outputs<T> {
    fn new(case: &Case, device: &Device) -> Result<Self, String> {
        let of_rows = case.axes.of_rows(&case.shape);
        let row = || Output::<f32>::new(device, &of_rows, View::Contiguous);
        let sum = case
            .residual
            .then(|| Output::new(device, &case.shape, case.view_y));
        let mean = (!case.rms).then(row);
        Ok(Self {
            y: Output::new(device, &case.shape, case.view_y)?,
            sum: sum.transpose()?,
            mean: mean.transpose()?,
            rstd: row()?,
        })
    }

    fn tensors(&self) -> Normalized<T> {
        Normalized {
            y: self.y.tensor.clone(),
            sum: self.sum.as_ref().map(|sum| sum.tensor.clone()),
            mean: self.mean.as_ref().map(|mean| mean.tensor.clone()),
            rstd: Some(self.rstd.tensor.clone()),
        }
    }
}

fn check_typed<T: Float + TestElement>(case: &Case, device: &Device) -> Checked {
    let stream = device.stream().map_err(say)?;
    let draw = |seed| -> Result<Operand<T>, String> {
        let values = case.values.draw(&case.shape, seed);
        let values = values.mapv(|x| x * case.scale + case.shift);
        let view = case.view.writable_or_contiguous();
        Operand::lay_out(device, values.mapv(|x| T::nearest(x).wide()), view)
    };
    let x = draw(case.seed)?;
    let residual = case.residual.then(|| draw(case.seed + 1)).transpose()?;
    let shared = Shared::<T>::draw(case, device)?;
    let mut h = x.values.clone();
    if let Some(residual) = &residual {
        h = &h + &residual.values;
        h.mapv_inplace(|h| round_to(T::DTYPE, f64::from(h as f32)));
    }
    let (weight, bias) = (shared.values(0), shared.values(1));
    let of = Norm {
        is_centered: !case.rms,
        epsilon: f64::from(EPSILON),
        weight: weight.as_ref().map(|weight| weight.view()),
        bias: bias.as_ref().filter(|_| !case.rms).map(|bias| bias.view()),
    };
    let rows = case.axes.rows(&h);
    let want = norm(&rows.view(), T::DTYPE, &of, model(case, &x.tensor)?).map_err(say)?;
    let mut first = None;
    for _ in 0..repeats(device) {
        let outputs = Outputs::<T>::new(case, device)?;
        let inputs = (&x.tensor, residual.as_ref().map(|r| &r.tensor));
        forward(case, inputs, &shared, &outputs.tensors(), &stream).map_err(say)?;
        let y = outputs.y.read()?;
        agrees(&case.axes.rows(&y), &want.y)?;
        if let Some(sum) = &outputs.sum {
            agrees(
                &sum.read()?,
                &warpsmith::reference::Expected::exact(h.clone(), T::DTYPE),
            )
            .map_err(|error| format!("sum: {error}"))?;
        }
        let rstd = outputs.rstd.read()?;
        agrees(&flat(&rstd), &want.rstd).map_err(|error| format!("rstd: {error}"))?;
        let mut kept_mean = None;
        if let Some(mean) = &outputs.mean {
            let mean = mean.read()?;
            // If the mean is infinite, infinity and NaN are both accepted.
            let mut said = flat(&mean);
            for (said, want) in said.iter_mut().zip(&want.mean.values) {
                if want.is_infinite() && said.is_nan() {
                    *said = *want as f32;
                }
            }
            agrees(&said, &want.mean).map_err(|error| format!("mean: {error}"))?;
            kept_mean = Some(mean);
        }
        if let Some((first, _, _)) = &first {
            same_bits(first, &y).map_err(|error| format!("not deterministic: {error}"))?;
        }
        first = Some((y, kept_mean, rstd));
    }
    x.expect_unchanged()?;
    let Some((y, mean, rstd)) = first else {
        return Err("nothing was run".into());
    };
    // In place.
    let place = Output::with(device, &x.values.mapv(|x| T::from_f64(x)), case.view_y)?;
    let out = Normalized {
        y: place.tensor.clone(),
        sum: None,
        mean: None,
        rstd: None,
    };
    let inputs = (&place.tensor, residual.as_ref().map(|r| &r.tensor));
    forward(case, inputs, &shared, &out, &stream).map_err(say)?;
    let again = place.read()?;
    agrees(&case.axes.rows(&again), &want.y).map_err(|error| format!("in place: {error}"))?;
    if case.view == case.view_y {
        same_bits(&y, &again).map_err(|error| format!("in place: {error}"))?;
    }
    let kept = (mean, rstd);
    gradient::check(case, device, &h, &kept, &shared).map_err(|e| format!("gradient: {e}"))
}

fn model<T: Float>(case: &Case, x: &Tensor<T>) -> Result<NormModel, String> {
    let norm = match case.axes.0.is_empty() {
        true => LayerNorm::new(x),
        false => LayerNorm::new(x).axes(&case.axes.signed(x.rank())),
    };
    norm.model().map_err(say)
}

fn case(largest: usize) -> impl Strategy<Value = Case> {
    let shape = prop_oneof![
        extent(largest * 8).prop_map(|n| vec![n]),
        (extent(40), extent(largest)).prop_map(|(a, b)| vec![a, b]),
        (extent(60), extent(largest / 8)).prop_map(|(a, b)| vec![a, b * 8]),
        (extent(7), extent(17), extent(33)).prop_map(|(a, b, c)| vec![a, b, c]),
    ];
    let dtype = prop::sample::select(vec![DType::F32, DType::F16, DType::Bf16]);
    let weights = prop::sample::select(vec![Weights::None, Weights::Same, Weights::F32]);
    let of_shared = prop_oneof![2 => Just(View::Contiguous), 1 => View::any()];
    let views = (View::any(), View::writable(), of_shared);
    let rest = (Values::any(), any::<u32>(), any::<[bool; 2]>());
    let shape = shape.prop_flat_map(|shape| (RowAxes::any(shape.len()), Just(shape)));
    (shape, dtype, weights, views, rest).prop_map(
        |((axes, shape), dtype, weights, views, (values, seed, [rms, residual]))| Case {
            shape,
            axes,
            dtype,
            rms,
            weights,
            residual,
            view: views.0,
            view_y: views.1,
            view_shared: views.2,
            values,
            shift: 0.0,
            scale: one(),
            seed: u64::from(seed),
            candidate: None,
        },
    )
}

#[test]
fn norms_match_their_references_for_every_layout_and_dtype() {
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
fn norms_match_their_references_on_the_table_of_cases() {
    cases::run(include_str!("../cases/norms.toml"), check);
}

#[test]
fn every_candidate_matches_the_reference() {
    for device in warpsmith::testing::devices() {
        for (rows, n, dtype, weights, residual) in [
            (5, 256, DType::Bf16, Weights::Same, false),
            (3, 4096, DType::Bf16, Weights::Same, true),
            (3, 512, DType::F16, Weights::None, true),
            (2, 2048, DType::Bf16, Weights::F32, false),
            (2, 9000, DType::F32, Weights::F32, false),
            (3, 77, DType::Bf16, Weights::Same, true),
        ] {
            for (candidate, rms) in (0..9).flat_map(|number| [(number, false), (number, true)]) {
                let case = Case {
                    shape: vec![rows, n],
                    axes: RowAxes::default(),
                    dtype,
                    rms,
                    weights,
                    residual,
                    view: View::Contiguous,
                    view_y: View::Contiguous,
                    view_shared: View::Contiguous,
                    values: Values::Uniform,
                    shift: 0.0,
                    scale: one(),
                    seed: n as u64,
                    candidate: Some(candidate),
                };
                check(&case, &device).unwrap_or_else(|error| panic!("{case:?}: {error}"));
            }
        }
    }
}

/// Rows that begin anywhere, by every candidate: in registers, in slices of one block and of several,
/// in rings, and element by element. Weights end beside a whole vector, or inside of one.
#[test]
fn rows_that_begin_anywhere_match_the_references() {
    for device in warpsmith::testing::devices() {
        for (rows, n, dtype, weights, residual) in [
            (9, 5, DType::Bf16, Weights::Same, false),
            (9, 77, DType::Bf16, Weights::Same, true),
            (5, 333, DType::F16, Weights::Same, true),
            (3, 1001, DType::F32, Weights::Same, false),
            (3, 2056, DType::Bf16, Weights::Same, true),
            (70, 333, DType::Bf16, Weights::F32, true),
            (3, 5001, DType::F32, Weights::F32, true),
            (2, 20_003, DType::Bf16, Weights::None, false),
            (2, 40_001, DType::Bf16, Weights::Same, true),
        ] {
            for (number, (view, view_y)) in View::ANYWHERE.into_iter().enumerate() {
                for candidate in 0..6 {
                    let case = Case {
                        shape: vec![rows, n],
                        axes: RowAxes::default(),
                        dtype,
                        rms: (number + candidate) % 2 == 1,
                        weights,
                        residual,
                        view,
                        view_y,
                        view_shared: View::Contiguous,
                        values: Values::Uniform,
                        shift: 0.0,
                        scale: one(),
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
fn a_bias_without_a_weight_has_a_gradient_on_request() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let x = Tensor::from_slice(&device, &[2, 2], &[1.0_f32, 3.0, -1.0, 5.0]).expect("x");
        let dy = Tensor::from_slice(&device, &[2, 2], &[1.0_f32, 0.5, 2.0, -4.0]).expect("dy");
        let kept = LayerNorm::new(&x).stats().run(&stream).expect("a norm");
        let (mean, rstd) = (kept.mean.expect("means"), kept.rstd.expect("factors"));
        let gradient = LayerNormGrad::new(&x, &mean, &rstd, &dy);
        let alone = gradient.run(&stream).expect("a gradient");
        assert!(alone.dweight.is_none() && alone.dbias.is_none());
        let both = gradient.bias_gradient().run(&stream).expect("gradients");
        assert!(both.dweight.is_none());
        let dbias = both.dbias.expect("of the bias").to_vec();
        assert_eq!(dbias.expect("sums"), [3.0, -3.5]);
        let dx = |out: NormGradients<f32>| out.dx.to_vec().expect("dx");
        assert_eq!(
            dx(alone.clone()),
            dx(NormGradients {
                dx: both.dx,
                ..alone
            })
        );
    }
}

/// Where few rows are in registers, another kernel has them, which loads weights ahead.
#[test]
fn a_row_has_the_same_bits_among_few_and_among_many() {
    let [few, many, n] = [3, 4228, 264];
    let draw = |shape: &[usize], seed| {
        let values = Values::Uniform.draw(shape, seed);
        values
            .iter()
            .map(|&x| bf16::from_f64(x))
            .collect::<Vec<_>>()
    };
    let (xs, weights, biases) = (draw(&[many, n], 1), draw(&[n], 2), draw(&[n], 3));
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let tensor = |shape: &[usize], values: &[bf16]| {
            Tensor::from_slice(&device, shape, values).expect("a tensor")
        };
        let (weight, bias) = (tensor(&[n], &weights), tensor(&[n], &biases));
        let of = |rows: usize| {
            let x = tensor(&[rows, n], &xs[..rows * n]);
            let norm = LayerNorm::new(&x).weight(&weight).bias(&bias);
            let y = norm.run(&stream).expect("a norm").to_vec();
            y.expect("rows")
        };
        assert!(of(few) == of(many)[..few * n], "on {}", device.name());
    }
}

#[test]
fn rows_whose_squares_overflow_are_nan_and_no_plausible_zeros() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        for n in [4, 3000, 40_000] {
            for large in [1e20_f32, 3e38, f32::INFINITY] {
                let mut values = vec![1.0; 2 * n];
                (values[0], values[1]) = (large, -large);
                let x = Tensor::from_slice(&device, &[2, n], &values).expect("a tensor");
                let (layer, rms) = (LayerNorm::new(&x), RmsNorm::new(&x));
                for y in [layer.run(&stream), rms.run(&stream)] {
                    let y = y.and_then(|y| y.to_vec()).expect("rows");
                    assert!(y[..n].iter().all(|y| y.is_nan()), "{large:e} in {n}");
                    assert!(y[n..].iter().all(|y| y.is_finite()), "{large:e} in {n}");
                }
            }
        }
    }
}
