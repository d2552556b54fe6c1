//! Launches of the library's portable kernels, as its host code does them.

use ndarray::Axis;
use spec::DType;
use spec::elementwise::{self, MAX_RANK};
use spec::gather::{self, TakeEntry};
use spec::gemm::{GROUPED_TILE, SIMT_SMALL, grouped_grid, grouped_row_tiles};
use spec::reduce::{self, ReduceOp, ReduceParams, ReducePlan, ReduceView};
use spec::rotary::{self, RotaryEntry};
use spec::topk::{TopKParams, TopKPlan};
use warpsmith_emulator::LaunchConfig;
use warpsmith_reference::gemm::{GemmOptions, gemm, grouped};
use warpsmith_reference::rotary::{Rotation, rotary as reference_rotary};
use warpsmith_reference::softmax::softmax as reference_softmax;
use warpsmith_reference::topk::topk;
use warpsmith_reference::{Expected, Model};
use warpsmith_tests::values::Values;

use super::problem::{Arg, Problem};
use super::values::{Operand, hold, poison};

/// Fields of a parameter structure, in sequence.
#[derive(Default)]
pub(crate) struct Fields(Vec<u8>);

impl Fields {
    pub(crate) fn u32(mut self, values: &[u32]) -> Self {
        self.0.extend(values.iter().flat_map(|x| x.to_le_bytes()));
        self
    }

    pub(crate) fn u64(mut self, values: &[usize]) -> Self {
        let values = values.iter().map(|x| *x as u64);
        self.0.extend(values.flat_map(u64::to_le_bytes));
        self
    }

    pub(crate) fn f32(mut self, values: &[f32]) -> Self {
        self.0.extend(values.iter().flat_map(|x| x.to_le_bytes()));
        self
    }

    pub(crate) fn divisions(self, divisors: &[u32]) -> Self {
        divisors.iter().fold(self, |fields, &divisor| {
            let division = spec::division::Division::new(divisor);
            fields.u32(&[division.divisor, division.magic, division.shift])
        })
    }

    pub(crate) fn arg(self) -> Arg {
        Arg::Value(self.0)
    }

    /// The same behind a first field, the address of a buffer (by index).
    pub(crate) fn behind(self, number: usize) -> Arg {
        Arg::Behind(number, self.0)
    }
}

pub(crate) fn linear(blocks: u32, threads: u32) -> LaunchConfig {
    LaunchConfig {
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        shared_bytes: 0,
        cluster: None,
    }
}

/// D = A·B in f32, with ragged tiles; A and B are row-major. Small integers, so that the result is
/// exact.
pub(crate) fn product() -> Problem {
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
    let params = Fields::default()
        .u32(&[m, n, k, 1].map(|extent| extent as u32))
        .u64(&[k, n, n, n])
        .u64(&[m * k, k * n, m * n, m * n])
        .f32(&[1.0, 0.0]);
    let grid = SIMT_SMALL.grid(m as u32, n as u32, 1);
    Problem {
        shape: LaunchConfig {
            grid: grid.expect("a small product"),
            ..linear(1, SIMT_SMALL.threads)
        },
        buffers: vec![a.bytes, b.bytes, poison(DType::F32, m * n)],
        // Beta is 0, so C is never read.
        args: vec![
            Arg::Buffer(0),
            Arg::Buffer(1),
            Arg::Value(vec![0; 8]),
            Arg::Buffer(2),
            params.arg(),
        ],
        judge: Box::new(move |after| hold(&after[2], &expected)),
    }
}

/// D = A·B of 150 rows in groups with these ends, A and B row-major. Small integers: exact.
pub(crate) fn grouped_product(ends: &[i32]) -> Problem {
    let [m, n, k, groups] = [150, 84, 44, ends.len()];
    let a = Operand::draw(DType::F32, Values::Integers, &[m, k], 1);
    let b = Operand::draw(DType::F32, Values::Integers, &[groups, k, n], 2);
    let wide: Vec<i64> = ends.iter().map(|&end| end.into()).collect();
    let exact = grouped(&a.exact.view(), &b.exact.view(), &wide, 1.0, DType::F32);
    let expected = Expected::exact(exact.expect("the extents fit").values, DType::F32);
    let [rows, columns, count] = [m, n, groups].map(|extent| extent as u32);
    let row_tiles = grouped_row_tiles(rows, count, GROUPED_TILE.tile_m);
    // k is contiguous in A, n in B.
    let params = Fields::default()
        .u32(&[rows, columns, k as u32, count, row_tiles, 1, 0])
        .f32(&[1.0])
        .u64(&[k, n, k * n, n]);
    Problem {
        shape: LaunchConfig {
            grid: grouped_grid(rows, columns, count).expect("a small product"),
            ..linear(1, GROUPED_TILE.threads)
        },
        buffers: vec![
            a.bytes,
            b.bytes,
            ends.iter().flat_map(|end| end.to_le_bytes()).collect(),
            poison(DType::F32, m * n),
        ],
        args: vec![
            Arg::Buffer(0),
            Arg::Buffer(1),
            Arg::Buffer(2),
            Arg::Buffer(3),
            params.arg(),
        ],
        judge: Box::new(move |after| hold(&after[3], &expected)),
    }
}

/// Threads per block of the softmax kernel that these tests use.
const SOFTMAX_THREADS: u32 = 256;

/// Softmax of rows that are long enough for a whole block.
pub(crate) fn softmax_rows() -> Problem {
    let [rows, n] = [3, 1101];
    let x = Operand::draw(DType::F32, Values::Uniform, &[rows, n], 1);
    // Additions of a thread, over the four elements of a vector, in five warp steps, over eight
    // warps.
    let additions = n.div_ceil(SOFTMAX_THREADS as usize) + 4 + 5 + 7;
    let model = Model {
        additions,
        ..Model::any_order(n, additions, 4.0)
    };
    let expected = reference_softmax(&x.exact.view(), 1, DType::F32, &model);
    let expected = expected.expect("a matrix has a second axis");
    let params = Fields::default().u64(&[rows, n, n, 1, n, 1]);
    Problem {
        // One block processes all rows, so that it reuses its shared memory.
        shape: linear(1, SOFTMAX_THREADS),
        buffers: vec![x.bytes, poison(DType::F32, rows * n)],
        args: vec![Arg::Buffer(0), Arg::Buffer(1), params.arg()],
        judge: Box::new(move |after| hold(&after[1], &expected)),
    }
}

/// Sums of rows that are long enough for a whole block; exact.
pub(crate) fn sum_rows() -> Problem {
    let [rows, n] = [3, 3001];
    let x = Operand::draw(DType::F32, Values::Integers, &[rows, n], 1);
    let expected = Expected::exact(x.exact.sum_axis(Axis(1)), DType::F32);
    let view = ReduceView::contiguous(rows as u64, n as u64, 1);
    let plan = ReducePlan::new(&view, 4);
    let params = ReduceParams::new(ReduceOp::Sum, view, &plan, DType::F32);
    let [extents, strides] = [
        [view.outer, view.inner, view.segments, view.n],
        [
            view.outer_stride,
            view.inner_stride,
            view.segment_stride,
            view.axis_stride,
        ]
        .map(|stride| stride as u64),
    ];
    let usizes = |numbers: [u64; 4]| numbers.map(|number| number as usize);
    let fields = Fields::default()
        .u64(&usizes(extents))
        .u64(&usizes(strides))
        .u64(&[params.chunks, params.chunk_len, params.section].map(|count| count as usize))
        .u32(&[
            params.along_log2,
            params.across_log2,
            params.is_across,
            params.kind,
            params.map,
            params.finish,
            params.is_pair,
            params.rows,
        ])
        .u64(&[params.divisor.to_bits() as usize, 0, 0, 0, 0]);
    Problem {
        // One block processes all rows, so that it reuses its shared memory.
        shape: linear(1, reduce::THREADS),
        buffers: vec![
            x.bytes,
            poison(DType::F32, plan.partials() as usize),
            vec![0; 4 * rows],
            poison(DType::F32, rows),
        ],
        args: vec![
            Arg::Buffer(0),
            Arg::Buffer(1),
            Arg::Buffer(2),
            Arg::Buffer(3),
            fields.arg(),
        ],
        judge: Box::new(move |after| hold(&after[3], &expected)),
    }
}

/// A copy of elements, with a tail after the last whole block; exact.
pub(crate) fn copy() -> Problem {
    let len = 1003;
    let x = Operand::draw(DType::F32, Values::Integers, &[len], 1);
    let expected = Expected::exact(x.exact.clone(), DType::F32);
    let mut strides = [[0; MAX_RANK]; 5];
    (strides[0][0], strides[1][0]) = (1, 1);
    let extents = Fields::default()
        .u32(&[len as u32, 1, 1, 0])
        .divisions(&[len as u32, 1, 1, 1, 1, 1, 1, 1]);
    let params = extents.u64(&strides.concat());
    let entry = elementwise::CopyEntry { size_bytes: 4 };
    let blocks = elementwise::grid_blocks(len as u64, entry.per_thread());
    Problem {
        shape: linear(blocks, elementwise::THREADS),
        buffers: vec![x.bytes, poison(DType::F32, len)],
        args: vec![Arg::Buffer(0), Arg::Buffer(1), params.arg()],
        judge: Box::new(move |after| hold(&after[1], &expected)),
    }
}

/// A transposition of a matrix that consists of whole chunks but not of whole tiles; exact.
pub(crate) fn transposition() -> Problem {
    let [rows, columns] = [72, 100];
    let x = Operand::draw(DType::F32, Values::Integers, &[rows, columns], 1);
    let want = x
        .exact
        .clone()
        .reversed_axes()
        .as_standard_layout()
        .into_owned();
    let expected = Expected::exact(want, DType::F32);
    let entry = elementwise::TransposeEntry { size_bytes: 4 };
    let tile = entry.tile() as usize;
    let tiles = [columns, rows].map(|extent| extent.div_ceil(tile) as u32);
    let params = Fields::default()
        .u32(&[rows as u32, columns as u32, 0, 3])
        .u64(&[columns, rows])
        .divisions(&tiles)
        .divisions(&[1; 6])
        .u64(&[0; 12]);
    Problem {
        shape: linear(tiles[0] * tiles[1], entry.threads()),
        buffers: vec![x.bytes, poison(DType::F32, rows * columns)],
        args: vec![Arg::Buffer(0), Arg::Buffer(1), params.arg()],
        judge: Box::new(move |after| hold(&after[1], &expected)),
    }
}

/// Rows of a table by indices, of which two are out of range; with a tail behind the last whole block;
/// exact.
pub(crate) fn selection() -> Problem {
    let [count, rows, columns] = [40, 150, 20];
    let x = Operand::draw(DType::F32, Values::Integers, &[count, columns], 1);
    // The table's end is its allocation's: what is beyond the last row is out of bounds.
    let mut indices: Vec<i32> = (0..rows as i32).map(|i| i * 7 % count as i32).collect();
    (indices[3], indices[4], indices[5]) = (count as i32, -1, count as i32 - 1);
    let fill = -9.0_f32;
    let want = ndarray::ArrayD::from_shape_fn(vec![rows, columns], |at| {
        match usize::try_from(indices[at[0]]) {
            Ok(index) if index < count => x.exact[[index, at[1]]],
            _ => fill.into(),
        }
    });
    let expected = Expected::exact(want, DType::F32);
    let entry = TakeEntry { size_bytes: 16 };
    let (wide, len) = (columns / 4, rows * columns / 4);
    let mut strides = [[0; MAX_RANK]; 5];
    (strides[0][0], strides[0][1]) = (1, wide);
    (strides[1][0], strides[2][1]) = (1, 1);
    let params = Fields::default()
        .u32(&[len as u32, 2, 1, 0])
        .divisions(&[wide as u32, rows as u32, 1, 1, 1, 1, 1, 1])
        .u64(&strides.concat())
        .u64(&[count, wide])
        .f32(&[fill, fill])
        .u64(&[4]);
    let blocks = elementwise::grid_blocks(len as u64, entry.per_thread());
    let indices = indices.iter().flat_map(|index| index.to_le_bytes());
    Problem {
        shape: linear(blocks, gather::THREADS),
        buffers: vec![
            x.bytes,
            indices.collect(),
            poison(DType::F32, rows * columns),
        ],
        args: vec![Arg::Buffer(0), Arg::Buffer(1), Arg::Buffer(2), params.arg()],
        judge: Box::new(move |after| hold(&after[2], &expected)),
    }
}

/// A rotation of three heads a token, with some elements to copy; two positions are no row.
pub(crate) fn rotation() -> Problem {
    let [tokens, heads, half, head_dim, rows] = [33, 3, 8, 28, 30];
    let x = Operand::draw(DType::F32, Values::Uniform, &[tokens, heads, head_dim], 1);
    let table = |seed| Operand::draw(DType::F32, Values::Uniform, &[rows, half], seed);
    let (cos, sin) = (table(2), table(3));
    let mut positions: Vec<i64> = (0..tokens).map(|i| (i * 11 % rows) as i64).collect();
    (positions[2], positions[7]) = (rows as i64, -1);
    let matrix = |of: &Operand| of.exact.clone().into_shape_with_order((rows, half));
    let (of_cos, of_sin) = (matrix(&cos), matrix(&sin));
    let (of_cos, of_sin) = (of_cos.expect("a table"), of_sin.expect("a table"));
    let rotation = Rotation {
        cos: of_cos.view(),
        sin: of_sin.view(),
        interleaved: false,
        inverse: false,
    };
    let of_tokens = ndarray::arr1(&positions).into_dyn();
    let expected = reference_rotary(&x.exact.view(), &rotation, &of_tokens.view(), DType::F32);
    let expected = expected.expect("the shapes fit");
    let entry = RotaryEntry {
        dtype: DType::F32,
        table: DType::F32,
        form: rotary::Form::Halves,
    };
    let slots = entry.slots(half as u32, head_dim as u32);
    let groups = (heads as u32).div_ceil(rotary::HEADS);
    let mut strides = [[0; MAX_RANK]; 5];
    (strides[0][0], strides[1][0]) = (heads * head_dim, heads * head_dim);
    strides[2][0] = 1;
    let params = Fields::default()
        .u32(&[tokens as u32, 1, 1, 0])
        .divisions(&[tokens as u32, 1, 1, 1, 1, 1, 1, 1])
        .u64(&strides.concat())
        .u64(&[0, rows, head_dim, head_dim, 1, 1, half, 1, half, 1])
        .divisions(&[slots, groups])
        .u32(&[heads as u32, half as u32, head_dim as u32, 0]);
    let threads = tokens as u32 * slots * groups;
    let positions = positions.iter().flat_map(|&p| (p as i32).to_le_bytes());
    let poisoned = poison(DType::F32, tokens * heads * head_dim);
    Problem {
        shape: linear(threads.div_ceil(rotary::THREADS), rotary::THREADS),
        buffers: vec![x.bytes, poisoned, cos.bytes, sin.bytes, positions.collect()],
        args: vec![
            Arg::Buffer(0),
            Arg::Buffer(1),
            Arg::Buffer(2),
            Arg::Buffer(3),
            Arg::Buffer(4),
            params.arg(),
        ],
        judge: Box::new(move |after| hold(&after[1], &expected)),
    }
}

/// The first elements of rows: of one row by a bound from groups, of one with many equal elements by
/// histograms of all. Their indices are compared; exact.
pub(crate) fn first_elements() -> Problem {
    let [rows, n, k] = [2, 3003, 20];
    let mut x = Operand::draw(DType::F32, Values::Uniform, &[rows, n], 1);
    for (i, element) in x.exact.index_axis_mut(Axis(0), 1).iter_mut().enumerate() {
        *element = f64::from((i % 2) as u32);
        let from = 4 * (n + i);
        x.bytes[from..from + 4].copy_from_slice(&((i % 2) as f32).to_le_bytes());
    }
    let sorted = topk(&x.exact.view(), 1, k, false);
    let (_, expected) = sorted.expect("rows have so many");
    let plan = TopKPlan::new(rows as u64, n as u64, k as u64, DType::F32, 1);
    let params = TopKParams::new(&plan, rows as u64, n as u64, k as u64, DType::F32, 0);
    let fields = Fields::default().u64(&[rows, n, n, n, k, k]).u32(&[
        params.k,
        params.parts,
        params.capacity,
        params.turn,
        params.index_bits,
        params.key_bits,
        params.element_bytes,
        params.lanes_log2,
    ]);
    Problem {
        shape: LaunchConfig {
            shared_bytes: plan.shared_bytes(),
            ..linear(rows as u32, plan.threads)
        },
        buffers: vec![
            x.bytes,
            poison(DType::F32, rows * k),
            poison(DType::I64, rows * k),
        ],
        args: vec![
            Arg::Buffer(0),
            Arg::Buffer(1),
            Arg::Buffer(2),
            Arg::Value(vec![0; 8]),
            fields.arg(),
        ],
        judge: Box::new(move |after| {
            let words = after[2].chunks_exact(8).map(|word| word.try_into());
            let got = words.map(|word| i64::from_le_bytes(word.expect("8 bytes")));
            let mut both = got.zip(&expected);
            match both.position(|(got, want)| got != *want) {
                None => Ok(()),
                Some(place) => Err(format!("index {place} of all is another")),
            }
        }),
    }
}
