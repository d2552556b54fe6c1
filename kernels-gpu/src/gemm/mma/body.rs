//! One block's work: the mainloop and the copies that run ahead of it.

use core::marker::PhantomData;

use abi::gemm::{GemmParams, MmaTile, OperandMap, batch_idx};
use cuda_std::cp_async::{cp_async_commit_group, cp_async_wait_group};
use cuda_std::shared::dynamic_base;
use cuda_std::thread::{self, sync_threads};

use super::fragments::Reader;
use super::operand::{CopyState, InFlight, Operand, Staging};
use super::product::{Block, FragmentA, FragmentB, Product};
use super::results::{self, Ending, Target};

/// What makes one kernel: its tile, its instruction, and each operand's major order.
pub(super) trait Kernel {
    /// Element types and the `mma` instruction.
    type Product: Product;
    /// The tile.
    const TILE: MmaTile;
    /// Whether A is K-major.
    const A_K: bool;
    /// Whether B is K-major.
    const B_K: bool;
}

/// [`Staging`] of A.
struct StagingA<K>(PhantomData<K>);

impl<K: Kernel> Staging for StagingA<K> {
    const MAP: OperandMap = K::TILE.map_a(K::A_K, size_of::<<K::Product as Product>::A>() as u32);
    const THREADS: u32 = K::TILE.threads();
    const ASYNC: bool = K::Product::ASYNC;
}

/// [`Staging`] of B.
struct StagingB<K>(PhantomData<K>);

impl<K: Kernel> Staging for StagingB<K> {
    const MAP: OperandMap = K::TILE.map_b(K::B_K, size_of::<<K::Product as Product>::B>() as u32);
    const THREADS: u32 = K::TILE.threads();
    const ASYNC: bool = K::Product::ASYNC;
}

/// The fragments of one k step: `M` of 16 rows of A, `N` of 8 columns of B.
#[derive(Clone, Copy)]
struct Fragments<const M: usize, const N: usize> {
    a: [FragmentA; M],
    b: [FragmentB; N],
}

/// Where the fragments of both operands are in the stage that is read.
struct Readers {
    a: Reader,
    b: Reader,
}

impl Readers {
    /// Moves to the stage `bytes` further on, or back if negative.
    #[inline(always)]
    fn advance(&mut self, bytes: i32) {
        self.a.advance(bytes);
        self.b.advance(bytes);
    }

    #[inline(always)]
    unsafe fn load<K: Kernel, const M: usize, const N: usize>(
        &self,
        k_step: u32,
    ) -> Fragments<M, N> {
        let mut fragments = Fragments {
            a: [[0; 4]; M],
            b: [[0; 2]; N],
        };
        // SAFETY: the caller's stage has been copied.
        unsafe {
            for i in 0..M {
                fragments.a[i] = self.a.load(&StagingA::<K>::MAP, k_step, i as u32);
            }
            for j in 0..N / 2 {
                let two = self.b.load(&StagingB::<K>::MAP, k_step, j as u32);
                fragments.b[2 * j] = [two[0], two[1]];
                fragments.b[2 * j + 1] = [two[2], two[3]];
            }
        }
        for i in 0..M {
            for word in 0..4 {
                fragments.a[i][word] = K::Product::prepared(fragments.a[i][word]);
            }
        }
        for j in 0..N {
            for word in 0..2 {
                fragments.b[j][word] = K::Product::prepared(fragments.b[j][word]);
            }
        }
        fragments
    }
}

/// `acc += a * b`, with every other row of blocks backwards (a meander), so that consecutive `mma`s
/// share a fragment, which stays in the register reuse caches.
///
/// # Safety
/// All lanes of the warp execute it.
#[inline(always)]
unsafe fn multiply<P: Product, const M: usize, const N: usize>(
    acc: &mut [[Block; N]; M],
    fragments: &Fragments<M, N>,
) {
    for i in 0..M {
        for step in 0..N {
            let j = if i % 2 == 0 { step } else { N - 1 - step };
            // SAFETY: the caller's promise: the warp is converged.
            unsafe { P::multiply(&mut acc[i][j], fragments.a[i], fragments.b[j]) }
        }
    }
}

/// The copies of both operands into the stages. A copy is *fast* if it moves whole 16-byte chunks.
struct Copies<K> {
    a: Operand<StagingA<K>>,
    b: Operand<StagingB<K>>,
    copy_a: CopyState,
    copy_b: CopyState,
    fast_a: bool,
    fast_b: bool,
    /// Number of k tiles. The last one may be short, and is then computed first.
    k_tiles: u32,
    /// How many k tiles at the beginning are not copied fast: 1, if the last tile is computed
    /// first.
    slow_tiles: u32,
    /// The stage that is written.
    smem: *mut u8,
}

impl<K: Kernel> Copies<K> {
    /// Moves to the stage `bytes` further on, or back if negative.
    #[inline(always)]
    fn advance_stage(&mut self, bytes: i32) {
        self.copy_a.advance_stage(bytes);
        self.copy_b.advance_stage(bytes);
        self.smem = self.smem.wrapping_offset(bytes as isize);
    }

    /// Whether all copies are fast, except those of the first `slow_tiles`.
    #[inline(always)]
    fn are_fast(&self) -> bool {
        self.fast_a && self.fast_b
    }

    /// Whether the block's `i`th k tile is one that is not copied fast, the last one of k.
    #[inline(always)]
    fn is_short(&self, i: u32) -> bool {
        i < self.slow_tiles
    }

    /// Starts those copies of the block's `i`th k tile that are not fast: of unaligned operands,
    /// and of a short k tile.
    #[inline(always)]
    unsafe fn slow(&self, i: u32) {
        let is_short = self.is_short(i);
        let k_tile_idx = match () {
            () if is_short => self.k_tiles - 1,
            () if i < self.k_tiles => i - self.slow_tiles,
            () => i, // beyond the last k tile: zeros
        };
        // SAFETY: the caller's stage is free.
        unsafe {
            if is_short || !self.fast_a {
                self.a.copy_any(k_tile_idx, self.smem);
            }
            if is_short || !self.fast_b {
                let smem = self.smem.wrapping_add(K::TILE.stage_a_bytes() as usize);
                self.b.copy_any(k_tile_idx, smem);
            }
        }
    }

    /// Loads the fast copies of the block's `i`th k tile into registers.
    #[inline(always)]
    unsafe fn fetch(&mut self, i: u32) -> (InFlight, InFlight) {
        let is_there = i < self.k_tiles;
        // SAFETY: the operand is fast, the tile not short.
        unsafe {
            (
                self.copy_a.fetch::<StagingA<K>>(is_there && self.fast_a),
                self.copy_b.fetch::<StagingB<K>>(is_there && self.fast_b),
            )
        }
    }

    /// Writes what [`fetch`](Self::fetch) loaded into the stage.
    #[inline(always)]
    unsafe fn put(&self, (a, b): &(InFlight, InFlight)) {
        // SAFETY: the caller's stage is free.
        unsafe {
            if self.fast_a {
                self.copy_a.put::<StagingA<K>>(a);
            }
            if self.fast_b {
                self.copy_b.put::<StagingB<K>>(b);
            }
        }
    }

    /// For A and B: how many rows of the block's `i`th k tile this thread copies chunks of.
    #[inline(always)]
    fn rows(&self, i: u32) -> (u32, u32) {
        let is_there = i < self.k_tiles;
        (self.copy_a.rows(is_there), self.copy_b.rows(is_there))
    }

    /// Starts part `part` of `parts` of the fast copies of a whole k tile, for these numbers of
    /// rows.
    #[inline(always)]
    unsafe fn fast(&mut self, (rows_a, rows_b): (u32, u32), part: u32, parts: u32) {
        // SAFETY: the caller's stage is free.
        unsafe {
            let copies = StagingA::<K>::COPIES;
            for copy in copies * part / parts..copies * (part + 1) / parts {
                self.copy_a.copy::<StagingA<K>>(copy, rows_a, self.fast_a);
            }
            let copies = StagingB::<K>::COPIES;
            for copy in copies * part / parts..copies * (part + 1) / parts {
                self.copy_b.copy::<StagingB<K>>(copy, rows_b, self.fast_b);
            }
        }
    }
}

/// Commits the thread's copies as a group.
#[inline(always)]
fn commit<K: Kernel>() {
    if K::Product::ASYNC {
        cp_async_commit_group();
    }
}

/// Waits until at most the latest `LATEST` groups are pending.
#[inline(always)]
fn wait<K: Kernel, const LATEST: u32>() {
    if K::Product::ASYNC {
        cp_async_wait_group::<LATEST>();
    }
}

/// A stage, as its offset in bytes from the first.
#[derive(Clone, Copy)]
struct Stage(u32);

impl Stage {
    /// Advances to the next stage of the ring. Returns the distance in bytes, negative at the wrap.
    #[inline(always)]
    fn next<K: Kernel>(&mut self) -> i32 {
        let (bytes, all) = (
            K::TILE.stage_bytes(),
            K::TILE.stages * K::TILE.stage_bytes(),
        );
        let is_last = self.0 + bytes == all;
        let step = if is_last {
            bytes as i32 - all as i32
        } else {
            bytes as i32
        };
        self.0 = self.0.wrapping_add_signed(step);
        step
    }
}

/// The mainloop over all of k: `acc += A @ B`.
///
/// # Safety
/// As [`gemm`].
#[inline(always)]
unsafe fn main_loop<K: Kernel, const M: usize, const N: usize, const STAGES_LESS_2: u32>(
    copies: &mut Copies<K>,
    readers: &mut Readers,
    acc: &mut [[Block; N]; M],
) {
    let k_steps = K::TILE.k_steps();
    let k_tiles = copies.k_tiles;
    // While the `i`th k tile is copied, the one `ahead` before it is computed.
    let ahead = STAGES_LESS_2 + 1;
    let end = k_tiles + ahead;
    if k_tiles == 0 {
        return;
    }
    let (mut write, mut read) = (Stage(0), Stage(0));
    let mut fragments = Fragments {
        a: [[0; 4]; M],
        b: [[0; 2]; N],
    };
    let mut i = 0;
    // SAFETY: a stage is written after the barrier that follows its last reads, and read after
    // the barrier that follows the wait for its copies.
    unsafe {
        loop {
            let is_short = copies.is_short(i);
            if is_short || !copies.are_fast() {
                copies.slow(i);
            }
            if i < ahead {
                if K::Product::ASYNC && !is_short {
                    copies.fast(copies.rows(i), 0, 1);
                }
                commit::<K>();
                copies.advance_stage(write.next::<K>());
                i += 1;
                if i == ahead {
                    wait::<K, STAGES_LESS_2>();
                    sync_threads();
                    fragments = readers.load::<K, M, N>(0);
                }
                continue;
            }
            // If all copies are fast, the loop body has no branches: one basic block, in which
            // ptxas interleaves `mma`s, the loads of the next step's fragments, and copies.
            let until = if copies.are_fast() { end } else { i + 1 };
            loop {
                let rows = copies.rows(i);
                let mut flight = Default::default();
                for k_step in 0..k_steps {
                    let next;
                    if k_step + 1 < k_steps {
                        next = readers.load::<K, M, N>(k_step + 1);
                        if K::Product::ASYNC {
                            copies.fast(rows, k_step, k_steps - 1);
                        } else if k_step == 0 {
                            flight = copies.fetch(i);
                        }
                    } else {
                        if !K::Product::ASYNC {
                            copies.put(&flight);
                        }
                        commit::<K>();
                        wait::<K, STAGES_LESS_2>();
                        sync_threads();
                        // After the last k tile these are the fragments of a tile of zeros.
                        readers.advance(read.next::<K>());
                        next = readers.load::<K, M, N>(0);
                    }
                    multiply::<K::Product, M, N>(acc, &fragments);
                    fragments = next;
                }
                copies.advance_stage(write.next::<K>());
                i += 1;
                if i == until {
                    break;
                }
            }
            if i == end {
                break;
            }
        }
    }
}

/// One block's work. A warp's results are `M` × 16 rows and `N` × 8 columns.
///
/// # Safety
/// As the launch's: `params` describes what the pointers point to, the grid is
/// [`MmaTile::grid`], and dynamic shared memory is [`MmaTile::smem_bytes`].
#[inline(always)]
pub(super) unsafe fn gemm<
    K: Kernel,
    E: Ending,
    const M: usize,
    const N: usize,
    const STAGES_LESS_2: u32,
>(
    a: *const <K::Product as Product>::A,
    b: *const <K::Product as Product>::B,
    d: *mut E::Out,
    params: &GemmParams,
    ending: E,
) {
    let batch = batch_idx(
        thread::block_idx_y(),
        thread::block_idx_z(),
        thread::grid_dim_y(),
    );
    if batch >= u64::from(params.batch) {
        return;
    }
    let tile = &K::TILE;
    let (m_tile_idx, n_tile_idx) = tile.tile_coordinates(thread::block_idx_x(), params.m, params.n);
    let (first_row, first_column) = (m_tile_idx * tile.tile_m, n_tile_idx * tile.tile_n);
    let warp = thread::thread_idx_x() / thread::WARP_THREADS;
    let warp_row = warp % tile.warps_m * tile.warp_m();
    let warp_column = warp / tile.warps_m * tile.warp_n();
    let smem = dynamic_base();
    let smem_b = smem.wrapping_add(tile.stage_a_bytes() as usize);
    let mut acc = [[[0.0; 4]; N]; M];
    // SAFETY: the caller's pointers and parameters.
    unsafe {
        let offset = |stride: i64| (batch as i64).wrapping_mul(stride) as isize;
        let a = a.wrapping_offset(offset(params.batch_stride_a));
        let b = b.wrapping_offset(offset(params.batch_stride_b));
        let a = Operand::<StagingA<K>>::new(a, params.lda, params.m, first_row, params.k);
        let b = Operand::<StagingB<K>>::new(b, params.ldb, params.n, first_column, params.k);
        let tile_k = StagingA::<K>::MAP.tile_k();
        let mut copies = Copies::<K> {
            copy_a: a.copy_state(smem),
            copy_b: b.copy_state(smem_b),
            fast_a: a.is_fast(),
            fast_b: b.is_fast(),
            a,
            b,
            k_tiles: params.k.div_ceil(tile_k),
            // Copies through registers need an earlier k tile to run behind, so the first is slow.
            slow_tiles: u32::from(!K::Product::ASYNC || !params.k.is_multiple_of(tile_k)),
            smem,
        };
        let mut readers = Readers {
            a: Reader::of_a(&StagingA::<K>::MAP, smem, warp_row),
            b: Reader::of_b(&StagingB::<K>::MAP, smem_b, warp_column),
        };
        main_loop::<K, M, N, STAGES_LESS_2>(&mut copies, &mut readers, &mut acc);
        let target = Target {
            d: ending.offset(d, (batch as i64).wrapping_mul(params.batch_stride_d)),
            batch,
            first_row,
            first_column,
        };
        const { assert!(E::IS_OUT || K::TILE.tile_m * K::TILE.tile_n < results::LARGE) };
        let is_whole = results::are_whole(tile, target.d, params);
        let factor = ending.only_factor().filter(|_| is_whole);
        let first = (warp_row, warp_column);
        // The results take the place of the stages: the zeros copied beyond the last k tile must
        // have landed, and all warps must have read their fragments.
        wait::<K, 0>();
        sync_threads();
        match factor {
            Some(factor) => {
                results::stage_rounded::<E::Out, M, N>(tile, &acc, smem.cast(), first, factor);
            }
            None => E::stage(tile, &acc, smem.cast(), first),
        }
        sync_threads();
        match factor {
            Some(_) => results::store_rounded(tile, smem.cast(), &target, params),
            None => ending.store(tile, smem.cast(), &target, params),
        }
    }
}
