//! `D = epilogue(A @ B)`, batched, on Hopper: warp-specialised, persistent, by TMA and `wgmma`.
//!
//! A and B are `[m, k]` and `[n, k]` in f16, bf16, tf32 or 8 bits (floats, or i8, whose sums are in
//! i32). Either extent is contiguous (16 bits), or k is (all others). D is `[m, n]` in f32, f16 or
//! bf16.
//!
//! **Roles.** Three warpgroups. Warpgroup 0 is the producer: a thread of its first warp issues all
//! TMA loads, and it gives most of its registers to the others. Warpgroups 1 and 2 are consumers:
//! they issue wgmmas and store. *Cooperative*: each consumer has half of the rows of every tile.
//! *Pingpong*: each consumer has every other tile, and stores it while the other one multiplies.
//! The kernel is persistent: a block takes tile after tile, and loads the next one while this one
//! is stored.
//!
//! **Work tiles.** A block's work is a list of [`WorkTile`]s, which all its roles walk. A work tile is a
//! whole tile or, where the launch uses stream-K ([`abi::gemm::stream_k`]), a range of a tile's k.
//! The block whose range ends a tile owns the tile. Every other block writes its partial sums to
//! the workspace; the owner adds those of the blocks of lower index before its epilogue. Such work
//! tiles come after whole tiles.
//!
//! **Coordinates.** A kernel's [`Config`] determines where in A, B and D a tile begins.
//! [`Whole`](super::Whole) has whole matrices of one size. [`Ragged`](super::Ragged) has groups of
//! rows with a matrix B each, whose ends are in device memory.
//!
//! **Pipeline.** A ring of `STAGES` stages, each a tile of A and one of B,
//! [`SPAN_BYTES`](abi::gemm::sm90::SPAN_BYTES) of k deep:
//!
//! | barrier | arrives | count | bytes |
//! |---|---|---|---|
//! | full | the loading thread, before its copies | 1 | A and B |
//! | empty | a thread of each warpgroup that read it | readers | – |
//!
//! **Clusters.** The blocks of a cluster compute neighbouring tiles at the same time. Each loads its share of
//! what they have in common and multicasts it, so a stage's bytes come from several blocks. A stage is
//! therefore empty when the consumers of the whole cluster have released it. The loader waits for that once
//! more at the end, so that no block exits while others use its shared memory.
//!
//! **Shared memory** ([`Sm90Tile::smem`]): A of all stages, B of all stages, boxes on their way to
//! D (each warp's own), barriers. Nothing is used twice.
//!
//! **Timeline.** Producer: for each work tile, for each k tile: wait empty, announce the bytes,
//! copy. Consumer: for each work tile, for each k tile: wait full, issue the stage's wgmmas, wait
//! for those of the k tile before, release its stage. At the end wait for all wgmmas and release
//! the last stage. Then either hand over (write partial sums, set a flag), or wait for the flags of
//! others, add their sums, apply the epilogue, store. Or round, and store during the next work tile
//! ([`Held`]).
//!
//! **Numerics.** f32 accumulators in the tensor core's order (docs/numerics.md), k from first to
//! last. Partial sums are added in the order of their blocks, so a launch with as many blocks gives
//! the same bits.
//!
//! **Sources.** CUTLASS's warp-specialised persistent kernels, DeepGEMM, fast.cu (for the ideas).
//! **Before you change this**: `cargo test -p warpsmith-tests gemm_kernels::` finds races, lost
//! arrivals and wrong bits; `compare_gemm --set squares` on a GPU finds lost speed.
//! docs/decisions/0001 to 0009 list trials.

mod promoted;
mod setup;

use abi::gemm::GemmParams;
use abi::gemm::sm90::{Cluster, MMA_M, SPAN_BYTES, Schedule, Sm90Tile, WARPGROUP};
use abi::gemm::stream_k::{StreamK, WorkTile};
use cuda_std::accumulator::Accumulator;
use cuda_std::elect::elect_sync;
use cuda_std::epilogue::Epilogue;
use cuda_std::grid::{griddepcontrol_launch_dependents, griddepcontrol_wait};
use cuda_std::hint::opaque;
use cuda_std::pipeline::{Consumer, Pipeline, Readers, Stages};
use cuda_std::regs::{setmaxnreg_dec, setmaxnreg_inc};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::tile::{OperandElement, OperandMajor, TileRing};
use cuda_std::tma::TensorMap;
use cuda_std::warp::{FULL_MASK, uniform};
use cuda_std::wgmma::MmaAsync;

use super::held::Held;
use super::load::{Share, is_whole_boxes, load_rows, load_share};
use super::order_barrier::OrderBarrier;
use super::partials::Partials;
use super::store::{Store, StoreElement};
use super::tile_coords::TileCoords;
pub use promoted::{Promoted, Running, Sums};

/// Registers of a producer's thread, and of a consumer's: 128 × (24 + 2 × 240) of 65,536.
const LOADER_REGISTERS: u32 = 24;
const CONSUMER_REGISTERS: u32 = 240;

/// What makes one kernel: its instruction, its operands' layouts and its tile.
pub trait Config {
    /// The `wgmma` instruction: element types, and n = the tile's columns.
    type Mma: MmaAsync<Acc: AsRef<[f32]> + AsMut<[f32]>>;
    /// The major order of A.
    type A: OperandMajor;
    /// The major order of B.
    type B: OperandMajor;
    /// The tile.
    const TILE: Sm90Tile;
    /// Whether results may wait in registers until the next tile: their epilogue has to be short.
    const HOLDS: bool = true;
    /// [`Running`](super::Running), or for 8-bit operands [`Promoted`](super::Promoted).
    type Sums: Sums<Self::Mma>;
    /// Where the tiles are: [`Whole`](super::Whole) matrices, or groups of rows.
    type TileCoords: TileCoords;
}

/// What the host tells the kernel of `C` about a launch.
type LaunchOf<C> = <<C as Config>::TileCoords as TileCoords>::Launch;

/// The kernel of `C`. The tile's numbers are const parameters too, as types cannot compute them.
pub struct Gemm<
    C: Config,
    const TILE_M: u32,
    const TILE_N: u32,
    const STAGES: u32,
    const BLOCKS: usize,
> {
    a: TileRing<<C::Mma as MmaAsync>::A, C::A, TILE_M>,
    b: TileRing<<C::Mma as MmaAsync>::B, C::B, TILE_N>,
    pipeline: Pipeline<Stages<STAGES>>,
    /// Boxes that the results pass through on their way to D.
    boxes: SharedAddr,
    map_a: *const TensorMap,
    map_b: *const TensorMap,
    coords: C::TileCoords,
    /// The work tiles of this block.
    work: StreamK,
    /// The block's index, and where blocks hand over the partial sums of tiles that they do not
    /// own.
    block: u32,
    workspace: *mut u32,
}

impl<C: Config, const TILE_M: u32, const TILE_N: u32, const STAGES: u32, const BLOCKS: usize>
    Gemm<C, TILE_M, TILE_N, STAGES, BLOCKS>
{
    const TILE_K: u32 = <<C::Mma as MmaAsync>::A as OperandElement>::TILE_K;
    const PROMOTES: bool = <C::Sums as Sums<C::Mma>>::PROMOTES;

    const CLUSTER: Cluster = C::TILE.cluster;

    /// Where a consumer releases a stage: in all blocks that multicast into it.
    const READERS: Readers = match Self::CLUSTER.blocks() {
        1 => Readers::OneBlock,
        blocks => Readers::Cluster(blocks),
    };

    const CUTS: bool = C::TILE.takes_stream_k() && <C::TileCoords as TileCoords>::ARE_KNOWN;

    /// Threads in the loader's loop: see [`load`](Self::load). With promotion, one thread is
    /// faster.
    const LOADERS: u32 = if Self::PROMOTES { 1 } else { 32 };

    /// The whole kernel.
    ///
    /// # Safety
    /// Launched as [`abi::gemm::sm90`] says; `maps` are of the operands that `params` describes;
    /// `workspace` is a stream-K workspace if `launch` cuts tiles. `store` uses the boxes that it
    /// is given; nothing reads or writes global memory before it is called.
    #[inline(always)]
    pub unsafe fn run<Out: StoreElement, E: Epilogue>(
        maps: [*const TensorMap; 2],
        params: &GemmParams,
        launch: LaunchOf<C>,
        workspace: *mut u32,
        store: impl FnOnce(SharedAddr) -> Store<Out, E>,
    ) {
        const {
            assert!(C::TILE.tile_m == TILE_M && C::TILE.tile_n == TILE_N);
            assert!(C::TILE.stages == STAGES && C::TILE.subtiles() as usize == BLOCKS);
            let [rows_a, columns_b] = C::TILE.loaded();
            assert!(C::TileCoords::ARE_KNOWN || C::TILE.cluster.blocks() == 1);
            assert!(is_whole_boxes::<C::A>(rows_a) && is_whole_boxes::<C::B>(columns_b));
        }
        // SAFETY: all threads of the block meet before any uses the barriers. Each role is a whole
        // warpgroup, and its registers are there for it.
        unsafe {
            let kernel = Self::new(maps, params, launch, workspace);
            kernel.prepare();
            if C::TileCoords::ARE_KNOWN && thread::thread_idx_x() == 0 {
                kernel.bring_near(params);
            }
            if thread::thread_idx_x() < WARPGROUP {
                setmaxnreg_dec::<LOADER_REGISTERS>();
                if thread::thread_idx_x() < Self::LOADERS {
                    kernel.load(params);
                    // No sooner: blocks of the next launch that wait for an SM slow down those that
                    // have it.
                    griddepcontrol_launch_dependents();
                }
            } else {
                setmaxnreg_inc::<CONSUMER_REGISTERS>();
                griddepcontrol_wait(); // the preceding launches' writes are visible
                kernel.consume(store(kernel.boxes));
            }
        }
    }

    /// Row, column and matrix of D at which this block's tile begins, for the cluster's tile at
    /// `index`.
    #[inline(always)]
    fn coord(&self, index: u32) -> (u32, u32, u32) {
        let (row, column, batch) = self.coords.at(&C::TILE, index);
        let Cluster { m, .. } = Self::CLUSTER;
        let rank = self.block % Self::CLUSTER.blocks();
        (row + rank % m * TILE_M, column + rank / m * TILE_N, batch)
    }

    /// As [`coord`](Self::coord), computed where it is called: the last `wgmma`s of a mainloop hide
    /// it. The compiler would leave it until the store. Any sooner, and what is live costs the
    /// mainloop its uniform registers.
    #[inline(always)]
    fn coord_now(&self, index: u32) -> (u32, u32, u32) {
        let (row, column, batch) = self.coord(index);
        (opaque(row), opaque(column), opaque(batch))
    }

    /// The loader: loads the operands of every work tile. All lanes of a warp go through the loop,
    /// as what is the same in all of them lives in uniform registers; one lane issues the copies.
    ///
    /// # Safety
    /// One warp, converged, or one thread calls it, as [`LOADERS`](Self::LOADERS) says.
    #[inline(always)]
    unsafe fn load(&self, params: &GemmParams) {
        let bytes = C::TILE.a_bytes() + C::TILE.b_bytes();
        // SAFETY: the warp's lanes are here together.
        let leader = Self::LOADERS == 1 || unsafe { elect_sync(FULL_MASK) };
        let mut producer = self.pipeline.producer();
        let [share_a, share_b] = self.shares();
        let mut index = 0;
        while index < self.work.count {
            let work_tile = self.work.work_tile(index);
            let coord = self.coord(work_tile.tile);
            let (row, column, batch) = self.coords.of_operands(coord);
            let boxes = self.coords.boxes(coord, TILE_M);
            let bytes = if C::TileCoords::ARE_KNOWN {
                bytes
            } else {
                boxes.bytes(SPAN_BYTES) + C::TILE.b_bytes()
            };
            // A broadcast operand has a map of one matrix.
            let batch_a = if params.batch_stride_a == 0 { 0 } else { batch };
            let batch_b = if params.batch_stride_b == 0 { 0 } else { batch };
            // Waits until the preceding launches' writes are visible. Only here, as to compute the
            // first work tile's place takes time; for later work tiles it returns at once.
            griddepcontrol_wait();
            let mut k_tile = work_tile.k_begin;
            while k_tile < work_tile.k_end {
                // SAFETY: the slot is empty, and the loads' bytes are those announced.
                unsafe {
                    let slot = producer.acquire_by_warp(self.pipeline, bytes, leader);
                    producer.advance();
                    if leader {
                        let (a, b) = (self.a.destination(&slot), self.b.destination(&slot));
                        let k = k_tile * Self::TILE_K;
                        if C::TileCoords::ARE_KNOWN {
                            load_share::<C::A>(a, self.map_a, [row, k, batch_a], share_a, &slot);
                        } else {
                            load_rows(a, self.map_a, [row, k, batch_a], boxes, &slot);
                        }
                        load_share::<C::B>(b, self.map_b, [column, k, batch_b], share_b, &slot);
                    }
                }
                k_tile += 1;
            }
            index += 1;
        }
        if Self::CLUSTER.blocks() > 1 {
            // SAFETY: all loads of this block have then landed in the others, which do not arrive
            // at its barriers after that.
            unsafe { producer.drain() };
        }
    }

    /// This block's shares of A and B.
    #[inline(always)]
    fn shares(&self) -> [Share; 2] {
        let Cluster { m, n } = Self::CLUSTER;
        let rank = self.block % Self::CLUSTER.blocks();
        let (row, column) = (rank % m, rank / m);
        let [rows_a, columns_b] = const { C::TILE.loaded() };
        // The ranks of a row of the cluster, m apart, and of a column, side by side.
        let of_row = if n == 2 { 1 << m | 1 } else { 1 };
        let mask_a = (n > 1).then_some((of_row << row) as u16);
        let mask_b = (m > 1).then_some((((1 << m) - 1) << (column * m)) as u16);
        [
            Share {
                first: column * rows_a,
                rows: rows_a,
                mask: mask_a,
            },
            Share {
                first: row * columns_b,
                rows: columns_b,
                mask: mask_b,
            },
        ]
    }

    /// The consumer: multiplies and stores this warpgroup's work tiles, or its rows of all work
    /// tiles.
    ///
    /// # Safety
    /// Each consumer warpgroup calls it, converged.
    #[inline(always)]
    unsafe fn consume(&self, mut store: Store<impl StoreElement, impl Epilogue>) {
        // SAFETY: passed on to the caller; the warps are converged.
        unsafe {
            let consumer_idx = uniform(thread::thread_idx_x() / WARPGROUP) - 1;
            match C::TILE.schedule {
                Schedule::Cooperative => self.share_tiles(consumer_idx, &mut store),
                Schedule::Pingpong => self.pingpong(consumer_idx, &mut store),
            }
        }
        store.finish();
    }

    /// Cooperative: half of the rows of every work tile. Consumer 1 begins after the first wgmmas
    /// of consumer 0, and so stays behind: each has the tensor cores to itself while the other one
    /// stores.
    #[inline(always)]
    unsafe fn share_tiles<Out: StoreElement, E: Epilogue>(
        &self,
        consumer_idx: u32,
        store: &mut Store<Out, E>,
    ) {
        let holds =
            const { C::HOLDS && C::TILE.holds_results(size_of::<Out>() as u32) && !Self::PROMOTES };
        let order = OrderBarrier { consumer_idx };
        let row_of_tile = consumer_idx * BLOCKS as u32 * MMA_M;
        let mut consumer = self.pipeline.consumer();
        let mut held = Held::<Out>::none();
        let mut index = 0;
        while index < self.work.count {
            let work_tile = self.work.work_tile(index);
            let (len, is_first) = (work_tile.len(), index == 0);
            // SAFETY: the warpgroup's warps go through the same work tiles; consumer 0 passes the
            // turn once, and consumer 1 waits for it once. Each box that is held is sent once.
            unsafe {
                if is_first && consumer_idx == 1 {
                    order.wait();
                }
                let mut coord = (0, 0, 0);
                store.bring_near(|| self.coord(work_tile.tile), TILE_N);
                let begun = || {
                    if is_first && consumer_idx == 0 {
                        order.pass(false);
                    }
                };
                let issued = |k_tile| store.send(&held, k_tile - 1); // of the last tile
                let ending = || coord = self.coord_now(work_tile.tile);
                let acc = self.multiply(&mut consumer, len, row_of_tile, begun, issued, ending);
                if holds {
                    store.send_rest(&held, len - 1); // where k is short
                    held = store.hold::<_, _, TILE_N>(&acc, coord, row_of_tile);
                } else {
                    self.end(acc, &work_tile, coord, row_of_tile, store);
                }
            }
            index += 1;
        }
        // SAFETY: as above.
        unsafe { store.send_rest(&held, 0) };
    }

    /// Pingpong: every other work tile. The turn to multiply goes back and forth, so that no
    /// consumer waits for a stage before the other one has seen the stages before it. With a
    /// phase's parity a wait can tell two phases apart, not three.
    #[inline(always)]
    unsafe fn pingpong<Out: StoreElement, E: Epilogue>(
        &self,
        consumer_idx: u32,
        store: &mut Store<Out, E>,
    ) {
        let order = OrderBarrier { consumer_idx };
        let mut consumer = self.pipeline.consumer();
        let mut round = 0;
        if self.work.count > 0 {
            // SAFETY: the warpgroup's warps are here together.
            unsafe { order.open() };
            consumer.skip(consumer_idx * self.work.work_tile(0).len());
        }
        while round < self.work.count {
            let index = round + consumer_idx;
            round += 2;
            let is_last_round = round >= self.work.count;
            // SAFETY: the warpgroup's warps go through the same work tiles; both consumers go
            // through the same number of rounds, and pass the turn in each.
            unsafe {
                order.wait();
                if index < self.work.count {
                    let work_tile = self.work.work_tile(index);
                    let mut coord = (0, 0, 0);
                    let ending = || {
                        order.pass(is_last_round);
                        coord = self.coord_now(work_tile.tile);
                    };
                    let acc =
                        self.multiply(&mut consumer, work_tile.len(), 0, || (), |_| (), ending);
                    self.end(acc, &work_tile, coord, 0, store);
                    if index + 1 < self.work.count {
                        consumer.skip(self.work.work_tile(index + 1).len());
                    }
                } else {
                    order.pass(is_last_round);
                }
            }
        }
    }

    /// The steps after a work tile's mainloop. Its sums go to the block that owns the tile. Or,
    /// once the sums of other blocks are added, they go through the epilogue to D, at its tile's
    /// place there.
    ///
    /// # Safety
    /// The warps of the warpgroup call it together.
    #[inline(always)]
    unsafe fn end<Out: StoreElement, E: Epilogue>(
        &self,
        mut acc: Accumulator<C::Mma, BLOCKS>,
        work_tile: &WorkTile,
        (row, column, batch): (u32, u32, u32),
        row_of_tile: u32,
        store: &mut Store<Out, E>,
    ) {
        // SAFETY: a block hands over at most one work tile, before it waits for others. The owner
        // adds the sums of the blocks before it that have some of the tile's k.
        unsafe {
            if Self::CUTS && !(work_tile.k_begin == 0 && self.work.owns(work_tile)) {
                let partials = Partials::<TILE_M, TILE_N>::at(self.workspace, row_of_tile);
                if !self.work.owns(work_tile) {
                    partials.hand_over(&acc, self.block);
                    return;
                }
                partials.add(&mut acc, self.work.first_block(work_tile.tile), self.block);
            }
            let (row, column, batch) = self.coords.of_results((row, column, batch), store);
            store.tile::<_, _, TILE_N>(acc, (row + row_of_tile, column, batch));
        }
    }

    /// The mainloop over the next `k_tiles` stages, for the rows from `row_of_tile` on. `begun` is
    /// called when the wgmmas of the first stage are issued, or added where sums are promoted;
    /// `issued` under those of k tile 1, 2, .. (not where sums are promoted), `ending` under the
    /// last.
    ///
    /// # Safety
    /// The warps of the warpgroup call it together.
    #[inline(always)]
    unsafe fn multiply(
        &self,
        consumer: &mut Consumer<Stages<STAGES>>,
        k_tiles: u32,
        row_of_tile: u32,
        begun: impl FnOnce(),
        mut issued: impl FnMut(u32),
        ending: impl FnOnce(),
    ) -> Accumulator<C::Mma, BLOCKS> {
        // SAFETY: a stage's `wgmma`s are issued after its loads have landed, and the stage is
        // released after they are complete.
        unsafe {
            if Self::PROMOTES {
                return self.multiply_promoted(consumer, k_tiles, row_of_tile, begun, ending);
            }
            let mut stage = consumer.wait(); // A, B of the first k landed
            let mut acc = Accumulator::<C::Mma, BLOCKS>::unset().begin();
            acc.multiply(
                self.a.operand(&stage, row_of_tile),
                self.b.operand(&stage, 0),
            );
            begun();
            consumer.agree();
            let mut k_tile = 1;
            while k_tile < k_tiles {
                let next = consumer.wait(); // A, B of k_tile landed
                acc.multiply_add(self.a.operand(&next, row_of_tile), self.b.operand(&next, 0));
                consumer.agree(); // hidden by these wgmmas
                acc.wait::<1>(); // the wgmmas of `stage`
                stage.release(Self::READERS);
                issued(k_tile);
                stage = next;
                k_tile += 1;
            }
            ending();
            let acc = acc.finish();
            stage.release(Self::READERS);
            acc
        }
    }
}
