//! A launch of the portable kernel of attention's gradients.

use ndarray::{Array2, Ix2, Ix3};
use spec::DType;
use warpsmith_emulator::LaunchConfig;
use warpsmith_reference::attention::{
    AttentionGradExpected, AttentionGradInputs, AttentionGradModel, AttentionGradOptions,
    AttentionOptions, Band, SequencePositions, gradients, packed,
};
use warpsmith_reference::gemm::Arithmetic;
use warpsmith_reference::{Expected, Model};
use warpsmith_tests::values::Values;

use super::portable::Fields;
use super::problem::{Arg, Problem};
use super::values::{Operand, hold, poison};

/// Three query heads on one, causal, with tiles that end early in both directions. Head dimensions are
/// no multiple of a chunk.
const QUERIES: usize = 70;
const KEYS: usize = 80;
const HEADS: usize = 3;
const HEAD_DIM: usize = 13;
const HEAD_DIM_V: usize = 10;

/// dk and dv in f32, by blocks that own keys.
pub(crate) fn of_keys() -> Problem {
    let draw = |shape: [usize; 3], seed| Operand::draw(DType::F32, Values::Uniform, &shape, seed);
    let q = draw([QUERIES, HEADS, HEAD_DIM], 1);
    let k = draw([KEYS, 1, HEAD_DIM], 2);
    let v = draw([KEYS, 1, HEAD_DIM_V], 3);
    let d_o = draw([QUERIES, HEADS, HEAD_DIM_V], 4);
    let options = AttentionGradOptions::new(DType::F32, AttentionGradModel::in_f32(1.1));
    let Causal {
        expected,
        lse,
        delta,
    } = Causal::new([&q, &k, &v, &d_o], options);
    Problem {
        shape: LaunchConfig {
            grid: [KEYS.div_ceil(64) as u32, 1, 1],
            block: [256, 1, 1],
            shared_bytes: 0,
            cluster: None,
        },
        buffers: vec![
            q.bytes,
            k.bytes,
            v.bytes,
            d_o.bytes,
            lse,
            delta,
            poison(DType::F32, KEYS * HEAD_DIM),
            poison(DType::F32, KEYS * HEAD_DIM_V),
        ],
        args: arguments(),
        judge: Box::new(move |after| {
            hold_named("dk", &after[6], &expected.dk)?;
            hold_named("dv", &after[7], &expected.dv)
        }),
    }
}

/// q, k, v and d_o of bf16, `heads` query heads on one, and their gradients by tensor cores, to which
/// kernels add `more_additions` times in memory.
pub(crate) fn by_tensor_cores(
    [queries, keys, heads, head_dim]: [usize; 4],
    more_additions: usize,
) -> ([Operand; 4], Causal) {
    let draw = |shape: [usize; 3], seed| Operand::draw(DType::Bf16, Values::Uniform, &shape, seed);
    let [q, d_o] = [1, 4].map(|seed| draw([queries, heads, head_dim], seed));
    let [k, v] = [2, 3].map(|seed| draw([keys, 1, head_dim], seed));
    let model = AttentionGradModel {
        scores: Arithmetic::TensorCore,
        products: Arithmetic::TensorCore,
        p_roundoff: 2.0_f64.powi(-8),
        more_additions,
        ..AttentionGradModel::in_f32(4.0)
    };
    let options = AttentionGradOptions::new(DType::Bf16, model);
    let causal = Causal::new([&q, &k, &v, &d_o], options);
    ([q, k, v, d_o], causal)
}

/// [`hold`], whose error names the gradient.
pub(crate) fn hold_named(name: &str, bytes: &[u8], want: &Expected) -> Result<(), String> {
    hold(bytes, want).map_err(|error| format!("{name}: {error}"))
}

/// A causal attention backward: its gradients, and the bytes of lse and delta, which kernels are given.
pub(crate) struct Causal {
    pub(crate) expected: AttentionGradExpected,
    pub(crate) lse: Vec<u8>,
    pub(crate) delta: Vec<u8>,
}

impl Causal {
    /// Of q, k, v and d_o, each `[positions, heads, head_dim]`. The options' mask is replaced.
    pub(crate) fn new(operands: [&Operand; 4], options: AttentionGradOptions) -> Self {
        let three = |x: &Operand| x.exact.clone().into_dimensionality::<Ix3>().expect("three");
        let [q, k, v, d_o] = operands.map(three);
        let (queries, heads, head_dim_v) = d_o.dim();
        let keys = k.dim().0;
        let sequences = [SequencePositions {
            q: 0..queries,
            k: 0..keys,
        }];
        let forward = AttentionOptions {
            mask: Band::CAUSAL,
            ..AttentionOptions::new(DType::F32, Model::any_order(keys, 2, 1.0))
        };
        let forward = packed(&q.view(), &k.view(), &v.view(), &sequences, &forward);
        let forward = forward.expect("the shapes fit");
        let narrow = |x: &f64| f64::from(*x as f32);
        let o = forward.o.values.map(narrow);
        let o = o.into_dimensionality::<Ix3>().expect("three");
        let lse = forward.lse.values.map(narrow);
        let lse = lse.into_dimensionality::<Ix2>().expect("two");
        let delta = Array2::from_shape_fn((heads, queries), |(head, query)| {
            let pairs = (0..head_dim_v).map(|at| [query, head, at]);
            pairs.map(|at| o[at] * d_o[at]).sum::<f64>()
        });
        let inputs = AttentionGradInputs {
            q: q.view(),
            k: k.view(),
            v: v.view(),
            o: o.view(),
            lse: lse.view(),
            d_o: d_o.view(),
        };
        let options = AttentionGradOptions {
            mask: Band::CAUSAL,
            ..options
        };
        let expected = gradients(&inputs, &sequences, &options).expect("the shapes fit");
        let bytes = |x: &Array2<f64>| x.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect();
        Self {
            expected,
            lse: bytes(&lse),
            delta: bytes(&delta),
        }
    }
}

fn arguments() -> Vec<Arg> {
    let strides = |heads: usize, extent: usize| [0, heads * extent, extent];
    let (of_q, of_o) = (strides(HEADS, HEAD_DIM), strides(HEADS, HEAD_DIM_V));
    let (of_k, of_v) = (strides(1, HEAD_DIM), strides(1, HEAD_DIM_V));
    let scale = 1.0 / (HEAD_DIM as f64).sqrt();
    let heads = HEADS as u32;
    let extents = [1, QUERIES as u32, KEYS as u32, 0, 0, heads, 1];
    let params = Fields::default()
        .u64(&[of_q, of_k, of_v, of_o].concat())
        .u32(&extents)
        .u32(&[HEAD_DIM as u32, HEAD_DIM_V as u32])
        // No window to the left, causal to the right, aligned to the bottom right.
        .u32(&[i32::MAX as u32, 0, 0])
        .f32(&[(scale * std::f64::consts::LOG2_E) as f32, 0.0])
        .u32(&[0, 0])
        .u64(&[of_o, of_q, of_k, of_v].concat())
        .f32(&[scale as f32])
        .u32(&[0]);
    let own = Fields::default().u64(&of_k).u32(&[1, 0]);
    let mut args: Vec<Arg> = (0..8).map(Arg::Buffer).collect();
    args.push(Fields::default().u64(&[0; 5]).arg());
    args.push(params.arg());
    args.push(own.arg());
    args
}
