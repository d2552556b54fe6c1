//! GEMM by `mma.sync`, the tensor-core instruction of Turing, Ampere and Ada:
//! `D[m, n] = epilogue(op(A)[m, k] @ op(B)[k, n])`, batched.
//!
//! f16, bf16, f32 (as tf32) or 8-bit operands, of any alignment; f32 accumulators, of i8 in i32.
//! The kernels run on sm_80 (8-bit floats: sm_89; f16 by a tile of its own: sm_75) and everything
//! newer; on Hopper they take the operands that TMA cannot load. [`abi::gemm::MmaEntry`] says which
//! there are.
//!
//! # Roles
//! All warps do the same: each computes its part of the tile, as blocks of `m16n8`, and issues its
//! share of the copies.
//!
//! | tile | warps | results a warp | accumulators a thread |
//! |---|---|---|---|
//! | 128×256 | 8 | 64×64, as 4×8 blocks | 128 |
//! | 128×128 | 4 | 64×64, as 4×8 blocks | 128 |
//! | 128×128 for Turing, and for 8 bits | 8 | 64×32, as 4×4 blocks | 64 |
//!
//! # Pipeline
//! | what | filled by | waited for by |
//! |---|---|---|
//! | stages of A and B, `STAGES` of them | `cp.async`, one commit group a k tile | `wait_group`, then the barrier of the block |
//! | fragments of a k step (32 bytes of k), double-buffered | `ldmatrix`; 4-byte loads where f32 are MN-major | the `mma`s that use them |
//!
//! # Shared memory
//! | what | bytes | lifetime |
//! |---|---|---|
//! | stages: A, then B, as rows of swizzled 16-byte chunks ([`abi::gemm::OperandMap`]) | `STAGES * (TILE_M + TILE_N) * TILE_K_BYTES` | mainloop |
//! | results in f32, swizzled ([`abi::gemm::MmaTile::result_offset`], or [`either_offset`](abi::gemm::MmaTile::either_offset) where the launch says of which type D is) | `4 * TILE_M * TILE_N` | after it, in the same place |
//! | or, with the large tile and `alpha` as the whole epilogue, results already rounded ([`abi::gemm::MmaTile::rounded_offset`]) | `2 * TILE_M * TILE_N` | the same |
//!
//! # Timeline
//! For each k tile:
//! - For each k step but the last: read the fragments of the next step and start a part of the
//!   copies of the k tile `STAGES - 1` ahead. Meanwhile this step's `mma`s run.
//! - Before the `mma`s of the last step: wait for the next k tile's copies, the only barrier, and
//!   read its first fragments.
//!
//! All of this is one basic block, whose instructions ptxas interleaves. NOTE(perf): with branches
//! around the copies it ran at 355 TFLOP/s instead of 454 (bf16, 8192³, H200; docs/decisions/0012).
//!
//! Special cases:
//! - If the last k tile is short, it is computed first. `Operand::copy_any` copies it, for any size
//!   and alignment, so that all k tiles of the loop are whole.
//! - An operand that is not aligned to 16 bytes is copied by `copy_any` in every k tile.
//! - Turing has no `cp.async`. A k tile is loaded into registers during the first step's `mma`s and
//!   written to its stage before the last step's; the last k tile is always computed first.
//! - The loop copies `STAGES - 1` more tiles than there are, of zeros.
//!
//! # Numerics
//! The tensor core adds the products of 32 bytes of k (16 on Turing) and the accumulator at a time,
//! to f32 (with 8-bit floats to fewer bits). The order is that of the k tiles, a short one first.
//! f32 operands are rounded to tf32, to nearest. Deterministic; bits do not depend on alignment or
//! batch, and on the tile only by its extent of k.
//!
//! # Sources
//! The multistage pipeline and the double-buffered fragments are those of CUTLASS 2.x; the swizzle
//! is that of [`abi::swizzle`].
//!
//! # Before you change this
//! `ptxas -v -arch=sm_80` and `sm_90`: no spills; `cargo test -p warpsmith-tests gemm_kernels::`
//! (it asserts that there are no bank conflicts); on a GPU, `compare_gemm` of benches.

mod body;
mod either;
mod entries;
mod fragments;
mod one_by_one;
mod operand;
mod product;
mod results;
mod sums;

pub use entries::*;
