//! `wgmma.mma_async`: one `impl` of [`MmaAsync`] for each N in the tables and each combination of
//! types.

use crate::tile::OperandElement;

use super::{Bf16, E4m3, E5m2, F16, M64, Registers, S8, S32Bits, Tf32, U8};

/// One shape and type combination of `wgmma.mma_async`: `acc = a * b + acc`, or `acc = a * b` where
/// `SCALE_D` is false.
///
/// `TRANS_A` and `TRANS_B` are true for MN-major operands in shared memory (`Major::Mn`), false for
/// K-major ones. Only 16-bit types may be MN-major; others do not compile.
pub trait MmaAsync {
    /// Element type of A.
    type A: OperandElement;
    /// Element type of B.
    type B: OperandElement;
    /// A thread's fragment of D.
    type Acc: Registers + Copy;
    /// Extent of one instruction along k, in elements.
    const K: u32;

    /// `wgmma.mma_async.sync.aligned.SHAPE.TYPES {acc}, a, b, SCALE_D, ..`: A and B in shared
    /// memory, by descriptors.
    ///
    /// *Scope*: warpgroup, each warp converged; it relies on cuda_builder to keep it convergent.
    /// *Proxy*: async, for A and B. *Since*: PTX 8.0, sm_90a.
    ///
    /// # Safety
    /// All warps of the warpgroup execute it with the same descriptors, after a
    /// [`wgmma_fence`](super::wgmma_fence). The matrices are in shared memory and visible to the
    /// async proxy. Until [`wgmma_wait_group`](super::wgmma_wait_group) has waited for its group,
    /// nobody writes the matrices, and `acc` is used only by instructions of this shape.
    ///
    /// # Panics
    /// On the host.
    unsafe fn ss<const SCALE_D: bool, const TRANS_A: bool, const TRANS_B: bool>(
        acc: &mut Self::Acc,
        a: u64,
        b: u64,
    );

    /// `wgmma.mma_async.sync.aligned.SHAPE.TYPES {acc}, {a}, b, SCALE_D, ..`: A in registers, B by
    /// a descriptor. Scope, proxy and since are those of [`ss`](Self::ss).
    ///
    /// # Safety
    /// As for [`ss`](Self::ss). The registers of `a` are not written either until its group has
    /// been waited for.
    ///
    /// # Panics
    /// On the host.
    unsafe fn rs<const SCALE_D: bool, const TRANS_B: bool>(
        acc: &mut Self::Acc,
        a: [u32; 4],
        b: u64,
    );

    /// `wgmma.mma_async.sync.aligned.SHAPE.TYPES {acc}, {a}, b, p, ..`: as [`rs`](Self::rs), with
    /// scale-d in a predicate, so that it may be decided at run time.
    ///
    /// # Safety
    /// As for [`rs`](Self::rs); `scale_d` is the same in all threads of the warpgroup.
    ///
    /// # Panics
    /// On the host.
    unsafe fn rs_scaled<const TRANS_B: bool>(
        acc: &mut Self::Acc,
        a: [u32; 4],
        b: u64,
        scale_d: bool,
    );
}

/// One shape and type combination. `$ss` and `$rs` are the operands that follow scale-d where A is
/// in shared memory and in registers; `$ss_const` and `$rs_const` are the constants that they name.
macro_rules! product {
    ($n:literal $acc:ty, $d:ty, $a:ty, $b:ty, $types:literal, $k:literal, $ss:literal
        ($($ss_const:tt)*), $rs:literal ($($rs_const:tt)*), $both:expr,
        $first:literal $($i:literal)*) => {
        impl MmaAsync for M64<$n, $d, $a, $b> {
            type A = $a;
            type B = $b;
            type Acc = [$acc; [$first $(, $i)*].len()];
            const K: u32 = $k;

            #[inline(always)]
            unsafe fn ss<const SCALE_D: bool, const TRANS_A: bool, const TRANS_B: bool>(
                acc: &mut Self::Acc,
                a: u64,
                b: u64,
            ) {
                const { assert!($both || !(TRANS_A || TRANS_B), "only 16-bit types are transposed") };
                on_device!("wgmma::mma_async", (acc, a, b), {
                    // SAFETY: the caller's warps are converged and the operands are there.
                    unsafe {
                        core::arch::asm!(
                            concat!("wgmma.mma_async.sync.aligned.m64n", $n, "k", $k, ".", $types,
                                " {{{", $first, "}" $(, ", {", $i, "}")*,
                                "}}, {a}, {b}, {scale_d}", $ss, ";"),
                            inout(reg32) acc[$first] $(, inout(reg32) acc[$i])*,
                            a = in(reg64) a, b = in(reg64) b, scale_d = const SCALE_D as u32,
                            $($ss_const)* options(nostack));
                    }
                })
            }

            #[inline(always)]
            unsafe fn rs<const SCALE_D: bool, const TRANS_B: bool>(
                acc: &mut Self::Acc,
                a: [u32; 4],
                b: u64,
            ) {
                const { assert!($both || !TRANS_B, "only 16-bit types are transposed") };
                on_device!("wgmma::mma_async", (acc, a, b), {
                    // SAFETY: the caller's warps are converged and the operands are there.
                    unsafe {
                        core::arch::asm!(
                            concat!("wgmma.mma_async.sync.aligned.m64n", $n, "k", $k, ".", $types,
                                " {{{", $first, "}" $(, ", {", $i, "}")*,
                                "}}, {{{a0}, {a1}, {a2}, {a3}}}, {b}, {scale_d}", $rs, ";"),
                            inout(reg32) acc[$first] $(, inout(reg32) acc[$i])*,
                            a0 = in(reg32) a[0], a1 = in(reg32) a[1], a2 = in(reg32) a[2],
                            a3 = in(reg32) a[3], b = in(reg64) b, scale_d = const SCALE_D as u32,
                            $($rs_const)* options(nostack));
                    }
                })
            }

            #[inline(always)]
            unsafe fn rs_scaled<const TRANS_B: bool>(
                acc: &mut Self::Acc,
                a: [u32; 4],
                b: u64,
                scale_d: bool,
            ) {
                const { assert!($both || !TRANS_B, "only 16-bit types are transposed") };
                on_device!("wgmma::mma_async", (acc, a, b, scale_d), {
                    // SAFETY: the caller's warps are converged and the operands are there.
                    unsafe {
                        core::arch::asm!("{{", ".reg .pred p;", "setp.ne.u32 p, {scale_d}, 0;",
                            concat!("wgmma.mma_async.sync.aligned.m64n", $n, "k", $k, ".", $types,
                                " {{{", $first, "}" $(, ", {", $i, "}")*,
                                "}}, {{{a0}, {a1}, {a2}, {a3}}}, {b}, p", $rs, ";"), "}}",
                            inout(reg32) acc[$first] $(, inout(reg32) acc[$i])*,
                            a0 = in(reg32) a[0], a1 = in(reg32) a[1], a2 = in(reg32) a[2],
                            a3 = in(reg32) a[3], b = in(reg64) b, scale_d = in(reg32) u32::from(scale_d),
                            $($rs_const)* options(nostack));
                    }
                })
            }
        }
    };
}

/// 16-bit types, which have the transposition operands.
macro_rules! product_16 {
    ($n:literal $acc:ty, $d:ty, $a:ty, $types:literal, $($i:literal)*) => {
        product! { $n $acc, $d, $a, $a, $types, 16,
            ", 1, 1, {trans_a}, {trans_b}"
            (trans_a = const TRANS_A as u32, trans_b = const TRANS_B as u32,),
            ", 1, 1, {trans_b}" (trans_b = const TRANS_B as u32,), true, $($i)* }
    };
}

/// 8-bit floats and tf32, which have none.
macro_rules! product_8 {
    ($n:literal $acc:ty, $d:ty, $a:ty, $b:ty, $types:literal, $k:literal, $($i:literal)*) => {
        product! { $n $acc, $d, $a, $b, $types, $k, ", 1, 1" (), ", 1, 1" (), false, $($i)* }
    };
}

macro_rules! f32_products {
    ($n:literal [$($i:literal)*]) => {
        product_16! { $n f32, f32, F16, "f32.f16.f16", $($i)* }
        product_16! { $n f32, f32, Bf16, "f32.bf16.bf16", $($i)* }
        product_8! { $n f32, f32, Tf32, Tf32, "f32.tf32.tf32", 8, $($i)* }
        product_8! { $n f32, f32, E4m3, E4m3, "f32.e4m3.e4m3", 32, $($i)* }
        product_8! { $n f32, f32, E4m3, E5m2, "f32.e4m3.e5m2", 32, $($i)* }
        product_8! { $n f32, f32, E5m2, E4m3, "f32.e5m2.e4m3", 32, $($i)* }
        product_8! { $n f32, f32, E5m2, E5m2, "f32.e5m2.e5m2", 32, $($i)* }
    };
}

macro_rules! f16_products {
    ($n:literal [$($i:literal)*]) => {
        product_16! { $n u32, F16, F16, "f16.f16.f16", $($i)* }
        product_8! { $n u32, F16, E4m3, E4m3, "f16.e4m3.e4m3", 32, $($i)* }
        product_8! { $n u32, F16, E4m3, E5m2, "f16.e4m3.e5m2", 32, $($i)* }
        product_8! { $n u32, F16, E5m2, E4m3, "f16.e5m2.e4m3", 32, $($i)* }
        product_8! { $n u32, F16, E5m2, E5m2, "f16.e5m2.e5m2", 32, $($i)* }
    };
}

macro_rules! s32_products {
    ($n:literal [$($i:literal)*]) => {
        product! { $n i32, i32, S8, S8, "s32.s8.s8", 32, "" (), "" (), false, $($i)* }
        product! { $n f32, S32Bits, S8, S8, "s32.s8.s8", 32, "" (), "" (), false, $($i)* }
        product! { $n i32, i32, S8, U8, "s32.s8.u8", 32, "" (), "" (), false, $($i)* }
        product! { $n i32, i32, U8, S8, "s32.u8.s8", 32, "" (), "" (), false, $($i)* }
        product! { $n i32, i32, U8, U8, "s32.u8.u8", 32, "" (), "" (), false, $($i)* }
    };
}

f32_rows!(f32_products);
f16_rows!(f16_products);
s32_rows!(s32_products);
