//! `Attention` against its reference: lengths around tiles, grouped heads, masks, head dimensions,
//! layouts; deterministic; a masked key leaks nothing.

use ndarray::{ArrayD, ArrayView4, Axis};
use proptest::prelude::*;
use serde::Deserialize;
use warpsmith::reference::attention::{AttentionOptions, attention};
use warpsmith::{Attention, DType, Device, Float};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{self, agrees, run_twice};
use warpsmith_tests::output::Output;
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, cases, say, with_float};

#[derive(Clone, Debug, Deserialize)]
struct Case {
    #[serde(default = "one")]
    batch: usize,
    seqlen_q: usize,
    seqlen_k: usize,
    #[serde(default = "one")]
    heads_kv: usize,
    /// Query heads a key head.
    #[serde(default = "one")]
    group: usize,
    head_dim: usize,
    head_dim_v: usize,
    #[serde(default)]
    causal: bool,
    #[serde(default)]
    scale: Option<f32>,
    #[serde(deserialize_with = "operation::dtype")]
    dtype: DType,
    /// Of q, k, v and o.
    #[serde(default)]
    views: [View; 4],
    /// Of q and k.
    #[serde(default)]
    values: Values,
    /// Of v.
    #[serde(default)]
    values_v: Values,
    #[serde(default)]
    seed: u64,
}

fn one() -> usize {
    1
}

fn check(case: &Case, device: &Device) -> Checked {
    with_float!(case.dtype, check_typed(case, device))
}

fn check_typed<T: Float + TestElement>(case: &Case, device: &Device) -> Checked {
    let Case {
        batch,
        seqlen_q,
        seqlen_k,
        heads_kv,
        group,
        head_dim,
        head_dim_v,
        ..
    } = *case;
    let Case {
        views,
        values,
        values_v,
        seed,
        ..
    } = *case;
    let heads_q = heads_kv * group;
    let shape_q = [batch, seqlen_q, heads_q, head_dim];
    let shape_k = [batch, seqlen_k, heads_kv, head_dim];
    let shape_v = [batch, seqlen_k, heads_kv, head_dim_v];
    let q = Operand::<T>::draw(device, &shape_q, values, views[0], seed)?;
    let k = Operand::<T>::draw(device, &shape_k, values, views[1], seed + 1)?;
    let v = Operand::<T>::draw(device, &shape_v, values_v, views[2], seed + 2)?;
    let mut operation = Attention::new(&q.tensor, &k.tensor, &v.tensor);
    if case.causal {
        operation = operation.causal();
    }
    if let Some(scale) = case.scale {
        operation = operation.softmax_scale(scale);
    }
    let options = AttentionOptions {
        causal: case.causal,
        softmax_scale: case.scale,
        dtype: T::DTYPE,
        model: operation.model(),
    };
    let want = attention(
        &four_dimensions(&q.values)?,
        &four_dimensions(&k.values)?,
        &four_dimensions(&v.values)?,
        &options,
    );
    let want = want.map_err(say)?;
    let stream = device.stream().map_err(say)?;
    let shape_o = [batch, seqlen_q, heads_q, head_dim_v];
    let shape_lse = [batch, heads_q, seqlen_q];
    let lse = Output::<f32>::new(device, &shape_lse, View::Contiguous)?;
    let o = run_twice(
        || Output::<T>::new(device, &shape_o, views[3]),
        |o| operation.run_into(&o.tensor, Some(&lse.tensor), &stream),
    )?;
    agrees(&o, &want.o).map_err(|error| format!("o: {error}"))?;
    agrees(&lse.read()?, &want.lse).map_err(|error| format!("lse: {error}"))?;
    // The same without lse, in a tensor of its own.
    let again = operation
        .run(&stream)
        .map_err(say)?
        .to_ndarray()
        .map_err(say)?;
    warpsmith_tests::output::same_bits(&o, &again)
}

fn four_dimensions(x: &ArrayD<f64>) -> Result<ArrayView4<'_, f64>, String> {
    x.view().into_dimensionality().map_err(say)
}

fn case(largest: usize) -> impl Strategy<Value = Case> {
    let head_dim = || prop::sample::select(vec![1, 2, 7, 16, 33, 64, 65, 96, 128, 129, 200, 256]);
    let shape = (
        1..3_usize,
        extent(largest),
        extent(largest),
        1..3_usize,
        1..4_usize,
    );
    let dtype = prop::sample::select(vec![DType::F32, DType::F16, DType::Bf16]);
    let views = (View::any(), View::any(), View::any(), View::writable());
    let values = prop::sample::select(vec![Values::Uniform, Values::Integers, Values::Tiny]);
    let values_v = prop::sample::select(vec![Values::Uniform, Values::Wide, Values::Special]);
    let scale = prop::option::of(prop::sample::select(vec![0.125_f32, 1.0, -0.5, 0.0]));
    let options = (any::<bool>(), scale, dtype, head_dim(), head_dim());
    (shape, options, views, values, values_v, any::<u32>()).prop_map(
        |(shape, options, views, values, values_v, seed)| {
            let (batch, seqlen_q, seqlen_k, heads_kv, group) = shape;
            let (causal, scale, dtype, head_dim, head_dim_v) = options;
            // Peaked scores let probabilities underflow, and 0 times infinity is not 0: special
            // values of v go with mild scores.
            let values = if values_v == Values::Special {
                Values::Uniform
            } else {
                values
            };
            Case {
                batch,
                seqlen_q,
                seqlen_k,
                heads_kv,
                group,
                head_dim,
                head_dim_v,
                causal,
                scale,
                dtype,
                views: [views.0, views.1, views.2, views.3],
                values,
                values_v,
                seed: u64::from(seed),
            }
        },
    )
}

#[test]
fn attention_matches_its_reference_for_every_shape_mask_and_dtype() {
    holds(
        Effort {
            cases: 40,
            largest: [100, 600],
        },
        case,
        check,
    );
}

#[test]
fn attention_matches_its_reference_on_the_table_of_cases() {
    cases::run(include_str!("../cases/attention.toml"), check);
}

#[test]
fn a_masked_key_leaks_nothing_whatever_it_holds() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let (seqlen, head_dim) = (70, 40);
        let draw = |seed| Values::Uniform.draw(&[1, seqlen, 1, head_dim], seed);
        let (q, k, v) = (draw(1), draw(2), draw(3));
        let run = |k: ArrayD<f64>, v: ArrayD<f64>| {
            let lay_out = |x| Operand::<f32>::lay_out(&device, x, View::Contiguous);
            let (q, k, v) = (lay_out(q.clone()), lay_out(k), lay_out(v));
            let (q, k, v) = (q.expect("q"), k.expect("k"), v.expect("v"));
            let o = Attention::new(&q.tensor, &k.tensor, &v.tensor)
                .causal()
                .run(&stream);
            o.expect("attention").to_ndarray().expect("o")
        };
        let clean = run(k.clone(), v.clone());
        for bad in [f64::NAN, f64::INFINITY, 1e30] {
            let spoil = |x: &ArrayD<f64>| {
                let mut x = x.clone();
                x.index_axis_mut(Axis(1), seqlen - 1).fill(bad);
                x
            };
            let spoiled = run(spoil(&k), spoil(&v));
            // Only the last query sees the last key.
            for query in 0..seqlen - 1 {
                assert_eq!(
                    clean.index_axis(Axis(1), query),
                    spoiled.index_axis(Axis(1), query),
                    "query {query} with {bad} in the last key, on {device}"
                );
            }
        }
    }
}
