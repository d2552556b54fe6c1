//! A launch of the kernel of the sinks' gradients.

use ndarray::{Array2, Array3, ArrayD, Axis, Ix2};
use spec::DType;
use spec::attention::backward::sink::{SINK_THREADS, sink_additions};
use warpsmith_emulator::LaunchConfig;
use warpsmith_reference::Expected;
use warpsmith_reference::attention::{
    AttentionGradInputs, AttentionGradModel, AttentionGradOptions, SequencePositions, gradients,
};
use warpsmith_tests::values::Values;

use super::portable::Fields;
use super::problem::{Arg, Problem};
use super::values::{hold, poison};

/// Two sequences, each of which takes half of the threads a pass and a part of one.
const BATCH: usize = 2;
const QUERIES: usize = 2100;
const HEADS: usize = 2;
const SINKS: [f64; HEADS] = [-0.5, 0.25];

/// d_sink of both heads. The first query of each saw nothing, and its delta is NaN.
pub(crate) fn of_heads() -> Problem {
    let draw = |shape: &[usize], seed| Values::Uniform.draw(shape, seed).mapv(narrow);
    let mut lse = two(draw(&[HEADS, BATCH * QUERIES], 1));
    let delta = two(draw(&[HEADS, BATCH * QUERIES], 2));
    let expected = expected(&mut lse, &delta);
    // As they lie: by sequence, head and query.
    let bytes = |of: &dyn Fn(usize, usize) -> f64| {
        let places = (0..BATCH * HEADS * QUERIES).map(|idx| {
            let (sequence, head) = (idx / QUERIES / HEADS, idx / QUERIES % HEADS);
            (head, sequence * QUERIES + idx % QUERIES)
        });
        let values = places.flat_map(|(head, query)| (of(head, query) as f32).to_le_bytes());
        values.collect::<Vec<u8>>()
    };
    let delta_or_nan = |head: usize, query: usize| match query {
        0 => f64::NAN,
        _ => delta[[head, query]],
    };
    Problem {
        shape: LaunchConfig {
            grid: [HEADS as u32, 1, 1],
            block: [SINK_THREADS, 1, 1],
            shared_bytes: 0,
            cluster: None,
        },
        buffers: vec![
            SINKS
                .iter()
                .flat_map(|&x| (x as f32).to_le_bytes())
                .collect(),
            bytes(&|head, query| lse[[head, query]]),
            bytes(&delta_or_nan),
            poison(DType::F32, HEADS),
        ],
        args: arguments(),
        judge: Box::new(move |after| hold(&after[3], &expected)),
    }
}

/// The gradients of head dimensions of 1 and an o of 1, so that d_o is delta. lse of the first query
/// becomes -inf.
fn expected(lse: &mut Array2<f64>, delta: &Array2<f64>) -> Expected {
    lse.column_mut(0).fill(f64::NEG_INFINITY);
    let of_queries = Array3::ones((BATCH * QUERIES, HEADS, 1));
    let of_keys = Array3::ones((BATCH, 1, 1));
    let d_o = delta.t().insert_axis(Axis(2));
    let inputs = AttentionGradInputs {
        q: of_queries.view(),
        k: of_keys.view(),
        v: of_keys.view(),
        o: of_queries.view(),
        lse: lse.view(),
        d_o,
    };
    let sequences = [0, 1].map(|idx| SequencePositions {
        q: idx * QUERIES..(idx + 1) * QUERIES,
        k: idx..idx + 1,
    });
    let model = AttentionGradModel {
        sink_additions: sink_additions(BATCH as u32, QUERIES as u32) as usize,
        ..AttentionGradModel::in_f32(1.1)
    };
    let options = AttentionGradOptions {
        sink: Some(SINKS.to_vec()),
        ..AttentionGradOptions::new(DType::F32, model)
    };
    let expected = gradients(&inputs, &sequences, &options).expect("the shapes fit");
    expected.d_sink.expect("there are sinks")
}

fn narrow(x: f64) -> f64 {
    f64::from(x as f32)
}

fn two(x: ArrayD<f64>) -> Array2<f64> {
    x.into_dimensionality::<Ix2>().expect("two")
}

fn arguments() -> Vec<Arg> {
    let extents = [BATCH as u32, QUERIES as u32, 1, 0, 0, HEADS as u32, 1];
    let params = Fields::default()
        .u64(&[0; 12])
        .u32(&extents)
        .u32(&[1, 1])
        .u32(&[i32::MAX as u32, i32::MAX as u32, 0])
        .f32(&[1.0, 0.0])
        .u32(&[0, 0]);
    let mut args: Vec<Arg> = (0..4).map(Arg::Buffer).collect();
    args.push(Fields::default().u64(&[0; 5]).arg());
    args.push(params.arg());
    args
}
