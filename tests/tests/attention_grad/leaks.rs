//! What a masked pair holds reaches nothing, and what a pair that is seen holds does.

use half::bf16;
use ndarray::{ArrayD, Axis};
use warpsmith::{AttentionGrad, AttentionGrads, Float, Stream, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::values::Values;

const SEQLEN: usize = 70;
const HEAD_DIM: usize = 40;

/// q, k, v, o and d_o, and lse.
type Inputs = ([ArrayD<f64>; 5], ArrayD<f32>);

fn draw() -> Inputs {
    let draw = |seed| Values::Uniform.draw(&[1, SEQLEN, 1, HEAD_DIM], seed);
    let lse = Values::Uniform.draw(&[1, 1, SEQLEN], 6);
    ([1, 2, 3, 4, 5].map(draw), lse.mapv(|x| x as f32 + 4.0))
}

fn run<T: Float + TestElement>(
    stream: &Stream,
    (inputs, lse): &Inputs,
    kernel: &str,
) -> [ArrayD<f64>; 3] {
    let device = stream.device();
    let [q, k, v, o, d_o] = [0, 1, 2, 3, 4].map(|idx: usize| {
        Tensor::from_ndarray(device, &inputs[idx].mapv(|x| T::nearest(x))).expect("a tensor")
    });
    let lse = Tensor::from_ndarray(device, lse).expect("a tensor");
    let grad = AttentionGrad::new(&q, &k, &v, &o, &lse, &d_o).causal();
    let grads = grad.with_kernel(kernel).run(stream);
    let AttentionGrads { dq, dk, dv, .. } = grads.expect("the gradients");
    [dq, dk, dv].map(|x| x.to_ndarray().expect("a gradient").mapv(|x| x.wide()))
}

/// That keeps what is masked out of products; tensor cores multiply it by 0.
fn portable(stream: &Stream, inputs: &Inputs) -> [ArrayD<f64>; 3] {
    run::<f32>(stream, inputs, "attention_grad_simt_d64")
}

#[test]
fn a_masked_pair_leaks_nothing_whatever_it_holds() {
    let last = SEQLEN - 1;
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let inputs = draw();
        let clean = portable(&stream, &inputs);
        for bad in [f64::NAN, f64::INFINITY, 1e30] {
            // Only the last query sees the last key.
            let mut spoiled = inputs.clone();
            for x in [1, 2] {
                spoiled.0[x].index_axis_mut(Axis(1), last).fill(bad);
            }
            let got = portable(&stream, &spoiled);
            for position in 0..last {
                assert_eq!(
                    clean[0].index_axis(Axis(1), position),
                    got[0].index_axis(Axis(1), position),
                    "dq of {position}, {bad} in the last key, on {device}"
                );
            }
            // The first query sees only the first key.
            let mut spoiled = inputs.clone();
            for x in [0, 3, 4] {
                spoiled.0[x].index_axis_mut(Axis(1), 0).fill(bad);
            }
            let got = portable(&stream, &spoiled);
            for position in 1..SEQLEN {
                for of in [1, 2] {
                    assert_eq!(
                        clean[of].index_axis(Axis(1), position),
                        got[of].index_axis(Axis(1), position),
                        "gradient {of} of {position}, {bad} in the first query, on {device}"
                    );
                }
            }
            if bad.is_nan() {
                assert!(got[1].index_axis(Axis(1), 0).iter().all(|x| x.is_nan()));
            }
        }
    }
}

#[test]
fn a_query_with_lse_minus_infinity_contributes_nothing() {
    nothing_of(portable);
}

#[test]
fn a_query_with_lse_minus_infinity_contributes_nothing_on_tensor_cores_either() {
    nothing_of(|stream, inputs| run::<bf16>(stream, inputs, "attention_grad_sm80_bf16_d64"));
}

fn nothing_of(run: impl Fn(&Stream, &Inputs) -> [ArrayD<f64>; 3]) {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let mut inputs = draw();
        inputs.1[[0, 0, 33]] = f32::NEG_INFINITY;
        let got = run(&stream, &inputs);
        assert!(got[0].index_axis(Axis(1), 33).iter().all(|&x| x == 0.0));
        // Whatever else that query holds.
        for x in [0, 4] {
            inputs.0[x].index_axis_mut(Axis(1), 33).fill(7.0);
        }
        let again = run(&stream, &inputs);
        assert_eq!(got[1..], again[1..], "on {device}");
        // Nor does a key that is not finite reach its dq.
        inputs.0[1].index_axis_mut(Axis(1), 5).fill(f64::INFINITY);
        let got = run(&stream, &inputs);
        assert!(got[0].index_axis(Axis(1), 33).iter().all(|&x| x == 0.0));
    }
}
