//! Merges the partial results of split-KV into one: `lse = ln(sum exp(lse_i))`,
//! `o = sum o_i exp(lse_i - lse)`. An attention sink is one more part, without values.
//!
//! o_i in f32; o in f32, f16 or bf16, as the attention has it.
//!
//! **Roles**: each warp merges one row of o at a time, in a grid-stride loop. For the sum of
//! exponentials each lane has some of the parts; for o each lane has some of the columns. The time
//! is memory latency. So the rows of the first eight parts and all lse's of a row are loaded at
//! once, and then the rows of eight more parts at a time.
//!
//! **Numerics**: exponentials relative to the largest lse, in f32, parts in order, rounded once at
//! the store: the same bits every run. A part without a key has lse = -inf and o = 0.

use abi::attention::merge::{THREADS, strides_of_splits};
use abi::attention::{
    BshStrides, FlashFwdLengths, FlashFwdParams, FwdPacking, MOST_SPLITS, OutputDType, Sequence,
};
use cuda_std::mem::ld_global_nc_v4_f32;
use cuda_std::warp::{FULL_MASK, shfl_bfly, shfl_idx};
use cuda_std::{kernel, math, thread};
use half::{bf16, f16};

use crate::attention::lengths::sequence;
use crate::simt::element::{CHUNK, SimtElement};

/// Chunks of four columns of a row that a lane holds at a time.
const CHUNKS: usize = 2;
/// Columns that a warp has at a time. Those of wide heads have a second turn.
const COLUMNS: u32 = (CHUNKS * CHUNK) as u32 * thread::WARP_THREADS;
/// Parts whose weights a lane holds.
const WEIGHTS: usize = (MOST_SPLITS / thread::WARP_THREADS) as usize;
/// Parts whose rows are loaded together, so that their latencies overlap.
const AT_ONCE: u32 = 8;

/// Weights of a row's parts. That of part i is in lane `i % 32`.
struct Weights {
    /// Weights of the lane's parts, relative to the largest; 0 if the part has no key.
    own: [f32; WEIGHTS],
    largest: f32,
    sum: f32,
}

impl Weights {
    const NONE: Self = Self {
        own: [0.0; WEIGHTS],
        largest: f32::NEG_INFINITY,
        sum: 0.0,
    };

    /// From the parts' lse's, the first of which is at `lse`, and the sink's logit.
    ///
    /// # Safety
    /// There is an lse of each part. The warp calls it, converged.
    #[inline(always)]
    unsafe fn new(lse: *const f32, packing: &FwdPacking, sink: f32) -> Self {
        let lane = thread::thread_idx_x() % thread::WARP_THREADS;
        let mut own = [f32::NEG_INFINITY; WEIGHTS];
        let mut largest = sink;
        let mut i = 0;
        while i < WEIGHTS {
            let split = lane + thread::WARP_THREADS * i as u32;
            if split < packing.splits {
                let at = u64::from(split) * packing.lse_split;
                // SAFETY: the caller's promise.
                own[i] = unsafe { lse.wrapping_add(at as usize).read() };
                largest = largest.max(own[i]);
            }
            i += 1;
        }
        // SAFETY: the caller's promise.
        largest = unsafe { over_lanes(largest, f32::max) };
        let mut sum = if lane == 0 {
            relative(sink, largest)
        } else {
            0.0
        };
        let mut i = 0;
        while i < WEIGHTS {
            own[i] = relative(own[i], largest);
            sum += own[i];
            i += 1;
        }
        // SAFETY: the caller's promise.
        let sum = unsafe { over_lanes(sum, |x, y| x + y) };
        Self { own, largest, sum }
    }

    /// The weight of a part, in all lanes.
    ///
    /// # Safety
    /// The warp calls it, converged, all with the same part, which is below
    /// [`MOST_SPLITS`].
    #[inline(always)]
    unsafe fn of(&self, split: u32) -> f32 {
        let mut own = self.own[0];
        let mut i = 1;
        while i < WEIGHTS {
            if split / thread::WARP_THREADS == i as u32 {
                own = self.own[i];
            }
            i += 1;
        }
        // SAFETY: passed on to the caller.
        unsafe { shfl_idx(FULL_MASK, own, split % thread::WARP_THREADS) }
    }

    /// The row's lse.
    #[inline(always)]
    fn lse(&self) -> f32 {
        if self.sum == 0.0 {
            f32::NEG_INFINITY
        } else {
            self.largest + math::log(self.sum)
        }
    }
}

/// exp(lse - largest), but 0 for lse = -inf (no key), even if largest is -inf too. NaN stays NaN.
#[inline(always)]
fn relative(lse: f32, largest: f32) -> f32 {
    if lse == f32::NEG_INFINITY {
        0.0
    } else {
        math::exp(lse - largest)
    }
}

/// A butterfly reduction by `join` over the warp; all lanes get the result.
///
/// # Safety
/// The warp calls it, converged.
#[inline(always)]
unsafe fn over_lanes(x: f32, join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut all = x;
    let mut distance = thread::WARP_THREADS / 2;
    while distance > 0 {
        // SAFETY: passed on to the caller.
        all = join(all, unsafe { shfl_bfly(FULL_MASK, all, distance) });
        distance /= 2;
    }
    all
}

/// Merges the parts of a split-KV attention; see [`abi::attention::merge`].
///
/// # Safety
/// Launched as that module says.
#[kernel(max_threads = THREADS)]
pub unsafe fn attention_merge_splits(
    o_splits: *const f32,
    lse_splits: *const f32,
    o: *mut u8,
    lse: *mut f32,
    sink: *const f32,
    lengths: FlashFwdLengths,
    params: FlashFwdParams,
    packing: FwdPacking,
) {
    let merge = Merge {
        o_splits,
        lse_splits,
        o,
        lse,
        sink,
        params: &params,
        packing: &packing,
    };
    let warps = u64::from(THREADS / thread::WARP_THREADS);
    let warp_idx = u64::from(thread::thread_idx_x() / thread::WARP_THREADS);
    let rows = u64::from(params.batch) * u64::from(params.seqlen_q);
    let rows = rows * u64::from(params.heads_q);
    let mut row = u64::from(thread::block_idx_x()) * warps + warp_idx;
    while row < rows {
        let (batch_and_query, head) = divided(row, params.heads_q);
        let (batch, query) = divided(batch_and_query, params.seqlen_q);
        // SAFETY: the caller's promise: there is the sequence, and if there is the query, its row.
        unsafe {
            let sequence = sequence(&lengths, &params, batch as u32);
            if query < sequence.q.len {
                merge.row(&sequence, query, head);
            }
        }
        row += u64::from(thread::grid_dim_x()) * warps;
    }
}

/// Quotient and remainder; `x` and 0 if `by` is zero.
#[inline(always)]
fn divided(x: u64, by: u32) -> (u64, u32) {
    match (x.checked_div(u64::from(by)), x.checked_rem(u64::from(by))) {
        (Some(quotient), Some(remainder)) => (quotient, remainder as u32),
        _ => (x, 0),
    }
}

/// Rows of [`AT_ONCE`] parts: a lane's chunks of each.
type Splits = [[[f32; CHUNK]; CHUNKS]; AT_ONCE as usize];

/// The launch's arguments.
struct Merge<'a> {
    o_splits: *const f32,
    lse_splits: *const f32,
    o: *mut u8,
    lse: *mut f32,
    sink: *const f32,
    params: &'a FlashFwdParams,
    packing: &'a FwdPacking,
}

impl Merge<'_> {
    /// Merges a row.
    ///
    /// # Safety
    /// The sequence has the query, and the launch the head. The warp calls it, converged.
    #[inline(always)]
    unsafe fn row(&self, sequence: &Sequence, query: u32, head: u32) {
        let params = self.params;
        let lane = thread::thread_idx_x() % thread::WARP_THREADS;
        let offset = |strides: &BshStrides| {
            sequence.offset_q(strides, head) + i64::from(query) * strides.seq
        };
        let from = offset(&strides_of_splits(params)) as isize;
        let from = self.o_splits.wrapping_offset(from);
        let lse_at = (params.lse_offset(sequence, head) + u64::from(query)) as usize;
        let mut weights = Weights::NONE;
        let mut first = 0;
        loop {
            let mut sums = [[0.0; CHUNK]; CHUNKS];
            let mut split = 0;
            while split < self.packing.splits {
                // SAFETY: the caller's promise: there is a sink for each head, and a row and an lse of
                // each part.
                unsafe {
                    let rows = self.load(from, split, first);
                    if split == 0 && first == 0 {
                        let sink = match self.sink.is_null() {
                            true => f32::NEG_INFINITY,
                            false => self.sink.wrapping_add(head as usize).read(),
                        };
                        let lse = self.lse_splits.wrapping_add(lse_at);
                        weights = Weights::new(lse, self.packing, sink);
                    }
                    add(&mut sums, &weights, &rows, split);
                }
                split += AT_ONCE;
            }
            let to = offset(&params.o) as isize;
            let factor = if weights.sum == 0.0 {
                0.0
            } else {
                1.0 / weights.sum
            };
            // SAFETY: the caller's promise; no other warp has the row.
            unsafe {
                if params.o_dtype == OutputDType::F32.code() {
                    store::<f32>(self.o, to, &sums, factor, (first, params.head_dim_v));
                } else if params.o_dtype == OutputDType::F16.code() {
                    store::<f16>(self.o, to, &sums, factor, (first, params.head_dim_v));
                } else {
                    store::<bf16>(self.o, to, &sums, factor, (first, params.head_dim_v));
                }
                if params.write_lse != 0 && lane == 0 && first == 0 {
                    self.lse.wrapping_add(lse_at).write(weights.lse());
                }
            }
            first += COLUMNS;
            if first >= params.head_dim_v {
                return;
            }
        }
    }

    /// Loads the columns from `first_column` on of [`AT_ONCE`] parts, from part `first` on; the row of part 0 is at `from`.
    /// Those of parts that do not exist are 0.
    ///
    /// # Safety
    /// The parts have the row.
    #[inline(always)]
    unsafe fn load(&self, from: *const f32, first: u32, first_column: u32) -> Splits {
        let mut rows = [[[0.0; CHUNK]; CHUNKS]; AT_ONCE as usize];
        let mut at = 0;
        while at < AT_ONCE as usize {
            let split = first + at as u32;
            let row = from.wrapping_add((u64::from(split) * self.packing.o_split) as usize);
            let mut i = 0;
            while i < CHUNKS {
                let column = first_column + column(i);
                if column < self.params.head_dim_v && split < self.packing.splits {
                    // SAFETY: the caller's promise.
                    rows[at][i] = unsafe { ld_global_nc_v4_f32(row.wrapping_add(column as usize)) };
                }
                i += 1;
            }
            at += 1;
        }
        rows
    }
}

/// Adds rows of [`AT_ONCE`] parts, from part `first` on.
///
/// # Safety
/// The warp calls it, converged.
#[inline(always)]
unsafe fn add(sums: &mut [[f32; CHUNK]; CHUNKS], weights: &Weights, rows: &Splits, first: u32) {
    let mut at = 0;
    while at < AT_ONCE as usize {
        // SAFETY: passed on to the caller. Parts that do not exist have the weight 0.
        let weight = unsafe { weights.of(first + at as u32) };
        let mut i = 0;
        while i < CHUNKS {
            let mut j = 0;
            while j < CHUNK {
                sums[i][j] = math::fma(weight, rows[at][i][j], sums[i][j]);
                j += 1;
            }
            i += 1;
        }
        at += 1;
    }
}

/// The first column of the `i`th of a lane's chunks.
#[inline(always)]
fn column(i: usize) -> u32 {
    let lane = thread::thread_idx_x() % thread::WARP_THREADS;
    (lane + thread::WARP_THREADS * i as u32) * CHUNK as u32
}

/// # Safety
/// There is a row of `columns` elements at element `at`, of which those from `first` on are stored. `columns` is a multiple of four, and the
/// row is aligned to four elements.
#[inline(always)]
unsafe fn store<E: SimtElement>(
    o: *mut u8,
    at: isize,
    sums: &[[f32; CHUNK]; CHUNKS],
    factor: f32,
    (first, columns): (u32, u32),
) {
    let to = o.cast::<E>().wrapping_offset(at);
    let mut i = 0;
    while i < CHUNKS {
        let column = first + column(i);
        if column < columns {
            let chunk = E::narrow(sums[i].map(|sum| sum * factor));
            // SAFETY: the caller's promise.
            unsafe {
                to.wrapping_add(column as usize)
                    .cast::<E::Chunk>()
                    .write(chunk)
            }
        }
        i += 1;
    }
}
