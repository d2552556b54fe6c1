//! Dropout: the mask, its factor, and what it does not change.

use ndarray::ArrayD;
use warpsmith::reference::attention::Dropout;
use warpsmith::{Attention, DType, Device, Tensor};
use warpsmith_tests::operand::View;
use warpsmith_tests::property::{Effort, holds};

use super::case::{self, Case};
use super::check::check;
use super::scores::Scores;

#[test]
fn attention_matches_its_reference_with_dropout() {
    holds(
        Effort {
            cases: [24, 300],
            largest: [150, 600],
        },
        case::dropped,
        check,
    );
}

/// A case for each head_dim whose kernels have tiles of their own.
pub(crate) fn of_every_extent() -> impl Iterator<Item = Case> {
    let of = [
        (DType::Bf16, 0.1, [64, 64]),
        (DType::F16, 0.5, [128, 128]),
        (DType::Bf16, 0.5, [192, 128]),
        (DType::F16, 0.1, [256, 192]),
    ];
    of.into_iter()
        .map(|(dtype, p, [head_dim, head_dim_v])| Case {
            batch: 2,
            group: 2,
            causal: p == 0.5,
            head_dim_v,
            views: [View::Aligned; 4],
            scores: Scores {
                dropout: Some(p),
                ..Scores::default()
            },
            ..Case::plain(dtype, [200, 270], head_dim)
        })
}

#[test]
fn attention_matches_its_reference_with_dropout_in_every_tile() {
    for device in warpsmith::testing::devices() {
        for case in of_every_extent() {
            check(&case, &device).expect("attention");
        }
    }
}

/// With scores of 0 and an identity as values, o is the mask times its factor, divided by the number of
/// keys.
#[test]
fn every_kernel_drops_what_the_definition_says() {
    const BATCH: usize = 2;
    const SEQLEN: usize = 64;
    const HEADS: usize = 3;
    const DIM: usize = 64;
    let dropout = Dropout {
        p: 0.25,
        seed: 0xfeed_0123_4567_89ab,
        offset: u32::MAX,
    };
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let shape = [BATCH, SEQLEN, HEADS, DIM];
        let q = Tensor::<half::bf16>::zeros(&stream, &shape).expect("q");
        let identity = ArrayD::from_shape_fn(shape.to_vec(), |at| {
            half::bf16::from_f32(f32::from(u8::from(at[1] == at[3])))
        });
        let (flat, _) = identity.into_raw_vec_and_offset();
        let v = Tensor::from_slice(&device, &shape, &flat).expect("v");
        let attention = Attention::new(&q, &q, &v);
        let attention = attention.dropout(dropout.p, dropout.seed, dropout.offset);
        let plan = attention.plan(&stream).expect("a plan");
        for kernel in plan.candidates() {
            let of_kernel = attention.clone().with_kernel(&kernel.name).lse();
            let got = of_kernel.run(&stream).expect("attention");
            let o = got.o.to_vec().expect("o");
            let (mut kept, factor) = (0, 1.0 / 0.75 / SEQLEN as f32);
            for (idx, got) in o.iter().enumerate() {
                let at = [
                    idx / (SEQLEN * HEADS * DIM),
                    idx / DIM % HEADS,
                    idx / (HEADS * DIM) % SEQLEN,
                    idx % DIM,
                ];
                let keeps = dropout.keeps(at.map(|x| x as u32), HEADS as u32);
                kept += usize::from(keeps);
                let want = if keeps { factor } else { 0.0 };
                let near = (got.to_f32() - want).abs() <= want / 128.0;
                assert!(near, "{} at {at:?}: {got}, not {want}", kernel.name);
            }
            // Five standard deviations.
            let rate = kept as f64 / o.len() as f64;
            assert!(
                (rate - 0.75).abs() < 5.0 * (0.75 * 0.25 / o.len() as f64).sqrt(),
                "{rate}"
            );
            let lse = got.lse.to_vec().expect("lse");
            let want = (SEQLEN as f32).ln();
            assert!(
                lse.iter().all(|lse| (lse - want).abs() < 1e-5),
                "{}",
                kernel.name
            );
        }
    }
}

#[test]
fn dropping_none_changes_no_bit_and_no_plan() {
    let device = Device::emulator().expect("an emulator");
    let stream = device.stream().expect("a stream");
    let x = Tensor::full(&stream, &[1, 70, 2, 64], half::f16::from_f32(0.3)).expect("x");
    let plain = Attention::new(&x, &x, &x);
    let none = plain.clone().dropout(0.0, 1, 2);
    let bits =
        |of: &Attention<'_, half::f16>| of.run(&stream).expect("attention").to_vec().expect("o");
    assert_eq!(bits(&plain), bits(&none));
    let plan = |of: &Attention<'_, half::f16>| of.plan(&stream).expect("a plan").to_string();
    assert_eq!(plan(&plain), plan(&none));
}

#[test]
fn a_probability_out_of_range_is_an_error() {
    let device = Device::emulator().expect("an emulator");
    let stream = device.stream().expect("a stream");
    let x = Tensor::full(&stream, &[1, 2, 1, 8], 0.5_f32).expect("x");
    for p in [1.0, -0.1, f32::NAN, f32::INFINITY] {
        let got = Attention::new(&x, &x, &x).dropout(p, 0, 0).run(&stream);
        let error = got.map(|_| ()).expect_err("p");
        let want = "want at least 0 and below 1";
        assert!(error.to_string().contains(want), "{error}");
    }
}
