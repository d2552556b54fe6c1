//! Matrix products of a warpgroup on Hopper's tensor cores, in the background:
//! `wgmma.mma_async`, every shape and type.
//!
//! An instruction is a type, [`M64`]`<N, D, A, B>`, with the mnemonic's words as parameters:
//! `M64::<256, f32, Bf16, Bf16>::ss::<..>(..)` is `wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16`
//! with A and B in shared memory, and `rs` has A in registers. B and a shared A are given by
//! descriptors (`spec::tensor_core::descriptor`); `spec::tensor_core::fragment` says which element
//! of D and of a register A each thread holds.
//!
//! | D | A and B | N | k |
//! |---|---|---|---|
//! | `f32` | [`F16`], [`Bf16`]: both the same | 8 to 256 by 8 | 16 |
//! | `f32` | [`Tf32`] | 8 to 256 by 8 | 8 |
//! | `f32`, [`F16`] | [`E4m3`], [`E5m2`]: any two | 8 to 256 by 8 | 32 |
//! | [`F16`] | [`F16`] | 8 to 256 by 8 | 16 |
//! | `i32` | [`S8`], [`U8`]: any two | 8 to 32 by 8, 48 to 256 by 16 | 32 |
//!
//! The order is: [`wgmma_fence`], products, [`wgmma_commit_group`], [`wgmma_wait_group`], which gives
//! the accumulator back. Until then nobody reads or writes it, nor the registers of A. LLVM knows
//! nothing of that: the wait takes the accumulator by `&mut`, and [`tie`] holds any other.
//!
//! What the hardware lacks does not compile: a shape, a pair of types, 8-bit types whose k is not
//! contiguous.
//! ```
//! use cuda_std::wgmma::{E4m3, M64, MmaAsync};
//! type Mma = M64<256, f32, E4m3, E4m3>;
//! let product = Mma::ss::<true, false, false>;
//! # let _: unsafe fn(&mut [f32; 128], u64, u64) = product;
//! ```
//! ```compile_fail
//! # use cuda_std::wgmma::{E4m3, M64, MmaAsync};
//! type Mma = M64<256, f32, E4m3, E4m3>;
//! let product = Mma::ss::<true, false, true>; // B by columns
//! # let _: unsafe fn(&mut [f32; 128], u64, u64) = product;
//! ```
//! ```compile_fail
//! # use cuda_std::wgmma::{MmaAsync, M64, S8};
//! type Mma = M64<40, i32, S8, S8>; // no such N
//! let product = Mma::ss::<true, false, false>;
//! # let _: unsafe fn(&mut [i32; 20], u64, u64) = product;
//! ```
//!
//! All are for a warpgroup (4 warps, the first a multiple of 4), each warp converged; they rely on
//! cuda_builder to keep them convergent. The kernel says `max_threads`. *Since*: PTX 8.0, sm_90a.

#[macro_use]
mod tables;
mod instructions;
mod registers;

pub use instructions::MmaAsync;
pub use registers::{Registers, tie, wgmma_wait_group};

use core::marker::PhantomData;

/// `wgmma.mma_async.sync.aligned.m64nNkK.D.A.B`.
#[derive(Clone, Copy, Debug)]
pub struct M64<const N: usize, D, A, B>(PhantomData<(D, A, B)>);

macro_rules! element_types {
    ($($name:ident, $doc:literal;)*) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
    )*};
}

element_types! {
    F16, "IEEE binary16.";
    Bf16, "bfloat16.";
    Tf32, "An f32 of which 10 bits of mantissa count.";
    E4m3, "8 bits, 4 of them exponent.";
    E5m2, "8 bits, 5 of them exponent.";
    S8, "Signed, 8 bits.";
    U8, "Unsigned, 8 bits.";
}

/// `wgmma.fence.sync.aligned`: what was written to accumulators and to registers of A is seen by the
/// products that follow. Before the first product, and after each ordinary write to them; [`tie`]
/// what was written first, so that LLVM does not move the write behind it.
///
/// *Scope*: warpgroup, converged. *Since*: PTX 8.0, sm_90a.
///
/// # Safety
/// All warps of the warpgroup execute it.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn wgmma_fence() {
    on_device!("wgmma::wgmma_fence", (), {
        // SAFETY: the caller's warps are converged.
        unsafe { core::arch::asm!("wgmma.fence.sync.aligned;", options(nostack)) }
    })
}

/// `wgmma.commit_group.sync.aligned`: the products since the last one are a group.
///
/// *Scope*: warpgroup, converged. *Since*: PTX 8.0, sm_90a.
///
/// # Safety
/// All warps of the warpgroup execute it.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn wgmma_commit_group() {
    on_device!("wgmma::wgmma_commit_group", (), {
        // SAFETY: the caller's warps are converged.
        unsafe { core::arch::asm!("wgmma.commit_group.sync.aligned;", options(nostack)) }
    })
}
