//! Functions of scores and masks of a caller's own, biases that are not numbers, and what is refused.

use std::path::Path;

use half::bf16;
use ndarray::{Array4, ArrayD};
use warpsmith::fuse::{Fragment, Scalar};
use warpsmith::reference::attention::{
    AttentionGradInputs, AttentionGradOptions, AttentionOptions, Band, ScoreFunction as Known,
    ScoreOptions, SequencePositions, attention, gradients,
};
use warpsmith::{
    Attention, AttentionGrad, AttentionGrads, BinaryOp, Float, ScoreFunction, Stream, Tensor,
    UnaryOp,
};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operation::agrees;
use warpsmith_tests::values::Values;
use warpsmith_tests::{on_every_device, refused};

use super::check::ones;

/// A fragment of the examples' kernels.
fn fragment(name: &str, params: &[Scalar], result: Scalar) -> Fragment {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/kernels/ptx/sm_75/scores.ptx");
    let text = std::fs::read_to_string(path).expect("the examples' kernels are built");
    // SAFETY: cuda_builder made the text.
    unsafe { Fragment::from_ptx(&text, name, params, result) }.expect("a fragment")
}

pub(super) fn mask(name: &str, values: &[Scalar]) -> Fragment {
    fragment(name, &[&[Scalar::U32; 4], values].concat(), Scalar::U32)
}

fn score(name: &str) -> Fragment {
    let u = Scalar::U32;
    fragment(name, &[Scalar::F32, u, u, u, u, Scalar::F32], Scalar::F32)
}

const BATCH: usize = 2;
const SEQLEN: usize = 144;
const HEADS: usize = 2;

/// Numbers of a shape, that `T` has exactly.
fn drawn<T: TestElement>(shape: &[usize], seed: u64) -> ArrayD<f64> {
    let mut drawn = Values::Uniform.draw(shape, seed);
    drawn.mapv_inplace(|x| T::nearest(x).wide());
    drawn
}

fn tensor<T: TestElement>(stream: &Stream, values: &ArrayD<f64>) -> Tensor<T> {
    let values_of: Vec<T> = values.iter().map(|&x| T::nearest(x)).collect();
    Tensor::from_slice(stream.device(), values.shape(), &values_of).expect("a tensor")
}

/// What is held against the reference.
struct Checked<'a> {
    mask: Option<&'a ScoreFunction>,
    score: Option<&'a ScoreFunction>,
    want: ScoreOptions,
}

/// Self-attention and its gradients, by every kernel.
fn check<T: Float + TestElement>(stream: &Stream, of: &Checked<'_>) {
    let shape = [BATCH, SEQLEN, HEADS, 64];
    let [x, d_o] = [1, 2].map(|seed| drawn::<T>(&shape, seed));
    let (x_tensor, d_o_tensor) = (tensor::<T>(stream, &x), tensor::<T>(stream, &d_o));
    let mut attention_of = Attention::new(&x_tensor, &x_tensor, &x_tensor);
    if let Some(mask) = of.mask {
        attention_of = attention_of.mask(mask);
    }
    if let Some(score) = of.score {
        attention_of = attention_of.score(score);
    }
    let four = x.clone().into_dimensionality().expect("four dimensions");
    let plan = attention_of.plan(stream).expect("a plan");
    assert!(!plan.candidates().is_empty());
    let mut last = None;
    for candidate in plan.candidates() {
        let by = attention_of.clone().with_kernel(&candidate.name);
        let options = AttentionOptions {
            scores: of.want.clone(),
            ..AttentionOptions::new(T::DTYPE, by.model(stream).expect("a model"))
        };
        let want = attention(&four.view(), &four.view(), &four.view(), &options);
        let want = want.expect("a reference");
        let got = by.lse().run(stream).expect("a result");
        let o = got.o.to_ndarray().expect("o");
        agrees(&o, &want.o).unwrap_or_else(|error| panic!("{}: {error}", candidate.name));
        let lse = got.lse.to_ndarray().expect("lse");
        agrees(&lse, &want.lse).unwrap_or_else(|error| panic!("{}: {error}", candidate.name));
        last = Some(got);
    }
    let forward = last.expect("a result");
    let (o, lse) = (&forward.o, &forward.lse);
    let mut grad = AttentionGrad::new(&x_tensor, &x_tensor, &x_tensor, o, lse, &d_o_tensor);
    if let Some(mask) = of.mask {
        grad = grad.mask(mask);
    }
    if let Some(score) = of.score {
        grad = grad.score(score);
    }
    let packed = |x: &ArrayD<f64>| {
        let rows = x.as_standard_layout().into_owned();
        rows.into_shape_with_order((BATCH * SEQLEN, HEADS, 64))
            .expect("a shape")
    };
    let wide = |x: &Tensor<T>| x.to_ndarray().expect("o").mapv(|x| x.wide());
    let (x, d_o, o) = (packed(&x), packed(&d_o), packed(&wide(o)));
    let lse = lse.to_ndarray().expect("lse").mapv(f64::from);
    let lse = lse
        .permuted_axes(vec![1, 0, 2])
        .as_standard_layout()
        .into_owned();
    let lse = lse
        .into_shape_with_order((HEADS, BATCH * SEQLEN))
        .expect("a shape");
    let sequence = |b: usize| b * SEQLEN..(b + 1) * SEQLEN;
    let sequences: Vec<SequencePositions> = (0..BATCH)
        .map(|b| SequencePositions {
            q: sequence(b),
            k: sequence(b),
        })
        .collect();
    for candidate in grad.plan(stream).expect("a plan").candidates() {
        let by = grad.clone().with_kernel(&candidate.name);
        let options = AttentionGradOptions {
            mask: Band::default(),
            scores: of.want.clone(),
            ..AttentionGradOptions::new(T::DTYPE, by.model(stream).expect("a model"))
        };
        let inputs = AttentionGradInputs {
            q: x.view(),
            k: x.view(),
            v: x.view(),
            o: o.view(),
            lse: lse.view(),
            d_o: d_o.view(),
        };
        let want = gradients(&inputs, &sequences, &options).expect("a reference");
        let AttentionGrads { dq, dk, dv, .. } = by.run(stream).expect("gradients");
        for (name, got, want) in [
            ("dq", dq, want.dq),
            ("dk", dk, want.dk),
            ("dv", dv, want.dv),
        ] {
            let got = got.to_ndarray().expect("a gradient");
            let got = got
                .into_shape_with_order(want.values.raw_dim())
                .expect("a shape");
            agrees(&got, &want)
                .unwrap_or_else(|error| panic!("{name} by {}: {error}", candidate.name));
        }
    }
}

/// Which keys a mask shows, `[batch, 1, SEQLEN, SEQLEN]`.
fn shown(sees: impl Fn(usize, usize, usize) -> bool) -> ScoreOptions {
    let shape = (BATCH, 1, SEQLEN, SEQLEN);
    ScoreOptions {
        mask: Some(Array4::from_shape_fn(shape, |(b, _, i, j)| sees(b, i, j)).into_dyn()),
        ..ScoreOptions::default()
    }
}

#[test]
fn masks_of_ones_own_match_the_reference() {
    on_every_device(|device, stream| {
        let of_mask = |mask: &ScoreFunction, want: ScoreOptions| {
            let of = Checked {
                mask: Some(mask),
                score: None,
                want,
            };
            check::<bf16>(stream, &of);
        };
        let window = mask("sliding_window", &[Scalar::U32]);
        let window = ScoreFunction::new().apply(&window, [30_u32.into()]);
        of_mask(&window, shown(|_, i, j| j <= i && i - j < 30));

        let documents: Vec<i32> = (0..SEQLEN as i32).map(|position| position / 50).collect();
        let documents = Tensor::from_slice(device, &[SEQLEN], &documents).expect("a tensor");
        let same = mask("same_document", &[Scalar::U64]);
        let same = ScoreFunction::new().apply(&same, [(&documents).into()]);
        of_mask(&same, shown(|_, i, j| i / 50 == j / 50));

        let prefixes = Tensor::from_slice(device, &[BATCH], &[40_i32, 0]).expect("a tensor");
        let prefix = mask("prefix", &[Scalar::U64]);
        let prefix = ScoreFunction::new().apply(&prefix, [(&prefixes).into()]);
        of_mask(&prefix, shown(|b, i, j| j <= i || j < [40, 0][b]));

        let near = mask("neighbourhood", &[Scalar::U32, Scalar::U32]);
        let near = ScoreFunction::new().apply(&near, [12_u32.into(), 2_u32.into()]);
        let is_near = |a: usize, b: usize| a.abs_diff(b) <= 2;
        of_mask(
            &near,
            shown(|_, i, j| is_near(i / 12, j / 12) && is_near(i % 12, j % 12)),
        );
    });
}

#[test]
fn functions_of_ones_own_match_the_reference() {
    on_every_device(|_, stream| {
        let values = || [0.5_f32.into()];
        let relative = (score("relative"), score("relative_slope"));
        let relative =
            ScoreFunction::new().apply_with_derivative(&relative.0, &relative.1, values());
        let capped = (score("capped"), score("capped_slope"));
        let capped = ScoreFunction::new().apply_with_derivative(&capped.0, &capped.1, values());
        let known = [
            (
                &relative,
                Known {
                    value: |x, [.., i, j]| x - 0.5 * i.abs_diff(j) as f64,
                    slope: |_, _| 1.0,
                    most: [1.0, 0.0],
                    roundoffs: [2.0, 0.0],
                },
            ),
            (
                &capped,
                Known {
                    value: |x, [_, head, ..]| {
                        let cap = 0.5 * (1 + head) as f64;
                        cap * (x / cap).tanh()
                    },
                    slope: |x, [_, head, ..]| 1.0 - (x / (0.5 * (1 + head) as f64)).tanh().powi(2),
                    most: [1.0, 2.0],
                    roundoffs: [16.0, 32.0],
                },
            ),
        ];
        for (function, known) in known {
            let want = ScoreOptions {
                function: Some(known),
                ..ScoreOptions::default()
            };
            let of = Checked {
                mask: None,
                score: Some(function),
                want,
            };
            check::<bf16>(stream, &of);
            check::<f32>(stream, &of);
        }
    });
}

#[test]
fn a_bias_that_is_nan_makes_its_row_nan_and_no_other() {
    on_every_device(|device, stream| {
        let x: Tensor<bf16> = ones(stream, &[1, 130, 2, 64]);
        let mut values = vec![0.25_f32; 2 * 130 * 130];
        values[130 * 130 + 3 * 130 + 7] = f32::NAN;
        let bias = Tensor::from_slice(device, &[1, 2, 130, 130], &values).expect("a tensor");
        let attention = Attention::new(&x, &x, &x).bias(&bias);
        for candidate in attention.plan(stream).expect("a plan").candidates() {
            let by = attention.clone().with_kernel(&candidate.name).lse();
            let got = by.run(stream).expect("a result");
            for (index, x) in got.o.to_ndarray().expect("o").indexed_iter() {
                let is_nan = (index[1], index[2]) == (3, 1);
                assert_eq!(x.is_nan(), is_nan, "{} at {index:?}", candidate.name);
            }
            for (index, x) in got.lse.to_ndarray().expect("lse").indexed_iter() {
                let is_nan = (index[2], index[1]) == (3, 1);
                assert_eq!(x.is_nan(), is_nan, "lse by {} at {index:?}", candidate.name);
            }
        }
    });
}

#[test]
fn a_function_that_divides_by_zero_gives_numbers_or_nan_and_no_fault() {
    on_every_device(|_, stream| {
        let x: Tensor<bf16> = ones(stream, &[1, 70, 1, 64]);
        let by_zero = ScoreFunction::new().scalar(BinaryOp::Div, 0.0);
        let attention = Attention::new(&x, &x, &x).score(&by_zero);
        for candidate in attention.plan(stream).expect("a plan").candidates() {
            let by = attention.clone().with_kernel(&candidate.name);
            let o = by.run(stream).expect("a result").to_vec().expect("o");
            assert!(o.iter().all(|x| x.is_nan()), "{}", candidate.name);
        }
    });
}

#[test]
fn what_does_not_fit_scores_is_refused_with_what_would() {
    on_every_device(|_, stream| {
        let x: Tensor<f32> = ones(stream, &[2, 5, 4, 8]);
        let attention = || Attention::new(&x, &x, &x);
        let bias: Tensor<f32> = ones(stream, &[2, 3, 5, 5]);
        refused!(
            attention().bias(&bias).run(stream)
            => Shape::Mismatch, "attention: ", "`bias`", "[2, 3, 5, 5]", "[2, 4, 5, 5]"
        );
        let hidden: Tensor<u8> = ones(stream, &[1, 2, 4, 5, 5]);
        refused!(attention().mask(&hidden).run(stream) => Shape::Mismatch, "`mask`");
        let slopes: Tensor<f32> = ones(stream, &[5]);
        refused!(attention().alibi(&slopes).run(stream) => Shape::Mismatch, "`alibi`", "[2, 4]");

        let window = mask("sliding_window", &[Scalar::U32]);
        let none = ScoreFunction::new().apply(&window, []);
        refused!(attention().mask(&none).run(stream) => Kernel::Fuse, "`sliding_window`", "5");
        let float = ScoreFunction::new().apply(&window, [1_f32.into()]);
        refused!(attention().mask(&float).run(stream) => Kernel::Fuse, "`sliding_window`", "f32");
        let capped = ScoreFunction::new().apply(&score("capped"), [1_f32.into()]);
        refused!(attention().mask(&capped).run(stream) => Kernel::Fuse, "`capped`");
        let empty = ScoreFunction::new();
        refused!(attention().mask(&empty).run(stream) => Argument::Value, "mask", "0 steps");
        let mut long = ScoreFunction::new();
        for _ in 0..7 {
            long = long.unary(UnaryOp::Tanh);
        }
        refused!(attention().score(&long).run(stream) => Argument::Value, "score", "7 steps", "6");
        let scaled = ScoreFunction::new().unary(UnaryOp::Scale);
        refused!(attention().score(&scaled).run(stream) => Argument::Value, "score", "scale");

        let lse: Tensor<f32> = ones(stream, &[2, 4, 5]);
        let grad = || AttentionGrad::new(&x, &x, &x, &x, &lse, &x);
        refused!(
            grad().score(&capped).run(stream)
            => Argument::Unsupported, "attention_grad: ", "`capped`", "apply_with_derivative"
        );
        let floor = ScoreFunction::new().unary(UnaryOp::Floor);
        refused!(grad().score(&floor).run(stream) => Argument::Unsupported, "floor", "GradOp");
        refused!(grad().bias_gradient().run(stream) => Argument::Value, "d_bias", "no bias");
    });
}
