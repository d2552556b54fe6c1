//! Stores accumulators to D through shared memory, so that stores are 16 bytes wide and coalesced.

use abi::gemm::{GemmParams, MmaTile};
use cuda_std::convert::{f32_to_f16, f32x2_to_bf16x2_cvt};
use cuda_std::element::Element;
use cuda_std::epilogue::{Coord, Epilogue};
use cuda_std::hint::opaque;
use cuda_std::shared::SharedAddr;
use cuda_std::{mem, thread};
use half::{bf16, f16};

use super::one_by_one::OneByOne;
use super::product::Block;
use crate::gemm::fused::Fused;

/// Results to which the epilogue is applied at once.
const CHUNK: usize = 4;

/// Results of a tile from which on they may be rounded before they are staged: [`are_whole`].
pub(super) const LARGE: u32 = 128 * 256;

/// Bytes of a store.
const VECTOR_BYTES: u32 = 16;

/// An element type of D.
pub(super) trait Output: Element {
    /// Elements of a store.
    const VECTOR: u32 = VECTOR_BYTES / size_of::<Self>() as u32;

    /// Shifts `words` to the front and puts those of `x`, rounded, at the end.
    fn push(words: [u32; 4], x: [f32; CHUNK]) -> [u32; 4];

    /// Two neighbours, rounded, as one word; `None` if they are wider.
    fn pair(x: [f32; 2]) -> Option<u32>;
}

impl Output for f32 {
    #[inline(always)]
    fn push(_words: [u32; 4], x: [f32; CHUNK]) -> [u32; 4] {
        [
            x[0].to_bits(),
            x[1].to_bits(),
            x[2].to_bits(),
            x[3].to_bits(),
        ]
    }

    #[inline(always)]
    fn pair(_x: [f32; 2]) -> Option<u32> {
        None
    }
}

impl Output for bf16 {
    #[inline(always)]
    fn push(words: [u32; 4], x: [f32; CHUNK]) -> [u32; 4] {
        let (low, high) = (
            f32x2_to_bf16x2_cvt(x[0], x[1]),
            f32x2_to_bf16x2_cvt(x[2], x[3]),
        );
        [words[2], words[3], low, high]
    }

    #[inline(always)]
    fn pair(x: [f32; 2]) -> Option<u32> {
        Some(f32x2_to_bf16x2_cvt(x[0], x[1]))
    }
}

impl Output for f16 {
    #[inline(always)]
    fn push(words: [u32; 4], x: [f32; CHUNK]) -> [u32; 4] {
        let pair = |low, high| u32::from(f32_to_f16(low)) | u32::from(f32_to_f16(high)) << 16;
        [words[2], words[3], pair(x[0], x[1]), pair(x[2], x[3])]
    }

    #[inline(always)]
    fn pair(x: [f32; 2]) -> Option<u32> {
        Some(u32::from(f32_to_f16(x[0])) | u32::from(f32_to_f16(x[1])) << 16)
    }
}

/// How a kernel stores its results.
pub(super) trait Ending {
    /// The type of D, or that of 16 bits of those it may have.
    type Out: Output;
    /// Whether D is always of that type; else the tile is not [`LARGE`].
    const IS_OUT: bool;

    /// `d`, `elements` elements further on.
    fn offset(&self, d: *mut Self::Out, elements: i64) -> *mut Self::Out;

    /// What results are multiplied by, if nothing else happens to them.
    fn only_factor(&self) -> Option<f32>;

    /// Writes a warp's results, which begin at row `first.0` and column `first.1` of the tile, to
    /// their places in shared memory.
    ///
    /// # Safety
    /// `smem` has room for the tile's results, and nobody else accesses this warp's.
    unsafe fn stage<const M: usize, const N: usize>(
        tile: &MmaTile,
        acc: &[[Block; N]; M],
        smem: *mut f32,
        first: (u32, u32),
    );

    /// Reads the tile's results from shared memory, applies the epilogue and stores them. A thread
    /// stores 16 bytes in each of its rows, which are as far apart as the block's threads cover at
    /// once.
    ///
    /// # Safety
    /// All results have been staged; `target` and `params` describe writable memory.
    unsafe fn store(
        &self,
        tile: &MmaTile,
        smem: *const f32,
        target: &Target<Self::Out>,
        params: &GemmParams,
    );
}

/// Results of a type that is a constant of the kernel.
impl<Out: Output> Ending for OneByOne<Fused<Out>> {
    type Out = Out;
    const IS_OUT: bool = true;

    #[inline(always)]
    fn offset(&self, d: *mut Out, elements: i64) -> *mut Out {
        d.wrapping_offset(elements as isize)
    }

    #[inline(always)]
    fn only_factor(&self) -> Option<f32> {
        self.only_factor()
    }

    #[inline(always)]
    unsafe fn stage<const M: usize, const N: usize>(
        tile: &MmaTile,
        acc: &[[Block; N]; M],
        smem: *mut f32,
        first: (u32, u32),
    ) {
        // SAFETY: passed on to the caller.
        unsafe { stage::<Out, M, N>(tile, acc, smem, first) }
    }

    #[inline(always)]
    unsafe fn store(
        &self,
        tile: &MmaTile,
        smem: *const f32,
        target: &Target<Out>,
        params: &GemmParams,
    ) {
        // SAFETY: passed on to the caller.
        unsafe { store(tile, smem, target, params, self) }
    }
}

/// Writes a warp's results, which begin at row `first_row` and column `first_column` of the tile,
/// to their places in shared memory.
///
/// # Safety
/// `smem` has room for the tile's results, and nobody else accesses this warp's.
#[inline(always)]
unsafe fn stage<Out: Output, const M: usize, const N: usize>(
    tile: &MmaTile,
    acc: &[[Block; N]; M],
    smem: *mut f32,
    (first_row, first_column): (u32, u32),
) {
    let lane = thread::lane_idx();
    for i in 0..M {
        for j in 0..N {
            for half in 0..2 {
                let row = first_row + 16 * i as u32 + 8 * half as u32 + lane / 4;
                let column = first_column + 8 * j as u32 + lane % 4 * 2;
                let staged = tile.result_offset(row, column, Out::VECTOR);
                let pair = [acc[i][j][2 * half], acc[i][j][2 * half + 1]];
                // SAFETY: the caller's memory; pairs lie at multiples of 8 bytes.
                unsafe { mem::st_v2_f32(smem.add(staged as usize), pair) }
            }
        }
    }
}

/// Where a block's results go.
pub(super) struct Target<Out> {
    /// D in this matrix of the batch.
    pub(super) d: *mut Out,
    pub(super) batch: u64,
    /// Row and column of the tile's first result.
    pub(super) first_row: u32,
    pub(super) first_column: u32,
}

/// Reads the tile's results from shared memory, applies `epilogue` and stores them. A thread stores
/// 16 bytes in each of its rows, which are as far apart as the block's threads cover at once.
///
/// # Safety
/// All results have been staged; `target` and `params` describe writable memory.
#[inline(always)]
unsafe fn store<Out: Output>(
    tile: &MmaTile,
    smem: *const f32,
    target: &Target<Out>,
    params: &GemmParams,
    epilogue: &impl Epilogue,
) {
    let vectors = tile.tile_n / Out::VECTOR;
    let thread = thread::thread_idx_x();
    let column_in_tile = thread % vectors * Out::VECTOR;
    let first_column = target.first_column + column_in_tile;
    if first_column >= params.n {
        return;
    }
    let rows_left = params.m - target.first_row;
    let rows = rows_left.min(tile.tile_m);
    let ldd_bytes = params.ldd.wrapping_mul(size_of::<Out>() as i64);
    let is_aligned = (target.d.addr() as u32 | ldd_bytes as u32).is_multiple_of(VECTOR_BYTES);
    let is_whole = is_aligned && params.n - first_column >= Out::VECTOR;
    let mut row_in_tile = thread / vectors;
    while row_in_tile < rows {
        let row = target.first_row + row_in_tile;
        let at = i64::from(row) * params.ldd + i64::from(first_column);
        let to = target.d.wrapping_offset(at as isize);
        let mut words = [0; 4];
        // Opaque, so that the compiler does not unroll the loop and repeat the epilogue.
        let chunks = opaque(Out::VECTOR / CHUNK as u32);
        let mut chunk = 0;
        while chunk < chunks {
            let in_vector = chunk * CHUNK as u32;
            let staged = tile.result_offset(row_in_tile, column_in_tile + in_vector, Out::VECTOR);
            // SAFETY: in the tile; chunks lie at multiples of 16 bytes.
            let mut x = unsafe { mem::ld_v4_f32(smem.add(staged as usize)) };
            let column = first_column + in_vector;
            let coord = |i: usize| Coord {
                batch: target.batch,
                row,
                column: (column + i as u32).min(params.n - 1),
            };
            epilogue.apply_all(coord, &mut x);
            if is_whole {
                words = Out::push(words, x);
            } else {
                for i in 0..CHUNK {
                    if column + (i as u32) < params.n {
                        // SAFETY: in D.
                        unsafe { Out::store(to.add(in_vector as usize + i), x[i]) }
                    }
                }
            }
            chunk += 1;
        }
        if is_whole {
            // SAFETY: in D, aligned.
            unsafe { mem::st_v4_u32(to.cast(), words) }
        }
        row_in_tile += tile.threads() / vectors;
    }
}

/// Whether the results may go through [`stage_rounded`] and [`store_rounded`], if `alpha` is the
/// whole epilogue: all 16-byte chunks of D must be whole and aligned, and the tile large. Blocks
/// with a smaller tile are two to an SM: one stores while the other computes.
#[inline(always)]
pub(super) fn are_whole<Out: Output>(tile: &MmaTile, d: *const Out, params: &GemmParams) -> bool {
    let ldd_bytes = params.ldd.wrapping_mul(size_of::<Out>() as i64);
    tile.tile_m * tile.tile_n >= LARGE
        && Out::pair([0.0; 2]).is_some()
        && (d.addr() as u32 | ldd_bytes as u32).is_multiple_of(VECTOR_BYTES)
        && params.n.is_multiple_of(Out::VECTOR)
}

/// As [`stage`], for results that are multiplied by `factor` and rounded first.
///
/// # Safety
/// As for [`stage`].
#[inline(always)]
pub(super) unsafe fn stage_rounded<Out: Output, const M: usize, const N: usize>(
    tile: &MmaTile,
    acc: &[[Block; N]; M],
    smem: *mut u32,
    (first_row, first_column): (u32, u32),
    factor: f32,
) {
    let lane = thread::lane_idx();
    for i in 0..M {
        for j in 0..N {
            for half in 0..2 {
                let row = first_row + 16 * i as u32 + 8 * half as u32 + lane / 4;
                let staged = tile.rounded_offset(row, first_column + 8 * j as u32);
                let pair = [
                    factor * acc[i][j][2 * half],
                    factor * acc[i][j][2 * half + 1],
                ];
                if let Some(word) = Out::pair(pair) {
                    // SAFETY: the caller's memory.
                    unsafe { smem.add((4 * staged + lane % 4) as usize).write(word) }
                }
            }
        }
    }
}

/// As [`store`], for what [`stage_rounded`] staged: plain copies, several of which ptxas keeps in
/// flight.
///
/// # Safety
/// As for [`store`]; [`are_whole`] returned true.
#[inline(always)]
pub(super) unsafe fn store_rounded<Out: Output>(
    tile: &MmaTile,
    smem: *const u32,
    target: &Target<Out>,
    params: &GemmParams,
) {
    let vectors = tile.tile_n / Out::VECTOR;
    let thread = thread::thread_idx_x();
    let column_in_tile = thread % vectors * Out::VECTOR;
    let first_column = target.first_column + column_in_tile;
    if first_column >= params.n {
        return;
    }
    let rows = (params.m - target.first_row).min(tile.tile_m);
    let rows_at_once = tile.threads() / vectors;
    let row_step = (i64::from(rows_at_once) * params.ldd) as isize;
    let smem_step = VECTOR_BYTES * rows_at_once * vectors;
    let mut row = thread / vectors;
    let at = i64::from(target.first_row + row) * params.ldd + i64::from(first_column);
    let mut to = target.d.wrapping_offset(at as isize);
    // All rows of a thread have the same swizzle.
    let from = smem.wrapping_add(4 * tile.rounded_offset(row, column_in_tile) as usize);
    // SAFETY: shared memory.
    let mut from = unsafe { SharedAddr::of(from) };
    while row < rows {
        // SAFETY: in the tile and in D, aligned.
        unsafe { mem::st_v4_u32(to.cast(), mem::ld_shared_v4_u32(from)) }
        row += rows_at_once;
        from = from.add_bytes(smem_step);
        to = to.wrapping_offset(row_step);
    }
}
