//! Launches of the kernels in `tests/spike`.

use std::f64::consts::LOG2_E;

use ndarray::{ArrayD, Ix2, arr1};
use spec::DType;
use warpsmith_emulator::{Fill, LaunchConfig, Swizzle, TensorMapDesc, TensorMapType};
use warpsmith_reference::attention::{AttentionOptions, attention};
use warpsmith_reference::gemm::{GemmOptions, gemm};
use warpsmith_reference::precision::round_to;
use warpsmith_reference::{Expected, Model};
use warpsmith_tests::values::Values;

use super::problem::{Arg, Problem};
use super::values::{Operand, hold, poison};

/// Threads per block: a producer warpgroup and two consumer warpgroups.
const THREADS: u32 = 384;
/// Four stages of 128×64 and 256×64, 32 KiB for the epilogue, mbarriers.
const GEMM_SHARED: u32 = 4 * (128 * 64 * 2 + 256 * 64 * 2) + 32_768 + 128;
/// Q, and two stages of K and V, each 128×128; mbarriers.
const ATTENTION_SHARED: u32 = 5 * 128 * 128 * 2 + 128;
const HEAD_DIM: usize = 128;
/// Elements that `sum` reads.
const SUM_LEN: usize = 1 << 20;

/// A GEMM of bf16 matrices. The extents are the tensors'; the kernel's are rounded up to whole
/// tiles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) blocks: u32,
    /// Blocks per cluster.
    pub(crate) cluster: usize,
    pub(crate) values: Values,
}

impl Product {
    pub(crate) fn problem(&self) -> Problem {
        let Self { m, n, k, .. } = *self;
        let a = Operand::draw(DType::Bf16, self.values, &[m, k], 1);
        let b = Operand::draw(DType::Bf16, self.values, &[n, k], 2);
        let expected = self.expected(&a, &b);
        let extent = |elements: usize, tile| Arg::u32(elements.next_multiple_of(tile) as u32);
        let args = vec![
            Arg::Map(0, map([k, m], [64, 128])),
            Arg::Map(1, map([k, n], [64, 128])),
            Arg::Map(2, map([n, m], [64, 64])),
            Arg::Buffer(2),
            extent(m, 128 * self.cluster),
            extent(n, 256),
            extent(k, 64),
        ];
        Problem {
            shape: shape([self.blocks, 1, 1], THREADS, GEMM_SHARED),
            buffers: vec![a.bytes, b.bytes, poison(DType::Bf16, m * n)],
            args,
            judge: Box::new(move |after| hold(&after[2], &expected)),
        }
    }

    /// Sums of small integers are exact in f32 in any order. For other values, tensor cores
    /// truncate what an f32 addition would round, so each step has up to twice the error.
    fn expected(&self, a: &Operand, b: &Operand) -> Expected {
        let b = b.exact.view().reversed_axes();
        let product = gemm(&a.exact.view(), &b, None, &GemmOptions::default())
            .expect("the extents fit each other");
        match self.values {
            Values::Integers => Expected::exact(
                product.values.mapv(|x| round_to(DType::Bf16, x)),
                DType::Bf16,
            ),
            _ => {
                let errors = product.bounds.mapv(|bound| 2.0 * bound);
                Expected::rounded_to(DType::Bf16, product.values, &errors)
                    .expect("there is an error for each value")
            }
        }
    }
}

/// Attention of `heads` heads over sequences of `len`.
pub(crate) fn attend(len: usize, heads: usize) -> Problem {
    let draw = |seed| Operand::draw(DType::Bf16, Values::Uniform, &[heads * len, HEAD_DIM], seed);
    let [q, k, v] = [1, 2, 3].map(draw);
    let expected = attention_expected(len, heads, [&q, &k, &v]);
    let map = map([HEAD_DIM, heads * len], [64, 128]);
    let scale = (LOG2_E / (HEAD_DIM as f64).sqrt()) as f32;
    let args = vec![
        Arg::Map(0, map.clone()),
        Arg::Map(1, map.clone()),
        Arg::Map(2, map),
        Arg::Buffer(3),
        Arg::Buffer(4),
        Arg::u32(len as u32),
        Arg::u32(heads as u32),
        Arg::Value(scale.to_le_bytes().to_vec()),
    ];
    let output = poison(DType::Bf16, heads * len * HEAD_DIM);
    let second = poison(DType::F32, heads * len);
    Problem {
        shape: shape(
            [len as u32 / 128, heads as u32, 1],
            THREADS,
            ATTENTION_SHARED,
        ),
        buffers: vec![q.bytes, k.bytes, v.bytes, output, second],
        args,
        judge: Box::new(move |after| hold(&after[3], &expected)),
    }
}

/// Heads are stored one after the other, so the reference treats each as a batch of its own.
fn attention_expected(len: usize, heads: usize, operands: [&Operand; 3]) -> Expected {
    let [q, k, v] = operands.map(|operand| {
        let rows = operand.exact.view().into_dimensionality::<Ix2>();
        let rows = rows.expect("operands are matrices");
        rows.into_shape_with_order((heads, len, 1, HEAD_DIM))
            .expect("operands are contiguous")
    });
    let model = Model {
        // Probabilities are rounded to bf16; the sums that they are divided by are not.
        p_roundoff: 2f64.powi(-8),
        ..Model::any_order(len, len / 128, 4.0)
    };
    let options = AttentionOptions::new(DType::Bf16, model);
    let expected = attention(&q, &k, &v, &options).expect("the extents fit each other");
    let flat = |values: ArrayD<f64>| {
        values
            .into_shape_with_order(vec![heads * len, HEAD_DIM])
            .expect("a contiguous result")
    };
    Expected {
        values: flat(expected.o.values),
        bounds: flat(expected.o.bounds),
        dtype: DType::Bf16,
    }
}

/// Σ (2x + 1), exact for small integers.
pub(crate) fn sum() -> Problem {
    let x = Operand::draw(DType::F32, Values::Integers, &[SUM_LEN], 1);
    let total: f64 = x.exact.iter().map(|x| 2.0 * x + 1.0).sum();
    let expected = arr1(&[total]).into_dyn();
    let expected = Expected::exact(expected, DType::F32);
    Problem {
        shape: shape([1; 3], 1024, 0),
        buffers: vec![x.bytes, poison(DType::F32, 1)],
        args: vec![Arg::Buffer(0), Arg::Buffer(1)],
        judge: Box::new(move |after| hold(&after[1], &expected)),
    }
}

fn shape(grid: [u32; 3], threads: u32, shared_bytes: u32) -> LaunchConfig {
    LaunchConfig {
        grid,
        block: [threads, 1, 1],
        shared_bytes,
        cluster: None,
    }
}

/// A map of a contiguous matrix of bf16, innermost dimension first.
fn map(dims: [usize; 2], box_dims: [u32; 2]) -> TensorMapDesc {
    TensorMapDesc {
        data_type: TensorMapType::Bf16,
        address: 0,
        dims: dims.map(|extent| extent as u64).to_vec(),
        strides_bytes: vec![2 * dims[0] as u64],
        box_dims: box_dims.to_vec(),
        element_strides: vec![1, 1],
        swizzle: Swizzle::B128,
        fill: Fill::Zeros,
    }
}
