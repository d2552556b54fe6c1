//! Results of keys that were taken in parts as one: `lse = ln(sum exp(lse_i))`, `o = sum o_i exp(lse_i -
//! lse)`. A sink is one more part, without values.
//!
//! o_i f32, o f32, f16 or bf16, as the attention has it.
//!
//! **Roles**: a warp has a row of o; blocks stride over the rows. Lanes share out the parts for the sum,
//! and the columns after that.
//!
//! **Numerics**: exponentials relative to the largest lse, f32, parts in order, one rounding at the
//! store: the same bits every run. A part without a key, lse = -inf, is not multiplied.

use cuda_std::warp::{FULL_MASK, shfl_bfly};
use cuda_std::{kernel, math, thread};
use half::{bf16, f16};
use spec::attention::merge::{THREADS, strides_of_parts};
use spec::attention::{
    BshStrides, FlashFwdLengths, FlashFwdParams, FwdPacking, OutputDType, Sequence,
};

use crate::attention::lengths::sequence;
use crate::simt::element::SimtElement;

/// Columns of a row that a lane has: head_dim_v is up to 256.
const COLUMNS: usize = 8;

/// The lse's of a row, and what all of them together are.
struct Parts {
    lse: *const f32,
    stride: u64,
    count: u32,
    largest: f32,
    sum: f32,
}

impl Parts {
    /// Of `count` parts, their lse's `stride` apart, and of the sink's.
    ///
    /// # Safety
    /// They can be read. The warp calls it, converged.
    #[inline(always)]
    unsafe fn new(lse: *const f32, packing: &FwdPacking, sink: f32) -> Self {
        let lane = thread::thread_idx_x() % thread::WARP_THREADS;
        let mut parts = Self {
            lse,
            stride: packing.lse_split,
            count: packing.splits,
            largest: sink,
            sum: 0.0,
        };
        let mut part = lane;
        while part < parts.count {
            // SAFETY: the caller's.
            parts.largest = parts.largest.max(unsafe { parts.at(part) });
            part += thread::WARP_THREADS;
        }
        // SAFETY: the caller's.
        parts.largest = unsafe { over_lanes(parts.largest, f32::max) };
        if lane == 0 {
            parts.sum = parts.weight(sink);
        }
        let mut part = lane;
        while part < parts.count {
            // SAFETY: the caller's.
            parts.sum += parts.weight(unsafe { parts.at(part) });
            part += thread::WARP_THREADS;
        }
        // SAFETY: the caller's.
        parts.sum = unsafe { over_lanes(parts.sum, |x, y| x + y) };
        parts
    }

    /// The lse of a part.
    ///
    /// # Safety
    /// There is one.
    #[inline(always)]
    unsafe fn at(&self, part: u32) -> f32 {
        let at = u64::from(part) * self.stride;
        // SAFETY: the caller's.
        unsafe { self.lse.wrapping_add(at as usize).read() }
    }

    /// What is of a part with that lse, relative to the largest; 0 of one without a key, NaN of NaN.
    #[inline(always)]
    fn weight(&self, lse: f32) -> f32 {
        if lse == f32::NEG_INFINITY {
            0.0
        } else {
            math::exp(lse - self.largest)
        }
    }

    /// The row's.
    #[inline(always)]
    fn lse(&self) -> f32 {
        if self.sum == 0.0 {
            f32::NEG_INFINITY
        } else {
            self.largest + math::log(self.sum)
        }
    }
}

/// What `join` makes of all lanes' values, in all lanes.
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

/// Merges the parts of an attention; see [`spec::attention::merge`].
///
/// # Safety
/// Launched as that module says.
#[kernel(max_threads = THREADS)]
pub unsafe fn attention_merge_parts(
    o_parts: *const f32,
    lse_parts: *const f32,
    o: *mut u8,
    lse: *mut f32,
    sink: *const f32,
    lengths: FlashFwdLengths,
    params: FlashFwdParams,
    packing: FwdPacking,
) {
    let merge = Merge {
        o_parts,
        lse_parts,
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
        // SAFETY: the caller's: there is the sequence, and if there is the query, its row.
        unsafe {
            let sequence = sequence(&lengths, &params, batch as u32);
            if query < sequence.q.len {
                merge.row(&sequence, query, head);
            }
        }
        row += u64::from(thread::grid_dim_x()) * warps;
    }
}

/// Quotient and remainder; `x` and 0 by a zero.
#[inline(always)]
fn divided(x: u64, by: u32) -> (u64, u32) {
    match (x.checked_div(u64::from(by)), x.checked_rem(u64::from(by))) {
        (Some(quotient), Some(remainder)) => (quotient, remainder as u32),
        _ => (x, 0),
    }
}

/// What a launch is told.
struct Merge<'a> {
    o_parts: *const f32,
    lse_parts: *const f32,
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
        let lse_at = (params.lse_offset(sequence, head) + u64::from(query)) as usize;
        let mut sink = f32::NEG_INFINITY;
        // SAFETY: the caller's: there is a sink for each head, and an lse of each part of a row.
        let parts = unsafe {
            if !self.sink.is_null() {
                sink = self.sink.wrapping_add(head as usize).read();
            }
            Parts::new(self.lse_parts.wrapping_add(lse_at), self.packing, sink)
        };
        let place = |strides: &BshStrides| {
            sequence.offset_q(strides, head) + i64::from(query) * strides.seq
        };
        let from = place(&strides_of_parts(params)) as isize;
        let mut from = self.o_parts.wrapping_offset(from);
        let mut sums = [0.0; COLUMNS];
        let mut part = 0;
        while part < parts.count {
            // SAFETY: the caller's.
            let weight = parts.weight(unsafe { parts.at(part) });
            let mut i = 0;
            while i < COLUMNS {
                let column = column(lane, i);
                if column < params.head_dim_v && weight != 0.0 {
                    // SAFETY: the caller's: the part has the row.
                    let x = unsafe { from.wrapping_add(column as usize).read() };
                    sums[i] = math::fma(weight, x, sums[i]);
                }
                i += 1;
            }
            from = from.wrapping_add(self.packing.o_split as usize);
            part += 1;
        }
        let to = place(&params.o) as isize;
        let factor = if parts.sum == 0.0 {
            0.0
        } else {
            1.0 / parts.sum
        };
        // SAFETY: the caller's; no other warp has the row.
        unsafe {
            if params.o_dtype == OutputDType::F32.code() {
                store::<f32>(self.o, to, &sums, factor, params.head_dim_v);
            } else if params.o_dtype == OutputDType::F16.code() {
                store::<f16>(self.o, to, &sums, factor, params.head_dim_v);
            } else {
                store::<bf16>(self.o, to, &sums, factor, params.head_dim_v);
            }
            if params.write_lse != 0 && lane == 0 {
                self.lse.wrapping_add(lse_at).write(parts.lse());
            }
        }
    }
}

/// The `i`th of a lane's columns.
#[inline(always)]
fn column(lane: u32, i: usize) -> u32 {
    lane + thread::WARP_THREADS * i as u32
}

/// # Safety
/// From element `at` on there is a row of `columns`.
#[inline(always)]
unsafe fn store<E: SimtElement>(
    o: *mut u8,
    at: isize,
    sums: &[f32; COLUMNS],
    factor: f32,
    columns: u32,
) {
    let to = o.cast::<E>().wrapping_offset(at);
    let lane = thread::thread_idx_x() % thread::WARP_THREADS;
    let mut i = 0;
    while i < COLUMNS {
        let column = column(lane, i);
        if column < columns {
            // SAFETY: the caller's.
            unsafe {
                to.wrapping_add(column as usize)
                    .write(E::from_f32(sums[i] * factor))
            }
        }
        i += 1;
    }
}
