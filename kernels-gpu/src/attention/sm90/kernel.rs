//! `o = softmax(softmax_scale * q @ k^T + mask) @ v` on Hopper: warp-specialised, persistent.
//!
//! q, k and v in f16 or bf16, `[batch, position, head, head_dim]` or packed; o in the same type or
//! f32; lse in f32. [`abi::attention`] has the mask, the lengths and their parameters.
//! docs/attention-hopper.md defines the terms: tile, block of keys, turn, ticket.
//!
//! **Roles.** Warpgroup 0 is the producer and gives most of its registers to the others. Of its
//! first warp, one lane issues all TMA loads. Its second warp is the scheduler: it works out the
//! next tile and hands it out as a [`Ticket`](super::ticket::Ticket). Each of the other two
//! warpgroups (three, for short heads) is a consumer and computes 64 rows of every query tile. The
//! rows are queries of one head, or of several heads that share keys ([`rows`](super::rows)). The
//! kernel is persistent: a block takes tile after tile ([`schedule`](super::schedule)). The keys of
//! a tile may be split between blocks.
//!
//! **Pipelines.** Each consumer has a ring of its own for queries; keys and values have one ring
//! each, which all consumers read:
//!
//! | barrier | arrives | count | bytes |
//! |---|---|---|---|
//! | full | the loading thread, before its copies | 1 | the stage |
//! | empty | a thread of each warpgroup that read it | 1 (queries), consumers | – |
//! | next ticket: full, empty | the scheduler warp; the loading warp | 1 | – |
//!
//! Named barriers ([`OrderBarrier`](super::order_barrier)): consumer i waits at barrier `1 + i` for
//! its turn to issue wgmmas, and the consumer before it passes the turn on: 256 threads each.
//! Barrier 8 belongs to the warpgroup that overwrites values beyond the sequence's end with zeros
//! ([`clear`](super::clear)).
//!
//! **Shared memory** ([`FwdTile::smem`]): queries, keys, values, results on their way out, tickets,
//! barriers. Nothing is used twice.
//!
//! **Timeline.** Producer: the last block of keys, then the queries; then in a loop the next block
//! of keys, and the values of the block before. Consumer, which holds the probabilities P of *this*
//! block in registers: issue S = q @ k^T of the *next* block; issue o += P @ v of *this* block;
//! pass the turn. Wait for S, mask it, and compute the softmax (meanwhile the tensor cores work on
//! P @ v, then on the other consumer's turn). Wait for P @ v, rescale o. Where all rows see the
//! whole block, it waits for both products, then does the softmax, and only seldom has to rescale o
//! and do the softmax again. The block after the last one of a tile is the first one of the next
//! tile, so that the tensor cores do not wait between tiles. o of the old tile is stored before its
//! registers take that of the new one.
//!
//! **Numerics.** Scores, softmax and sums in f32; probabilities are rounded to q's type for P @ v.
//! Keys are visited from last to first, so that the bits are the same every run.
//!
//! **Sources.** FlashAttention-3 (Shah et al., arXiv:2407.08608) for the overlap of softmax and
//! wgmma and for the turns; FlashAttention-4 for a row maximum that may be stale.
//!
//! **Before you change this**: `cargo test -p warpsmith-tests attention::` finds races, lost
//! arrivals and wrong bits; docs/attention-hopper.md lists how to measure, and decisions.

use abi::attention::sm90::{FwdLaunch, FwdTile, O_BYTES};
use abi::attention::{FlashFwdLengths, FlashFwdParams};
use abi::gemm::sm90::{MMA_M, TILE_ALIGN, WARPGROUP};
use cuda_std::accumulator::PairRegisters;
use cuda_std::dynamic_shared;
use cuda_std::fence::fence_mbarrier_init_release_cluster;
use cuda_std::grid::{griddepcontrol_launch_dependents, griddepcontrol_wait};
use cuda_std::hint::opaque;
use cuda_std::panels::{PanelRing, PanelShape};
use cuda_std::pipeline::{Pipeline, Producer, Readers, StageCount, Stages};
use cuda_std::regs::{setmaxnreg_dec, setmaxnreg_inc};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::tile::OperandElement;
use cuda_std::tma::{self, TensorMap};
use cuda_std::warp::uniform;
use cuda_std::wgmma::MmaAsync;

use super::load::{is_leader, load_panels};
use super::rows::{OneHead, RowMap, clear_idle};
use super::schedule::TileScheduler;
use super::store::Outputs;
use super::ticket::Tickets;
use crate::attention::sparse::is_sparse;

/// Rows of queries of a consumer.
pub(super) const ROWS: u32 = MMA_M;

/// The scheduler takes its next tile when this number of the current tile's blocks of keys is still
/// to be loaded. Loading them takes longer than making a ticket. Blocks that take tiles earlier
/// have too many at the end.
const BLOCKS_AHEAD: u32 = 2;

/// What makes one kernel: its instructions and its tile.
pub(super) trait Config {
    /// Element type of q, k and v.
    type Element: OperandElement;
    /// The `wgmma` of scores: n = the keys of a block.
    type Scores: MmaAsync<A = Self::Element, B = Self::Element, Acc: AsRef<[f32]> + AsMut<[f32]>>;
    /// The `wgmma` of o: n = the columns of a value.
    type Output: MmaAsync<A = Self::Element, B = Self::Element, Acc: AsRef<[f32]> + AsMut<[f32]>>;
    /// Which query and head each row is.
    type Rows: RowMap;
    /// A consumer's queries, a block of keys, and its values.
    type Q: PanelShape;
    /// See `Q`.
    type K: PanelShape;
    /// See `Q`.
    type V: PanelShape;
    /// Stages of each.
    type QStages: StageCount;
    /// See `QStages`.
    type KStages: StageCount;
    /// See `QStages`.
    type VStages: StageCount;
    /// A thread's probabilities of a block of keys, rounded.
    type P: PairRegisters;
    /// The tile.
    const TILE: FwdTile;

    /// Two f32, rounded to elements; the first in the lower half.
    fn pair(low: f32, high: f32) -> u32;
}

/// The launch's arguments.
#[derive(Clone, Copy)]
pub(super) struct Call<'a, R> {
    pub(super) rows: R,
    pub(super) maps: [*const TensorMap; 3],
    pub(super) outputs: Outputs,
    pub(super) lengths: &'a FlashFwdLengths,
    pub(super) params: &'a FlashFwdParams,
    pub(super) launch: FwdLaunch,
}

/// A consumer's ring of queries, and its barriers.
pub(super) type Queries<C> = (
    PanelRing<<C as Config>::Element, <C as Config>::Q>,
    Pipeline<<C as Config>::QStages>,
);

/// The kernel of `C`.
pub(super) struct Forward<'a, C: Config> {
    pub(super) call: Call<'a, C::Rows>,
    base: SharedAddr,
    pub(super) k: PanelRing<C::Element, C::K>,
    pub(super) v: PanelRing<C::Element, C::V>,
    pub(super) pipeline_k: Pipeline<C::KStages>,
    pub(super) pipeline_v: Pipeline<C::VStages>,
    pub(super) tickets: Tickets,
    /// Hands the next ticket from the scheduler to the loader. One stage: the scheduler is at most
    /// one tile ahead.
    pipeline_tickets: Pipeline<Stages<1>>,
}

impl<'a, C: Config> Forward<'a, C> {
    pub(super) const CONSUMERS: u32 = C::TILE.consumers();

    /// The whole kernel.
    ///
    /// # Safety
    /// Launched as [`abi::attention::sm90`] says.
    #[inline(always)]
    pub(super) unsafe fn run<const LOADER: u32, const CONSUMER: u32>(call: Call<'a, C::Rows>) {
        // SAFETY: all threads of the block meet before any uses what the barriers protect. Each
        // role is a whole warpgroup, or a warp of warpgroup 0, and its registers are there for it.
        unsafe {
            let kernel = Self::new(call);
            kernel.prepare();
            griddepcontrol_wait(); // wait until the preceding launches' writes are visible
            if thread::thread_idx_x() < WARPGROUP {
                setmaxnreg_dec::<LOADER>();
                match uniform(thread::thread_idx_x() / thread::WARP_THREADS) {
                    0 => {
                        kernel.load();
                        // No sooner: see docs/gemm-hopper.md.
                        griddepcontrol_launch_dependents();
                    }
                    1 => kernel.schedule(),
                    _ => {}
                }
            } else {
                setmaxnreg_inc::<CONSUMER>();
                kernel.consume();
            }
        }
    }

    #[inline(always)]
    unsafe fn new(call: Call<'a, C::Rows>) -> Self {
        let map = C::TILE.smem();
        // SAFETY: the launch has as much shared memory as the map says.
        unsafe {
            let base = SharedAddr::of(dynamic_shared![u8])
                .bits()
                .next_multiple_of(TILE_ALIGN);
            let at = |offset| SharedAddr::from_bits(base + offset);
            Self {
                call,
                base: at(0),
                k: PanelRing::at(at(map.k)),
                v: PanelRing::at(at(map.v)),
                pipeline_k: Pipeline::at(at(map.barriers_k)),
                pipeline_v: Pipeline::at(at(map.barriers_v)),
                tickets: Tickets::at(at(map.tickets)),
                pipeline_tickets: Pipeline::at(at(map.barriers_tickets)),
            }
        }
    }

    /// A consumer's ring of queries.
    #[inline(always)]
    pub(super) fn queries(&self, consumer_idx: u32) -> Queries<C> {
        let ring = consumer_idx * C::TILE.q_stages * C::TILE.q_bytes();
        let barriers = C::TILE.smem().barriers_q + consumer_idx * Pipeline::<C::QStages>::BYTES;
        // SAFETY: the memory is this ring's.
        let ring = unsafe { PanelRing::at(self.base.add_bytes(ring)) };
        (ring, Pipeline::at(self.base.add_bytes(barriers)))
    }

    /// The shared memory through which a consumer stores its results.
    #[inline(always)]
    pub(super) fn results(&self, consumer_idx: u32) -> SharedAddr {
        let offset = C::TILE.smem().o + consumer_idx * O_BYTES;
        self.base.add_bytes(offset)
    }

    /// # Safety
    /// All threads of the block call it, once.
    #[inline(always)]
    unsafe fn prepare(&self) {
        // SAFETY: one thread initialises the barriers, and nobody goes on before that is done.
        unsafe {
            if thread::thread_idx_x() == 0 {
                let [q, k, v] = self.call.maps;
                tma::prefetch_tensormap(q);
                tma::prefetch_tensormap(k);
                tma::prefetch_tensormap(v);
                let mut consumer_idx = 0;
                while consumer_idx < Self::CONSUMERS {
                    self.queries(consumer_idx).1.init(1);
                    consumer_idx += 1;
                }
                self.pipeline_k.init(Self::CONSUMERS);
                self.pipeline_v.init(Self::CONSUMERS);
                self.pipeline_tickets.init(1);
                fence_mbarrier_init_release_cluster();
            }
            if C::Rows::HAS_IDLE {
                let panels = Self::CONSUMERS * C::TILE.q_stages * C::TILE.panels();
                clear_idle(self.call.rows, self.base, panels, C::TILE.threads());
            }
            thread::sync_threads();
        }
    }

    /// The scheduler: writes a ticket for every tile, and one that says that there are no more.
    ///
    /// # Safety
    /// A warp calls it, converged.
    #[inline(always)]
    unsafe fn schedule(&self) {
        let Call {
            params,
            lengths,
            launch,
            rows,
            ..
        } = self.call;
        let mut tickets = self.tickets;
        let mut next = self.pipeline_tickets.producer();
        // SAFETY: the caller's promise. The ticket that was written `TICKETS` tiles before is not
        // read any more, as the loader has read the last one.
        unsafe {
            let mut scheduler = TileScheduler::<C>::new(params, lengths, launch, rows);
            let mut slot = next.acquire_by_warp(self.pipeline_tickets, 0, false);
            while scheduler.is_at_tile() {
                let tile = scheduler.tile();
                tickets.next().write::<C>(params, rows, &tile);
                if is_leader() {
                    slot.barrier().arrive();
                }
                next.advance();
                // Wait until the loader is nearly done with the ticket's tile.
                slot = next.acquire_by_warp(self.pipeline_tickets, 0, false);
                scheduler.advance();
            }
            tickets.next().write_end();
            if is_leader() {
                slot.barrier().arrive();
            }
        }
    }

    /// The loader: loads every tile's operands, in the order in which stages become free. These are
    /// keys, the values of the block before (of the tile before, if this is the tile's first), and
    /// the tile's queries.
    ///
    /// # Safety
    /// A warp calls it, converged. Its first lane issues everything; the others go along so that
    /// counters are in uniform registers.
    #[inline(always)]
    unsafe fn load(&self) {
        let [_, map_k, map_v] = self.call.maps;
        let mut tickets = self.tickets;
        let mut next = self.pipeline_tickets.consumer();
        let mut keys = self.pipeline_k.producer();
        let mut values = self.pipeline_v.producer();
        // The consumers' rings are filled in step, so one cursor does for all.
        let mut queries = self.queries(0).1.producer();
        let mut of_values: Option<[u32; 3]> = None;
        // SAFETY: slots are empty when loaded into, and the loads' bytes are those announced.
        unsafe {
            loop {
                let ticket = next.wait(); // the next ticket is written
                let at_ticket = tickets.next();
                let tile = at_ticket.loads();
                if tile.end == 0 {
                    break;
                }
                let [first_key, head, batch] = tile.keys;
                let mut ask_at = (tile.first + BLOCKS_AHEAD).min(tile.end - 1);
                if is_sparse() {
                    (ask_at, _) = at_ticket.line::<C>().before_from(ask_at, tile.first);
                }
                let mut block = tile.end;
                while block > tile.first {
                    block -= 1;
                    if is_sparse() {
                        (block, _) = at_ticket.line::<C>().before_from(block, tile.first);
                    }
                    if block == ask_at {
                        ticket.release_early(Readers::OneBlock); // the scheduler may go on
                    }
                    let at = [first_key + block * C::TILE.tile_n, head, batch];
                    let slot =
                        keys.acquire_by_warp(self.pipeline_k, C::TILE.k_bytes(), is_leader());
                    keys.advance();
                    load_panels::<OneHead, _, _>(&self.k, map_k, at, &slot);
                    if let Some(at) = of_values.replace(at) {
                        let slot =
                            values.acquire_by_warp(self.pipeline_v, C::TILE.v_bytes(), is_leader());
                        values.advance();
                        load_panels::<OneHead, _, _>(&self.v, map_v, at, &slot);
                    }
                    if block + 1 == tile.end {
                        self.load_queries(tile.queries, &mut queries);
                    }
                }
            }
            if let Some(at) = of_values {
                let slot = values.acquire_by_warp(self.pipeline_v, C::TILE.v_bytes(), is_leader());
                load_panels::<OneHead, _, _>(&self.v, map_v, at, &slot);
            }
            self.end_queries(&mut queries);
        }
    }

    /// Loads the queries of all consumers, from a position of a head and a batch on.
    ///
    /// # Safety
    /// The warp calls it, converged; the tile's ticket has been written.
    #[inline(always)]
    unsafe fn load_queries(
        &self,
        [position, head, batch]: [u32; 3],
        queries: &mut Producer<C::QStages>,
    ) {
        let rows = self.call.rows;
        // SAFETY: slots are empty when loaded into, and the loads' bytes are those announced.
        unsafe {
            let mut consumer_idx = 0;
            while consumer_idx < Self::CONSUMERS {
                let (ring, pipeline) = self.queries(consumer_idx);
                let bytes = rows.copied_bytes(C::TILE.q_bytes());
                let slot = queries.acquire_by_warp(pipeline, bytes, is_leader());
                let at = [position + consumer_idx * rows.queries(), head, batch];
                load_panels::<C::Rows, _, _>(&ring, self.call.maps[0], at, &slot);
                consumer_idx = opaque(consumer_idx + 1); // not unrolled: registers are few here
            }
        }
        queries.advance();
    }

    /// Tells all consumers that there are no more queries.
    ///
    /// # Safety
    /// As for [`load_queries`](Self::load_queries).
    #[inline(always)]
    unsafe fn end_queries(&self, queries: &mut Producer<C::QStages>) {
        // SAFETY: as there; nothing is loaded.
        unsafe {
            let mut consumer_idx = 0;
            while consumer_idx < Self::CONSUMERS {
                queries.acquire_by_warp(self.queries(consumer_idx).1, 0, is_leader());
                consumer_idx += 1;
            }
        }
    }
}
