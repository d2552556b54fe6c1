//! Bulk copies that reduce (`cp.reduce.async.bulk`), from shared memory to global memory or to
//! another block's shared memory. Each element is combined with the one at the destination,
//! atomically and in an unspecified order.

use super::TensorMap;
use crate::mbarrier::RemoteMbarrier;
use crate::shared::{ClusterAddr, SharedAddr};

/// The operation that combines an element with the one at the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The sum.
    Add,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// The destination's element plus one, or 0 where that would exceed the source's element.
    Inc,
    /// The destination's element minus one, or the source's element where the destination's is 0 or
    /// above it.
    Dec,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

/// An [`Operation`] as a type.
pub trait Reduction {
    /// The operation.
    const OPERATION: Operation;
}

macro_rules! reductions {
    ($($name:ident),*) => {$(
        #[doc = concat!("[`Operation::", stringify!($name), "`].")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Reduction for $name {
            const OPERATION: Operation = Operation::$name;
        }
    )*};
}

reductions!(Add, Min, Max, Inc, Dec, And, Or, Xor);

macro_rules! tensors {
    ($($name:ident[$($c:ident),*; $list:literal] = $dims:literal;)*) => {$(
        #[doc = concat!("`cp.reduce.async.bulk.tensor.", $dims,
            ".global.shared::cta.OPERATION.bulk_group`: combines a box at `src` with the tensor.")]
        ///
        /// *Scope*: one thread, which commits it to a group and waits. *Proxy*: async; what threads
        /// wrote to `src` needs a proxy fence first. *Since*: PTX 8.0, sm_90.
        ///
        /// # Safety
        /// `map` is a tensor map of so many dimensions, and of a type that has the operation. `src`
        /// is aligned as its swizzle demands (128 bytes without one), and nobody writes there
        /// before the group has read it.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name<O: Reduction>(
            map: *const TensorMap,
            [$($c),*]: [i32; [$(stringify!($c)),*].len()],
            src: SharedAddr,
        ) {
            on_device!("tma::reduce", (map, ($($c,)*), src, O::OPERATION), {
                macro_rules! reduce {
                    ($operation:literal) => {
                        // SAFETY: the caller's map and memory are what they should be.
                        unsafe {
                            core::arch::asm!(
                                concat!("cp.reduce.async.bulk.tensor.", $dims, ".global.shared::cta.",
                                    $operation, ".bulk_group [{map}, {{", $list, "}}], [{src}];"),
                                map = in(reg64) map, src = in(reg32) src.bits(),
                                $($c = in(reg32) $c,)* options(nostack));
                        }
                    };
                }
                match O::OPERATION {
                    Operation::Add => reduce!("add"),
                    Operation::Min => reduce!("min"),
                    Operation::Max => reduce!("max"),
                    Operation::Inc => reduce!("inc"),
                    Operation::Dec => reduce!("dec"),
                    Operation::And => reduce!("and"),
                    Operation::Or => reduce!("or"),
                    Operation::Xor => reduce!("xor"),
                }
            })
        }
    )*};
}

tensors! {
    cp_reduce_async_bulk_tensor_1d_global_shared_cta [c0; "{c0}"] = "1d";
    cp_reduce_async_bulk_tensor_2d_global_shared_cta [c0, c1; "{c0}, {c1}"] = "2d";
    cp_reduce_async_bulk_tensor_3d_global_shared_cta [c0, c1, c2; "{c0}, {c1}, {c2}"] = "3d";
    cp_reduce_async_bulk_tensor_4d_global_shared_cta
        [c0, c1, c2, c3; "{c0}, {c1}, {c2}, {c3}"] = "4d";
    cp_reduce_async_bulk_tensor_5d_global_shared_cta
        [c0, c1, c2, c3, c4; "{c0}, {c1}, {c2}, {c3}, {c4}"] = "5d";
}

macro_rules! to_global {
    ($($name:ident = $operation:literal;)*) => {$(
        #[doc = concat!("`cp.reduce.async.bulk.global.shared::cta.bulk_group.", $operation,
            "`: combines a run of bytes at `src` with global memory.")]
        ///
        /// *Scope*: one thread, which commits it to a group and waits. *Proxy*: async; what threads
        /// wrote to `src` needs a proxy fence first. *Since*: PTX 8.0, sm_90.
        ///
        /// # Safety
        /// Addresses and size are multiples of 16, `size_bytes` are there at both, and nobody writes
        /// `src` before the group has read it.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name<T>(dst: *mut T, src: SharedAddr, size_bytes: u32) {
            on_device!("tma::reduce", (dst, src, size_bytes), {
                // SAFETY: the caller's memory is what it should be.
                unsafe {
                    core::arch::asm!(
                        concat!("cp.reduce.async.bulk.global.shared::cta.bulk_group.", $operation,
                            " [{}], [{}], {};"),
                        in(reg64) dst, in(reg32) src.bits(), in(reg32) size_bytes,
                        options(nostack));
                }
            })
        }
    )*};
}

to_global! {
    cp_reduce_async_bulk_global_shared_cta_add_f32 = "add.f32";
    cp_reduce_async_bulk_global_shared_cta_add_f64 = "add.f64";
    cp_reduce_async_bulk_global_shared_cta_add_noftz_f16 = "add.noftz.f16";
    cp_reduce_async_bulk_global_shared_cta_add_noftz_bf16 = "add.noftz.bf16";
    cp_reduce_async_bulk_global_shared_cta_add_u32 = "add.u32";
    cp_reduce_async_bulk_global_shared_cta_add_s32 = "add.s32";
    cp_reduce_async_bulk_global_shared_cta_add_u64 = "add.u64";
    cp_reduce_async_bulk_global_shared_cta_min_f16 = "min.f16";
    cp_reduce_async_bulk_global_shared_cta_min_bf16 = "min.bf16";
    cp_reduce_async_bulk_global_shared_cta_min_u32 = "min.u32";
    cp_reduce_async_bulk_global_shared_cta_min_s32 = "min.s32";
    cp_reduce_async_bulk_global_shared_cta_min_u64 = "min.u64";
    cp_reduce_async_bulk_global_shared_cta_min_s64 = "min.s64";
    cp_reduce_async_bulk_global_shared_cta_max_f16 = "max.f16";
    cp_reduce_async_bulk_global_shared_cta_max_bf16 = "max.bf16";
    cp_reduce_async_bulk_global_shared_cta_max_u32 = "max.u32";
    cp_reduce_async_bulk_global_shared_cta_max_s32 = "max.s32";
    cp_reduce_async_bulk_global_shared_cta_max_u64 = "max.u64";
    cp_reduce_async_bulk_global_shared_cta_max_s64 = "max.s64";
    cp_reduce_async_bulk_global_shared_cta_inc_u32 = "inc.u32";
    cp_reduce_async_bulk_global_shared_cta_dec_u32 = "dec.u32";
    cp_reduce_async_bulk_global_shared_cta_and_b32 = "and.b32";
    cp_reduce_async_bulk_global_shared_cta_and_b64 = "and.b64";
    cp_reduce_async_bulk_global_shared_cta_or_b32 = "or.b32";
    cp_reduce_async_bulk_global_shared_cta_or_b64 = "or.b64";
    cp_reduce_async_bulk_global_shared_cta_xor_b32 = "xor.b32";
    cp_reduce_async_bulk_global_shared_cta_xor_b64 = "xor.b64";
}

macro_rules! to_cluster {
    ($($name:ident = $operation:literal;)*) => {$(
        #[doc = concat!("`cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.",
            $operation, "`: combines a run of bytes at `src` with another block's.")]
        ///
        /// *Scope*: one thread. *Proxy*: async; what threads wrote to `src` needs a proxy fence
        /// first; it counts its bytes on the other block's barrier. *Since*: PTX 8.0, sm_90.
        ///
        /// # Safety
        /// Addresses and size are multiples of 16, `size_bytes` are there at both, the barrier is
        /// initialised, in the block of `dst`, and nobody writes `src` before its phase completes.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name(
            dst: ClusterAddr,
            src: SharedAddr,
            size_bytes: u32,
            barrier: RemoteMbarrier,
        ) {
            on_device!("tma::reduce", (dst, src, size_bytes, barrier), {
                // SAFETY: the caller's memory and barrier are what they should be.
                unsafe {
                    core::arch::asm!(
                        concat!("cp.reduce.async.bulk.shared::cluster.shared::cta.",
                            "mbarrier::complete_tx::bytes.", $operation,
                            " [{}], [{}], {}, [{}];"),
                        in(reg32) dst.bits(), in(reg32) src.bits(), in(reg32) size_bytes,
                        in(reg32) barrier.addr().bits(), options(nostack));
                }
            })
        }
    )*};
}

to_cluster! {
    cp_reduce_async_bulk_shared_cluster_shared_cta_add_u32 = "add.u32";
    cp_reduce_async_bulk_shared_cluster_shared_cta_add_s32 = "add.s32";
    cp_reduce_async_bulk_shared_cluster_shared_cta_add_u64 = "add.u64";
    cp_reduce_async_bulk_shared_cluster_shared_cta_min_u32 = "min.u32";
    cp_reduce_async_bulk_shared_cluster_shared_cta_min_s32 = "min.s32";
    cp_reduce_async_bulk_shared_cluster_shared_cta_max_u32 = "max.u32";
    cp_reduce_async_bulk_shared_cluster_shared_cta_max_s32 = "max.s32";
    cp_reduce_async_bulk_shared_cluster_shared_cta_inc_u32 = "inc.u32";
    cp_reduce_async_bulk_shared_cluster_shared_cta_dec_u32 = "dec.u32";
    cp_reduce_async_bulk_shared_cluster_shared_cta_and_b32 = "and.b32";
    cp_reduce_async_bulk_shared_cluster_shared_cta_or_b32 = "or.b32";
    cp_reduce_async_bulk_shared_cluster_shared_cta_xor_b32 = "xor.b32";
}
