//! Attention that can be worked out by hand, and bounds that hold.

use ndarray::Array4;
use proptest::prelude::*;

use super::*;

fn options(causal: bool, keys: usize) -> AttentionOptions {
    let model = Model::any_order(keys, keys, 1.0);
    AttentionOptions {
        mask: if causal {
            Band::CAUSAL
        } else {
            Band::default()
        },
        ..AttentionOptions::new(DType::F32, model)
    }
}

/// Values that differ everywhere and are not symmetric.
fn wave(shape: (usize, usize, usize, usize), seed: f64) -> Array4<f64> {
    Array4::from_shape_fn(shape, |(b, s, h, d)| {
        f64::from(((b * 7 + s * 3 + h * 11 + d) as f64 * 0.7 + seed).sin() as f32)
    })
}

#[test]
fn one_key_returns_its_value() {
    let (q, k, v) = (
        wave((1, 3, 2, 4), 0.0),
        wave((1, 1, 2, 4), 1.0),
        wave((1, 1, 2, 5), 2.0),
    );
    let got = attention(&q.view(), &k.view(), &v.view(), &options(false, 1)).unwrap();
    for i in 0..3 {
        assert_eq!(
            got.o.values.index_axis(Axis(1), i),
            v.index_axis(Axis(1), 0).into_dyn()
        );
    }
}

#[test]
fn equal_keys_average_the_values() {
    let k = Array4::from_elem((1, 4, 1, 2), 0.5);
    let v = Array4::from_shape_fn((1, 4, 1, 1), |(_, s, _, _)| s as f64);
    let q = wave((1, 2, 1, 2), 0.0);
    let got = attention(&q.view(), &k.view(), &v.view(), &options(false, 4)).unwrap();
    assert!(got.o.values.iter().all(|&o| (o - 1.5).abs() < 1e-15));
}

#[test]
fn the_causal_mask_aligns_bottom_right() {
    // v is one-hot by key: o shows which keys a query sees.
    let v = Array4::from_shape_fn((1, 5, 1, 5), |(_, s, _, d)| f64::from(u8::from(s == d)));
    let k = wave((1, 5, 1, 2), 0.0);
    let q = wave((1, 2, 1, 2), 1.0);
    let got = attention(&q.view(), &k.view(), &v.view(), &options(true, 5)).unwrap();
    let seen: Vec<bool> = got.o.values.iter().map(|&p| p > 0.0).collect();
    assert_eq!(seen, [[true, true, true, true, false], [true; 5]].concat());
}

#[test]
fn a_query_that_sees_no_key_gives_zero_and_minus_infinity() {
    let (q, k, v) = (
        wave((1, 5, 1, 2), 0.0),
        wave((1, 2, 1, 2), 1.0),
        wave((1, 2, 1, 3), 2.0),
    );
    let got = attention(&q.view(), &k.view(), &v.view(), &options(true, 2)).unwrap();
    for i in 0..5 {
        let masked = i < 3;
        let zero = got
            .o
            .values
            .index_axis(Axis(1), i)
            .iter()
            .all(|&o| o == 0.0);
        assert_eq!(zero, masked);
        assert_eq!(got.lse.values[[0, 0, i]] == f64::NEG_INFINITY, masked);
    }
    let none = k.slice_axis(Axis(1), (..0).into());
    let no_v = v.slice_axis(Axis(1), (..0).into());
    let got = attention(&q.view(), &none, &no_v, &options(false, 0)).unwrap();
    assert!(got.o.values.iter().all(|&o| o == 0.0));
}

#[test]
fn query_heads_share_key_heads_in_groups() {
    let (q, k, v) = (
        wave((2, 3, 4, 4), 0.0),
        wave((2, 5, 2, 4), 1.0),
        wave((2, 5, 2, 4), 2.0),
    );
    let whole = attention(&q.view(), &k.view(), &v.view(), &options(false, 5)).unwrap();
    for h in 0..4 {
        let q = q.slice_axis(Axis(2), (h..=h).into());
        let (k, v) = (
            k.slice_axis(Axis(2), (h / 2..=h / 2).into()),
            v.slice_axis(Axis(2), (h / 2..=h / 2).into()),
        );
        let one = attention(&q, &k, &v, &options(false, 5)).unwrap();
        assert_eq!(
            whole.o.values.slice_axis(Axis(2), (h..=h).into()),
            one.o.values
        );
    }
}

#[test]
fn refuses_shapes_that_do_not_fit() {
    let q = wave((1, 2, 3, 4), 0.0);
    let good = wave((1, 2, 3, 4), 0.0);
    for bad in [(2, 2, 3, 4), (1, 2, 2, 4), (1, 2, 0, 4), (1, 2, 3, 5)] {
        let k = wave(bad, 0.0);
        assert!(attention(&q.view(), &k.view(), &k.view(), &options(false, 2)).is_err());
    }
    let v = wave((1, 3, 3, 4), 0.0);
    assert!(attention(&q.view(), &good.view(), &v.view(), &options(false, 2)).is_err());
}

#[test]
fn refuses_sinks_that_are_not_one_a_head_and_sequences_that_lie_elsewhere() {
    let x = wave((1, 2, 3, 4), 0.0);
    let flat = x.index_axis(Axis(0), 0);
    for count in [0, 2, 4] {
        let mut options = options(false, 2);
        options.sink = Some(vec![0.0; count]);
        let want = "it has to be [3], one element per head of q";
        let want = ReferenceError::shape("sink", &[count], want);
        let got = attention(&x.view(), &x.view(), &x.view(), &options);
        assert_eq!(got.unwrap_err(), want);
        let got = unfused(&flat, &flat, &flat, &[], &options, DType::F32);
        assert_eq!(got.unwrap_err(), want);
    }
    for [from, to] in [[0, 3], [2, 1]] {
        for (q, k) in [(from..to, 0..2), (0..2, from..to)] {
            let got = packed(
                &flat,
                &flat,
                &flat,
                &[SequencePositions { q, k }],
                &options(false, 2),
            );
            let error = got.unwrap_err().to_string();
            assert!(error.contains(&format!("{from}..{to}")), "{error}");
        }
    }
}

#[test]
fn refuses_parts_that_do_not_fit_each_other() {
    let part = |o: &[usize], lse: &[usize]| Partial {
        o: ndarray::ArrayD::zeros(o),
        lse: ndarray::ArrayD::zeros(lse),
    };
    let good = part(&[3, 2, 4], &[2, 3]);
    let model = Model::any_order(2, 0, 1.0);
    for (name, a, b) in [
        ("lse of a", part(&[2, 4], &[2]), good.clone()),
        ("o of a", part(&[2, 3, 4], &[2, 3]), good.clone()),
        ("o of a", part(&[3, 2], &[2, 3]), good.clone()),
        ("o of b", good.clone(), part(&[3, 2, 5], &[2, 3])),
        ("lse of b", good.clone(), part(&[3, 2, 4], &[3, 2])),
    ] {
        let error = merge(&a, &b, DType::F32, &model).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{name} has shape")), "{error}");
    }
    assert!(merge(&good, &good, DType::F32, &model).is_ok());
}

proptest! {
    #[test]
    fn an_online_f32_attention_is_within_the_bound(
        keys in 1usize..40,
        head_dim in 1usize..20,
        seed in 0f64..100.0,
        size in 0.1f64..6.0,
    ) {
        let rounded = |x: Array4<f64>| x.mapv(|x| f64::from((x * size) as f32));
        let q = rounded(wave((1, 1, 1, head_dim), seed));
        let k = rounded(wave((1, keys, 1, head_dim), seed + 1.0));
        let v = rounded(wave((1, keys, 1, 1), seed + 2.0));
        let want = attention(&q.view(), &k.view(), &v.view(), &options(false, keys)).unwrap();
        let (o, lse) = online_f32(&q, &k, &v);
        let o = Array4::from_elem((1, 1, 1, 1), f64::from(o)).into_dyn();
        let agreement = want.o.compare(&o.view());
        prop_assert!(agreement.is_ok(), "{}", agreement.unwrap_err());
        let lse = Array3::from_elem((1, 1, 1), f64::from(lse)).into_dyn();
        let agreement = want.lse.compare(&lse.view());
        prop_assert!(agreement.is_ok(), "{}", agreement.unwrap_err());
    }
}

/// One query against all keys as kernels do it: running maximum, base 2.
fn online_f32(q: &Array4<f64>, k: &Array4<f64>, v: &Array4<f64>) -> (f32, f32) {
    let scale = (q.dim().3 as f32).sqrt().recip() * std::f32::consts::LOG2_E;
    let (mut max, mut sum, mut acc) = (f32::NEG_INFINITY, 0f32, 0f32);
    for j in 0..k.dim().1 {
        let products = q
            .iter()
            .zip(k.index_axis(Axis(1), j).iter().copied().collect::<Vec<_>>());
        let score = products.fold(0f32, |s, (&q, k)| (q as f32).mul_add(k as f32, s)) * scale;
        let new = max.max(score);
        let correction = (max - new).exp2();
        let p = (score - new).exp2();
        sum = sum * correction + p;
        acc = acc * correction + p * v[[0, j, 0, 0]] as f32;
        max = new;
    }
    (acc / sum, (max + sum.log2()) * std::f32::consts::LN_2)
}

#[test]
fn bands_are_aligned_to_their_corner() {
    let rows = |band: Band, seqlen_q: usize, seqlen_k: usize| -> Vec<Vec<u8>> {
        let sees = |i, j| u8::from(band.sees((i, seqlen_q), (j, seqlen_k)));
        let row = |i| (0..seqlen_k).map(|j| sees(i, j)).collect();
        (0..seqlen_q).map(row).collect()
    };
    let top_left = Band {
        top_left: true,
        ..Band::CAUSAL
    };
    assert_eq!(rows(Band::CAUSAL, 2, 4), [[1, 1, 1, 0], [1, 1, 1, 1]]);
    assert_eq!(rows(top_left, 2, 4), [[1, 0, 0, 0], [1, 1, 0, 0]]);
    assert_eq!(rows(Band::CAUSAL, 3, 2), [[0, 0], [1, 0], [1, 1]]);
    assert_eq!(rows(top_left, 3, 2), [[1, 0], [1, 1], [1, 1]]);
    let window = Band {
        left: Some(1),
        right: Some(0),
        top_left: false,
    };
    assert_eq!(rows(window, 3, 3), [[1, 0, 0], [1, 1, 0], [0, 1, 1]]);
    assert_eq!(rows(Band::default(), 2, 2), [[1; 2]; 2]);
}

#[test]
fn a_sink_takes_its_part_and_gives_no_value() {
    // One key whose score is 0, and a sink of 0: half each.
    let q = Array4::zeros((1, 1, 1, 2));
    let (k, v) = (q.clone(), Array4::from_elem((1, 1, 1, 3), 4.0));
    let with = |sink: f64, causal| AttentionOptions {
        sink: Some(vec![sink]),
        ..options(causal, 1)
    };
    let got = attention(&q.view(), &k.view(), &v.view(), &with(0.0, false)).unwrap();
    assert!(got.o.values.iter().all(|&o| o == 2.0));
    assert!((got.lse.values[[0, 0, 0]] - 2f64.ln()).abs() < 1e-15);
    let none = got
        .o
        .values
        .iter()
        .zip(&got.o.bounds)
        .all(|(_, &bound)| bound > 0.0);
    assert!(none, "a row with keys has a bound");
    // A row that sees no key: the sink alone.
    let (no_k, no_v) = (Array4::zeros((1, 0, 1, 2)), Array4::zeros((1, 0, 1, 3)));
    let got = attention(&q.view(), &no_k.view(), &no_v.view(), &with(0.5, true)).unwrap();
    assert!(got.o.values.iter().all(|&o| o == 0.0));
    assert_eq!(got.lse.values[[0, 0, 0]], 0.5);
    let got = attention(
        &q.view(),
        &k.view(),
        &v.view(),
        &with(f64::NEG_INFINITY, true),
    )
    .unwrap();
    assert!(got.o.values.iter().all(|&o| o == 4.0));
}

#[test]
fn a_softcap_bounds_scores_and_leaves_small_ones() {
    let q = Array4::from_elem((1, 1, 1, 1), 100.0);
    let k = Array4::from_shape_fn((1, 2, 1, 1), |(_, j, _, _)| if j == 0 { 1.0 } else { 0.0 });
    let v = Array4::from_shape_fn((1, 2, 1, 1), |(_, j, _, _)| if j == 0 { 1.0 } else { 0.0 });
    let capped = |cap: f32| {
        let options = AttentionOptions {
            softcap: Some(cap),
            softmax_scale: Some(1.0),
            ..options(false, 2)
        };
        let got = attention(&q.view(), &k.view(), &v.view(), &options).unwrap();
        got.o.values[[0, 0, 0, 0]]
    };
    // Scores min(100, cap) and 0: the logistic function of the first.
    assert!((capped(2.0) - 1.0 / (1.0 + (-2f64).exp())).abs() < 1e-12);
    assert!((1.0 - capped(1e6)) < 1e-12);
}

#[test]
fn sequences_are_attention_of_their_own() {
    let (q, k, v) = (
        wave((1, 7, 2, 4), 0.0),
        wave((1, 9, 1, 4), 1.0),
        wave((1, 9, 1, 3), 2.0),
    );
    let of = |x: &Array4<f64>| x.index_axis(Axis(0), 0).to_owned();
    let sequences =
        [(0..3, 1..6), (4..7, 6..6), (3..4, 7..9)].map(|(q, k)| SequencePositions { q, k });
    let options = options(true, 9);
    let (flat_q, flat_k, flat_v) = (of(&q), of(&k), of(&v));
    let all = packed(
        &flat_q.view(),
        &flat_k.view(),
        &flat_v.view(),
        &sequences,
        &options,
    );
    let all = all.unwrap();
    for SequencePositions {
        q: queries,
        k: keys,
    } in sequences
    {
        let cut = |x: &Array4<f64>, at: &Range<usize>| {
            x.slice_axis(Axis(1), at.clone().into()).to_owned()
        };
        let (q, k, v) = (cut(&q, &queries), cut(&k, &keys), cut(&v, &keys));
        let one = attention(&q.view(), &k.view(), &v.view(), &options).unwrap();
        let slice = |x: &ndarray::ArrayD<f64>, axis| {
            x.slice_axis(Axis(axis), queries.clone().into()).to_owned()
        };
        let o = one.o.values.index_axis(Axis(0), 0).to_owned();
        assert_eq!(slice(&all.o.values, 0), o);
        let lse = one.lse.values.index_axis(Axis(0), 0).to_owned();
        assert_eq!(slice(&all.lse.values, 1), lse);
    }
    let beyond = [SequencePositions { q: 0..8, k: 0..1 }];
    assert!(
        packed(
            &flat_q.view(),
            &flat_k.view(),
            &flat_v.view(),
            &beyond,
            &options
        )
        .is_err()
    );
}

#[test]
fn two_parts_of_the_keys_merge_to_the_whole() {
    let (q, k, v) = (
        wave((2, 3, 2, 4), 0.0),
        wave((2, 7, 1, 4), 1.0),
        wave((2, 7, 1, 5), 2.0),
    );
    let part = |keys: Range<usize>| {
        let cut = |x: &Array4<f64>| x.slice_axis(Axis(1), keys.clone().into()).to_owned();
        let (k, v) = (cut(&k), cut(&v));
        let got = attention(&q.view(), &k.view(), &v.view(), &options(false, 7)).unwrap();
        Partial {
            o: got.o.values,
            lse: got.lse.values,
        }
    };
    let whole = part(0..7);
    for split in [0, 3, 7] {
        let (a, b) = (part(0..split), part(split..7));
        let got = merge(&a, &b, DType::F32, &Model::any_order(2, 0, 1.0)).unwrap();
        let close = |x: &ndarray::ArrayD<f64>, y: &ndarray::ArrayD<f64>| {
            x.iter().zip(y).all(|(x, y)| (x - y).abs() < 1e-12)
        };
        assert!(close(&got.o.values, &whole.o) && close(&got.lse.values, &whole.lse));
    }
    let nothing = merge(
        &part(0..0),
        &part(7..7),
        DType::F32,
        &Model::any_order(2, 0, 1.0),
    );
    let nothing = nothing.unwrap();
    assert!(nothing.o.values.iter().all(|&o| o == 0.0));
    assert!(
        nothing
            .lse
            .values
            .iter()
            .all(|&lse| lse == f64::NEG_INFINITY)
    );
}

/// One head of one sequence: q, k and v of these rows.
fn one_head(rows: &[&[f64]]) -> Array3<f64> {
    let columns = rows[0].len();
    Array3::from_shape_fn((rows.len(), 1, columns), |(i, _, c)| rows[i][c])
}

#[test]
fn a_chain_of_operations_rounds_after_each() {
    // The scale of head_dim 4 is a half. Products 1.0625 and 1 are scores of bf16 as they are; the
    // probabilities 0.5156.. and 0.4843.. are not, and neither is their sum with values 256 and -1.
    let q = one_head(&[&[1.0, 1.0, 0.0, 0.0]]);
    let k = one_head(&[&[2.0, 0.125, 0.0, 0.0], &[2.0, 0.0, 0.0, 0.0]]);
    let v = one_head(&[&[256.0], &[-1.0]]);
    let sequences = [SequencePositions { q: 0..1, k: 0..2 }];
    let chain = |options: &AttentionOptions, dtype| {
        let o = unfused(&q.view(), &k.view(), &v.view(), &sequences, options, dtype);
        o.expect("shapes fit")[[0, 0, 0]]
    };
    let bf16 = |x: f64| crate::precision::round_to(DType::Bf16, x);
    let first = 1.0 / (1.0 + (-0.0625_f64).exp());
    let want = bf16(bf16(first) * 256.0 - bf16(1.0 - first));
    let exact = first * 256.0 - (1.0 - first);
    let mut options = AttentionOptions::new(DType::Bf16, Model::any_order(2, 2, 1.0));
    assert_eq!(chain(&options, DType::Bf16), want);
    options.dtype = DType::F64;
    assert!((chain(&options, DType::F64) - exact).abs() < 1e-12);
    // A sink takes its share, and a query that sees nothing has 0.
    options.sink = Some(vec![1.0]);
    let share = 1.0 / (1.0 + (-0.0625_f64).exp() + (-0.0625_f64).exp());
    let second = share * (-0.0625_f64).exp();
    assert!((chain(&options, DType::F64) - (256.0 * share - second)).abs() < 1e-12);
    options.mask.right = Some(0);
    options.mask.left = Some(0);
    options.mask.top_left = true;
    let alone = 256.0 / (1.0 + (-0.0625_f64).exp());
    assert!((chain(&options, DType::F64) - alone).abs() < 1e-12);
}

#[test]
fn the_chain_without_rounding_is_the_reference() {
    let (seqlen_q, seqlen_k) = (5, 7);
    let wave = |seqlen: usize, heads: usize, seed: f64| {
        Array3::from_shape_fn((seqlen, heads, 6), |(i, h, c)| {
            (seed + 1.7 * i as f64 + 0.9 * h as f64 + 0.31 * c as f64).sin() * 2.0
        })
    };
    let (q, k, v) = (
        wave(seqlen_q, 4, 0.1),
        wave(seqlen_k, 2, 0.2),
        wave(seqlen_k, 2, 0.3),
    );
    let sequences = [SequencePositions { q: 1..5, k: 0..7 }];
    for softcap in [None, Some(2.0)] {
        let options = AttentionOptions {
            mask: Band::CAUSAL,
            softcap,
            ..AttentionOptions::new(DType::F64, Model::any_order(7, 7, 1.0))
        };
        let [q, k, v] = [q.view(), k.view(), v.view()];
        let chain = unfused(&q, &k, &v, &sequences, &options, DType::F64).expect("shapes fit");
        let want = packed(&q, &k, &v, &sequences, &options).expect("shapes fit");
        let apart = (&chain - &want.o.values).mapv(f64::abs);
        assert!(apart.iter().all(|&apart| apart < 1e-13), "{apart}");
    }
}
