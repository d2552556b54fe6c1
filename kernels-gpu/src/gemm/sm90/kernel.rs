//! `D = epilogue(A @ B)`, batched, on Hopper.
//!
//! A and B are `[m, k]` and `[n, k]` in f16, bf16, tf32 or 8 bits, with either extent contiguous
//! (k alone but for 16 bits); D is `[m, n]` in f32, f16 or bf16.
//!
//! **Roles.** Three warpgroups. 0 loads: one thread of it issues all tensor copies, and gives its
//! registers away. 1 and 2 multiply, and store. *Cooperative*: each has half of the rows of every
//! tile. *Pingpong*: each has every other tile, and stores it while the other one multiplies.
//! Blocks stay and take tile after tile, so loads run ahead into the next tile during a store.
//!
//! **Pipeline.** A ring of `STAGES` stages, each a tile of A and one of B, [`SPAN_BYTES`] of k deep:
//!
//! | barrier | arrives | count | bytes |
//! |---|---|---|---|
//! | full | the loading thread, before its copies | 1 | A and B, of all blocks of the cluster |
//! | empty | a thread of each warpgroup that read it, at each block of the cluster | readers × blocks | – |
//!
//! **Cluster.** The blocks of one are neighbours along m: each loads its own A, and its part of B
//! for all.
//!
//! **Shared memory** ([`Sm90Tile::smem`]): A of all stages, B of all stages, boxes on their way to
//! D (each warp's own), barriers. Nothing is used twice.
//!
//! **Timeline.** Loader: for each tile, for each k: wait empty, announce, copy. Consumer: for each
//! tile, for each k: wait full, issue its products, wait for those of the k before, release that
//! stage; then all products, release, epilogue, store.
//!
//! **Numerics.** f32 accumulators in the tensor core's order (docs/numerics.md), k from first to last:
//! the same bits every run.
//!
//! **Sources.** CUTLASS's warp-specialised persistent kernels, DeepGEMM, fast.cu (for the ideas).
//!
//! **Before you change this**: `cargo test -p warpsmith-tests --test gemm_sm90` finds races, lost
//! arrivals and wrong bits; `compare_gemm --set squares` on a GPU finds lost speed.

use cuda_std::accumulator::Accumulator;
use cuda_std::barrier;
use cuda_std::cluster;
use cuda_std::dynamic_shared;
use cuda_std::epilogue::Epilogue;
use cuda_std::fence::fence_mbarrier_init_release_cluster;
use cuda_std::grid::{griddepcontrol_launch_dependents, griddepcontrol_wait};
use cuda_std::pipeline::{Consumer, Pipeline, Readers};
use cuda_std::regs::{setmaxnreg_dec, setmaxnreg_inc};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::tile::{OperandElement, OperandMajor, TileRing};
use cuda_std::tma::{self, TensorMap};
use cuda_std::wgmma::MmaAsync;
use spec::gemm::GemmParams;
use spec::gemm::sm90::{
    CONSUMERS, MMA_M, SPAN_BYTES, Schedule, Sm90Launch, Sm90Tile, TILE_ALIGN, TileOrder, WARPGROUP,
};

use super::load::load_tile;
use super::store::{Store, StoreElement};

/// Registers of a thread that loads, and of one that multiplies: 128 × (24 + 2 × 240) of 65,536.
const LOADER_REGISTERS: u32 = 24;
const CONSUMER_REGISTERS: u32 = 240;

/// What one kernel is: its instruction, the layouts of its operands, and its tile.
pub trait Config {
    /// The instruction: element types, and as many columns as the tile.
    type Mma: MmaAsync<Acc: AsRef<[f32]> + AsMut<[f32]>>;
    /// How A lies.
    type A: OperandMajor;
    /// How B lies.
    type B: OperandMajor;
    /// The tile.
    const TILE: Sm90Tile;
    /// Whether each tile of k is added to a sum in f32 of its own: the tensor cores keep about 14
    /// bits of a running sum of 8-bit products.
    const PROMOTES: bool;
}

/// The kernel of `C`, whose tile's numbers are parameters as well (types cannot compute them).
pub struct Gemm<
    C: Config,
    const TILE_M: u32,
    const TILE_N: u32,
    const STAGES: u32,
    const BLOCKS: usize,
> {
    a: TileRing<<C::Mma as MmaAsync>::A, C::A, TILE_M>,
    b: TileRing<<C::Mma as MmaAsync>::B, C::B, TILE_N>,
    pipeline: Pipeline<STAGES>,
    /// Where results pass on their way to D.
    boxes: SharedAddr,
    map_a: *const TensorMap,
    map_b: *const TensorMap,
    order: TileOrder,
    /// Of the first tile, and from one to the next: blocks of a cluster have the same.
    first: u32,
    step: u32,
    /// The block's place in its cluster.
    rank: u32,
    k_tiles: u32,
}

impl<C: Config, const TILE_M: u32, const TILE_N: u32, const STAGES: u32, const BLOCKS: usize>
    Gemm<C, TILE_M, TILE_N, STAGES, BLOCKS>
{
    const TILE_K: u32 = <<C::Mma as MmaAsync>::A as OperandElement>::TILE_K;
    const READERS: Readers = match C::TILE.cluster_m {
        1 => Readers::OneBlock,
        blocks => Readers::Cluster(blocks),
    };

    /// The whole kernel.
    ///
    /// # Safety
    /// Launched as [`spec::gemm::sm90`] says; `maps` are of the operands that `params` describes.
    /// `store` uses the boxes that it is given; nothing reads or writes global memory before it is
    /// called.
    #[inline(always)]
    pub unsafe fn run<Out: StoreElement, E: Epilogue>(
        maps: [*const TensorMap; 2],
        params: &GemmParams,
        launch: Sm90Launch,
        store: impl FnOnce(SharedAddr) -> Store<Out, E>,
    ) {
        const {
            assert!(C::TILE.tile_m == TILE_M && C::TILE.tile_n == TILE_N);
            assert!(C::TILE.stages == STAGES && C::TILE.subtiles() as usize == BLOCKS);
        }
        // SAFETY: all threads of the block, and of its cluster, meet at the barriers before any uses
        // what they protect, and again before any exits; each role is a whole warpgroup, and its
        // registers are there for it.
        unsafe {
            let kernel = Self::new(maps, params, launch);
            kernel.prepare();
            griddepcontrol_wait(); // what the launches before wrote is there
            if thread::thread_idx_x() < WARPGROUP {
                setmaxnreg_dec::<LOADER_REGISTERS>();
                if thread::thread_idx_x() == 0 {
                    kernel.load(params);
                    // No sooner: blocks that wait for a multiprocessor slow down those that have it.
                    griddepcontrol_launch_dependents();
                }
            } else {
                setmaxnreg_inc::<CONSUMER_REGISTERS>();
                kernel.consume(store(kernel.boxes));
            }
            if C::TILE.cluster_m > 1 {
                // Nobody leaves while others may still copy into it or arrive at it.
                cluster::barrier_cluster_arrive_release();
                cluster::barrier_cluster_wait_acquire();
            }
        }
    }

    #[inline(always)]
    unsafe fn new(
        [map_a, map_b]: [*const TensorMap; 2],
        params: &GemmParams,
        launch: Sm90Launch,
    ) -> Self {
        let map = C::TILE.smem();
        let cluster = C::TILE.cluster_m;
        let (m, n, batch) = (params.m, params.n, params.batch);
        // SAFETY: the launch gives the memory that the map speaks of.
        unsafe {
            let base = SharedAddr::of(dynamic_shared![u8])
                .bits()
                .next_multiple_of(TILE_ALIGN);
            let at = |offset| SharedAddr::from_bits(base + offset);
            Self {
                a: TileRing::at(at(0)),
                b: TileRing::at(at(map.b)),
                pipeline: Pipeline::at(at(map.barriers)),
                boxes: at(map.store),
                map_a,
                map_b,
                order: TileOrder::new(C::TILE, m, n, batch, launch.raster_group),
                first: thread::block_idx_x() / cluster,
                step: thread::grid_dim_x() / cluster,
                rank: if cluster > 1 {
                    cluster::cluster_ctarank()
                } else {
                    0
                },
                k_tiles: params.k.div_ceil(Self::TILE_K),
            }
        }
    }

    /// Makes the barriers, for all of the cluster to see.
    ///
    /// # Safety
    /// All threads of the cluster call it, once.
    #[inline(always)]
    unsafe fn prepare(&self) {
        // SAFETY: one thread makes them, and nobody goes on before.
        unsafe {
            if thread::thread_idx_x() == 0 {
                tma::prefetch_tensormap(self.map_a);
                tma::prefetch_tensormap(self.map_b);
                self.pipeline.init(C::TILE.readers() * C::TILE.cluster_m);
                fence_mbarrier_init_release_cluster();
            }
            if C::TILE.cluster_m > 1 {
                cluster::barrier_cluster_arrive_release_aligned();
                cluster::barrier_cluster_wait_acquire_aligned();
            } else {
                thread::sync_threads();
            }
        }
    }

    /// Row and column of D where the tile at `index` begins for this block, and its product.
    #[inline(always)]
    fn place(&self, index: u32) -> (u32, u32, u32) {
        let tile = self.order.at(index);
        let row = (tile.m * C::TILE.cluster_m + self.rank) * TILE_M;
        (row, tile.n * TILE_N, tile.batch)
    }

    /// Loads the operands of every tile.
    ///
    /// # Safety
    /// One thread calls it.
    #[inline(always)]
    unsafe fn load(&self, params: &GemmParams) {
        let bytes = C::TILE.a_bytes() + C::TILE.b_bytes();
        let mut producer = self.pipeline.producer();
        let mut index = self.first;
        while index < self.order.count {
            let (row, column, batch) = self.place(index);
            // An operand that is repeated has a map of one matrix.
            let batch_a = if params.batch_stride_a == 0 { 0 } else { batch };
            let batch_b = if params.batch_stride_b == 0 { 0 } else { batch };
            let mut k_tile = 0;
            while k_tile < self.k_tiles {
                // SAFETY: the slot is empty, and the copies have the bytes that it is told of: A, and
                // of B the parts of all blocks.
                unsafe {
                    let slot = producer.acquire(bytes);
                    let (a, b) = (self.a.destination(&slot), self.b.destination(&slot));
                    let k = k_tile * Self::TILE_K;
                    load_tile::<C::A, TILE_M, 1>(a, self.map_a, [row, k, batch_a], &slot, 0);
                    let map_b = self.map_b;
                    let at = [column, k, batch_b];
                    match C::TILE.cluster_m {
                        1 => load_tile::<C::B, TILE_N, 1>(b, map_b, at, &slot, 0),
                        2 => load_tile::<C::B, TILE_N, 2>(b, map_b, at, &slot, self.rank),
                        _ => load_tile::<C::B, TILE_N, 4>(b, map_b, at, &slot, self.rank),
                    }
                }
                k_tile += 1;
            }
            index += self.step;
        }
    }

    /// Multiplies, and stores, the tiles (or the rows of tiles) of this warpgroup.
    ///
    /// # Safety
    /// Each warpgroup that multiplies calls it, converged.
    #[inline(always)]
    unsafe fn consume(&self, mut store: Store<impl StoreElement, impl Epilogue>) {
        let consumer_idx = thread::thread_idx_x() / WARPGROUP - 1;
        // SAFETY: passed on to the caller.
        unsafe {
            match C::TILE.schedule {
                Schedule::Cooperative => self.share_tiles(consumer_idx, &mut store),
                Schedule::Pingpong => self.take_turns(consumer_idx, &mut store),
            }
        }
        store.finish();
    }

    /// Cooperative: half of the rows of every tile.
    #[inline(always)]
    unsafe fn share_tiles<Out: StoreElement, E: Epilogue>(
        &self,
        consumer_idx: u32,
        store: &mut Store<Out, E>,
    ) {
        let mut consumer = self.pipeline.consumer();
        let row_of_tile = consumer_idx * BLOCKS as u32 * MMA_M;
        let mut index = self.first;
        while index < self.order.count {
            // SAFETY: the warpgroup's warps go through the same tiles.
            unsafe {
                let acc = self.multiply(&mut consumer, row_of_tile, || ());
                let (row, column, batch) = self.place(index);
                store.tile::<_, _, TILE_N>(acc, (row + row_of_tile, column, batch));
            }
            index += self.step;
        }
    }

    /// Pingpong: every other tile. The turn to multiply goes back and forth, so that a consumer waits
    /// for no stage before the other one has seen the stages before it: a parity tells two phases
    /// apart, not three.
    #[inline(always)]
    unsafe fn take_turns<Out: StoreElement, E: Epilogue>(
        &self,
        consumer_idx: u32,
        store: &mut Store<Out, E>,
    ) {
        let turns = Turns { consumer_idx };
        let mut consumer = self.pipeline.consumer();
        consumer.skip(consumer_idx * self.k_tiles);
        let mut round = self.first;
        if round < self.order.count {
            // SAFETY: the warpgroup's warps are here together.
            unsafe { turns.open() };
        }
        while round < self.order.count {
            let index = round + consumer_idx * self.step;
            round += 2 * self.step;
            let is_last_round = round >= self.order.count;
            // SAFETY: the warpgroup's warps go through the same tiles; both consumers go through as
            // many rounds, and pass the turn in each.
            unsafe {
                turns.wait();
                if index < self.order.count {
                    let acc = self.multiply(&mut consumer, 0, || turns.pass(is_last_round));
                    store.tile::<_, _, TILE_N>(acc, self.place(index));
                    consumer.skip(self.k_tiles);
                } else {
                    turns.pass(is_last_round);
                }
            }
        }
    }

    /// The product of one tile, from `row_of_tile` on. `issued` is called as soon as all products are
    /// on their way.
    ///
    /// # Safety
    /// The warps of the warpgroup call it together.
    #[inline(always)]
    unsafe fn multiply(
        &self,
        consumer: &mut Consumer<STAGES>,
        row_of_tile: u32,
        issued: impl FnOnce(),
    ) -> Accumulator<C::Mma, BLOCKS> {
        // SAFETY: a stage's products are issued after its copies landed, and it is released after
        // they are complete.
        unsafe {
            if C::PROMOTES {
                return self.multiply_promoted(consumer, row_of_tile, issued);
            }
            let mut stage = consumer.wait(); // A, B of the first k landed
            let mut acc = Accumulator::<C::Mma, BLOCKS>::unset().begin();
            acc.multiply(
                self.a.operand(&stage, row_of_tile),
                self.b.operand(&stage, 0),
            );
            let mut k_tile = 1;
            while k_tile < self.k_tiles {
                let next = consumer.wait(); // A, B of k_tile landed
                acc.multiply_add(self.a.operand(&next, row_of_tile), self.b.operand(&next, 0));
                acc.wait::<1>(); // the products of `stage`
                stage.release(Self::READERS);
                stage = next;
                k_tile += 1;
            }
            issued();
            let acc = acc.finish();
            stage.release(Self::READERS);
            acc
        }
    }
}

impl<C: Config, const TILE_M: u32, const TILE_N: u32, const STAGES: u32, const BLOCKS: usize>
    Gemm<C, TILE_M, TILE_N, STAGES, BLOCKS>
{
    /// The same, each tile of k added to a sum.
    ///
    /// # Safety
    /// As for [`multiply`](Self::multiply).
    #[inline(always)]
    unsafe fn multiply_promoted(
        &self,
        consumer: &mut Consumer<STAGES>,
        row_of_tile: u32,
        issued: impl FnOnce(),
    ) -> Accumulator<C::Mma, BLOCKS> {
        // SAFETY: as there.
        unsafe {
            let mut sum = Accumulator::<C::Mma, BLOCKS>::zero();
            let mut k_tile = 0;
            while k_tile < self.k_tiles {
                let stage = consumer.wait(); // A, B of k_tile landed
                let mut acc = Accumulator::<C::Mma, BLOCKS>::unset().begin();
                acc.multiply(
                    self.a.operand(&stage, row_of_tile),
                    self.b.operand(&stage, 0),
                );
                // NOTE(perf): waiting here, and not one tile later, gave 1.16 of the speed at 8192
                // (`compare_gemm --set fp8`): the other consumer fills the gap, and a second
                // accumulator in flight costs more than it hides.
                let acc = acc.finish();
                stage.release(Self::READERS);
                add(&mut sum, &acc);
                k_tile += 1;
            }
            issued();
            sum
        }
    }
}

/// `sum += x`.
#[inline(always)]
fn add<M, const BLOCKS: usize>(sum: &mut Accumulator<M, BLOCKS>, x: &Accumulator<M, BLOCKS>)
where
    M: MmaAsync<Acc: AsRef<[f32]> + AsMut<[f32]>>,
{
    let mut block = 0;
    while block < BLOCKS {
        let mut i = 0;
        while i < x.registers()[block].as_ref().len() {
            sum.registers_mut()[block].as_mut()[i] += x.registers()[block].as_ref()[i];
            i += 1;
        }
        block += 1;
    }
}

/// Whose turn it is to multiply: a named barrier each, at which the one who waits for its turn and
/// the one who passes it meet.
#[derive(Clone, Copy)]
struct Turns {
    consumer_idx: u32,
}

impl Turns {
    /// The barrier 0 is `sync_threads`'s.
    const BARRIERS: u32 = 1;
    const THREADS: u32 = CONSUMERS * WARPGROUP;

    /// The first turn is consumer 0's.
    #[inline(always)]
    unsafe fn open(self) {
        if self.consumer_idx == 1 {
            // SAFETY: a whole warpgroup; consumer 0 waits there.
            unsafe { barrier::bar_arrive(Self::BARRIERS, Self::THREADS) };
        }
    }

    #[inline(always)]
    unsafe fn wait(self) {
        // SAFETY: a whole warpgroup; the other one passes the turn.
        unsafe { barrier::bar_sync(Self::BARRIERS + self.consumer_idx, Self::THREADS) };
    }

    /// After the last turn of all there is nobody to pass it to.
    #[inline(always)]
    unsafe fn pass(self, is_last_round: bool) {
        if !(is_last_round && self.consumer_idx == 1) {
            let other = 1 - self.consumer_idx;
            // SAFETY: a whole warpgroup; the other one waits there.
            unsafe { barrier::bar_arrive(Self::BARRIERS + other, Self::THREADS) };
        }
    }
}

const _: () = assert!(SPAN_BYTES == cuda_std::tile::SPAN_BYTES);
