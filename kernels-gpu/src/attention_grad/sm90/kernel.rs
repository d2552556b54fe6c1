//! dq, dk and dv of attention on Hopper: warp-specialised, one block for each block of keys.
//!
//! ```text
//! S^T = k q^T    P^T = exp(softmax_scale * S^T - lse)    dv += P^T d_o
//! dP^T = v d_o^T    dS^T = P^T * (dP^T - delta)    dk += dS^T q    dq += dS k
//! ```
//!
//! q, k, v and d_o in f16 or bf16, `[batch, position, head, head_dim]`; lse and delta in f32.
//! [`abi::attention_grad::sm90`] has the parameters, and docs/attention-backward.md the terms.
//!
//! **Roles.** Warpgroup 0 gives most of its registers to the others. Its warps are the loader of q,
//! k, v and d_o, of which one lane issues TMA loads, the loader of lse and delta, and two adders.
//! One lane of each adder adds every other tile's dq to memory. Warpgroups 1 and 2 are consumers.
//! Each has 64 of the block's keys and holds their dk and dv in registers. It visits the tiles of
//! queries one after the other ([`scheduler`](super::scheduler)), of all query heads of the block.
//!
//! **Pipelines.**
//!
//! | barrier | arrives | count | bytes |
//! |---|---|---|---|
//! | k, v: full | the loading thread, before its copies | 1 | the matrix |
//! | q, d_o: full | the same | 1 | the stage |
//! | lse and delta: full | a lane of their loader, after all lanes wrote | 1 | – |
//! | empty of these | a thread of each consumer | 2 | – |
//!
//! | named barrier | arrive | wait |
//! |---|---|---|
//! | [`DS_WRITTEN`] | both consumers, dS written | both consumers |
//! | [`DQ_FREE`] and the one behind it | the tile's adder, dq read from shared memory | both consumers, before they write the next tile's |
//! | [`DQ_WRITTEN`] and the one behind it | both consumers, dq written | the tile's adder |
//! | [`KEYS_WRITTEN`] and the one behind it | a consumer, its dk and dv written | the same |
//!
//! **Pairs.** Above head_dim 128, a block is a cluster of two thread blocks ([`pair`](super::pair)).
//!
//! dS has two buffers: who passes [`DS_WRITTEN`] knows that the other has read the buffer before.
//!
//! **Shared memory** ([`Sm90GradTile::smem`]): k, v, q, d_o, dS, dq on its way out, lse and delta,
//! barriers. At the end, dk and dv go out through v, or, to be added to sums, through all from k to
//! d_o.
//!
//! **Lengths.** Entries for sequences of different lengths find their block of keys first
//! ([`place`](super::place)), and what the walk is goes to shared memory. Maps end where a sequence
//! does ([`abi::attention_grad::sm90`]), so rows of the next one are zeros.
//!
//! **Timeline.** A consumer, for each tile: issue S^T and dP^T; wait for S^T, exponentials; issue
//! dv; wait for dP^T, dS^T to shared memory. Then: meet the other consumer; issue its part of dq,
//! which takes dS of both, and dk; wait for dq, hand it to the adder; wait for dk.
//!
//! **Numerics.** Products and sums in f32; P and dS are rounded to q's type for the products. dk
//! and dv are sums over tiles in the order of the walk, then over heads. dq is a sum over blocks of
//! keys in the order of [`abi::attention_grad::order`]. So the bits are the same every run.
//!
//! **Sources.** FlashAttention-3 (Shah et al., arXiv:2407.08608) for roles and the order of
//! products.
//!
//! **Before you change this**: `cargo test -p warpsmith-tests attention_grad_sm90::` finds
//! races, lost arrivals and wrong bits.

use abi::attention::FlashFwdLengths;
use abi::attention_grad::AttentionGradParams;
use abi::attention_grad::sm90::{CONSUMERS, STAGES, Sm90GradTile};
use abi::gemm::sm90::{TILE_ALIGN, WARPGROUP};
use cuda_std::accumulator::PairRegisters;
use cuda_std::cluster::{
    barrier_cluster_arrive_release_aligned, barrier_cluster_wait_acquire_aligned,
};
use cuda_std::dynamic_shared;
use cuda_std::fence::fence_mbarrier_init_release_cluster;
use cuda_std::grid::{griddepcontrol_launch_dependents, griddepcontrol_wait};
use cuda_std::hint::opaque;
use cuda_std::panels::{FewPanels, PanelRing, PanelShape};
use cuda_std::pipeline::{Pipeline, Readers, StageCount, Stages};
use cuda_std::regs::{setmaxnreg_dec, setmaxnreg_inc};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::tile::OperandElement;
use cuda_std::tma::{self, TensorMap};
use cuda_std::warp::uniform;
use cuda_std::wgmma::MmaAsync;

use super::schedule::TileScheduler;

/// Named barriers; 0 is `sync_threads`'s. This file's header says who arrives.
pub(super) const DS_WRITTEN: u32 = 1;
/// See [`DS_WRITTEN`].
/// The first of two, by the tile's parity.
pub(super) const DQ_FREE: u32 = 2;
/// See [`DS_WRITTEN`] and [`DQ_FREE`].
pub(super) const DQ_WRITTEN: u32 = 4;
/// See [`DS_WRITTEN`]. The first of two, by the consumer.
pub(super) const KEYS_WRITTEN: u32 = 6;
/// A pair's: see [`pair`](super::pair).
pub(super) const DS_COPIED: u32 = 8;
/// Threads that meet at [`DS_WRITTEN`].
pub(super) const OF_CONSUMERS: u32 = CONSUMERS * WARPGROUP;

/// What makes one kernel: its instructions and its tile.
pub(super) trait Config {
    /// Element type.
    type Element: OperandElement;
    /// The `wgmma` of S^T and dP^T: n = the queries of a tile.
    type Scores: MmaAsync<A = Self::Element, B = Self::Element, Acc: AsRef<[f32]> + AsMut<[f32]>>;
    /// The `wgmma` of dk and dv: n = head_dim.
    type Keys: MmaAsync<A = Self::Element, B = Self::Element, Acc: AsRef<[f32]> + AsMut<[f32]>>;
    /// The `wgmma` of a consumer's part of dq: n = 64, or 128 in a pair.
    type Queries: MmaAsync<A = Self::Element, B = Self::Element, Acc: AsRef<[f32]> + AsMut<[f32]>>;
    /// A thread block's keys or values.
    type Kv: PanelShape;
    /// A tile of queries or of d_o.
    type Q: PanelShape;
    /// dS^T of as many keys.
    type Ds: PanelShape;
    /// The stages of d_o.
    type GradStages: StageCount;
    /// A thread's elements of P^T or dS^T, rounded.
    type P: PairRegisters;
    /// The tile.
    const TILE: Sm90GradTile;
    /// Whether sequences have lengths of their own.
    const HAS_LENGTHS: bool;

    /// Two f32, rounded to elements; the first in the lower half.
    fn pair(low: f32, high: f32) -> u32;

    /// What a consumer warpgroup does.
    ///
    /// # Safety
    /// Each consumer warpgroup calls it, converged.
    unsafe fn consume(kernel: &Backward<'_, Self>, scheduler: TileScheduler)
    where
        Self: Sized;
}

/// The launch's arguments.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    /// q, k, v, d_o.
    pub(super) maps: [*const TensorMap; 4],
    pub(super) lse: *const f32,
    pub(super) delta: *const f32,
    pub(super) sums: *mut f32,
    pub(super) key_sums: *mut f32,
    pub(super) counters: *mut u32,
    pub(super) dk: *mut u16,
    pub(super) dv: *mut u16,
    pub(super) lengths: &'a FlashFwdLengths,
    pub(super) params: &'a AttentionGradParams,
}

/// The kernel of `C`.
pub(super) struct Backward<'a, C: Config> {
    pub(super) call: Call<'a>,
    base: SharedAddr,
    /// k, then v.
    pub(super) kv: PanelRing<C::Element, C::Kv>,
    pub(super) q: PanelRing<C::Element, C::Q>,
    pub(super) d_o: PanelRing<C::Element, C::Q>,
    pub(super) pipeline_kv: Pipeline<Stages<2>>,
    pub(super) pipeline_q: Pipeline<Stages<STAGES>>,
    pub(super) pipeline_d_o: Pipeline<C::GradStages>,
    pub(super) pipeline_rows: Pipeline<Stages<STAGES>>,
    /// Of a pair's dS.
    pub(super) pipeline_ds: Pipeline<Stages<1>>,
}

impl<'a, C: Config> Backward<'a, C> {
    /// Thread blocks of a cluster.
    pub(super) const CTAS: u32 = C::TILE.ctas();
    /// Threads that meet for a tile's dq: the consumers that wrote it, and the adder's warp.
    pub(super) const OF_DQ: u32 = OF_CONSUMERS / Self::CTAS + thread::WARP_THREADS;

    /// The whole kernel.
    ///
    /// # Safety
    /// Launched as [`abi::attention_grad::sm90`] says.
    #[inline(always)]
    pub(super) unsafe fn run<const LOADER: u32, const CONSUMER: u32>(call: Call<'a>) {
        // SAFETY: all threads of the block meet before any uses what the barriers protect. Each
        // role is a whole warpgroup, or a warp of warpgroup 0, and its registers are there for it.
        unsafe {
            let kernel = Self::new(call);
            kernel.prepare();
            griddepcontrol_wait(); // wait until the preceding launches' writes are visible
            if C::HAS_LENGTHS && !kernel.find_place() {
                return;
            }
            // With lengths, each role reads it: the loader has no registers for what roles share.
            let shared = (!C::HAS_LENGTHS).then(|| kernel.scheduler());
            let scheduler = || shared.unwrap_or_else(|| kernel.scheduler());
            if Self::is_loader() {
                setmaxnreg_dec::<LOADER>();
                match uniform(thread::thread_idx_x() / thread::WARP_THREADS) {
                    0 => {
                        kernel.load(scheduler());
                        griddepcontrol_launch_dependents();
                    }
                    1 => kernel.load_rows(scheduler()),
                    adder => kernel.add(scheduler(), adder % 2),
                }
            } else {
                setmaxnreg_inc::<CONSUMER>();
                C::consume(&kernel, scheduler());
            }
            if Self::CTAS > 1 {
                // Neither leaves while the other may still write to it or signal it.
                barrier_cluster_arrive_release_aligned();
                barrier_cluster_wait_acquire_aligned();
            }
        }
    }

    /// Whether the thread is in the loader's warpgroup. A pair's consumers differ, so a build has to
    /// see that warps part here, not threads of a warp.
    #[inline(always)]
    unsafe fn is_loader() -> bool {
        let thread = thread::thread_idx_x();
        match Self::CTAS {
            1 => thread < WARPGROUP,
            // SAFETY: whole warps call it, converged.
            _ => unsafe { uniform(thread / WARPGROUP) == 0 },
        }
    }

    /// The thread block's rank in its cluster. Computed anew at each use.
    #[inline(always)]
    pub(super) fn rank() -> u32 {
        match Self::CTAS {
            1 => 0,
            ctas => opaque(thread::block_idx_x()) % ctas,
        }
    }

    /// Whose empty barriers a release of q or d_o arrives at.
    #[inline(always)]
    pub(super) const fn readers() -> Readers {
        match Self::CTAS {
            1 => Readers::OneBlock,
            ctas => Readers::Cluster(ctas),
        }
    }

    #[inline(always)]
    unsafe fn new(call: Call<'a>) -> Self {
        // SAFETY: the launch has as much shared memory as the map says.
        unsafe {
            let base = SharedAddr::of(dynamic_shared![u8]);
            Self::at(call, base.bits().next_multiple_of(TILE_ALIGN))
        }
    }

    /// The same, with addresses that are computed anew from `base`: there are no registers to keep
    /// them.
    #[inline(always)]
    pub(super) fn anew(&self) -> Self {
        // SAFETY: the same memory.
        unsafe { Self::at(self.call, opaque(self.base.bits())) }
    }

    /// # Safety
    /// The launch's shared memory from `base` on has room for what the tile's map says.
    #[inline(always)]
    unsafe fn at(call: Call<'a>, base: u32) -> Self {
        let map = C::TILE.smem();
        let at = |offset| SharedAddr::from_bits(base + offset);
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                call,
                base: at(0),
                kv: PanelRing::at(at(0)),
                q: PanelRing::at(at(map.q)),
                d_o: PanelRing::at(at(map.d_o)),
                pipeline_kv: Pipeline::at(at(map.barriers_kv)),
                pipeline_q: Pipeline::at(at(map.barriers_q)),
                pipeline_d_o: Pipeline::at(at(map.barriers_d_o)),
                pipeline_rows: Pipeline::at(at(map.barriers_rows)),
                pipeline_ds: Pipeline::at(at(map.barriers_ds)),
            }
        }
    }

    /// # Safety
    /// All threads of the cluster call it, once.
    #[inline(always)]
    unsafe fn prepare(&self) {
        // SAFETY: one thread initialises the barriers, and nobody goes on before that is done.
        unsafe {
            if thread::thread_idx_x() == 0 {
                for map in self.call.maps {
                    tma::prefetch_tensormap(map);
                }
                self.pipeline_kv.init(CONSUMERS);
                self.pipeline_q.init(CONSUMERS * Self::CTAS);
                self.pipeline_d_o.init(CONSUMERS * Self::CTAS);
                self.pipeline_rows.init(CONSUMERS);
                if Self::CTAS > 1 {
                    self.pipeline_ds.init(Self::CTAS);
                }
                fence_mbarrier_init_release_cluster();
            }
            if Self::CTAS > 1 {
                barrier_cluster_arrive_release_aligned();
                barrier_cluster_wait_acquire_aligned();
            } else {
                thread::sync_threads();
            }
        }
    }

    /// The panels of dq that the thread block computes: all, or half of them.
    #[inline(always)]
    pub(super) fn panels_of_dq() -> [u32; 2] {
        let panels = C::TILE.panels() / Self::CTAS;
        [Self::rank() * panels, (Self::rank() + 1) * panels]
    }

    /// These panels of the peer's keys.
    #[inline(always)]
    pub(super) fn peer(&self) -> PanelRing<C::Element, FewPanels<C::Kv, 2>> {
        // SAFETY: the memory is these panels'.
        unsafe { PanelRing::at(self.base.add_bytes(C::TILE.smem().peer)) }
    }

    /// A stage of lse, behind which that of delta lies.
    #[inline(always)]
    pub(super) fn rows_at(&self, stage_idx: u32) -> SharedAddr {
        let offset = C::TILE.smem().rows + stage_idx * C::TILE.rows_bytes();
        self.base.add_bytes(offset)
    }

    /// Where a block of keys of sequences of different lengths is.
    #[inline(always)]
    pub(super) fn place_at(&self) -> SharedAddr {
        self.base.add_bytes(C::TILE.smem().place)
    }

    /// dq on its way out.
    #[inline(always)]
    pub(super) fn dq_at(&self) -> SharedAddr {
        self.base.add_bytes(C::TILE.smem().dq)
    }

    /// The buffers of dS^T: rows are keys. A pair has one buffer for each of its thread blocks.
    #[inline(always)]
    pub(super) fn ds(&self) -> PanelRing<C::Element, C::Ds> {
        // SAFETY: the memory is these buffers'.
        unsafe { PanelRing::at(self.base.add_bytes(C::TILE.smem().ds)) }
    }
}
