//! Hopper's asynchronous warpgroup-level matrix multiply-accumulate (`wgmma.mma_async`), every
//! dense shape and type except the 1-bit ones.
//!
//! An instruction is a type, [`M64`]`<N, D, A, B>`, with the parts of the mnemonic as parameters:
//! `M64::<256, f32, Bf16, Bf16>` is `wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16`. Its
//! method [`ss`](MmaAsync::ss) takes A and B from shared memory, [`rs`](MmaAsync::rs) takes A from
//! registers. Operands in shared memory are given by descriptors (`abi::tensor_core::descriptor`).
//! `abi::tensor_core::fragment` says which elements of D, and of A in registers, each thread
//! holds.
//!
//! | D | A and B | N | k |
//! |---|---|---|---|
//! | `f32` | [`F16`], [`Bf16`]: both the same | 8 to 256 by 8 | 16 |
//! | `f32` | [`Tf32`] | 8 to 256 by 8 | 8 |
//! | `f32`, [`F16`] | [`E4m3`], [`E5m2`]: any combination | 8 to 256 by 8 | 32 |
//! | [`F16`] | [`F16`] | 8 to 256 by 8 | 16 |
//! | `i32` | [`S8`], [`U8`]: any combination | 8 to 32 by 8, 48 to 256 by 16 | 32 |
//! | [`S32Bits`] | [`S8`] | 8 to 32 by 8, 48 to 256 by 16 | 32 |
//!
//! The sequence is:
//!
//! 1. [`wgmma_fence`] orders earlier register accesses before the instructions that follow;
//! 2. the wgmma instructions;
//! 3. [`wgmma_commit_group`] makes them a group;
//! 4. [`wgmma_wait_group`] waits for groups; the accumulator may then be read.
//!
//! Until the wait, the accumulator and the registers of A must not be accessed. LLVM does not know
//! of this asynchrony. [`wgmma_wait_group`] therefore takes the accumulator by `&mut`, and [`tie`]
//! does the same for any other registers.
//!
//! The descriptors' matrices are read through the async proxy. If threads wrote them by ordinary
//! stores, a [`fence_proxy_async_shared_cta`](crate::fence::fence_proxy_async_shared_cta) by those
//! threads and a barrier come first. TMA loads need none: they are waited for on an mbarrier.
//!
//! What the hardware lacks does not compile: a shape, a combination of types, 8-bit operands that
//! are not K-major.
//! ```
//! use cuda_std::wgmma::{E4m3, M64, MmaAsync};
//! type Mma = M64<256, f32, E4m3, E4m3>;
//! let product = Mma::ss::<true, false, false>;
//! # let _: unsafe fn(&mut [f32; 128], u64, u64) = product;
//! ```
//! ```compile_fail
//! # use cuda_std::wgmma::{E4m3, M64, MmaAsync};
//! type Mma = M64<256, f32, E4m3, E4m3>;
//! let product = Mma::ss::<true, false, true>; // B is MN-major
//! # let _: unsafe fn(&mut [f32; 128], u64, u64) = product;
//! ```
//! ```compile_fail
//! # use cuda_std::wgmma::{MmaAsync, M64, S8};
//! type Mma = M64<40, i32, S8, S8>; // no such N
//! let product = Mma::ss::<true, false, false>;
//! # let _: unsafe fn(&mut [i32; 20], u64, u64) = product;
//! ```
//!
//! *Scope*: all instructions are executed by a warpgroup (4 consecutive warps, the index of the
//! first a multiple of 4), each warp converged. They rely on cuda_builder to keep them convergent.
//! The kernel declares `max_threads`. *Since*: PTX 8.0, sm_90a.

#[macro_use]
mod tables;
mod instructions;
mod registers;

pub use instructions::MmaAsync;
pub use registers::{Registers, tie, wgmma_wait_group};

use core::marker::PhantomData;

/// The instruction `wgmma.mma_async.sync.aligned.m64nNkK.D.A.B`; [`MmaAsync`] has its forms.
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

/// Accumulators in `s32` whose bits are handed out as `f32`, which kernels of all other types have: it
/// is the instruction of `i32`.
#[derive(Clone, Copy, Debug)]
pub struct S32Bits;

/// `wgmma.fence.sync.aligned`: orders the warpgroup's earlier accesses to registers before the
/// accesses by the `wgmma.mma_async` that follow.
///
/// It is needed before the first `wgmma.mma_async`, and again after every ordinary write to an
/// accumulator or to registers of A. [`tie`] the registers first, so that LLVM does not move the
/// write past the fence. It is not a proxy fence: it does not order accesses to shared memory.
///
/// *Scope*: warpgroup, each warp converged. *Since*: PTX 8.0, sm_90a.
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

/// `wgmma.commit_group.sync.aligned`: makes a group of the warpgroup's `wgmma.mma_async` that are
/// in no group yet.
///
/// *Scope*: warpgroup, each warp converged. *Since*: PTX 8.0, sm_90a.
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
