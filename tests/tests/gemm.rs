//! `Gemm` against its reference: shapes around tiles, every layout, batches, scalars, special
//! values; exact on small integers; deterministic; writes its output and nothing else.

use ndarray::ArrayD;
use proptest::prelude::*;
use serde::Deserialize;
use warpsmith::reference::gemm::{GemmOptions, gemm};
use warpsmith::{DType, Device, Float, Gemm};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{self, agrees, agrees_exactly, run_twice};
use warpsmith_tests::output::Output;
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, cases, say, with_float};

#[derive(Clone, Debug, Deserialize)]
struct Case {
    m: usize,
    n: usize,
    k: usize,
    /// Of `a` and of `b`; none is a matrix.
    #[serde(default)]
    batch_a: Option<usize>,
    #[serde(default)]
    batch_b: Option<usize>,
    #[serde(deserialize_with = "operation::dtype")]
    dtype: DType,
    #[serde(default)]
    f32_output: bool,
    #[serde(default = "one")]
    alpha: f32,
    #[serde(default)]
    beta: f32,
    #[serde(default)]
    views: [View; 4],
    #[serde(default)]
    values: Values,
    #[serde(default)]
    seed: u64,
}

fn one() -> f32 {
    1.0
}

/// Largest magnitude that products of [`Values::Integers`] summed over k may have to be exact.
const EXACT_K: usize = 4096;

fn check(case: &Case, device: &Device) -> Checked {
    fn same<T: Float + TestElement>(case: &Case, device: &Device) -> Checked {
        let run = |a: &_, b: &_, c: &_, d: &_, s: &_| {
            Gemm::new(a, b)
                .alpha(case.alpha)
                .beta(case.beta, c)
                .run_into(d, s)
        };
        check_typed::<T, T>(case, device, run)
    }
    fn to_f32<T: Float + TestElement>(case: &Case, device: &Device) -> Checked {
        let run = |a: &_, b: &_, c: &_, d: &_, s: &_| {
            Gemm::with_f32_output(a, b)
                .alpha(case.alpha)
                .beta(case.beta, c)
                .run_into(d, s)
        };
        check_typed::<T, f32>(case, device, run)
    }
    if case.f32_output {
        with_float!(case.dtype, to_f32(case, device))
    } else {
        with_float!(case.dtype, same(case, device))
    }
}

fn check_typed<In: Float + TestElement, Out: Float + TestElement>(
    case: &Case,
    device: &Device,
    run: impl Fn(
        &warpsmith::Tensor<In>,
        &warpsmith::Tensor<In>,
        &warpsmith::Tensor<Out>,
        &warpsmith::Tensor<Out>,
        &warpsmith::Stream,
    ) -> warpsmith::Result<()>,
) -> Checked {
    let Case {
        m,
        n,
        k,
        values,
        seed,
        views,
        ..
    } = *case;
    let shape = |batch: Option<usize>, rows, columns| -> Vec<usize> {
        batch.into_iter().chain([rows, columns]).collect()
    };
    let batch = match (case.batch_a, case.batch_b) {
        (Some(a), Some(b)) => Some(if a == 1 { b } else { a }),
        (a, b) => a.or(b),
    };
    let a = Operand::<In>::draw(device, &shape(case.batch_a, m, k), values, views[0], seed)?;
    let b = Operand::<In>::draw(
        device,
        &shape(case.batch_b, k, n),
        values,
        views[1],
        seed + 1,
    )?;
    // At beta == 0, c is poison: reading it would show.
    let shape_d = shape(batch, m, n);
    let c = match case.beta {
        0.0 => Operand::lay_out(device, ArrayD::from_elem(&*shape_d, f64::NAN), views[2])?,
        _ => Operand::<Out>::draw(device, &shape_d, values, views[2], seed + 2)?,
    };
    let stream = device.stream().map_err(say)?;
    let output = || Output::<Out>::new(device, &shape_d, views[3]);
    let got = run_twice(output, |d| {
        run(&a.tensor, &b.tensor, &c.tensor, &d.tensor, &stream)
    })?;
    let options = GemmOptions {
        alpha: case.alpha,
        beta: case.beta,
        dtype: Out::DTYPE,
    };
    let want = gemm(
        &a.values.view(),
        &b.values.view(),
        Some(&c.values.view()),
        &options,
    );
    let want = want.map_err(say)?;
    agrees(&got, &want)?;
    if values == Values::Integers && k <= EXACT_K {
        agrees_exactly(&got, &want.values)?;
    }
    Ok(())
}

fn case(largest: usize) -> impl Strategy<Value = Case> {
    let batch = || prop_oneof![3 => Just(None), 1 => Just(Some(1))];
    let scalar = || prop::sample::select(vec![0.0_f32, 1.0, -1.0, 0.5, 2.0]);
    let shape = (extent(largest), extent(largest), extent(largest));
    let dtype = prop::sample::select(vec![DType::F32, DType::F16, DType::Bf16]);
    let views = (View::any(), View::any(), View::any(), View::writable());
    let options = (
        batch(),
        batch(),
        prop::option::weighted(0.3, 0..4_usize),
        any::<bool>(),
    );
    (
        shape,
        dtype,
        views,
        options,
        (scalar(), scalar()),
        (Values::any(), any::<u32>()),
    )
        .prop_map(
            |(
                (m, n, k),
                dtype,
                views,
                (a, b, batch, f32_output),
                (alpha, beta),
                (values, seed),
            )| {
                Case {
                    m,
                    n,
                    k,
                    // A batch of 1 and none at all are repeated.
                    batch_a: if a.is_none() { batch } else { a },
                    batch_b: if b.is_none() {
                        batch.filter(|_| seed % 2 == 0)
                    } else {
                        b
                    },
                    dtype,
                    f32_output,
                    alpha,
                    beta,
                    views: [views.0, views.1, views.2, views.3],
                    values,
                    seed: u64::from(seed),
                }
            },
        )
}

#[test]
fn gemm_matches_its_reference_for_every_shape_layout_and_dtype() {
    holds(
        Effort {
            cases: 150,
            largest: [140, 700],
        },
        case,
        check,
    );
}

#[test]
fn gemm_matches_its_reference_on_the_table_of_cases() {
    cases::run(include_str!("../cases/gemm.toml"), check);
}

#[test]
fn gemm_may_write_over_its_c() {
    for device in warpsmith::testing::devices() {
        let a = Operand::<f32>::draw(&device, &[33, 20], Values::Uniform, View::Contiguous, 1);
        let b = Operand::<f32>::draw(&device, &[20, 17], Values::Uniform, View::Contiguous, 2);
        let (a, b) = (a.expect("an operand"), b.expect("an operand"));
        let c = Values::Uniform.draw(&[33, 17], 3).mapv(|x| x as f32);
        for view in [View::Contiguous, View::Transposed, View::Sliced] {
            let d = Output::with(&device, &c, view).expect("an output");
            let stream = device.stream().expect("a stream");
            let in_place = Gemm::new(&a.tensor, &b.tensor).beta(0.5, &d.tensor);
            in_place.run_into(&d.tensor, &stream).expect("in place");
            let options = GemmOptions {
                beta: 0.5,
                ..GemmOptions::default()
            };
            let wide_c = c.mapv(f64::from);
            let want = gemm(
                &a.values.view(),
                &b.values.view(),
                Some(&wide_c.view()),
                &options,
            );
            agrees(&d.read().expect("guards"), &want.expect("shapes fit")).expect("a result");
        }
    }
}
