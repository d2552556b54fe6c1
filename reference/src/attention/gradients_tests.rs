//! The gradients against differences of the forward reference.

use abi::DType;
use ndarray::{Array3, Axis, Ix2, Ix3};
use proptest::prelude::*;

use super::super::{AttentionOptions, Band, Dropout, ScoreFunction, SequencePositions, packed};
use super::*;
use crate::Model;

/// `[positions, heads, extent]` of numbers between -1 and 1 that are neither even nor periodic.
fn draw(shape: (usize, usize, usize), seed: f64) -> Array3<f64> {
    let mut state = seed;
    Array3::from_shape_simple_fn(shape, || {
        state = (state * 137.03 + 0.618).fract();
        2.0 * state - 1.0
    })
}

struct Problem {
    qkv: [Array3<f64>; 3],
    d_o: Array3<f64>,
    sequences: Vec<SequencePositions>,
    options: AttentionGradOptions,
}

impl Problem {
    fn forward(&self, qkv: &[Array3<f64>; 3]) -> (Array3<f64>, ndarray::Array2<f64>) {
        let options = &self.options;
        self.beside(qkv, options.sink.clone(), options.scores.clone())
    }

    /// The forward pass with these sinks and scores.
    fn beside(
        &self,
        [q, k, v]: &[Array3<f64>; 3],
        sink: Option<Vec<f64>>,
        scores: ScoreOptions,
    ) -> (Array3<f64>, ndarray::Array2<f64>) {
        let options = AttentionOptions {
            mask: self.options.mask,
            softmax_scale: self.options.softmax_scale,
            softcap: self.options.softcap,
            scores,
            sink,
            ..AttentionOptions::new(DType::F64, Model::any_order(64, 0, 1.0))
        };
        let got = packed(&q.view(), &k.view(), &v.view(), &self.sequences, &options);
        let got = got.expect("shapes fit");
        let o = got.o.values.into_dimensionality::<Ix3>().expect("three");
        let lse = got.lse.values.into_dimensionality::<Ix2>().expect("two");
        (o, lse)
    }

    /// What d_o makes of o.
    fn loss(&self, qkv: &[Array3<f64>; 3]) -> f64 {
        (&self.forward(qkv).0 * &self.d_o).sum()
    }

    fn gradients(&self) -> AttentionGradExpected {
        let (o, lse) = self.forward(&self.qkv);
        let [q, k, v] = &self.qkv;
        let inputs = AttentionGradInputs {
            q: q.view(),
            k: k.view(),
            v: v.view(),
            o: o.view(),
            lse: lse.view(),
            d_o: self.d_o.view(),
        };
        gradients(&inputs, &self.sequences, &self.options).expect("shapes fit")
    }

    /// Checks every element of every gradient against a central difference.
    fn check(&self) {
        const STEP: f64 = 1e-4;
        let got = self.gradients();
        for (idx, got) in [&got.dq.values, &got.dk.values, &got.dv.values]
            .into_iter()
            .enumerate()
        {
            for (place, &got) in got.indexed_iter() {
                let moved = |by: f64| {
                    let mut qkv = self.qkv.clone();
                    qkv[idx][[place[0], place[1], place[2]]] += by;
                    self.loss(&qkv)
                };
                let want = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
                let fits = (got - want).abs() < 1e-6 * (1.0 + want.abs());
                assert!(fits, "input {idx} at {place:?}: {got}, difference {want}");
            }
        }
        let sinks = self.options.sink.as_deref().unwrap_or_default();
        let (got, d_bias) = (got.d_sink.map(|d_sink| d_sink.values), got.d_bias);
        for head in 0..sinks.len() {
            let moved = |by: f64| {
                let mut sinks = sinks.to_vec();
                sinks[head] += by;
                let scores = self.options.scores.clone();
                (&self.beside(&self.qkv, Some(sinks), scores).0 * &self.d_o).sum()
            };
            let want = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            let got = got.as_ref().map_or(f64::NAN, |got| got[[head]]);
            let fits = (got - want).abs() < 1e-6 * (1.0 + want.abs());
            assert!(fits, "sink {head}: {got}, difference {want}");
        }
        for (place, &got) in d_bias.iter().flat_map(|got| got.values.indexed_iter()) {
            let moved = |by: f64| {
                let mut scores = self.options.scores.clone();
                if let Some(bias) = &mut scores.bias {
                    bias[&place] += by;
                }
                let sink = self.options.sink.clone();
                (&self.beside(&self.qkv, sink, scores).0 * &self.d_o).sum()
            };
            let want = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            let fits = (got - want).abs() < 1e-6 * (1.0 + want.abs());
            assert!(fits, "bias at {place:?}: {got}, difference {want}");
        }
    }

    /// Options for scores, of which some are there.
    fn scores(&self, [bias, per_batch, alibi, mask, function, dropout]: [bool; 6]) -> ScoreOptions {
        let longest = |len: fn(&SequencePositions) -> usize| {
            let lengths = self.sequences.iter().map(len);
            lengths.max().unwrap_or(0)
        };
        let (seqlen_q, seqlen_k) = (longest(|s| s.q.len()), longest(|s| s.k.len()));
        let (batch, heads) = (self.sequences.len(), self.qkv[0].dim().1);
        let of_batch = if per_batch { batch } else { 1 };
        let drawn = draw((of_batch * heads, 1, seqlen_k), 0.37);
        let drawn = drawn.into_shape_with_order(vec![of_batch, heads, 1, seqlen_k]);
        let sees = |at: ndarray::IxDyn| !(3 * at[0] + 5 * at[1] + 2 * at[2]).is_multiple_of(4);
        ScoreOptions {
            bias: bias.then(|| drawn.expect("a shape")),
            alibi: alibi.then(|| {
                draw((1, 1, heads), 0.5)
                    .into_dyn()
                    .index_axis_move(Axis(0), 0)
            }),
            mask: mask.then(|| ArrayD::from_shape_fn(vec![heads, seqlen_q, seqlen_k], sees)),
            function: function.then_some(ScoreFunction {
                value: |x, [_, head, ..]| (x * (1 + head) as f64).sin(),
                slope: |x, [_, head, ..]| {
                    let factor = (1 + head) as f64;
                    factor * (x * factor).cos()
                },
                most: [4.0, 16.0],
                roundoffs: [1.0, 1.0],
            }),
            dropout: dropout.then_some(Dropout {
                p: 0.3,
                seed: 5,
                offset: 7,
            }),
        }
    }
}

fn problem(
    (group, head_dim, head_dim_v): (usize, usize, usize),
    sequences: Vec<SequencePositions>,
    seed: f64,
) -> Problem {
    let total = |of: fn(&SequencePositions) -> usize| sequences.iter().map(of).max().unwrap_or(0);
    let (total_q, total_k) = (total(|s| s.q.end) + 1, total(|s| s.k.end) + 1);
    Problem {
        qkv: [
            draw((total_q, 2 * group, head_dim), seed),
            draw((total_k, 2, head_dim), seed + 0.1),
            draw((total_k, 2, head_dim_v), seed + 0.2),
        ],
        d_o: draw((total_q, 2 * group, head_dim_v), seed + 0.3),
        sequences,
        options: AttentionGradOptions::new(DType::F64, AttentionGradModel::in_f32(1.0)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn gradients_are_the_limits_of_differences(
        lengths in prop::collection::vec((0..5_usize, 0..6_usize), 1..3),
        (group, head_dim, head_dim_v) in (1..3_usize, 1..4_usize, 1..4_usize),
        left in prop::option::of(0..3_u64),
        right in prop::option::of(0..3_u64),
        top_left in any::<bool>(),
        softmax_scale in prop::option::of(-1.5..1.5_f32),
        softcap in prop::option::of(0.5..3.0_f32),
        sink in any::<bool>(),
        scores in prop::array::uniform6(any::<bool>()),
        seed in 0.0..0.6_f64,
    ) {
        let (mut q, mut k) = (0, 0);
        let sequences = lengths.iter().map(|&(len_q, len_k)| {
            let at = SequencePositions { q: q..q + len_q, k: k..k + len_k };
            (q, k) = (q + len_q, k + len_k + 1); // a key between two that belongs to neither
            at
        });
        let mut problem = problem((group, head_dim, head_dim_v), sequences.collect(), seed);
        problem.options.mask = Band { left, right, top_left };
        problem.options.softmax_scale = softmax_scale;
        problem.options.softcap = softcap;
        let sinks = || (0..2 * group).map(|head| head as f64 - 0.5).collect();
        problem.options.sink = sink.then(sinks);
        problem.options.scores = problem.scores(scores);
        problem.check();
    }
}

#[test]
fn a_query_that_saw_no_key_contributes_nothing() {
    let mut problem = problem((1, 2, 2), vec![SequencePositions { q: 0..3, k: 0..2 }], 0.4);
    problem.options.mask = Band::CAUSAL; // the first query sees no key
    problem.check();
    let got = problem.gradients();
    for head in 0..2 {
        for idx in 0..2 {
            assert_eq!(got.dq.values[[0, head, idx]], 0.0);
            assert_eq!(got.dq.bounds[[0, head, idx]], 0.0);
        }
    }
}

#[test]
fn a_sink_that_is_none_has_a_gradient_of_0() {
    let mut problem = problem((1, 2, 2), vec![SequencePositions { q: 0..3, k: 0..2 }], 0.4);
    problem.options.mask = Band::CAUSAL; // the first query sees no key: its lse is -inf too
    assert_eq!(problem.gradients().d_sink, None);
    problem.options.sink = Some(vec![f64::NEG_INFINITY, 0.5]);
    let got = problem.gradients().d_sink.expect("there are sinks").values;
    assert_eq!(got[[0]], 0.0);
    assert_ne!(got[[1]], 0.0);
}

#[test]
fn shapes_that_do_not_fit_are_named() {
    let problem = problem((1, 2, 3), vec![SequencePositions { q: 0..3, k: 0..2 }], 0.4);
    let (o, lse) = problem.forward(&problem.qkv);
    let [q, k, v] = &problem.qkv;
    let inputs = AttentionGradInputs {
        q: q.view(),
        k: k.view(),
        v: v.view(),
        o: o.view(),
        lse: lse.view(),
        d_o: problem.qkv[0].view(), // head_dim, not head_dim_v
    };
    let error = gradients(&inputs, &problem.sequences, &problem.options).expect_err("d_o");
    assert!(error.to_string().contains("d_o"), "{error}");
    let inputs = AttentionGradInputs {
        d_o: problem.d_o.view(),
        lse: lse.t(),
        ..inputs
    };
    let error = gradients(&inputs, &problem.sequences, &problem.options).expect_err("lse");
    assert!(error.to_string().contains("lse"), "{error}");
    let inputs = AttentionGradInputs {
        lse: lse.view(),
        ..inputs
    };
    let options = AttentionGradOptions {
        sink: Some(vec![0.0]),
        ..problem.options.clone()
    };
    let error = gradients(&inputs, &problem.sequences, &options).expect_err("sink");
    assert!(error.to_string().contains("sink"), "{error}");
}

/// The same in f32, term by term, as a portable kernel computes it.
#[test]
fn an_f32_gradient_is_within_the_bound() {
    let mut problem = problem(
        (2, 5, 3),
        vec![SequencePositions { q: 0..8, k: 0..10 }],
        0.2,
    );
    let sinks = [-0.5_f32, 0.0, 0.25, 1.0];
    problem.options.sink = Some(sinks.map(f64::from).to_vec());
    let (o, lse) = problem.forward(&problem.qkv);
    let narrow = |x: &Array3<f64>| x.mapv(|x| x as f32);
    let [q, k, v] = [0, 1, 2].map(|idx: usize| narrow(&problem.qkv[idx]));
    let (o, d_o, lse) = (narrow(&o), narrow(&problem.d_o), lse.mapv(|x| x as f32));
    let wide = |x: &Array3<f32>| x.mapv(f64::from);
    let want = gradients(
        &AttentionGradInputs {
            q: wide(&q).view(),
            k: wide(&k).view(),
            v: wide(&v).view(),
            o: wide(&o).view(),
            lse: lse.mapv(f64::from).view(),
            d_o: wide(&d_o).view(),
        },
        &problem.sequences,
        &AttentionGradOptions {
            sink: problem.options.sink.clone(),
            ..AttentionGradOptions::new(DType::F32, AttentionGradModel::in_f32(1.0))
        },
    )
    .expect("shapes fit");
    let scale = (1.0 / 5f64.sqrt()) as f32;
    let vector = |x: &Array3<f32>, at: usize, head: usize| -> Vec<f32> {
        let of_position = x.index_axis(Axis(0), at);
        of_position.index_axis(Axis(0), head).to_vec()
    };
    let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).fold(0f32, |sum, (x, y)| sum + x * y);
    let mut got = [&q, &k, &v].map(|x| Array3::<f32>::zeros(x.dim()));
    for (head, i, j) in triples(4, 8, 10) {
        let (q, d_o) = (vector(&q, i, head), vector(&d_o, i, head));
        let (k, v) = (vector(&k, j, head / 2), vector(&v, j, head / 2));
        let p = (scale * dot(&q, &k) - lse[[head, i]]).exp();
        let ds = p * (dot(&d_o, &v) - dot(&vector(&o, i, head), &d_o));
        for (c, (q, k)) in q.iter().zip(&k).enumerate() {
            got[0][[i, head, c]] += ds * k;
            got[1][[j, head / 2, c]] += ds * q;
        }
        for (c, d_o) in d_o.iter().enumerate() {
            got[2][[j, head / 2, c]] += p * d_o;
        }
    }
    let d_sink = sinks.iter().enumerate().map(|(head, sink)| {
        let terms = (0..8).map(|i| {
            let delta = dot(&vector(&o, i, head), &vector(&d_o, i, head));
            (sink - lse[[head, i]]).exp() * delta
        });
        f64::from(-terms.fold(0f32, |sum, term| sum + term))
    });
    let d_sink = Array1::from_iter(d_sink).into_dyn();
    let agreement = want
        .d_sink
        .as_ref()
        .map(|want| want.compare(&d_sink.view()));
    assert!(matches!(agreement, Some(Ok(_))), "{agreement:?}");
    for (want, (got, scale)) in [&want.dq, &want.dk, &want.dv]
        .into_iter()
        .zip(got.iter().zip([scale, scale, 1.0]))
    {
        let got = got.mapv(|x| f64::from(scale * x)).into_dyn();
        let agreement = want.compare(&got.view());
        assert!(agreement.is_ok(), "{}", agreement.unwrap_err());
    }
}

/// All triples below these extents.
fn triples(x: usize, y: usize, z: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..x * y * z).map(move |idx| (idx / (y * z), idx / z % y, idx % z))
}
