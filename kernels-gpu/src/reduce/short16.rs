//! Rows of a few vectors of bf16, for which instructions are the limit: [`super::short`] takes
//! twice as many.
//!
//! A thread has one vector of each of eight rows, as there. All of them share one branch on the
//! operation, and no loop turns registers around. Elements become numbers in the same place for all
//! operations, and operations meet again where lanes exchange values. No row is checked before it
//! is loaded. The last warp begins further back, so that all of its rows are there, and stores only
//! those that no other warp has.
//!
//! **Numerics**: the order of [`super::short`]. A sum of zeros is +0, as there, but the 0 that
//! makes it so is added once, to the result.

use abi::DType;
use abi::reduce::{
    FINISH_DIVIDE, FINISH_DIVIDE_ROOT, FINISH_ROOT, KIND_LARGEST, KIND_NORM, KIND_PRODUCT,
    KIND_SUM, MAP_ABS, MAP_NEGATE, ReduceParams, SHORT_ROWS_OF_THREAD, THREADS, wide_code,
};
use cuda_std::hint::opaque;
use cuda_std::{math, thread, warp};
use half::bf16;

use super::body::Arrays;
use super::extreme::SIGNS;
use super::fold::tree;
use super::load::{Alone, Load, Raw, together};
use super::number::Number;
use super::partial::Partial;
use super::store::{Rounded, is_rounded};
use super::value::{Value, larger_or_nan};

/// Rows whose vectors a thread has in flight, and which it computes together.
const ROWS: usize = SHORT_ROWS_OF_THREAD as usize;

/// Elements of a vector.
const V: usize = 8;

/// Results that a lane stores at a time: it has as many if two lanes have a row.
const STORED: usize = ROWS / 2;

/// Infinities, as two elements.
const INFINITIES: u32 = 0x7f80_7f80;

/// Ones, as two elements.
const ONES: u32 = 0x3f80_3f80;

/// The kernel's work, over short rows.
///
/// # Safety
/// The arrays are those of `params`, of a plan for short rows of bf16; the whole block is here.
#[inline(always)]
pub(super) unsafe fn rows(arrays: &Arrays<Value<f32>>, params: &ReduceParams) {
    let view = &params.view;
    let share = Share::new(params);
    // The lanes of a warp read neighbours in memory, and the warp's rows follow each other.
    let of_warp = share.groups * ROWS as u32;
    let row_bytes = view.outer_stride.wrapping_mul(size_of::<bf16>() as i64);
    let step = row_bytes.wrapping_mul(i64::from(share.groups));
    let warps = u64::from(THREADS / thread::WARP_THREADS);
    let warp = u64::from(thread::thread_idx_x() / thread::WARP_THREADS);
    let warp = u64::from(thread::block_idx_x()) * warps + warp;
    let row_step = u64::from(thread::grid_dim_x()) * warps * u64::from(of_warp);
    // The warp's first row, and where the thread's first vector is.
    let mut row = warp * u64::from(of_warp);
    let bytes = (row as i64 + i64::from(share.group)).wrapping_mul(row_bytes);
    let mut at = arrays
        .x
        .wrapping_offset(bytes as isize)
        .wrapping_add(share.slot as usize * 16);
    // All lanes of a warp stay in the loop, or none: the shuffles need them all.
    while row < view.outer {
        let left = (view.outer - row).min(u64::from(of_warp)) as u32;
        let back = of_warp - left;
        let from = at.wrapping_offset((-i64::from(back)).wrapping_mul(row_bytes) as isize);
        let raws = if share.has_vector {
            // SAFETY: vectors of rows of the view, aligned as the caller guarantees. The view has
            // more rows than a warp takes at a time (`abi::reduce::SHORT_ROWS`), so that `back`
            // rows before this one are there.
            unsafe { together::<Alone, V, ROWS>(from, step, 0) }
        } else {
            // Opaque, or there would be all this for every neutral word.
            [[opaque(neutral(params)); 4]; ROWS]
        };
        let accs = folded(mapped(raws, params.map), params);
        // SAFETY: all lanes go through the same rows; outputs of the launch, each with one writer.
        unsafe {
            let accs = share.over_lanes(accs, params.kind);
            share.store(accs, arrays.out, row, back, params);
        }
        row += row_step;
        at = at.wrapping_offset((row_step as i64).wrapping_mul(row_bytes) as isize);
    }
}

/// A word that changes no result.
#[inline(always)]
fn neutral(params: &ReduceParams) -> u32 {
    match (params.kind, params.map) {
        (KIND_PRODUCT, _) => ONES,
        (KIND_LARGEST, MAP_NEGATE) => INFINITIES,
        (KIND_LARGEST, MAP_ABS) => 0,
        (KIND_LARGEST, _) => INFINITIES | SIGNS,
        _ => 0,
    }
}

/// Applies those of a `MAP_..` that change signs alone, to two elements at a time.
#[inline(always)]
fn mapped(raws: [Raw; ROWS], map: u32) -> [Raw; ROWS] {
    let (set, flip) = match map {
        MAP_NEGATE => (0, SIGNS),
        MAP_ABS => (SIGNS, SIGNS),
        _ => return raws,
    };
    raws.map(|raw| raw.map(|word| (word | set) ^ flip))
}

/// What the thread's vectors come to. Sums of zeros may be -0.
#[inline(always)]
fn folded(raws: [Raw; ROWS], params: &ReduceParams) -> [f32; ROWS] {
    let numbers = |raw| core::array::from_fn(|v| <Alone as Load<V>>::number(raw, v));
    let xs: [[f32; V]; ROWS] = raws.map(numbers);
    match params.kind {
        KIND_PRODUCT => xs.map(f32::product_of),
        KIND_NORM => xs.map(|xs| {
            let [value, lost] = f32::norm_of([f32::ZERO, f32::NOTHING], xs);
            value + lost
        }),
        KIND_LARGEST => xs.map(largest),
        _ => xs.map(|xs| tree(xs, f32::plus)),
    }
}

/// The largest element; NaN if any of them is.
#[inline(always)]
fn largest(xs: [f32; V]) -> f32 {
    let mut is_nan = false;
    // In pairs, which one instruction tests.
    for u in 0..V / 2 {
        is_nan |= Number::is_nan(xs[u]) | Number::is_nan(xs[u + V / 2]);
    }
    // A second use, without an instruction. LLVM makes a chain of selections, one for each pair, of
    // a condition that is used once.
    opaque(u32::from(is_nan));
    // A closure: LLVM must not see the other kernels' tree of `f32::larger` used for another
    // length, or it compiles theirs anew.
    let largest = tree(xs, |a, b| a.larger(b));
    if is_nan {
        f32::not_a_number(largest)
    } else {
        largest
    }
}

/// Merges results with those of other lanes.
#[inline(always)]
fn merged<const R: usize>(pairs: [[f32; 2]; R], kind: u32) -> [f32; R] {
    match kind {
        KIND_PRODUCT => pairs.map(|[a, b]| a.product(b)),
        KIND_NORM => pairs.map(|[a, b]| a.norm(b)),
        KIND_LARGEST => pairs.map(|[a, b]| larger_or_nan(a, b)),
        _ => pairs.map(|[a, b]| a.plus(b)),
    }
}

/// A thread's share of the rows that its warp takes at a time.
struct Share {
    /// Lanes of the warp that have the same row.
    lanes: u32,
    /// Which of them this is.
    slot: u32,
    /// Rows of which the warp loads a vector at a time, and how far apart the thread's rows are.
    groups: u32,
    /// Its first row.
    group: u32,
    has_vector: bool,
    /// The first row that it stores, if it stores any.
    first: u32,
    /// How far apart those are.
    step: u32,
    /// True for one of the lanes that have the same results.
    is_writer: bool,
}

impl Share {
    #[inline(always)]
    fn new(params: &ReduceParams) -> Self {
        let along_log2 = params.along_log2;
        let lane = thread::thread_idx_x() % thread::WARP_THREADS;
        let slot = lane & ((1 << along_log2) - 1);
        let group = lane >> along_log2;
        let groups = thread::WARP_THREADS >> along_log2;
        // `over_lanes` decides by the highest bit of a place whether a lane goes on with the odd
        // rows, then by the next one.
        let halvings = along_log2.min(ROWS.trailing_zeros());
        let first = slot.reverse_bits().wrapping_shr(32 - along_log2) % ROWS as u32;
        Self {
            lanes: 1 << along_log2,
            slot,
            groups,
            group,
            has_vector: u64::from(slot) * (V as u64) < params.view.n,
            first: group + first * groups,
            step: groups << halvings,
            is_writer: slot & ((1 << (along_log2 - halvings)) - 1) == 0,
        }
    }

    /// Merges over the lanes of a row. When two lanes exchange results, each goes on with half of
    /// the rows, as long as there are several.
    ///
    /// # Safety
    /// All lanes of the warp are here.
    #[inline(always)]
    unsafe fn over_lanes(&self, mut accs: [f32; ROWS], kind: u32) -> [f32; ROWS] {
        // SAFETY: passed on to the caller.
        let other = |given, apart| unsafe { warp::shfl_bfly(warp::FULL_MASK, given, apart) };
        let mut apart = self.lanes / 2;
        macro_rules! halve {
            ($count:literal) => {
                if apart > 0 {
                    let is_second = self.slot & apart != 0;
                    let pairs: [[f32; 2]; $count] = core::array::from_fn(|r| {
                        let [a, b] = [accs[2 * r], accs[2 * r + 1]];
                        let (kept, given) = if is_second { (b, a) } else { (a, b) };
                        [kept, other(given, apart)]
                    });
                    accs[..$count].copy_from_slice(&merged(pairs, kind));
                    apart /= 2;
                }
            };
        }
        halve!(4);
        halve!(2);
        halve!(1);
        while apart > 0 {
            [accs[0]] = merged([[accs[0], other(accs[0], apart)]], kind);
            apart /= 2;
        }
        accs
    }

    /// Stores what the thread has of the results of the warp's rows from `row` on. They began
    /// `back` rows before it.
    ///
    /// # Safety
    /// `out` has them.
    #[inline(always)]
    unsafe fn store(
        &self,
        [a, b, c, d, e, f, g, h]: [f32; ROWS],
        out: *mut f32,
        row: u64,
        back: u32,
        params: &ReduceParams,
    ) {
        let end = match self.is_writer {
            true => self.groups * ROWS as u32 - back,
            false => 0,
        };
        // Relative to `row`. Those before it wrap, and are beyond the end.
        let mut at = self.first.wrapping_sub(back);
        let [mut now, mut next] = [[a, b, c, d], [e, f, g, h]];
        let mut left = opaque(if self.lanes == 1 { 2 } else { 1 }); // not unrolled
        while left > 0 {
            let results = finished(now, params);
            // SAFETY: passed on to the caller.
            unsafe {
                if is_rounded::<f32, V>(params) {
                    let code = u64::from(wide_code(DType::Bf16));
                    let out = out.cast::<u16>().wrapping_add(row as usize);
                    write(results.map(|x| x.rounded(code)), out, at, end, self.step);
                } else {
                    write(results, out.wrapping_add(row as usize), at, end, self.step);
                }
            }
            [now, next] = [next, now];
            at = at.wrapping_add(STORED as u32 * self.step);
            left -= 1;
        }
    }
}

/// The results of accumulators.
#[inline(always)]
fn finished(accs: [f32; STORED], params: &ReduceParams) -> [f32; STORED] {
    let accs = match params.kind {
        KIND_PRODUCT => accs.map(f32::product_result),
        _ => accs,
    };
    // One instruction reverses what was reversed, adds the 0 of a sum, and leaves all else.
    let sign = f32::reversal(params.kind == KIND_LARGEST && params.map == MAP_NEGATE);
    let zero = if params.kind == KIND_SUM { 0.0 } else { -0.0 };
    let results = accs.map(|acc| math::fma(acc, sign, zero));
    match params.finish {
        FINISH_DIVIDE => results.map(|sum| sum.over(params.divisor)),
        FINISH_ROOT => results.map(f32::norm_result),
        FINISH_DIVIDE_ROOT => results.map(|sum| sum.over(params.divisor).root()),
        _ => results,
    }
}

/// Writes results to `at`, `at + step`, .., as far as these are below `end`.
///
/// # Safety
/// `out` has those.
#[inline(always)]
unsafe fn write<R: Copy>(results: [R; STORED], out: *mut R, mut at: u32, end: u32, step: u32) {
    for result in &results {
        if at < end {
            // SAFETY: passed on to the caller.
            unsafe { out.wrapping_add(at as usize).write(*result) };
        }
        at = at.wrapping_add(step);
    }
}
