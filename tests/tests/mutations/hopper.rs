//! Launches of the kernels in `tests/spike`, and of two portable ones in
//! `tests/mutations`, which no operation launches.

use std::f64::consts::LOG2_E;

use abi::DType;
use abi::gemm::SIMT_SMALL;
use ndarray::{ArrayD, Ix2, arr1};
use warpsmith::testing::{Capture, Data, Launch, Link, Place, Step};
use warpsmith::{LaunchConfig, TensorMapDesc, TensorMapSwizzle, TensorMapType};
use warpsmith_reference::attention::{AttentionOptions, attention};
use warpsmith_reference::gemm::{GemmOptions, gemm};
use warpsmith_reference::precision::round_to;
use warpsmith_reference::softmax;
use warpsmith_reference::{Expected, Model};
use warpsmith_tests::values::Values;

use super::problem::{Judge, Problem};
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
        launched(
            "gemm",
            shape([self.blocks, 1, 1], THREADS, GEMM_SHARED),
            vec![a.bytes, b.bytes, poison(DType::Bf16, m * n)],
            args,
            Box::new(move |after| hold(&after[2], &expected)),
        )
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
    launched(
        "fa",
        shape(
            [len as u32 / 128, heads as u32, 1],
            THREADS,
            ATTENTION_SHARED,
        ),
        vec![q.bytes, k.bytes, v.bytes, output, second],
        args,
        Box::new(move |after| hold(&after[3], &expected)),
    )
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
    launched(
        "sum",
        shape([1; 3], 1024, 0),
        vec![x.bytes, poison(DType::F32, 1)],
        vec![Arg::Buffer(0), Arg::Buffer(1)],
        Box::new(move |after| hold(&after[1], &expected)),
    )
}

/// D = A·B in f32, with ragged tiles; A and B are row-major. Small integers, so that the result is
/// exact.
pub(crate) fn portable() -> Problem {
    let [m, n, k] = [70, 84, 44];
    let a = Operand::draw(DType::F32, Values::Integers, &[m, k], 1);
    let b = Operand::draw(DType::F32, Values::Integers, &[k, n], 2);
    let exact = gemm(
        &a.exact.view(),
        &b.exact.view(),
        None,
        &GemmOptions::default(),
    );
    let expected = Expected::exact(exact.expect("the extents fit").values, DType::F32);
    let extents = [m, n, k, 1].map(|extent| (extent as u32).to_le_bytes());
    let strides =
        [k, n, n, n, m * k, k * n, m * n, m * n].map(|stride| (stride as u64).to_le_bytes());
    let factors = [1.0_f32, 0.0].map(f32::to_le_bytes);
    let grid = SIMT_SMALL
        .grid(m as u32, n as u32, 1)
        .expect("a small product");
    launched(
        "gemm_simt_f32_nn_64x64x16",
        shape(grid, SIMT_SMALL.threads, 0),
        vec![a.bytes, b.bytes, poison(DType::F32, m * n)],
        // Beta is 0, so C is never read.
        vec![
            Arg::Buffer(0),
            Arg::Buffer(1),
            Arg::Value(vec![0; 8]),
            Arg::Buffer(2),
            Arg::Value([extents.concat(), strides.concat(), factors.concat()].concat()),
        ],
        Box::new(move |after| hold(&after[2], &expected)),
    )
}

/// Threads per block of the softmax.
const SOFTMAX_THREADS: u32 = 256;

/// Softmax of rows that are long enough for a whole block, which processes all of them, so that it
/// reuses its shared memory.
pub(crate) fn softmax() -> Problem {
    let [rows, n] = [3, 1101];
    let x = Operand::draw(DType::F32, Values::Uniform, &[rows, n], 1);
    // Additions of a thread, over the four elements of a vector, in five warp steps, over eight
    // warps.
    let additions = n.div_ceil(SOFTMAX_THREADS as usize) + 4 + 5 + 7;
    let model = Model {
        additions,
        ..Model::any_order(n, additions, 4.0)
    };
    let expected = softmax::softmax(&x.exact.view(), 1, DType::F32, &model);
    let expected = expected.expect("a matrix has a second axis");
    let params = [rows, n, n, 1, n, 1].map(|field| (field as u64).to_le_bytes());
    launched(
        "softmax_f32",
        shape([1; 3], SOFTMAX_THREADS, 0),
        vec![x.bytes, poison(DType::F32, rows * n)],
        vec![Arg::Buffer(0), Arg::Buffer(1), Arg::Value(params.concat())],
        Box::new(move |after| hold(&after[1], &expected)),
    )
}

/// One parameter.
enum Arg {
    /// The address of a buffer, by index.
    Buffer(usize),
    /// The address in memory of a tensor map over a buffer, by index.
    Map(usize, TensorMapDesc),
    /// Bytes by value.
    Value(Vec<u8>),
}

impl Arg {
    fn u32(value: u32) -> Self {
        Self::Value(value.to_le_bytes().to_vec())
    }
}

/// A launch on these buffers, after which all are read.
fn launched(
    entry: &'static str,
    config: LaunchConfig,
    buffers: Vec<Vec<u8>>,
    args: Vec<Arg>,
    judge: Judge,
) -> Problem {
    let mut capture = Capture::default();
    let count = buffers.len();
    let mut place = |bytes: Vec<u8>, links| {
        let buffer = capture.buffers.len();
        capture.buffers.push(bytes.len() as u64);
        capture.steps.push(Step::Alloc(buffer));
        let to = Place { buffer, offset: 0 };
        capture.steps.push(Step::Write(to, Data { bytes, links }));
        to
    };
    let link = |buffer, map| {
        let to = Place { buffer, offset: 0 };
        vec![Link { at: 0, to, map }]
    };
    let lens: Vec<usize> = buffers.iter().map(Vec::len).collect();
    for bytes in buffers {
        place(bytes, Vec::new());
    }
    let address = |buffer| Data {
        bytes: vec![0; 8],
        links: link(buffer, None),
    };
    let params = args.into_iter().map(|arg| match arg {
        Arg::Buffer(buffer) => address(buffer),
        Arg::Map(buffer, map) => address(place(vec![0; 128], link(buffer, Some(map))).buffer),
        Arg::Value(bytes) => Data {
            bytes,
            links: Vec::new(),
        },
    });
    let launch = Launch {
        module: 0, // replaced by the text that is run
        entry: entry.to_owned(),
        begins_early: false,
        params: params.collect(),
        config,
    };
    capture.steps.push(Step::Launch(launch));
    for (buffer, len) in (0..count).zip(lens) {
        let from = Place { buffer, offset: 0 };
        capture.steps.push(Step::Read(from, vec![0; len]));
    }
    Problem::new(capture, entry, judge)
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
    let strides = [2 * dims[0] as u64];
    let dims = dims.map(|extent| extent as u64);
    let map = TensorMapDesc::new(TensorMapType::Bf16, &dims, &strides, &box_dims);
    map.swizzle(TensorMapSwizzle::B128)
}
