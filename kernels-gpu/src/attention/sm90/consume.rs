//! What a consumer warpgroup does: both GEMMs, softmax, results.
//!
//! Between steps a consumer holds the probabilities of one block of keys. A step
//!
//! 1. issues the scores of the next block (q @ k^T),
//! 2. issues the product of the probabilities that it holds with their block's values, and
//! 3. turns the scores into the probabilities of the next step.
//!
//! There are two kinds of step. [`Forward::step`] is for any block: its tile may be a new one, some
//! of its keys may be masked. [`Forward::whole_steps`] is a loop with none of these cases, for the
//! blocks after it whose keys every row sees: most of them, where sequences are long.

use core::hint::cold_path;

use abi::attention::sm90::launch_flags::{HAS_UNSEEN, ROWS_ALONE};
use abi::gemm::sm90::WARPGROUP;
use cuda_std::accumulator::{Accumulator, Fragments, InFlight};
use cuda_std::hint::opaque;
use cuda_std::math::approx::{ex2_approx_ftz, rcp_approx_ftz};
use cuda_std::pipeline::{Consumer, Readers, Stage};
use cuda_std::thread;
use cuda_std::warp::uniform;
use cuda_std::wgmma::tie;

use super::clear::clear_rows;
use super::kernel::{Config, Forward};
use super::mask::RowMask;
use super::order_barrier::OrderBarrier;
use super::rows::RowMap;
use super::softmax::{Rescale, Softmax};
use super::store::Factors;
use super::ticket::{Blocks, Ticket, Tickets};
use crate::attention::dropout::{self, is_dropped};
use crate::attention::score::is_scored;
use crate::attention::sparse::{is_changed, is_sparse};

/// The probabilities of a tile's block of keys, in registers.
type Probabilities<C> = Fragments<<C as Config>::Element, <C as Config>::P>;

/// The state of a consumer warpgroup.
pub(super) struct State<C: Config> {
    order: OrderBarrier,
    queries: Consumer<C::QStages>,
    keys: Consumer<C::KStages>,
    values: Consumer<C::VStages>,
    tickets: Tickets,
    ticket: Ticket,
    /// Stages of the queries of `block`'s tile, and of the keys of `block`.
    q_stage: Stage,
    k_stage: Stage,
    /// The block of keys whose probabilities `p` holds. Blocks are visited backwards, down to
    /// `first`.
    block: u32,
    first: u32,
    /// Rows of its values that some query of the sequence may see.
    rows: u32,
    /// 0 if o does not hold sums of this tile yet, only what is left of another tile's.
    has_sums: u32,
    mask: RowMask,
    softmax: Softmax,
}

impl<C: Config> State<C> {
    /// Whether the tile has another block of keys, all of which are visible to all rows.
    ///
    /// # Safety
    /// The ticket has not been overwritten.
    #[inline(always)]
    unsafe fn is_next_whole(&self) -> bool {
        if self.block <= self.first {
            return false;
        }
        // SAFETY: passed on to the caller.
        let (block, partial) = unsafe { self.block_before() };
        self.mask.is_whole(block) && partial == 0
    }

    /// The tile's next block of keys, and whether it is partial.
    ///
    /// # Safety
    /// The ticket has not been overwritten.
    #[inline(always)]
    unsafe fn block_before(&self) -> (u32, u32) {
        let next = self.block - 1;
        if is_sparse() {
            // SAFETY: passed on to the caller.
            let line = unsafe { self.ticket.line::<C>() };
            return line.before_from(next, self.first);
        }
        (next, 0)
    }

    /// The same; if so, waits until its keys have landed. Called before the wait for `wgmma`s, so
    /// that the keys are there in time. Also, ptxas moves that wait up to a branch, but not past
    /// it.
    ///
    /// # Safety
    /// The warp calls it, converged, once a block.
    #[inline(always)]
    unsafe fn next_keys_of_whole(&mut self) -> bool {
        // SAFETY: the ticket is of the tile under way.
        let is_whole = unsafe { self.is_next_whole() };
        if is_whole {
            // SAFETY: nobody reads the stage before any more.
            unsafe { self.keys.wait_into(&mut self.k_stage) };
        }
        is_whole
    }
}

impl<C: Config> Forward<'_, C> {
    /// The consumer: computes this warpgroup's rows of every tile.
    ///
    /// # Safety
    /// Each consumer warpgroup calls it, converged.
    #[inline(always)]
    pub(super) unsafe fn consume(&self) {
        // SAFETY: a warp is in one warpgroup. The warps of the warpgroup, and the warpgroups, go
        // through the same blocks of keys.
        unsafe {
            let consumer_idx = uniform(thread::thread_idx_x() / WARPGROUP) - 1;
            let Some((mut at, mut p)) = self.start(consumer_idx) else {
                return;
            };
            let mut o = Accumulator::<C::Output>::unset();
            // `step` comes first, so that on every path its `wgmma`s precede those of
            // `whole_steps`.
            while let Some(next) = self.step(&mut at, &mut p, o) {
                o = next;
                let is_together = self.call.launch.flags & ROWS_ALONE == 0;
                if is_together && self.call.params.softcap_scale == 0.0 && !is_dropped() {
                    o = self.whole_steps(&mut at, &mut p, o);
                }
            }
            at.order.close();
        }
    }

    /// The probabilities of the first tile's first block, if there is a tile.
    ///
    /// # Safety
    /// As for [`consume`](Self::consume).
    #[inline(always)]
    unsafe fn start(&self, consumer_idx: u32) -> Option<(State<C>, Probabilities<C>)> {
        let (q, pipeline_q) = self.queries(consumer_idx);
        let order = OrderBarrier {
            consumer_idx,
            consumers: Self::CONSUMERS,
        };
        let mut tickets = self.tickets;
        let mut queries = pipeline_q.consumer();
        let mut keys = self.pipeline_k.consumer();
        // SAFETY: stages are read after their loads have landed and before their release, which
        // comes after the `wgmma`s that read them are complete.
        unsafe {
            let q_stage = queries.wait(); // the first tile's queries landed
            let ticket = tickets.next();
            let Blocks { first, end, rows } = ticket.blocks();
            if end == 0 {
                return None;
            }
            order.open();
            let block = end - 1;
            let rows_are = self.call.rows;
            let query_of_tile = consumer_idx * rows_are.queries();
            let mask = RowMask::new::<C>(ticket, rows_are, query_of_tile);
            let mut softmax = Softmax::new();
            let k_stage = keys.wait(); // keys of its last block landed
            let mut s = Accumulator::<C::Scores>::unset().begin();
            s.multiply_rows(q.rows(&q_stage), self.k.rows(&k_stage));
            let mut s = s.finish();
            k_stage.release_early(Readers::OneBlock);
            if block == first {
                q_stage.release_early(Readers::OneBlock);
            }
            let mut partial = 0;
            if is_sparse() {
                (_, partial) = ticket.line::<C>().before_from(block, first);
            }
            self.finish_scores(&mut s, ticket, query_of_tile, (block, partial));
            let scores = s.registers_mut()[0].as_mut();
            mask.apply::<C>(rows_are, query_of_tile, scores, block);
            softmax.update(
                scores,
                self.call.params.softmax_scale_log2,
                self.call.launch.flags,
            );
            self.drop(scores, ticket, query_of_tile, block);
            let p = Fragments::of(&s, C::pair);
            let at = State {
                order,
                queries,
                keys,
                values: self.pipeline_v.consumer(),
                tickets,
                ticket,
                q_stage,
                k_stage,
                block,
                first,
                rows,
                has_sums: 0,
                mask,
                softmax,
            };
            Some((at, p))
        }
    }

    /// Issues the scores of the keys of `at`, and the product of `p` with the next values.
    ///
    /// # Safety
    /// As for [`consume`](Self::consume); `rows` rows of the values belong to the sequence.
    #[inline(always)]
    unsafe fn issue(
        &self,
        at: &mut State<C>,
        p: &mut Fragments<C::Element, C::P>,
        o: Accumulator<C::Output>,
        rows: u32,
    ) -> (InFlight<C::Scores>, InFlight<C::Output>, Stage) {
        // SAFETY: passed on to the caller.
        unsafe {
            at.order.wait();
            p.tie();
            let mut s = Accumulator::<C::Scores>::unset().begin();
            let mut o = o.begin();
            // The queries' descriptors are recomputed here: there are no registers left to keep
            // them.
            let (q, _) = self.queries(opaque(at.order.consumer_idx));
            s.multiply_rows(q.rows(&at.q_stage), self.k.rows(&at.k_stage));
            let v_stage = at.values.wait(); // values of the block of `p` landed
            if rows < C::TILE.tile_n && at.order.consumer_idx == 0 {
                // Consumer 0, the first in turn, does it for all.
                cold_path();
                clear_rows(&self.v, &v_stage, rows);
            }
            // Otherwise LLVM peels the steps that start a sum into loops of their own.
            let adds = opaque(at.has_sums) != 0;
            o.multiply_add_fragments(p, self.v.columns(&v_stage), adds);
            at.has_sums = 1;
            at.order.pass();
            (s, o, v_stage)
        }
    }

    /// Loops while the tile has a next block of keys that all rows see wholly.
    ///
    /// # Safety
    /// As for [`consume`](Self::consume).
    #[inline(always)]
    unsafe fn whole_steps(
        &self,
        at: &mut State<C>,
        p: &mut Fragments<C::Element, C::P>,
        mut o: Accumulator<C::Output>,
    ) -> Accumulator<C::Output> {
        let scale_log2 = self.call.params.softmax_scale_log2;
        let may_clear = self.call.launch.flags & HAS_UNSEEN != 0 && at.rows < C::TILE.tile_n;
        // SAFETY: as for `step`.
        unsafe {
            let mut goes_on = !may_clear && at.next_keys_of_whole();
            while goes_on {
                (at.block, _) = at.block_before();
                let (s, o_next, v_stage) = self.issue(at, p, o, C::TILE.tile_n);
                let mut s = s.finish_before::<1>();
                at.k_stage.release_early(Readers::OneBlock);
                if at.block == at.first {
                    at.q_stage.release_early(Readers::OneBlock);
                }
                goes_on = at.next_keys_of_whole();
                o = o_next.finish();
                v_stage.release(Readers::OneBlock);
                p.tie(); // its registers were read by `wgmma`s until here
                tie(&mut s.registers_mut()[0]);
                let scores = s.registers_mut()[0].as_mut();
                if is_scored() {
                    self.change(
                        scores,
                        at.ticket,
                        at.order.consumer_idx * self.call.rows.queries(),
                        at.block,
                    );
                }
                let sums = o.registers_mut()[0].as_mut();
                at.softmax
                    .update_whole(scores, scale_log2, p, sums, C::pair);
            }
        }
        o
    }

    /// Advances to the next block of keys, of this tile or of the next; `None` if there is none.
    ///
    /// # Safety
    /// As for [`consume`](Self::consume).
    #[inline(always)]
    unsafe fn step(
        &self,
        at: &mut State<C>,
        p: &mut Fragments<C::Element, C::P>,
        o: Accumulator<C::Output>,
    ) -> Option<Accumulator<C::Output>> {
        let rows_are = self.call.rows;
        let query_of_tile = at.order.consumer_idx * rows_are.queries();
        let params = self.call.params;
        let is_last = at.block == at.first;
        let (tile_rows, outputs, done) = ((rows_are, query_of_tile), self.call.outputs, at.ticket);
        let rows = match self.call.launch.flags & HAS_UNSEEN {
            0 => C::TILE.tile_n,
            _ => at.rows,
        };
        at.rows = C::TILE.tile_n;
        // SAFETY: stages are read after their loads have landed and before their release, which
        // comes after the `wgmma`s that read them are complete.
        unsafe {
            let mut factors = Factors::NONE;
            if is_last {
                factors = outputs.finish_rows(params, tile_rows, done.output_tile(), &at.softmax);
            }
            let is_end = is_last && !self.next_tile(at);
            let mut partial = 0;
            if !is_end {
                (at.block, partial) = at.block_before();
                at.keys.wait_into(&mut at.k_stage); // keys of `block` landed
            }
            // At the very end this computes unused scores of keys that are still in their stage. If
            // they were computed conditionally, the code after it would need two forms.
            let (s, o_next, v_stage) = self.issue(at, p, o, rows);
            if is_last && !is_end {
                // While the tensor cores compute.
                at.mask = RowMask::new::<C>(at.ticket, rows_are, query_of_tile);
            }
            let mut s = s.finish_before::<1>();
            let mut rescale = Rescale::NONE;
            if !is_end {
                at.k_stage.release_early(Readers::OneBlock);
                if at.block == at.first {
                    at.q_stage.release_early(Readers::OneBlock);
                }
                self.finish_scores(&mut s, at.ticket, query_of_tile, (at.block, partial));
                let scores = s.registers_mut()[0].as_mut();
                at.mask
                    .apply::<C>(rows_are, query_of_tile, scores, at.block);
                let flags = self.call.launch.flags;
                rescale = at.softmax.update(scores, params.softmax_scale_log2, flags);
                self.drop(scores, at.ticket, query_of_tile, at.block);
            }
            let mut o = o_next.finish();
            v_stage.release(Readers::OneBlock);
            let sums = o.registers_mut()[0].as_mut();
            if is_last {
                dropout::scale(sums);
                let to = (done.output_tile(), self.results(at.order.consumer_idx));
                outputs.store(params, tile_rows, to, &factors, sums, C::pair);
                if is_end {
                    return None;
                }
                at.has_sums = 0;
            } else if rescale.is_needed {
                cold_path();
                rescale.apply(sums);
            }
            *p = Fragments::of(&s, C::pair);
            Some(o)
        }
    }

    /// Begins the next tile, if there is one. Its mask is not made here.
    ///
    /// # Safety
    /// As for [`consume`](Self::consume), after a tile's last block.
    #[inline(always)]
    unsafe fn next_tile(&self, at: &mut State<C>) -> bool {
        // SAFETY: the ticket is read after its queries have landed; nobody reads the queries
        // before.
        unsafe {
            let q_stage = at.queries.wait(); // the next tile's queries landed, if there is one
            at.ticket = at.tickets.next();
            let Blocks { first, end, rows } = at.ticket.blocks();
            if end == 0 {
                return false;
            }
            at.q_stage = q_stage;
            (at.first, at.block, at.rows) = (first, end, rows);
            at.softmax = Softmax::new();
            true
        }
    }

    /// Applies the softcap, if there is one, and what fills the holes. Scores are those of a
    /// warpgroup's rows and a block of keys. The rows' first query is `query_of_tile` of the ticket's
    /// tile.
    ///
    /// # Safety
    /// The ticket is one of a tile, and has not been overwritten.
    #[inline(always)]
    unsafe fn finish_scores(
        &self,
        s: &mut Accumulator<C::Scores>,
        ticket: Ticket,
        query_of_tile: u32,
        (block, partial): (u32, u32),
    ) {
        let scale = self.call.params.softcap_scale;
        let scores = s.registers_mut()[0].as_mut();
        // Opaque, as LLVM would otherwise unswitch the loop around this into two.
        if opaque(scale.to_bits()) != 0 {
            cold_path();
            let mut i = 0;
            while i < scores.len() {
                scores[i] = tanh(scores[i] * scale);
                i += 1;
            }
        }
        if is_changed(partial) {
            cold_path();
            // SAFETY: passed on to the caller.
            unsafe { self.change(scores, ticket, query_of_tile, block) };
        }
    }
}

/// By an exponential: `tanh.approx` has only 11 bits.
#[inline(always)]
fn tanh(x: f32) -> f32 {
    let power = ex2_approx_ftz(x * (2.0 * core::f32::consts::LOG2_E));
    1.0 - 2.0 * rcp_approx_ftz(1.0 + power)
}
