//! One block's work.

use core::marker::PhantomData;

use cuda_std::cp_async::{cp_async_commit_group, cp_async_wait_group};
use cuda_std::epilogue::Epilogue;
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::thread::{self, sync_threads};
use spec::gemm::{GemmParams, MmaTile, OperandMap, batch_idx};

use super::fragments::{Reader, Stage};
use super::operand::{COPIES_MAX, InFlight, Operand, Staging, Walk};
use super::product::{Block, FragmentA, FragmentB, Product};
use super::results::{self, Output, Target};

/// What an entry is: its tile, its products, and where k is contiguous.
pub(super) trait Kernel {
    /// Element types and instructions.
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

/// The fragments of one step of k: `M` times 16 rows, `N` times 8 columns.
#[derive(Clone, Copy)]
struct Fragments<const M: usize, const N: usize> {
    a: [FragmentA; M],
    b: [FragmentB; N],
}

/// Both operands' fragments.
struct Readers {
    a: Reader,
    b: Reader,
}

impl Readers {
    #[inline(always)]
    unsafe fn load<K: Kernel, const M: usize, const N: usize>(
        &self,
        stage: Stage,
        k_step: u32,
    ) -> Fragments<M, N> {
        let stage_b = stage.add_bytes(K::TILE.stage_a_bytes());
        let mut fragments = Fragments {
            a: [[0; 4]; M],
            b: [[0; 2]; N],
        };
        // SAFETY: the caller's stage has been copied.
        unsafe {
            for i in 0..M {
                fragments.a[i] = self.a.load(&StagingA::<K>::MAP, stage, k_step, i as u32);
            }
            for j in 0..N / 2 {
                let two = self.b.load(&StagingB::<K>::MAP, stage_b, k_step, j as u32);
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

/// `acc += a * b`, back and forth, so that a fragment stays in its registers' caches.
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
            // SAFETY: the caller's.
            unsafe { P::multiply(&mut acc[i][j], fragments.a[i], fragments.b[j]) }
        }
    }
}

/// Both operands on their way into the stages.
struct Copies<K> {
    a: Operand<StagingA<K>>,
    b: Operand<StagingB<K>>,
    walk_a: Walk,
    walk_b: Walk,
    fast_a: bool,
    fast_b: bool,
    /// Which tile of k the block takes as its `i`th: the last one first, as only it may be short.
    k_tiles: u32,
    /// The first stage.
    base: Stage,
}

impl<K: Kernel> Copies<K> {
    /// Whether there are copies of the block's `i`th tile of k that cannot be made fast: of
    /// operands that are not aligned, and of the tile that may be short.
    #[inline(always)]
    fn is_slow(&self, i: u32) -> bool {
        i == 0 || (i < self.k_tiles && !(self.fast_a && self.fast_b))
    }

    /// Starts those copies.
    #[inline(always)]
    unsafe fn slow(&self, i: u32, stage: u32) {
        let is_first = i == 0;
        let k_tile_idx = if is_first { self.k_tiles - 1 } else { i - 1 };
        let to = self.base.add_bytes(stage);
        // SAFETY: the caller's stage is free.
        unsafe {
            if is_first || !self.fast_a {
                self.a.copy_any(k_tile_idx, to);
            }
            if is_first || !self.fast_b {
                let to = to.add_bytes(K::TILE.stage_a_bytes());
                self.b.copy_any(k_tile_idx, to);
            }
        }
    }

    /// Loads the block's `i`th tile of k into registers, as far as its copies are fast.
    #[inline(always)]
    unsafe fn fetch(&mut self, i: u32) -> (InFlight, InFlight) {
        let (mut a, mut b) = ([[0; 4]; COPIES_MAX], [[0; 4]; COPIES_MAX]);
        // SAFETY: the operand is fast, the tile not the first.
        unsafe {
            if i < self.k_tiles && self.fast_a {
                a = self.walk_a.fetch::<StagingA<K>>();
            }
            if i < self.k_tiles && self.fast_b {
                b = self.walk_b.fetch::<StagingB<K>>();
            }
        }
        (a, b)
    }

    /// Writes what [`fetch`](Self::fetch) loaded.
    #[inline(always)]
    unsafe fn put(&self, i: u32, (a, b): &(InFlight, InFlight), stage: u32) {
        let to = self.base.add_bytes(stage);
        // SAFETY: the caller's stage is free.
        unsafe {
            if i < self.k_tiles && self.fast_a {
                self.walk_a.put::<StagingA<K>>(a, to.smem);
            }
            if i < self.k_tiles && self.fast_b {
                let to = to.add_bytes(K::TILE.stage_a_bytes());
                self.walk_b.put::<StagingB<K>>(b, to.smem);
            }
        }
    }

    /// Starts part `part` of `parts` of the fast copies of the block's `i`th tile of k, which is not
    /// its first.
    #[inline(always)]
    unsafe fn fast(&mut self, i: u32, part: u32, parts: u32, stage: u32) {
        let to = self.base.add_bytes(stage);
        let wanted = i < self.k_tiles;
        // SAFETY: the caller's stage is free.
        unsafe {
            let copies = StagingA::<K>::COPIES;
            let wanted_a = wanted && self.fast_a;
            for copy in copies * part / parts..copies * (part + 1) / parts {
                self.walk_a.copy::<StagingA<K>>(copy, to.addr, wanted_a);
            }
            let copies = StagingB::<K>::COPIES;
            let wanted_b = wanted && self.fast_b;
            let to = to.add_bytes(K::TILE.stage_a_bytes());
            for copy in copies * part / parts..copies * (part + 1) / parts {
                self.walk_b.copy::<StagingB<K>>(copy, to.addr, wanted_b);
            }
        }
    }
}

/// Ends a group of copies in the background.
#[inline(always)]
fn commit<K: Kernel>() {
    if K::Product::ASYNC {
        cp_async_commit_group();
    }
}

/// Waits for all groups but the latest `LATEST`.
#[inline(always)]
fn wait<K: Kernel, const LATEST: u32>() {
    if K::Product::ASYNC {
        cp_async_wait_group::<LATEST>();
    }
}

/// The next stage, in bytes from the first.
#[inline(always)]
fn next_stage<K: Kernel>(stage: u32) -> u32 {
    let next = stage + K::TILE.stage_bytes();
    if next == K::TILE.stages * K::TILE.stage_bytes() {
        0
    } else {
        next
    }
}

/// The tile's products over all of k: `acc += A @ B`.
///
/// # Safety
/// As [`gemm`].
#[inline(always)]
unsafe fn main_loop<K: Kernel, const M: usize, const N: usize, const STAGES_LESS_2: u32>(
    copies: &mut Copies<K>,
    readers: &Readers,
    acc: &mut [[Block; N]; M],
) {
    let k_steps = K::TILE.k_steps();
    let k_tiles = copies.k_tiles;
    // The block takes tile `i - ahead` of k while the `i`th is copied.
    let ahead = STAGES_LESS_2 + 1;
    let end = if k_tiles > 0 { k_tiles + ahead } else { 0 };
    let (mut write, mut read) = (0, 0);
    let mut fragments = Fragments {
        a: [[0; 4]; M],
        b: [[0; 2]; N],
    };
    let mut i = 0;
    // SAFETY: a stage is written after the barrier that follows its last reads, and read after
    // the barrier that follows the wait for its copies.
    unsafe {
        while i < end {
            if copies.is_slow(i) {
                copies.slow(i, write);
            }
            if i < ahead {
                if K::Product::ASYNC && i > 0 {
                    copies.fast(i, 0, 1, write);
                }
                commit::<K>();
                if i + 1 == ahead {
                    wait::<K, STAGES_LESS_2>();
                    sync_threads();
                    fragments = readers.load::<K, M, N>(copies.base, 0);
                }
            } else {
                // One block without branches, so that the assembler weaves it: products, the
                // fragments of the next step, copies.
                let mut flight = Default::default();
                for k_step in 0..k_steps {
                    let next;
                    if k_step + 1 < k_steps {
                        let stage = copies.base.add_bytes(read);
                        next = readers.load::<K, M, N>(stage, k_step + 1);
                        if K::Product::ASYNC {
                            copies.fast(i, k_step, k_steps - 1, write);
                        } else if k_step == 0 {
                            flight = copies.fetch(i);
                        }
                    } else {
                        if !K::Product::ASYNC {
                            copies.put(i, &flight, write);
                        }
                        commit::<K>();
                        wait::<K, STAGES_LESS_2>();
                        sync_threads();
                        // After the last tile there is none to read: its own does no harm.
                        if i + 1 < end {
                            read = next_stage::<K>(read);
                        }
                        next = readers.load::<K, M, N>(copies.base.add_bytes(read), 0);
                    }
                    multiply::<K::Product, M, N>(acc, &fragments);
                    fragments = next;
                }
            }
            write = next_stage::<K>(write);
            i += 1;
        }
    }
}

/// One block's work. `M` and `N` are the 16s of rows and the 8s of columns of a warp.
///
/// # Safety
/// As the launch's: `params` describes what the pointers point to, the grid is
/// [`MmaTile::grid`], and dynamic shared memory is [`MmaTile::smem_bytes`].
#[inline(always)]
pub(super) unsafe fn gemm<
    K: Kernel,
    Out: Output,
    const M: usize,
    const N: usize,
    const STAGES_LESS_2: u32,
>(
    a: *const <K::Product as Product>::A,
    b: *const <K::Product as Product>::B,
    d: *mut Out,
    params: &GemmParams,
    epilogue: impl Epilogue,
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
    let mut acc = [[[0.0; 4]; N]; M];
    // SAFETY: the caller's pointers and parameters.
    unsafe {
        let offset = |stride: i64| (batch as i64).wrapping_mul(stride) as isize;
        let a = a.wrapping_offset(offset(params.batch_stride_a));
        let b = b.wrapping_offset(offset(params.batch_stride_b));
        let a = Operand::<StagingA<K>>::new(a, params.lda, params.m, first_row, params.k);
        let b = Operand::<StagingB<K>>::new(b, params.ldb, params.n, first_column, params.k);
        let mut copies = Copies::<K> {
            walk_a: a.walk(),
            walk_b: b.walk(),
            fast_a: a.is_fast(),
            fast_b: b.is_fast(),
            a,
            b,
            k_tiles: params.k.div_ceil(StagingA::<K>::MAP.tile_k()),
            base: Stage {
                addr: SharedAddr::of(smem),
                smem,
            },
        };
        let readers = Readers {
            a: Reader::of_a(&StagingA::<K>::MAP, warp_row),
            b: Reader::of_b(&StagingB::<K>::MAP, warp_column),
        };
        main_loop::<K, M, N, STAGES_LESS_2>(&mut copies, &readers, &mut acc);
        sync_threads(); // all have read their fragments: results may lie over them
        results::stage::<Out, M, N>(tile, &acc, smem.cast(), (warp_row, warp_column));
        sync_threads();
        let target = Target {
            d: d.wrapping_offset((batch as i64).wrapping_mul(params.batch_stride_d) as isize),
            batch,
            first_row,
            first_column,
        };
        results::store(tile, smem.cast(), &target, params, &epilogue);
    }
}
