//! The products: one `impl` for each N of the tables and each pair of types.

use crate::tile::OperandElement;

use super::{Bf16, E4m3, E5m2, F16, M64, Registers, S8, Tf32, U8};

/// A product of a warpgroup: `acc = a * b + acc`, or without `+ acc` where `SCALE_D` is false.
///
/// `TRANS_A` and `TRANS_B` are for operands in shared memory whose k is not the contiguous extent
/// (`Major::Mn`); only types of 16 bits can be so, others do not compile.
pub trait MmaAsync {
    /// Element type of A.
    type A: OperandElement;
    /// Element type of B.
    type B: OperandElement;
    /// A thread's part of D.
    type Acc: Registers + Copy;
    /// k of one instruction.
    const K: u32;

    /// `wgmma.mma_async.sync.aligned.SHAPE.TYPES {acc}, a, b, SCALE_D, ..`: A and B by descriptors.
    ///
    /// # Safety
    /// All warps of the warpgroup execute it, after a [`wgmma_fence`](super::wgmma_fence), with the
    /// same descriptors, whose matrices are in shared memory for the async proxy to see. Until a
    /// wait nobody writes them, nor uses `acc` but in products of this shape.
    ///
    /// # Panics
    /// On the host.
    unsafe fn ss<const SCALE_D: bool, const TRANS_A: bool, const TRANS_B: bool>(
        acc: &mut Self::Acc,
        a: u64,
        b: u64,
    );

    /// `wgmma.mma_async.sync.aligned.SHAPE.TYPES {acc}, {a}, b, SCALE_D, ..`: A in registers.
    ///
    /// # Safety
    /// As for [`ss`](Self::ss), and nobody writes the registers of `a` until a wait.
    ///
    /// # Panics
    /// On the host.
    unsafe fn rs<const SCALE_D: bool, const TRANS_B: bool>(
        acc: &mut Self::Acc,
        a: [u32; 4],
        b: u64,
    );

    /// `wgmma.mma_async.sync.aligned.SHAPE.TYPES {acc}, {a}, b, p, ..`: [`rs`](Self::rs) with scale-d in a
    /// predicate, where it is known only when it runs.
    ///
    /// # Safety
    /// As for it; `scale_d` is the same in all threads of the warpgroup.
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

/// The two forms of an instruction: `$ss` and `$rs` are what follows scale-d, the constants in them
/// are passed along.
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

/// Types of 16 bits.
macro_rules! product_16 {
    ($n:literal $acc:ty, $d:ty, $a:ty, $types:literal, $($i:literal)*) => {
        product! { $n $acc, $d, $a, $a, $types, 16,
            ", 1, 1, {trans_a}, {trans_b}"
            (trans_a = const TRANS_A as u32, trans_b = const TRANS_B as u32,),
            ", 1, 1, {trans_b}" (trans_b = const TRANS_B as u32,), true, $($i)* }
    };
}

/// Types of 8 and 32 bits.
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
        product! { $n i32, i32, S8, U8, "s32.s8.u8", 32, "" (), "" (), false, $($i)* }
        product! { $n i32, i32, U8, S8, "s32.u8.s8", 32, "" (), "" (), false, $($i)* }
        product! { $n i32, i32, U8, U8, "s32.u8.u8", 32, "" (), "" (), false, $($i)* }
    };
}

f32_rows!(f32_products);
f16_rows!(f16_products);
s32_rows!(s32_products);
