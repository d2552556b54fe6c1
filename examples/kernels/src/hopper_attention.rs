//! `o = softmax(scale * q @ kᵀ) @ v` on Hopper's tensor cores, from the parts of `cuda_std`.
//!
//! q, k and v are `[heads, seqlen, 128]` in bf16, o is the same in f32; seqlen is above 0. If `causal`
//! is 1, a query sees the keys up to its own position.
//!
//! **Roles.** A CTA computes 128 queries of a head, by three warpgroups: of the first, one thread issues
//! the TMA loads; the other two have 64 queries each. **Pipelines.** Queries have one stage, keys and
//! values a ring of two stages each. **Numerics.** f32; probabilities are rounded to bf16. Keys go from
//! the first to the last: the same bits every run.
//!
//! The library's own kernel (`kernels-gpu/src/attention/sm90/kernel.rs`) does more. Its CTAs are
//! persistent, its consumers take turns, and it stores by TMA. Scores of the next block overlap the
//! softmax of this one.

use cuda_std::accumulator::{Accumulator, Fragments};
use cuda_std::convert::f32x2_to_bf16x2_cvt;
use cuda_std::fence::fence_mbarrier_init_release_cluster;
use cuda_std::math::approx::{ex2_approx_ftz, rcp_approx_ftz};
use cuda_std::panels::{PanelRing, Panels};
use cuda_std::pipeline::{Pipeline, Readers, Stages};
use cuda_std::prelude::*;
use cuda_std::regs::{setmaxnreg_dec, setmaxnreg_inc};
use cuda_std::shared::SharedAddr;
use cuda_std::tma::{TensorMap, TensorMapParam};
use cuda_std::wgmma::{Bf16, M64};

const HEAD_DIM: u32 = 128;
/// Queries of a CTA, and keys of a block.
const TILE: u32 = 128;
/// Queries of a consumer: the m of `wgmma`.
const ROWS: u32 = 64;
const WARPGROUP: u32 = 128;
const STAGES: u32 = 2;

/// The instruction of both products: 64 × 128 × 16.
type Acc = Accumulator<M64<128, f32, Bf16, Bf16>>;
/// Matrices of 128 × 128, in two panels of 64 columns.
type Matrices = PanelRing<Bf16, Panels<TILE, 2>>;
type Ring = Pipeline<Stages<STAGES>>;

const SMEM_BYTES: u32 = 1024 + (1 + 2 * STAGES) * Matrices::BYTES + 3 * Ring::BYTES;

/// The parts of shared memory: queries, of which only one stage is used, keys, values.
#[derive(Clone, Copy)]
struct Shared {
    q: (Matrices, Ring),
    k: (Matrices, Ring),
    v: (Matrices, Ring),
}

/// Attention of a head's 128 queries.
///
/// # Safety
/// 384 threads a CTA, and a grid of `[seqlen / 128, heads]`, rounded up. The maps are of q, k and v with
/// dimensions `[128, seqlen, heads]`, boxes of `[64, 128, 1]` and a swizzle of 128 bytes; `o` points to
/// heads × seqlen × 128 elements. `scale_log2` is the scale times log2(e), above 0.
#[kernel(arch = "sm_90a", max_threads = 384, min_blocks = 1, dynamic_shared = SMEM_BYTES)]
pub unsafe fn hopper_attention(
    q: TensorMapParam,
    k: TensorMapParam,
    v: TensorMapParam,
    o: *mut f32,
    seqlen: u32,
    scale_log2: f32,
    causal: u32,
) {
    let (row, head) = (thread::block_idx_x() * TILE, thread::block_idx_y());
    let end = if causal != 0 { row + TILE } else { seqlen };
    let blocks = end.min(seqlen).div_ceil(TILE);
    // SAFETY: the launch gives SMEM_BYTES; no thread passes the barrier before the mbarriers are made;
    // each role is whole warpgroups, which go through the same blocks of keys.
    unsafe {
        let shared = shared();
        if thread::thread_idx_x() == 0 {
            [shared.q.1, shared.k.1, shared.v.1].map(|ring| ring.init(2));
            fence_mbarrier_init_release_cluster();
        }
        thread::sync_threads();
        let warpgroup = thread::thread_idx_x() / WARPGROUP;
        if warpgroup == 0 {
            setmaxnreg_dec::<40>();
            if thread::thread_idx_x() == 0 {
                produce(shared, [q.as_ptr(), k.as_ptr(), v.as_ptr()], [row, head, blocks]);
            }
        } else {
            setmaxnreg_inc::<232>();
            let own = (warpgroup - 1) * ROWS;
            let (row, first) = (row + own, (blocks - 1) * TILE);
            let in_last = |query, key| first + key < seqlen.min(if causal != 0 { row + query + 1 } else { seqlen });
            attend(shared, [own, blocks], scale_log2, in_last).map(|at, x| {
                if row + at.row < seqlen {
                    let place = (head * seqlen + row + at.row) as usize * HEAD_DIM as usize;
                    *o.add(place + at.column as usize) = x; // this thread's alone
                }
                x
            });
        }
    }
}

/// Divides the CTA's dynamic shared memory.
///
/// # Safety
/// There are [`SMEM_BYTES`] of it.
#[inline(always)]
unsafe fn shared() -> Shared {
    // SAFETY: passed on to the caller; the parts do not overlap.
    unsafe {
        let base = SharedAddr::of(dynamic_shared![u8]).aligned_to(1024);
        let at = |matrices| base.add_bytes(matrices * Matrices::BYTES);
        let ring = |idx| Ring::at(at(1 + 2 * STAGES).add_bytes(idx * Ring::BYTES));
        Shared {
            q: (Matrices::at(base), ring(0)),
            k: (Matrices::at(at(1)), ring(1)),
            v: (Matrices::at(at(1 + STAGES)), ring(2)),
        }
    }
}

/// Loads the queries, then every block's keys and values. Elements beyond the tensors come as 0.
///
/// # Safety
/// One thread calls it, after the pipelines were made.
#[inline(always)]
unsafe fn produce(shared: Shared, maps: [*const TensorMap; 3], [row, head, blocks]: [u32; 3]) {
    let Shared { q, k, v } = shared;
    let (mut keys, mut values) = (k.1.producer(), v.1.producer());
    // SAFETY: a slot is empty, and the loads bring the bytes that it is told of.
    unsafe {
        let slot = q.1.producer().acquire(Matrices::BYTES);
        q.0.load_3d(&slot, maps[0], [row, head]);
        let mut block = 0;
        while block < blocks {
            let slot = keys.acquire(Matrices::BYTES);
            k.0.load_3d(&slot, maps[1], [block * TILE, head]);
            let slot = values.acquire(Matrices::BYTES);
            v.0.load_3d(&slot, maps[2], [block * TILE, head]);
            block += 1;
        }
    }
}

/// o of 64 queries, from row `own` of the CTA's on. `in_last` says which keys of the last block a query
/// sees; it sees all of the others, and at least one.
///
/// # Safety
/// A whole warpgroup calls it, converged; `blocks` > 0.
#[inline(always)]
unsafe fn attend(
    Shared { q, k, v }: Shared,
    [own, blocks]: [u32; 2],
    scale_log2: f32,
    in_last: impl Fn(u32, u32) -> bool,
) -> Acc {
    let (mut keys, mut values) = (k.1.consumer(), v.1.consumer());
    let (mut max, mut sum) = ([f32::NEG_INFINITY; 2], [0.0; 2]);
    let mut o = Acc::zero();
    // SAFETY: a stage is read after its loads have landed, and is released when the instructions that
    // read it are complete.
    unsafe {
        let q_stage = q.1.consumer().wait(); // q landed
        let mut block = 0;
        while block < blocks {
            let k_stage = keys.wait(); // k of the block landed
            let mut s = Acc::unset().begin();
            s.multiply_rows(q.0.rows(&q_stage).below(own), k.0.rows(&k_stage));
            let mut s = s.finish();
            k_stage.release(Readers::OneBlock);
            block += 1;
            if block == blocks {
                let hidden = f32::NEG_INFINITY;
                s.map(|at, x| if in_last(at.row, at.column) { x } else { hidden });
            }
            let of_block = s.row_max();
            let new = [0, 1].map(|row| of_block[row].max(max[row]));
            let factors = [0, 1].map(|row| ex2_approx_ftz((max[row] - new[row]) * scale_log2));
            max = new;
            s.exp2(scale_log2, max.map(|max| max * scale_log2));
            let of_block = s.row_sum();
            sum = [0, 1].map(|row| sum[row] * factors[row] + of_block[row]);
            o.scale_rows(factors);
            let mut p = Fragments::<Bf16, [u32; 32]>::of(&s, f32x2_to_bf16x2_cvt);
            p.tie();
            let v_stage = values.wait(); // v of the block landed
            let mut next = o.begin();
            next.multiply_add_fragments(&p, v.0.columns(&v_stage), true);
            o = next.finish();
            p.tie(); // its registers were read until here
            v_stage.release(Readers::OneBlock);
        }
    }
    o.scale_rows(sum.map(|sum| rcp_approx_ftz(sum)));
    o
}
