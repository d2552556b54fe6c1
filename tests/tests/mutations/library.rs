//! Operations of the library whose kernels get bugs planted. Inputs are small, and each has what its
//! kernel treats in a special way: ragged ends, indices out of range, rows of no group.

use half::bf16;
use warpsmith::{
    Attention, AttentionGrad, AttentionOutput, Device, Float, GroupedGemm, Reduce, ReduceOp,
    Result, Rotary, Scatter, ScatterAdd, Sort, Stream, Take, Tensor, TopK,
};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::values::Values;

/// A contiguous tensor of random elements in -1..1.
fn draw<T: TestElement>(device: &Device, shape: &[usize], seed: u64) -> Result<Tensor<T>> {
    let values = Values::Uniform.draw(shape, seed);
    let values: Vec<T> = values.iter().map(|&x| T::nearest(x)).collect();
    Tensor::from_slice(device, shape, &values)
}

fn grouped(ends: &[i32], device: &Device, stream: &Stream) -> Result<()> {
    let a = draw::<f32>(device, &[150, 44], 1)?;
    let b = draw::<f32>(device, &[ends.len(), 44, 84], 2)?;
    let ends = Tensor::from_slice(device, &[ends.len()], ends)?;
    GroupedGemm::new(&a, &b, &ends).run(stream).map(drop)
}

/// Groups of which some are empty, with ends that are not rows or not in order.
pub(crate) fn grouped_product(device: Device, stream: Stream) -> Result<()> {
    grouped(&[-5, 20, 90, 85, 130, 130], &device, &stream)
}

/// An end beyond all rows.
pub(crate) fn grouped_beyond(device: Device, stream: Stream) -> Result<()> {
    grouped(&[70, 70, i32::MAX], &device, &stream)
}

/// Rows that are long enough for a whole block.
pub(crate) fn sums(device: Device, stream: Stream) -> Result<()> {
    let x = draw::<f32>(&device, &[3, 3001], 1)?;
    Reduce::new(ReduceOp::Sum, &x)
        .axis(1)
        .run(&stream)
        .map(drop)
}

/// No whole block, to an address that is not a multiple of 16 bytes.
pub(crate) fn copy(device: Device, stream: Stream) -> Result<()> {
    let (x, y) = (
        draw::<f32>(&device, &[1004], 1)?,
        Tensor::<f32>::zeros(&stream, &[1004])?,
    );
    y.slice(0, 1..)?.assign(&x.slice(0, ..1003)?, &stream)
}

/// Whole chunks, but not whole tiles.
pub(crate) fn transposition(device: Device, stream: Stream) -> Result<()> {
    let x = draw::<f32>(&device, &[72, 100], 1)?;
    x.t().contiguous(&stream).map(drop)
}

/// Two tiles of a row, the second one not full.
pub(crate) fn sorted(device: Device, stream: Stream) -> Result<()> {
    let x = draw::<f32>(&device, &[5000], 1)?;
    Sort::new(&x).indices().run(&stream).map(drop)
}

/// One row by a bound from groups, and one with many equal elements, by histograms of all.
pub(crate) fn first(device: Device, stream: Stream) -> Result<()> {
    let [rows, n] = [2, 3003];
    let mut x: Vec<f32> = Values::Uniform
        .draw(&[rows * n], 1)
        .iter()
        .map(|&x| x as f32)
        .collect();
    for (i, element) in x[n..].iter_mut().enumerate() {
        *element = (i % 2) as f32;
    }
    let x = Tensor::from_slice(&device, &[rows, n], &x)?;
    TopK::new(&x, 20).run(&stream).map(drop)
}

/// Two indices are out of range. The table's end is that of its allocation.
pub(crate) fn selection(device: Device, stream: Stream) -> Result<()> {
    let [count, rows, columns] = [40, 150, 20];
    let x = draw::<f32>(&device, &[count, columns], 1)?;
    let mut indices: Vec<i32> = (0..rows as i32).map(|i| i * 7 % count as i32).collect();
    (indices[3], indices[4], indices[5]) = (count as i32, -1, count as i32 - 1);
    let indices = Tensor::from_slice(&device, &[rows], &indices)?;
    Take::new(&x, &indices).fill(-9.0).run(&stream).map(drop)
}

/// Three heads a token, with some elements to copy. Two positions name no row.
pub(crate) fn rotation(device: Device, stream: Stream) -> Result<()> {
    let [tokens, rows] = [33, 30];
    let x = draw::<f32>(&device, &[tokens, 3, 28], 1)?;
    let (cos, sin) = (
        draw::<f32>(&device, &[rows, 8], 2)?,
        draw::<f32>(&device, &[rows, 8], 3)?,
    );
    let mut positions: Vec<i32> = (0..tokens).map(|i| (i * 11 % rows) as i32).collect();
    (positions[2], positions[7]) = (rows as i32, -1);
    let positions = Tensor::from_slice(&device, &[tokens], &positions)?;
    Rotary::new(&x, &cos, &sin)
        .positions(&positions)
        .run(&stream)
        .map(drop)
}

/// Indices from 0 to this, which is out of range.
const EXTENT: usize = 12;
const LEN: usize = 340;
/// So many indices that rows are added in the order of sorted indices.
const MANY: usize = 1100;
/// Columns of f32: five vectors of 16 bytes.
const COLUMNS: usize = 20;

/// Most indices are one, whose rows are added in parts.
fn index(position: usize) -> usize {
    match position % 5 {
        0..3 => 3,
        _ => position * 7 % (EXTENT + 1),
    }
}

fn add(of: impl Fn(usize) -> usize, len: usize, device: &Device, stream: &Stream) -> Result<()> {
    let indices: Vec<i32> = (0..len).map(|j| of(j) as i32).collect();
    let extent = 1 + indices.iter().max().map_or(0, |&largest| largest as usize);
    let indices = Tensor::from_slice(device, &[len], &indices)?;
    let src = draw::<f32>(device, &[len, COLUMNS], 1)?;
    let y = draw::<f32>(device, &[extent - 1, COLUMNS], 2)?;
    ScatterAdd::new(&indices, &src).run_into(&y, stream)
}

pub(crate) fn addition(device: Device, stream: Stream) -> Result<()> {
    add(index, MANY, &device, &stream)
}

pub(crate) fn addition_of_few(device: Device, stream: Stream) -> Result<()> {
    add(index, LEN, &device, &stream)
}

/// Indices of two digits.
pub(crate) fn sort(device: Device, stream: Stream) -> Result<()> {
    add(|j| index(j) + 25 * (j % 12), MANY, &device, &stream)
}

/// Most indices are one, and some are out of range. The first and the last are the same, with more
/// positions between them than a block compares at a time.
fn put(len: usize, device: &Device, stream: &Stream) -> Result<()> {
    let of = |position: usize| match (position % 5, position * 7 % EXTENT) {
        _ if position == 0 || position == len - 1 => EXTENT - 1,
        (0..3, _) => 3,
        (_, own) if own == EXTENT - 1 => EXTENT,
        (_, own) => own,
    };
    let indices: Vec<i32> = (0..len).map(|j| of(j) as i32).collect();
    let indices = Tensor::from_slice(device, &[len], &indices)?;
    let (src, y) = (
        draw::<f32>(device, &[len, COLUMNS], 1)?,
        draw(device, &[EXTENT, COLUMNS], 2)?,
    );
    Scatter::new(&indices, &src).run_into(&y, stream)
}

pub(crate) fn scatter_few(device: Device, stream: Stream) -> Result<()> {
    put(LEN, &device, &stream)
}

pub(crate) fn put_many(device: Device, stream: Stream) -> Result<()> {
    put(2 * MANY, &device, &stream)
}

/// Two sequences of two query heads on one, whose last tile of keys ends early. Pages are in no
/// order; one entry of the table names none.
fn paged<T: Float + TestElement>(
    page_size: usize,
    kernel: &str,
    device: &Device,
    stream: &Stream,
) -> Result<()> {
    let [keys, pages] = [230_usize, 13];
    let columns = keys.div_ceil(page_size);
    let q = draw::<T>(device, &[2, 3, 2, 64], 1)?;
    let pool = [pages, page_size, 1, 64];
    let (k, v) = (draw::<T>(device, &pool, 2)?, draw::<T>(device, &pool, 3)?);
    let entry = |i: usize| (5 * (i % columns) + 3 * (i / columns) + 1) % pages;
    let mut table: Vec<i32> = (0..2 * columns).map(|i| entry(i) as i32).collect();
    table[columns + 1] = pages as i32;
    let table = Tensor::from_slice(device, &[2, columns], &table)?;
    let lengths = Tensor::from_slice(device, &[2], &[keys as i32; 2])?;
    let attention = Attention::new(&q, &k, &v)
        .pages(&table)
        .seqused_k(&lengths)
        .key_splits(1);
    let plan = attention.plan(stream)?;
    let named = plan
        .candidates()
        .iter()
        .find(|candidate| candidate.name.starts_with(kernel));
    let name = named.map_or(kernel, |candidate| &candidate.name);
    attention.with_kernel(name).lse().run(stream).map(drop)
}

pub(crate) fn paged_f32(device: Device, stream: Stream) -> Result<()> {
    paged::<f32>(5, "flash_fwd_simt_d64", &device, &stream)
}

pub(crate) fn paged_decode(device: Device, stream: Stream) -> Result<()> {
    paged::<bf16>(16, "flash_decode_sm80_bf16_d64_m16", &device, &stream)
}

/// A causal attention of query heads on one, with tiles that end early in both directions.
fn gradients<T: Float + TestElement>(
    [queries, keys, heads]: [usize; 3],
    [head_dim, head_dim_v]: [usize; 2],
    kernel: &str,
    (device, stream): (&Device, &Stream),
) -> Result<()> {
    let q = draw::<T>(device, &[1, queries, heads, head_dim], 1)?;
    let k = draw::<T>(device, &[1, keys, 1, head_dim], 2)?;
    let v = draw::<T>(device, &[1, keys, 1, head_dim_v], 3)?;
    let d_o = draw::<T>(device, &[1, queries, heads, head_dim_v], 4)?;
    let AttentionOutput { o, lse } = Attention::new(&q, &k, &v).causal().lse().run(stream)?;
    let gradients = AttentionGrad::new(&q, &k, &v, &o, &lse, &d_o).causal();
    let plan = gradients.plan(stream)?;
    let named = plan
        .candidates()
        .iter()
        .find(|candidate| candidate.name.starts_with(kernel));
    let name = named.map_or(kernel, |candidate| &candidate.name);
    gradients.with_kernel(name).run(stream).map(drop)
}

/// Head dimensions that are not multiples of a chunk.
pub(crate) fn gradients_f32(device: Device, stream: Stream) -> Result<()> {
    let kernel = "attention_grad_simt_d64";
    gradients::<f32>([70, 80, 3], [13, 10], kernel, (&device, &stream))
}

/// More tiles than there are stages.
pub(crate) fn gradients_sm80(device: Device, stream: Stream) -> Result<()> {
    let kernel = "attention_grad_sm80_bf16_d64";
    gradients::<bf16>([150, 140, 2], [64, 64], kernel, (&device, &stream))
}

pub(crate) fn gradients_sm90(device: Device, stream: Stream) -> Result<()> {
    let kernel = "attention_grad_sm90_bf16_d64_128x128";
    gradients::<bf16>([200, 300, 2], [64, 64], kernel, (&device, &stream))
}

/// Two sequences, each of which takes half of the threads a pass and a part of one. The first query
/// of each head saw nothing, and its delta is NaN.
pub(crate) fn sinks(device: Device, stream: Stream) -> Result<()> {
    let [batch, queries, heads] = [2, 2100, 2];
    let of_queries = [batch, queries, heads, 1];
    let q = draw::<f32>(&device, &of_queries, 1)?;
    let k = draw::<f32>(&device, &[batch, 1, 1, 1], 2)?;
    let d_o = draw::<f32>(&device, &of_queries, 4)?;
    let mut o = vec![1.0_f32; batch * queries * heads];
    let mut lse: Vec<f32> = Values::Uniform
        .draw(&[batch * heads * queries], 5)
        .iter()
        .map(|&x| x as f32)
        .collect();
    for sequence in 0..batch {
        for head in 0..heads {
            o[sequence * queries * heads + head] = f32::NAN;
            lse[(sequence * heads + head) * queries] = f32::NEG_INFINITY;
        }
    }
    let o = Tensor::from_slice(&device, &of_queries, &o)?;
    let lse = Tensor::from_slice(&device, &[batch, heads, queries], &lse)?;
    let sink = Tensor::from_slice(&device, &[heads], &[-0.5_f32, 0.25])?;
    let gradients = AttentionGrad::new(&q, &k, &k, &o, &lse, &d_o).sink(&sink);
    gradients.run(&stream).map(drop)
}
