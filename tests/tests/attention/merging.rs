//! Merging attention over two parts of the keys.

use half::{bf16, f16};
use ndarray::{ArrayD, Dimension};
use proptest::prelude::*;
use warpsmith::reference::Model;
use warpsmith::reference::attention::{self as reference, Partial};
use warpsmith::{Attention, AttentionMerge, AttentionOutput, DType, Device, Float, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::agrees;
use warpsmith_tests::output::Output;
use warpsmith_tests::property::{Effort, holds};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say, with_float};

#[derive(Clone, Debug)]
struct Case {
    batch: Option<usize>,
    seqlen_q: usize,
    heads_q: usize,
    head_dim_v: usize,
    dtype: DType,
    views: [View; 2],
    /// Every n-th row of a part saw no key, and has NaN in its o.
    unseen: [usize; 2],
    /// Every n-th other row has NaN for its lse, or infinity where the other part saw no key.
    special: usize,
    seed: u64,
}

fn check(case: &Case, device: &Device) -> Checked {
    with_float!(case.dtype, check_typed(case, device))
}

fn check_typed<T: Float + TestElement>(case: &Case, device: &Device) -> Checked {
    let part = |idx: usize| {
        let rows = [case.seqlen_q, case.heads_q, case.head_dim_v];
        let shape_o: Vec<usize> = case.batch.into_iter().chain(rows).collect();
        let rows = [case.heads_q, case.seqlen_q];
        let shape_lse: Vec<usize> = case.batch.into_iter().chain(rows).collect();
        let seed = case.seed + 10 * idx as u64;
        let mut o = Values::Uniform
            .draw(&shape_o, seed)
            .mapv(|x| T::nearest(x).wide());
        let mut lse = Values::Wide
            .draw(&shape_lse, seed + 1)
            .mapv(|x| f64::from(x as f32).clamp(-80.0, 80.0));
        for (row, lse) in lse.iter_mut().enumerate() {
            if row % case.unseen[idx] == 0 {
                *lse = f64::NEG_INFINITY;
            } else if row % case.special == idx {
                *lse = match row % case.unseen[1 - idx] {
                    0 => f64::INFINITY,
                    _ => f64::NAN,
                };
            }
        }
        for (place, x) in o.indexed_iter_mut() {
            // [.., seqlen_q, heads_q, head_dim_v] of o is [.., heads_q, seqlen_q] of lse.
            let mut place = place.slice().to_vec();
            place.pop();
            let last = place.len() - 1;
            place.swap(last - 1, last);
            if lse[&place[..]] == f64::NEG_INFINITY {
                *x = f64::NAN;
            }
        }
        let attended = AttentionOutput {
            o: Operand::<T>::lay_out(device, o.clone(), case.views[0])?.tensor,
            lse: Operand::<f32>::lay_out(device, lse.clone(), case.views[1])?.tensor,
        };
        Ok::<_, String>((Partial { o, lse }, attended))
    };
    let (a, b) = (part(0)?, part(1)?);
    let partials = [&a.0, &b.0];
    let merge = AttentionMerge::new(&a.1, &b.1);
    merges_into::<T, T>(merge, partials, case.views, device)?;
    merges_into::<T, f32>(merge.output(), partials, case.views, device)?;
    merges_into::<T, f16>(merge.output(), partials, case.views, device)?;
    merges_into::<T, bf16>(merge.output(), partials, case.views, device)
}

/// Into tensors with these views.
fn merges_into<T: Float, O: Float + TestElement>(
    merge: AttentionMerge<'_, T, O>,
    [a, b]: [&Partial; 2],
    views: [View; 2],
    device: &Device,
) -> Checked {
    let stream = device.stream().map_err(say)?;
    let model = Model::any_order(2, 0, 1.1);
    let want = reference::merge(a, b, O::DTYPE, &model).map_err(say)?;
    let o = Output::<O>::new(device, a.o.shape(), views[0])?;
    let lse = Output::<f32>::new(device, a.lse.shape(), views[1])?;
    let run = merge.run_into(&o.tensor, &lse.tensor, &stream);
    run.map_err(say)?;
    agrees(&o.read()?, &want.o).map_err(|error| format!("o: {error}"))?;
    agrees(&lse.read()?, &want.lse).map_err(|error| format!("lse: {error}"))
}

fn case(largest: usize) -> impl Strategy<Value = Case> {
    let shape = (
        prop::option::of(1..3_usize),
        1..=largest,
        1..4_usize,
        prop::sample::select(vec![1, 7, 32, 64, 65, 256]),
    );
    let dtype = prop::sample::select(vec![DType::F32, DType::F16, DType::Bf16]);
    let views = (View::writable(), View::writable());
    let rows = (2..9_usize, 2..9_usize, 3..9_usize);
    (shape, dtype, views, rows, any::<u32>()).prop_map(
        |((batch, seqlen_q, heads_q, head_dim_v), dtype, views, rows, seed)| Case {
            batch,
            seqlen_q,
            heads_q,
            head_dim_v,
            dtype,
            views: [views.0, views.1],
            unseen: [rows.0, rows.1],
            special: rows.2,
            seed: u64::from(seed),
        },
    )
}

#[test]
fn merging_matches_its_reference() {
    holds(
        Effort {
            cases: [40, 200],
            largest: [30, 300],
        },
        case,
        check,
    );
}

#[test]
fn attention_to_halves_of_the_keys_merges_to_that_to_all() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let draw = |seed, seqlen: usize| {
            let values: ArrayD<f64> = Values::Uniform.draw(&[2, seqlen, 2, 16], seed);
            Operand::<f32>::lay_out(&device, values, View::Contiguous)
                .expect("an operand")
                .tensor
        };
        let (q, k, v) = (draw(1, 9), draw(2, 70), draw(3, 70));
        let part = |keys: std::ops::Range<usize>| {
            let (k, v) = (k.slice(1, keys.clone()), v.slice(1, keys));
            let (k, v) = (k.expect("keys"), v.expect("values"));
            let attention = Attention::new(&q, &k, &v).lse();
            attention.run(&stream).expect("attention")
        };
        let whole = part(0..70);
        for split in [0, 1, 33, 70] {
            let (a, b) = (part(0..split), part(split..70));
            let merged = AttentionMerge::new(&a, &b).run(&stream).expect("merged");
            let close = |x: Vec<f32>, y: Vec<f32>| {
                x.iter()
                    .zip(&y)
                    .all(|(x, y)| (x - y).abs() <= 1e-6 * (1.0 + y.abs()))
            };
            let read = |x: &Tensor<f32>| x.to_vec().expect("values");
            assert!(
                close(read(&merged.o), read(&whole.o)),
                "o, split at {split}"
            );
            assert!(
                close(read(&merged.lse), read(&whole.lse)),
                "lse, split at {split}"
            );
        }
    }
}
