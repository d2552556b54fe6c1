//! From accumulators to D by tensor copies: rounded, brought to a swizzled box in shared memory,
//! copied.
//!
//! Each warp works alone on its 16 rows: it has boxes of its own, so no barrier is waited at.

use core::marker::PhantomData;

use cuda_std::accumulator::Accumulator;
use cuda_std::convert::{f32x2_to_bf16x2_cvt, f32x2_to_f16x2_cvt};
use cuda_std::elect::elect_sync;
use cuda_std::element::Element;
use cuda_std::fence::fence_proxy_async_shared_cta;
use cuda_std::ldmatrix::stmatrix_x4;
use cuda_std::mem::{st_shared_v2_f32, st_v2_u32};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::tma::{self, TensorMap};
use cuda_std::warp::{FULL_MASK, bar_warp_sync};
use cuda_std::wgmma::MmaAsync;
use half::{bf16, f16};
use spec::gemm::GemmParams;
use spec::gemm::sm90::{MMA_M, SPAN_BYTES, STORE_BUFFERS, STORE_BYTES, STORE_ROWS, WARPGROUP};
use spec::swizzle::Swizzle;
use spec::tensor_core::ldmatrix::tile_16x16;

/// Columns that are brought to a box at a time: 16 results a thread.
const GROUP: u32 = 32;

/// An element type of D.
pub(crate) trait StoreElement: Element {
    /// Columns of a box.
    const BOX_COLUMNS: u32 = SPAN_BYTES / size_of::<Self>() as u32;

    /// Writes a warp's 16 × [`GROUP`] results to its box, from byte `column_bytes` of the rows on.
    ///
    /// # Safety
    /// The warp calls it, converged; the box is its own.
    unsafe fn write(to: SharedAddr, column_bytes: u32, x: &[f32; 16]);

    /// As [`Element::store4`], by the conversions of newer GPUs.
    ///
    /// # Safety
    /// As for it.
    unsafe fn store4_cvt(to: *mut Self, x: [f32; 4]);
}

macro_rules! sixteen_bits {
    ($ty:ty, $pair:path) => {
        impl StoreElement for $ty {
            #[inline(always)]
            unsafe fn write(to: SharedAddr, column_bytes: u32, x: &[f32; 16]) {
                let lane = tile_16x16(thread::thread_idx_x() % 32);
                let mut half = 0;
                while half < 2 {
                    let x = |at: usize| $pair(x[8 * half + at], x[8 * half + at + 1]);
                    let column_bytes = column_bytes + 32 * half as u32 + 2 * lane.column;
                    let offset = Swizzle::B128.offset_bytes(lane.row, column_bytes);
                    // SAFETY: inside of the box.
                    unsafe { stmatrix_x4(to.add_bytes(offset), [x(0), x(2), x(4), x(6)]) };
                    half += 1;
                }
            }

            #[inline(always)]
            unsafe fn store4_cvt(to: *mut Self, [a, b, c, d]: [f32; 4]) {
                // SAFETY: passed on to the caller.
                unsafe { st_v2_u32(to.cast(), [$pair(a, b), $pair(c, d)]) }
            }
        }
    };
}

sixteen_bits!(f16, f32x2_to_f16x2_cvt);
sixteen_bits!(bf16, f32x2_to_bf16x2_cvt);

impl StoreElement for f32 {
    #[inline(always)]
    unsafe fn write(to: SharedAddr, column_bytes: u32, x: &[f32; 16]) {
        let lane = thread::thread_idx_x() % 32;
        let mut at = 0;
        while at < 16 {
            let row = lane / 4 + at / 2 % 2 * 8;
            let column_bytes = column_bytes + at / 4 * 32 + lane % 4 * 8;
            let offset = Swizzle::B128.offset_bytes(row, column_bytes);
            let pair = [x[at as usize], x[at as usize + 1]];
            // SAFETY: inside of the box.
            unsafe { st_shared_v2_f32(to.add_bytes(offset), pair) };
            at += 2;
        }
    }

    #[inline(always)]
    unsafe fn store4_cvt(to: *mut Self, x: [f32; 4]) {
        // SAFETY: passed on to the caller.
        unsafe { Self::store4(to, x) }
    }
}

/// A warp's way to D, by boxes of shared memory that it has for itself.
pub(crate) trait Store {
    /// Stores a warpgroup's accumulators, whose first element is at `(row, column, batch)`.
    ///
    /// # Safety
    /// The warps of the warpgroup call it, converged.
    unsafe fn tile<M: MmaAsync<Acc: AsRef<[f32]>>, const BLOCKS: usize, const TILE_N: u32>(
        &mut self,
        acc: &Accumulator<M, BLOCKS>,
        at: (u32, u32, u32),
    );

    /// Waits until the boxes may go.
    fn finish(self);
}

/// The boxes of this warp, among those at `boxes`.
#[inline(always)]
pub(super) fn own_boxes(boxes: SharedAddr) -> SharedAddr {
    let warp = (thread::thread_idx_x() - WARPGROUP) / 32;
    boxes.add_bytes(warp * STORE_BUFFERS * STORE_BYTES)
}

/// `alpha * acc`, by tensor copies.
pub(crate) struct ByMap<Out> {
    map: *const TensorMap,
    alpha: f32,
    m: u32,
    n: u32,
    boxes: SharedAddr,
    next: u32,
    element: PhantomData<Out>,
}

impl<Out: StoreElement> ByMap<Out> {
    /// # Safety
    /// `map` is of the D of `params`; the boxes at `boxes` are free.
    #[inline(always)]
    pub(crate) unsafe fn new(
        map: *const TensorMap,
        params: &GemmParams,
        boxes: SharedAddr,
    ) -> Self {
        Self {
            map,
            alpha: params.alpha,
            m: params.m,
            n: params.n,
            boxes: own_boxes(boxes),
            next: 0,
            element: PhantomData,
        }
    }

    /// A box: 16 rows of as many columns as a swizzle spans, of which `x` is the thread's part.
    #[inline(always)]
    unsafe fn store_box(&mut self, registers: &[f32], of_tile: u32, at: [i32; 3]) {
        let to = self.boxes.add_bytes(self.next * STORE_BYTES);
        self.next = (self.next + 1) % STORE_BUFFERS;
        // SAFETY: the warp's lanes are here together. The copy that last read this box was issued
        // by the same lane, which waits for it; what the lanes write is fenced before it is read.
        unsafe {
            let leader = elect_sync(FULL_MASK);
            if leader {
                const { assert!(STORE_BUFFERS == 2) };
                tma::cp_async_bulk_wait_group_read::<1>();
            }
            bar_warp_sync(FULL_MASK);
            let mut within = 0;
            while within < Out::BOX_COLUMNS {
                let mut x = [0.0; 16];
                let mut i = 0;
                while i < x.len() {
                    x[i] = self.alpha * registers[(of_tile + within) as usize / 2 + i];
                    i += 1;
                }
                Out::write(to, within * size_of::<Out>() as u32, &x);
                within += GROUP;
            }
            fence_proxy_async_shared_cta();
            bar_warp_sync(FULL_MASK);
            if leader {
                tma::cp_async_bulk_tensor_3d_global_shared_cta(self.map, at, to);
                tma::cp_async_bulk_commit_group();
            }
        }
    }
}

impl<Out: StoreElement> Store for ByMap<Out> {
    #[inline(always)]
    unsafe fn tile<M: MmaAsync<Acc: AsRef<[f32]>>, const BLOCKS: usize, const TILE_N: u32>(
        &mut self,
        acc: &Accumulator<M, BLOCKS>,
        (row, column, batch): (u32, u32, u32),
    ) {
        let warp_row = thread::thread_idx_x() % WARPGROUP / 32 * STORE_ROWS;
        let mut block = 0;
        while block < BLOCKS {
            let row = row + block as u32 * MMA_M + warp_row;
            let mut of_tile = 0;
            while of_tile < TILE_N {
                let column = column + of_tile;
                // What is partly beyond D the copy clips; a box wholly beyond is not worth one.
                if row < self.m && column < self.n {
                    let at = [column, row, batch].map(|coordinate| coordinate as i32);
                    // SAFETY: passed on to the caller.
                    unsafe { self.store_box(acc.registers()[block].as_ref(), of_tile, at) };
                }
                of_tile += Out::BOX_COLUMNS;
            }
            block += 1;
        }
    }

    #[inline(always)]
    fn finish(self) {
        tma::cp_async_bulk_wait_group_read::<0>();
    }
}
