//! Matrix products on tensor cores by `mma.sync`, as Ampere has them:
//! `D[m, n] = epilogue(op(A)[m, k] @ op(B)[k, n])`, batched.
//!
//! f16, bf16, f32 (as tf32) or 8-bit operands, of any alignment; f32 accumulators. They run on sm_80
//! (8 bits: sm_89; f16 in another tile: sm_75) and everything newer; on Hopper they take what no
//! tensor copy can. [`spec::gemm::MmaEntry`] says which there are.
//!
//! # Roles
//! All warps do the same: each owns 64×64 results as 4×8 blocks of `m16n8`, 128 accumulators a
//! thread, and its share of the copies. 8 warps to a tile of 128×256, or 4 to one of 128×128. On
//! Turing, and of 8 bits, 64×32 results a warp, 8 warps to 128×128.
//!
//! # Pipeline
//! | what | by | waited for by |
//! |---|---|---|
//! | stages of A and B, `STAGES` | `cp.async`, a group a tile of k | `wait_group`, then the barrier |
//! | fragments of a step (32 bytes of k), two | `ldmatrix`; loads of words where f32 lie MN-major | the products that use them |
//!
//! # Shared memory
//! | what | bytes | lifetime |
//! |---|---|---|
//! | stages: A, then B, in rows of permuted chunks ([`spec::gemm::OperandMap`]) | `STAGES * (TILE_M + TILE_N) * TILE_K_BYTES` | main loop |
//! | results in f32, permuted ([`spec::gemm::MmaTile::result_place`]) | `4 * TILE_M * TILE_N` | after it, in the same place |
//! | or, of the large tile, rounded ([`spec::gemm::MmaTile::rounded_place`]), where the epilogue is a factor alone | `2 * TILE_M * TILE_N` | the same |
//!
//! # Timeline
//! For each tile of k: while the products of a step run, the fragments of the next are read and a
//! part of the copies of the tile `STAGES - 1` ahead is started; before the last step's products,
//! the wait, the one barrier, and the first fragments of the next tile. All of it is one block of
//! code without branches, which ptxas weaves: NOTE(perf): with branches around the copies it ran
//! at 355 TFLOP/s in the place of 454 (bf16, 8192³, H200).
//!
//! The last tile of k comes first if it is short: its copies are those of `Operand::copy_any`, which
//! know every alignment, and all others are whole. An operand that is not aligned to 16 bytes is
//! copied by `copy_any` in every tile. Turing has no copies in the background: a tile is loaded into
//! registers during the first step's products, and written in the last one's; the last one comes
//! first always. Behind the last tile zeros are copied.
//!
//! # Numerics
//! The tensor core adds the products of 32 bytes of k (16 on Turing) and the accumulator at a time,
//! in the order of tiles of k (a short one first), to f32; those of 8 bits to fewer bits. f32
//! operands are rounded to tf32, to nearest. Deterministic; bits do not depend on alignment or
//! batch, and on the tile only by its extent of k.
//!
//! # Sources
//! The multistage pipeline and the double-buffered fragments are those of CUTLASS 2.x; permuted
//! chunks as in [`spec::swizzle`].
//!
//! # Before you change this
//! `ptxas -v -arch=sm_80` and `sm_90`: no spills; `cargo test -p warpsmith-tests --test gemm_mma`
//! (it asserts that there are no bank conflicts); on a GPU, `compare_gemm` of benches.

mod body;
mod entries;
mod fragments;
mod one_by_one;
mod operand;
mod product;
mod results;

pub use entries::*;
