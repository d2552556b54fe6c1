//! Gradients of sinks: what is not finite, long sums, many sequences, and what is refused.

use warpsmith::emulator::EmulatorConfig;
use warpsmith::{
    Attention, AttentionGrad, AttentionGrads, AttentionOutput, DType, Device, Stream, Tensor,
};
use warpsmith_tests::operand::View;
use warpsmith_tests::refused;

use super::check::check;
use super::operands::Operands;
use crate::attention::case::Case;

const HEADS: usize = 4;

/// d_sink, with o and lse of the forward pass; the first query of a head sees no key.
fn d_sink(stream: &Stream, sinks: [f32; HEADS]) -> Vec<f32> {
    let device = stream.device();
    let sink = Tensor::from_slice(device, &[HEADS], &sinks).expect("a tensor");
    let x = Operands::ones(stream, [2, 5, 4], [HEADS, 2], [8, 6]);
    let forward = Attention::new(&x.q, &x.k, &x.v).causal().sink(&sink);
    let AttentionOutput { o, lse } = forward.lse().run(stream).expect("attention");
    let grad = AttentionGrad::new(&x.q, &x.k, &x.v, &o, &lse, &x.d_o);
    let grads = grad.causal().sink(&sink).run(stream);
    let d_sink = grads.expect("the gradients").d_sink;
    d_sink.expect("there are sinks").to_vec().expect("values")
}

#[test]
fn a_sink_that_is_not_finite_reaches_its_head_alone() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let finite = d_sink(&stream, [-0.5, 0.0, 0.5, 1.0]);
        assert!(finite.iter().all(|d| *d < 0.0), "{finite:?} on {device}");
        for (sink, holds) in [
            (f32::NEG_INFINITY, (|d| d == 0.0) as fn(f32) -> bool),
            (f32::INFINITY, f32::is_nan),
            (f32::NAN, f32::is_nan),
        ] {
            let got = d_sink(&stream, [-0.5, sink, 0.5, 1.0]);
            assert!(holds(got[1]), "{} for {sink} on {device}", got[1]);
            for head in [0, 2, 3] {
                assert_eq!(got[head], finite[head], "beside {sink} on {device}");
            }
        }
    }
}

#[test]
fn a_query_with_lse_minus_infinity_contributes_nothing_to_its_sink() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let x = Operands::ones(&stream, [1, 3, 4], [1, 1], [8, 6]);
        let sink = Tensor::full(&stream, &[1], 0.5_f32).expect("a tensor");
        let of = |bad: f32| {
            let d_o: Vec<f32> = (0..18).map(|idx| if idx < 6 { bad } else { 1.0 }).collect();
            let d_o = Tensor::from_slice(&device, &[1, 3, 1, 6], &d_o).expect("a tensor");
            let lse = Tensor::from_slice(&device, &[1, 1, 3], &[f32::NEG_INFINITY, 0.5, 0.5]);
            let x = Operands {
                d_o,
                lse: lse.expect("a tensor"),
                ..x.clone()
            };
            let grads = x.grad().sink(&sink).run(&stream).expect("the gradients");
            let d_sink = grads.d_sink.expect("there is a sink");
            d_sink.to_vec().expect("values")
        };
        for bad in [1.0, f32::NAN, f32::INFINITY] {
            // Two queries whose sink has a probability of 1, and a delta of 6.
            assert_eq!(of(bad), [-12.0], "{bad} on {device}");
        }
    }
}

#[test]
fn long_sums_and_many_sequences_keep_their_bound() {
    let long = Case {
        sink: true,
        group: 2,
        ..Case::plain(DType::F32, [4500, 2], 3)
    };
    let many = Case {
        batch: 34,
        seqlen_q: 130,
        ..long.clone()
    };
    let packed = Case {
        packed_q: Some((0..40).map(|idx| [1, 0, 170, 5][idx % 4]).collect()),
        views: [View::Contiguous; 4],
        on_device: true,
        batch: 40,
        ..long.clone()
    };
    for case in [long, many, packed] {
        for device in warpsmith::testing::devices() {
            check(&case, &device).expect("the gradients");
        }
    }
}

#[test]
fn a_d_sink_that_does_not_fit_is_refused() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let x = Operands::ones(&stream, [2, 5, 7], [4, 2], [8, 6]);
        let [dq, dk, dv] = x.gradients(&stream);
        let vector = |len: usize| Tensor::<f32>::zeros(&stream, &[len]).expect("a tensor");
        let sink = vector(4);
        let grad = x.grad().sink(&sink);
        let gradients = |d_sink: Option<&Tensor<f32>>| AttentionGrads {
            dq: dq.clone(),
            dk: dk.clone(),
            dv: dv.clone(),
            d_sink: d_sink.cloned(),
            d_bias: None,
        };
        let into = |d_sink: &Tensor<f32>| grad.run_into(&gradients(Some(d_sink)), &stream);
        refused!(into(&vector(3)) => Shape::Mismatch, "`d_sink`", "want [4]");
        let repeated = vector(1).broadcast_to(&[4]).expect("a view");
        refused!(into(&repeated) => Shape::Strides, "`d_sink`");
        let elsewhere = Device::emulator_with(EmulatorConfig::default()).expect("an emulator");
        let other = elsewhere.stream().expect("a stream");
        let far = Tensor::zeros(&other, &[4]).expect("a tensor");
        refused!(into(&far) => Device::Mismatch, "`d_sink`");
        let part_of = |x: &Tensor<f32>| x.as_strided(&[4], &[1], 0).expect("a view");
        for (d_sink, name) in [
            (sink.clone(), "sink"),
            (part_of(&x.lse), "lse"),
            (part_of(&x.d_o), "d_o"),
            (part_of(&x.q), "q"),
            (part_of(&dv), "dv"),
        ] {
            let want = format!("`d_sink` (written) overlaps `{name}`");
            refused!(into(&d_sink) => Shape::Overlap, &want);
        }
    }
}

#[test]
fn sinks_that_do_not_fit_and_a_d_sink_without_any_are_refused() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let x = Operands::ones(&stream, [2, 5, 7], [4, 2], [8, 6]);
        let [dq, dk, dv] = x.gradients(&stream);
        let five = Tensor::<f32>::zeros(&stream, &[5]).expect("a tensor");
        refused!(x.grad().sink(&five).run(&stream) => Shape::Mismatch, "`sink`");
        let sink = dq.as_strided(&[4], &[1], 0).expect("a view");
        let gradients = |d_sink| AttentionGrads {
            dq: dq.clone(),
            dk: dk.clone(),
            dv: dv.clone(),
            d_sink,
            d_bias: None,
        };
        let found = x.grad().sink(&sink).run_into(&gradients(None), &stream);
        refused!(found => Shape::Overlap, "`dq` (written) overlaps `sink`");
        let d_sink = Tensor::<f32>::zeros(&stream, &[4]).expect("a tensor");
        let grad = x.grad();
        let found = grad.run_into(&gradients(Some(d_sink)), &stream);
        refused!(found => Argument::Value, "no sink is set");
        let grads = grad.run(&stream).expect("the gradients");
        assert!(grads.d_sink.is_none());
    }
}

#[test]
fn without_queries_the_gradient_is_0() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        for (extents, heads) in [
            ([0, 5, 5], [2, 2]),
            ([2, 0, 5], [2, 2]),
            ([2, 0, 0], [2, 2]),
            ([2, 5, 5], [0, 2]),
        ] {
            let x = Operands::ones(&stream, extents, heads, [8, 8]);
            let sink = Tensor::full(&stream, &[heads[0]], 1.0_f32).expect("a tensor");
            let grads = x.grad().sink(&sink).run(&stream).expect("no fault");
            let d_sink = grads.d_sink.expect("there are sinks");
            assert_eq!(d_sink.to_vec().expect("values"), vec![0.0; heads[0]]);
        }
    }
}
