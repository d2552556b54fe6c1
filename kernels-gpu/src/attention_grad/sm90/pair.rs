//! Head dimensions above 128: a cluster of two thread blocks has a block of keys.
//!
//! A thread block has 64 keys. Its first consumer has their dv, its second their dk: 64 × 256 sums
//! fill the registers of a warpgroup. Both compute the scores. dq needs dS of both thread blocks.
//! Each computes half of its columns, from all 128 keys, so the sums in device memory take as many
//! additions as with one thread block of 128 keys.
//!
//! ```text
//! consumer 0:  S^T, P^T ──> dv                    dS of 128 keys ──> half of the columns of dq
//! consumer 1:  S^T, P^T, dP^T ──> dS^T ──> dk          ^
//!                                  └── own, and a bulk copy to the peer
//! ```
//!
//! | barrier | arrives | count | bytes |
//! |---|---|---|---|
//! | dS: full | a thread of consumer 1, after its dS is written | 1 | the peer's dS |
//! | dS: empty | a thread of consumer 0 of each thread block, dq computed | 2 | – |
//! | [`DS_COPIED`] | consumer 1, its dS written | 128 | – |
//! | [`DS_WRITTEN`] | both consumers, at the end | 256 | – |
//!
//! q and d_o are loaded in halves, each for both thread blocks. So their stages are empty when the
//! consumers of both have released them. d_o has one stage.

use abi::attention_grad::sm90::STAGES;
use abi::gemm::sm90::WARPGROUP;
use cuda_std::accumulator::{Accumulator, Fragments};
use cuda_std::barrier::{bar_arrive, bar_sync};
use cuda_std::cluster::mapa_shared_cluster;
use cuda_std::hint::opaque;
use cuda_std::pipeline::{Consumer, Producer, Readers, Stage, Stages};
use cuda_std::thread;
use cuda_std::tma::cp_async_bulk_shared_cluster_shared_cta;
use cuda_std::warp::uniform;

use super::consume::Walk;
use super::finish::{Held, KeySums, put_sums};
use super::kernel::{Backward, Config, DQ_FREE, DQ_WRITTEN, DS_COPIED, DS_WRITTEN, OF_CONSUMERS};
use super::schedule::TileScheduler;

/// What both consumers have.
struct State {
    walk: Walk,
    /// Where it is in the rings of q, and of lse and delta.
    next: Consumer<Stages<STAGES>>,
    /// In those of d_o and dS.
    next_d_o: Consumer<Stages<1>>,
    /// The end that fills dS.
    next_ds: Producer<Stages<1>>,
    /// Of the tile's number, which says who adds its dq.
    parity: u32,
    keys: Stage,
    values: Stage,
}

/// The sums of dv, or of dk.
type Sums<C> = Accumulator<<C as Config>::Keys>;

impl<C: Config<GradStages = Stages<1>>> Backward<'_, C> {
    /// A consumer of a pair.
    ///
    /// # Safety
    /// Each consumer warpgroup calls it, converged.
    #[inline(always)]
    pub(super) unsafe fn consume_in_pair(&self, scheduler: TileScheduler) {
        // SAFETY: a warp is in one warpgroup. All warps of the warpgroups go through the same
        // tiles.
        unsafe {
            let consumer_idx = uniform(thread::thread_idx_x() / WARPGROUP) - 1;
            let mut kv = self.pipeline_kv.consumer();
            let mut state = State {
                walk: Walk::new(scheduler, Self::rank()),
                next: self.pipeline_q.consumer(),
                next_d_o: self.pipeline_d_o.consumer(),
                next_ds: self.pipeline_ds.producer(),
                parity: 0,
                keys: kv.wait(),   // k landed
                values: kv.wait(), // v and the peer's k landed
            };
            let mut sums = Accumulator::zero();
            if consumer_idx == 0 {
                while state.walk.scheduler.left > 0 {
                    sums = self.anew().step_of_values(&mut state, sums);
                    state.walk.scheduler.advance();
                }
                bar_sync(DQ_FREE + (state.parity ^ 1), Self::OF_DQ); // the last dq is read
            } else {
                while state.walk.scheduler.left > 0 {
                    sums = self.anew().step_of_keys(&mut state, sums);
                    state.walk.scheduler.advance();
                }
            }
            bar_sync(DS_WRITTEN, OF_CONSUMERS); // both are done with shared memory
            self.finish(&KeySums {
                rows: Self::rank(),
                of: Held::One(sums.registers()[0].as_ref()),
            });
        }
    }

    /// One tile of queries, for dv and dq.
    ///
    /// # Safety
    /// As for [`consume_in_pair`](Self::consume_in_pair).
    #[inline(always)]
    unsafe fn step_of_values(&self, state: &mut State, dv: Sums<C>) -> Sums<C> {
        // SAFETY: stages are read after their loads have landed and before their release, which
        // comes after the `wgmma`s that read them are complete.
        unsafe {
            let q_stage = state.next.wait_of(self.pipeline_q); // q landed
            let mut s = Accumulator::<C::Scores>::unset().begin();
            s.multiply_rows(self.kv.rows(&state.keys), self.q.rows(&q_stage));
            let rows_stage = state.next.wait_of(self.pipeline_rows); // lse and delta are there
            let rows = self.thread_rows(&rows_stage);
            let mut s = s.finish();
            q_stage.release(Self::readers());
            let (mut p, _) = self.probabilities(&state.walk, rows, &mut s);
            p.tie();
            let d_o_stage = state.next_d_o.wait_of(self.pipeline_d_o); // d_o landed
            let mut dv = dv.begin();
            dv.multiply_add_fragments(&p, self.d_o.columns(&d_o_stage), true);

            let ds_stage = state.next_d_o.wait_of(self.pipeline_ds); // dS of both is there
            let mut dq = Accumulator::<C::Queries>::unset().begin();
            let rank = Self::rank();
            let k = self.kv.columns_at(opaque(state.keys.index()));
            let own = self.ds().columns_at(rank).panel(0);
            dq.multiply_columns(own, k.panels::<2>(Self::panels_of_dq()[0]));
            let peers = self.ds().columns_at(rank ^ 1).panel(0);
            dq.multiply_add_columns(peers, self.peer().columns_at(0));

            let dv = dv.finish_before::<2>();
            p.tie(); // its registers were read by `wgmma`s until here
            let d_o_stage = state.next_d_o.held_of(self.pipeline_d_o);
            d_o_stage.release(Self::readers());
            let dq = dq.finish();
            ds_stage.release(Self::readers());
            bar_sync(DQ_FREE + (state.parity ^ 1), Self::OF_DQ); // the adder has read the last tile's
            let rows_stage = state.next.held_of(self.pipeline_rows);
            rows_stage.release(Readers::OneBlock);
            put_sums(self.dq_at(), dq.registers()[0].as_ref());
            bar_arrive(DQ_WRITTEN + state.parity, Self::OF_DQ);
            state.parity ^= 1;
            state.next.advance();
            state.next_d_o.advance();
            dv
        }
    }

    /// One tile of queries, for dS and dk.
    ///
    /// # Safety
    /// As for [`consume_in_pair`](Self::consume_in_pair).
    #[inline(always)]
    unsafe fn step_of_keys(&self, state: &mut State, dk: Sums<C>) -> Sums<C> {
        // SAFETY: as in `step_of_values`.
        unsafe {
            let q_stage = state.next.wait_of(self.pipeline_q); // q landed
            let mut s = Accumulator::<C::Scores>::unset().begin();
            s.multiply_rows(self.kv.rows(&state.keys), self.q.rows(&q_stage));
            let d_o_stage = state.next_d_o.wait_of(self.pipeline_d_o); // d_o landed
            let mut dp = Accumulator::<C::Scores>::unset().begin();
            dp.multiply_rows(self.kv.rows(&state.values), self.d_o.rows(&d_o_stage));
            let rows_stage = state.next.wait_of(self.pipeline_rows); // lse and delta are there
            let rows = self.thread_rows(&rows_stage);
            let mut s = s.finish_before::<1>();
            let (_rounded, kept) = self.probabilities(&state.walk, rows, &mut s);
            let mut dp = dp.finish();
            d_o_stage.release(Self::readers());
            let slopes = dp.registers_mut()[0].as_mut();
            let weights = (s.registers()[0].as_ref(), kept);
            self.slopes(&state.walk, rows, weights, slopes);
            let mut ds = Fragments::<C::Element, C::P>::of(&dp, C::pair);
            self.share_ds(&mut state.next_ds, &ds);
            let rows_stage = state.next.held_of(self.pipeline_rows);
            rows_stage.release(Readers::OneBlock);

            ds.tie();
            let mut dk = dk.begin();
            let q_stage = state.next.held_of(self.pipeline_q);
            dk.multiply_add_fragments(&ds, self.q.columns(&q_stage), true);
            let dk = dk.finish();
            ds.tie();
            q_stage.release(Self::readers());
            state.next.advance();
            state.next_d_o.advance();
            dk
        }
    }

    /// Writes dS to its buffers in both thread blocks, when those of the tile before are read.
    ///
    /// # Safety
    /// Consumer 1 calls it, converged.
    #[inline(always)]
    unsafe fn share_ds(&self, next: &mut Producer<Stages<1>>, ds: &Fragments<C::Element, C::P>) {
        let rank = Self::rank();
        let bytes = C::TILE.ds_bytes() / Self::CTAS;
        // SAFETY: the buffers are empty, and the peer waits for the bytes.
        unsafe {
            let slot = next.acquire_by_warp(self.pipeline_ds, 0, false);
            next.advance();
            self.put_ds((rank, 0), ds);
            bar_sync(DS_COPIED, WARPGROUP); // all warps have written
            if opaque(thread::thread_idx_x()).is_multiple_of(WARPGROUP) {
                let own = self.ds().at_index(rank, 0);
                let to = mapa_shared_cluster(own, rank ^ 1);
                slot.barrier().arrive_expect_tx(bytes);
                let barrier = slot.barrier().of_rank(rank ^ 1);
                cp_async_bulk_shared_cluster_shared_cta(to, own, bytes, barrier);
            }
        }
    }
}
