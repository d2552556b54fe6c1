//! What a consumer warpgroup does: 64 keys' dk and dv, and its part of every tile's dq.

use core::hint::cold_path;

use abi::attention_grad::sm90::{CHUNK, STAGES};
use abi::gemm::sm90::{MMA_M, WARPGROUP};
use abi::swizzle::Swizzle;
use abi::tensor_core::ldmatrix::tile_16x16;
use cuda_std::accumulator::{Accumulator, Fragments, PairRegisters};
use cuda_std::barrier::{bar_arrive, bar_sync};
use cuda_std::fence::fence_proxy_async_shared_cta;
use cuda_std::hint::opaque;
use cuda_std::ldmatrix::stmatrix_x4;
use cuda_std::math::approx::{ex2_approx_ftz, rcp_approx_ftz};
use cuda_std::mem::ld_shared_v2_f32;
use cuda_std::pipeline::{Consumer, Readers, Stage, Stages};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::tile::OperandElement;
use cuda_std::warp::uniform;

use super::finish::{Held, KeySums, put_sums};
use super::kernel::{Backward, Config, DQ_FREE, DQ_WRITTEN, DS_WRITTEN, OF_CONSUMERS};
use super::mask::KeyMask;
use super::schedule::TileScheduler;
use crate::attention::dropout::Kept;
use crate::attention::score::{self, Place};

/// Where a consumer warpgroup is.
pub(super) struct Walk {
    pub(super) scheduler: TileScheduler,
    /// The first of the 64 keys.
    pub(super) first_key: u32,
}

/// The state of a consumer warpgroup.
struct State {
    consumer_idx: u32,
    walk: Walk,
    /// Of the tile's number, which says who adds its dq.
    parity: u32,
    /// Where it is in the rings of q, of d_o, and of lse and delta, and in the buffers of dS.
    next: Consumer<Stages<STAGES>>,
    keys: Stage,
    values: Stage,
}

/// A consumer's sums: dk and dv.
type Sums<C> = (
    Accumulator<<C as Config>::Keys>,
    Accumulator<<C as Config>::Keys>,
);

impl Walk {
    /// At the first tile, with the `part`th 64 of the block's keys.
    #[inline(always)]
    pub(super) fn new(scheduler: TileScheduler, part: u32) -> Self {
        let first_key = scheduler.first_key() + part * MMA_M;
        Self {
            scheduler,
            first_key,
        }
    }
}

impl<C: Config<GradStages = Stages<STAGES>>> Backward<'_, C> {
    /// The consumer of a thread block alone: computes this warpgroup's keys' dk and dv.
    ///
    /// # Safety
    /// Each consumer warpgroup calls it, converged.
    #[inline(always)]
    pub(super) unsafe fn consume(&self, scheduler: TileScheduler) {
        // SAFETY: a warp is in one warpgroup. All warps of the warpgroups go through the same
        // tiles.
        unsafe {
            let consumer_idx = uniform(thread::thread_idx_x() / WARPGROUP) - 1;
            let mut kv = self.pipeline_kv.consumer();
            let mut state = State {
                consumer_idx,
                walk: Walk::new(scheduler, consumer_idx),
                parity: 0,
                next: self.pipeline_q.consumer(),
                keys: kv.wait(),   // k landed
                values: kv.wait(), // v landed
            };
            let mut sums = (Accumulator::zero(), Accumulator::zero());
            while state.walk.scheduler.left > 0 {
                sums = self.step(&mut state, sums);
                state.walk.scheduler.advance();
            }
            let last = state.parity ^ 1;
            bar_sync(DQ_FREE + last, Self::OF_DQ); // the last dq is read, and v by all warps
            let (dk, dv) = (
                sums.0.registers()[0].as_ref(),
                sums.1.registers()[0].as_ref(),
            );
            self.finish(&KeySums {
                rows: state.consumer_idx,
                of: Held::Both { dk, dv },
            });
        }
    }

    /// One tile of queries.
    ///
    /// # Safety
    /// As for [`consume`](Self::consume).
    #[inline(always)]
    unsafe fn step(&self, state: &mut State, (dk, dv): Sums<C>) -> Sums<C> {
        // Opaque, so that descriptors are computed here: there are no registers to keep them.
        let consumer_idx = opaque(state.consumer_idx);
        let own = consumer_idx * MMA_M;
        // SAFETY: stages are read after their loads have landed and before their release, which
        // comes after the `wgmma`s that read them are complete.
        unsafe {
            let q_stage = state.next.wait_of(self.pipeline_q); // q landed
            let mut s = Accumulator::<C::Scores>::unset().begin();
            let k = self.kv.rows(&state.keys).below(own);
            s.multiply_rows(k, self.q.rows(&q_stage));
            let d_o_stage = state.next.wait_of(self.pipeline_d_o); // d_o landed
            let mut dp = Accumulator::<C::Scores>::unset().begin();
            let v = self.kv.rows(&state.values).below(own);
            dp.multiply_rows(v, self.d_o.rows(&d_o_stage));
            let rows_stage = state.next.wait_of(self.pipeline_rows); // lse and delta are there
            let rows = self.thread_rows(&rows_stage);
            let mut s = s.finish_before::<1>();
            let (mut p, kept) = self.probabilities(&state.walk, rows, &mut s);
            p.tie();
            // There are no registers to keep what belongs to stages.
            let d_o_stage = state.next.held_of(self.pipeline_d_o);
            let mut dv = dv.begin();
            dv.multiply_add_fragments(&p, self.d_o.columns(&d_o_stage), true);

            let rows_stage = state.next.held_of(self.pipeline_rows);
            let rows = self.thread_rows(&rows_stage);
            let mut dp = dp.finish_before::<1>();
            let slopes = dp.registers_mut()[0].as_mut();
            let weights = (s.registers()[0].as_ref(), kept);
            self.slopes(&state.walk, rows, weights, slopes);
            let mut ds = Fragments::<C::Element, C::P>::of(&dp, C::pair);
            let q_stage = state.next.held_of(self.pipeline_q);
            self.put_ds((q_stage.index(), own), &ds);
            bar_sync(DS_WRITTEN, OF_CONSUMERS); // dS is written, the buffer before is read
            rows_stage.release(Readers::OneBlock);

            ds.tie();
            let mut dq = Accumulator::<C::Queries>::unset().begin();
            let (of_ds, of_k) = match C::TILE.panels() {
                1 => (consumer_idx, 0), // half of the queries
                _ => (0, consumer_idx), // half of the columns
            };
            let rows = self.ds().columns_at(q_stage.index()).panel(of_ds);
            // Opaque: its descriptors would be kept in registers.
            let k = self.kv.columns_at(opaque(state.keys.index()));
            dq.multiply_columns(rows, k.panel(of_k));
            let mut dk = dk.begin();
            dk.multiply_add_fragments(&ds, self.q.columns(&q_stage), true);

            let dv = dv.finish_before::<1>();
            let dq = dq.finish_before::<1>();
            p.tie(); // its registers were read by `wgmma`s until here
            d_o_stage.release(Readers::OneBlock);
            self.put_dq((consumer_idx, state.parity), dq.registers()[0].as_ref());
            state.parity ^= 1;
            let dk = dk.finish();
            ds.tie();
            q_stage.release(Readers::OneBlock);
            state.next.advance();
            (dk, dv)
        }
    }

    /// Hands this consumer's part of dq to the tile's adder.
    ///
    /// # Safety
    /// The warpgroup calls it, converged.
    #[inline(always)]
    unsafe fn put_dq(&self, (consumer_idx, parity): (u32, u32), dq: &[f32]) {
        // SAFETY: the adder has read the last tile's, and reads this one's after the barrier.
        unsafe {
            bar_sync(DQ_FREE + (parity ^ 1), Self::OF_DQ); // the adder has read the last tile's
            put_sums(self.dq_at().add_bytes(4 * consumer_idx * CHUNK), dq);
            bar_arrive(DQ_WRITTEN + parity, Self::OF_DQ);
        }
    }
}

impl<C: Config> Backward<'_, C> {
    /// Where a thread's first lse is: that of its first column, two columns of every eight.
    #[inline(always)]
    pub(super) fn thread_rows(&self, stage: &Stage) -> SharedAddr {
        let first = 2 * (opaque(thread::thread_idx_x()) % 4);
        self.rows_at(stage.index()).add_bytes(4 * first)
    }

    /// Turns scores into probabilities and returns these, rounded, and which are kept. With a softcap `s` then holds
    /// them times the softcap's slope, which is what [`slopes`](Self::slopes) needs.
    ///
    /// # Safety
    /// `rows` is where lse is.
    #[inline(always)]
    pub(super) unsafe fn probabilities(
        &self,
        walk: &Walk,
        rows: SharedAddr,
        s: &mut Accumulator<C::Scores>,
    ) -> (Fragments<C::Element, C::P>, Kept) {
        let params = &self.call.params.fwd;
        let scale = params.softmax_scale_log2;
        // Opaque, as LLVM would otherwise make two loops of the one around this.
        let has_softcap = opaque(params.softcap_scale.to_bits()) != 0;
        let s = s.registers_mut()[0].as_mut();
        if has_softcap {
            cold_path();
            let scale = params.softcap_scale * (2.0 * core::f32::consts::LOG2_E);
            let mut i = 0;
            while i < s.len() {
                // tanh by an exponential: `tanh.approx` has only 11 bits.
                s[i] = 1.0 - 2.0 * rcp_approx_ftz(1.0 + ex2_approx_ftz(s[i] * scale));
                i += 1;
            }
        }
        let (mask, first_key) = (self.mask(&walk.scheduler), walk.first_key);
        KeyMask { mask, first_key }.apply(s, walk.scheduler.first_query(), C::TILE.tile_m);
        let pairs = self.pairs(walk);
        let kept = Kept::of::<true>(s.len(), pairs.place, |idx| pairs.at(2 * idx, 0));
        let at = (&pairs, &kept);
        // SAFETY: the caller's promise.
        let p = unsafe {
            if has_softcap {
                cold_path();
                // Finite where a score is masked, so that the product is 0 there.
                let slope = |tanh: f32| 1.0 - tanh * tanh;
                let then = |power, tanh| power * slope(tanh);
                powers(s, scale, rows, at, C::pair, then)
            } else {
                powers(s, scale, rows, at, C::pair, |power, _| power)
            }
        };
        (p, kept)
    }

    /// Where the thread's scores of the tile are.
    #[inline(always)]
    fn pairs(&self, walk: &Walk) -> Pairs {
        // Opaque, so that what depends only on the thread is not kept in registers across tiles.
        let thread = opaque(thread::thread_idx_x());
        let (warp, lane) = (thread % WARPGROUP / 32, thread % 32);
        let scheduler = &walk.scheduler;
        let mask = self.mask(scheduler);
        Pairs {
            place: Place {
                batch: self.batch_idx(scheduler),
                head: scheduler.head,
                seqlen_q: mask.seqlen_q,
                seqlen_k: mask.seqlen_k,
            },
            first_query: scheduler.first_query() + lane % 4 * 2,
            first_key: walk.first_key + 16 * warp + lane / 4,
        }
    }

    /// Turns dP into dS. `s` is as [`probabilities`](Self::probabilities) left it.
    ///
    /// # Safety
    /// `rows` is where lse is.
    #[inline(always)]
    pub(super) unsafe fn slopes(
        &self,
        walk: &Walk,
        rows: SharedAddr,
        (s, kept): (&[f32], Kept),
        dp: &mut [f32],
    ) {
        let pairs = self.pairs(walk);
        let mut i = 0;
        while i < s.len() / 4 {
            let delta = rows.add_bytes(4 * C::TILE.tile_m + 32 * i as u32);
            // SAFETY: the caller's promise; delta is behind lse.
            let delta = unsafe { ld_shared_v2_f32(delta) };
            let mut half = 0;
            while half < 2 {
                let at = 4 * i + 2 * half;
                let pair = kept.apply(at, [dp[at], dp[at + 1]]);
                (dp[at], dp[at + 1]) = (pair[0], pair[1]);
                half += 1;
            }
            let mut j = 0;
            while j < 4 {
                let at = 4 * i + j;
                dp[at] = s[at] * (dp[at] - delta[j % 2]);
                j += 1;
            }
            let mut half = 0;
            while half < 2 {
                let at = 4 * i + 2 * half;
                let products = [dp[at], dp[at + 1]];
                // SAFETY: one thread has a pair, and each pair is in one tile of one block of keys.
                let products = unsafe { score::products(products, pairs.place, pairs.at(i, half)) };
                (dp[at], dp[at + 1]) = (products[0], products[1]);
                half += 1;
            }
            i += 1;
        }
    }

    /// Writes rows of dS, from `first` on, to a buffer in shared memory, for `wgmma`s that compute dq.
    ///
    /// # Safety
    /// The warpgroup calls it, converged; nobody reads the buffer any more.
    #[inline(always)]
    pub(super) unsafe fn put_ds(
        &self,
        (buffer, first): (u32, u32),
        ds: &Fragments<C::Element, C::P>,
    ) {
        let thread = opaque(thread::thread_idx_x()) % WARPGROUP;
        let written = tile_16x16(thread % thread::WARP_THREADS);
        let row = first + thread / thread::WARP_THREADS * 16 + written.row;
        let pairs = ds.pairs().as_ref();
        let mut i = 0;
        while i < C::P::COUNT / 4 {
            let panel = self.ds().at_index(buffer, i as u32 / 4);
            let byte = 2 * (16 * (i as u32 % 4) + written.column);
            let to = panel.add_bytes(Swizzle::B128.offset_bytes(row, byte));
            let at = 4 * i;
            let four = [pairs[at], pairs[at + 1], pairs[at + 2], pairs[at + 3]];
            // SAFETY: rows of this warp, in a buffer that nobody reads.
            unsafe { stmatrix_x4(to, four) };
            i += 1;
        }
        fence_proxy_async_shared_cta();
    }
}

/// Where a thread's scores are: two neighbouring queries of every eight, of two keys.
struct Pairs {
    place: Place,
    first_query: u32,
    first_key: u32,
}

impl Pairs {
    /// The first query and the key of the pair `half` of the `i`th eight queries.
    #[inline(always)]
    fn at(&self, i: usize, half: usize) -> (u32, u32) {
        (
            self.first_query + 8 * i as u32,
            self.first_key + 8 * half as u32,
        )
    }
}

/// Probabilities of scores, rounded; `then` makes of each and its score what takes the score's
/// place.
///
/// # Safety
/// `rows` is where the thread's first `-lse * log2(e)` is.
#[inline(always)]
unsafe fn powers<E: OperandElement, R: PairRegisters>(
    s: &mut [f32],
    scale_log2: f32,
    rows: SharedAddr,
    (at, kept): (&Pairs, &Kept),
    pair: impl Fn(f32, f32) -> u32,
    then: impl Fn(f32, f32) -> f32,
) -> Fragments<E, R> {
    let mut pairs = R::zero();
    let mut i = 0;
    while i < s.len() / 4 {
        // SAFETY: the caller's promise.
        let lse = unsafe { ld_shared_v2_f32(rows.add_bytes(32 * i as u32)) };
        let mut four = [0.0; 4];
        let mut half = 0;
        while half < 2 {
            let first = 4 * i + 2 * half;
            let (query, key) = at.at(i, half);
            let scores = [s[first], s[first + 1]];
            let (scores, slopes) = score::with_slopes::<true>(scores, at.place, query, key);
            let mut j = 0;
            while j < 2 {
                let power = ex2_approx_ftz(scores[j] * scale_log2 + lse[j]);
                four[2 * half + j] = power;
                s[first + j] = then(power, scores[j]);
                j += 1;
            }
            let weights = score::weights([s[first], s[first + 1]], slopes);
            (s[first], s[first + 1]) = (weights[0], weights[1]);
            let powers = kept.apply(first, [four[2 * half], four[2 * half + 1]]);
            (four[2 * half], four[2 * half + 1]) = (powers[0], powers[1]);
            half += 1;
        }
        pairs.as_mut()[2 * i] = pair(four[0], four[1]);
        pairs.as_mut()[2 * i + 1] = pair(four[2], four[3]);
        i += 1;
    }
    Fragments::of_pairs(pairs)
}
