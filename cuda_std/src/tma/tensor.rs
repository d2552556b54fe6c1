//! TMA loads, stores and L2 prefetches of boxes of a tensor.
//!
//! The tensor map states the box's extents, the strides and the swizzle. The coordinates are those
//! of the box's first element, the innermost dimension first. A box may reach out of bounds:
//! elements there are read as zero, and count in the transaction bytes; they are not written.

use super::{CachePolicy, TensorMap};
use crate::mbarrier::Mbarrier;
use crate::shared::SharedAddr;

/// Loads of one kind: each has its name, its coordinates as PTX lists them, the im2col offsets if
/// any, and the extra operands of its qualifiers.
macro_rules! loads {
    ($($name:ident[$($c:ident),*; $list:literal] $([$($o:ident),*; $offsets:literal])?
        ($($extra:ident: $ty:ty = $reg:ident $value:expr),*)
        = $dims:literal, $mode:literal, $qualifiers:literal, $tail:literal;)*) => {$(
        #[doc = concat!("`cp.async.bulk.tensor.", $dims, ".shared::cluster.global", $mode,
            ".mbarrier::complete_tx::bytes", $qualifiers, "`: loads a box to `dst`.")]
        ///
        /// *Scope*: one thread. *Proxy*: async; the box is there when the phase of `barrier`
        /// completes that expects its bytes. A mask names the blocks of the cluster that get the
        /// box, each at the same offset and counted on its own barrier at the same offset.
        /// *Since*: PTX 8.0, sm_90 (multicast is slow but on sm_90a).
        ///
        /// # Safety
        /// `map` is a tensor map of so many dimensions. `dst` is aligned as its swizzle demands (128
        /// bytes without one) and nobody uses the box's bytes there before the barrier's phase
        /// completes, in any of the blocks. `barrier` is initialised.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        #[allow(clippy::too_many_arguments)]
        pub unsafe fn $name(
            dst: SharedAddr,
            map: *const TensorMap,
            [$($c),*]: [i32; [$(stringify!($c)),*].len()],
            barrier: Mbarrier,
            $([$($o),*]: [u16; [$(stringify!($o)),*].len()],)?
            $($extra: $ty,)*
        ) {
            on_device!("tma::tensor",
                (dst, map, ($($c,)*), barrier $(, ($($o,)*))? $(, $extra)*), {
                // SAFETY: the caller's map, memory and barrier are what they should be.
                unsafe {
                    core::arch::asm!(
                        concat!("cp.async.bulk.tensor.", $dims, ".shared::cluster.global", $mode,
                            ".mbarrier::complete_tx::bytes", $qualifiers, " [{dst}], [{map}, {{",
                            $list, "}}], [{bar}]" $(, ", {{", $offsets, "}}")?, $tail, ";"),
                        dst = in(reg32) dst.bits(), map = in(reg64) map,
                        bar = in(reg32) barrier.addr().bits(), $($c = in(reg32) $c,)*
                        $($($o = in(reg16) $o,)*)? $($extra = in($reg) $value,)*
                        options(nostack));
                }
            })
        }
    )*};
}

/// The four kinds of each load: plain, with a cache policy, multicast to several blocks, and both.
macro_rules! load_kinds {
    ($($plain:ident, $hint:ident, $multicast:ident, $both:ident
        [$($c:ident),*; $list:literal] $([$($o:ident),*; $offsets:literal])?
        = $dims:literal, $mode:literal;)*) => {$(
        loads! {
            $plain[$($c),*; $list] $([$($o),*; $offsets])? () = $dims, $mode, "", "";
            $hint[$($c),*; $list] $([$($o),*; $offsets])?
                (policy: CachePolicy = reg64 policy.bits())
                = $dims, $mode, ".L2::cache_hint", ", {policy}";
            $multicast[$($c),*; $list] $([$($o),*; $offsets])? (mask: u16 = reg16 mask)
                = $dims, $mode, ".multicast::cluster", ", {mask}";
            $both[$($c),*; $list] $([$($o),*; $offsets])?
                (mask: u16 = reg16 mask, policy: CachePolicy = reg64 policy.bits())
                = $dims, $mode, ".multicast::cluster.L2::cache_hint", ", {mask}, {policy}";
        }
    )*};
}

load_kinds! {
    cp_async_bulk_tensor_1d_shared_cluster_global,
    cp_async_bulk_tensor_1d_shared_cluster_global_l2_cache_hint,
    cp_async_bulk_tensor_1d_shared_cluster_global_multicast_cluster,
    cp_async_bulk_tensor_1d_shared_cluster_global_multicast_cluster_l2_cache_hint
        [c0; "{c0}"] = "1d", "";
    cp_async_bulk_tensor_2d_shared_cluster_global,
    cp_async_bulk_tensor_2d_shared_cluster_global_l2_cache_hint,
    cp_async_bulk_tensor_2d_shared_cluster_global_multicast_cluster,
    cp_async_bulk_tensor_2d_shared_cluster_global_multicast_cluster_l2_cache_hint
        [c0, c1; "{c0}, {c1}"] = "2d", "";
    cp_async_bulk_tensor_3d_shared_cluster_global,
    cp_async_bulk_tensor_3d_shared_cluster_global_l2_cache_hint,
    cp_async_bulk_tensor_3d_shared_cluster_global_multicast_cluster,
    cp_async_bulk_tensor_3d_shared_cluster_global_multicast_cluster_l2_cache_hint
        [c0, c1, c2; "{c0}, {c1}, {c2}"] = "3d", "";
    cp_async_bulk_tensor_4d_shared_cluster_global,
    cp_async_bulk_tensor_4d_shared_cluster_global_l2_cache_hint,
    cp_async_bulk_tensor_4d_shared_cluster_global_multicast_cluster,
    cp_async_bulk_tensor_4d_shared_cluster_global_multicast_cluster_l2_cache_hint
        [c0, c1, c2, c3; "{c0}, {c1}, {c2}, {c3}"] = "4d", "";
    cp_async_bulk_tensor_5d_shared_cluster_global,
    cp_async_bulk_tensor_5d_shared_cluster_global_l2_cache_hint,
    cp_async_bulk_tensor_5d_shared_cluster_global_multicast_cluster,
    cp_async_bulk_tensor_5d_shared_cluster_global_multicast_cluster_l2_cache_hint
        [c0, c1, c2, c3, c4; "{c0}, {c1}, {c2}, {c3}, {c4}"] = "5d", "";
    cp_async_bulk_tensor_3d_shared_cluster_global_im2col,
    cp_async_bulk_tensor_3d_shared_cluster_global_im2col_l2_cache_hint,
    cp_async_bulk_tensor_3d_shared_cluster_global_im2col_multicast_cluster,
    cp_async_bulk_tensor_3d_shared_cluster_global_im2col_multicast_cluster_l2_cache_hint
        [c0, c1, c2; "{c0}, {c1}, {c2}"] [o0; "{o0}"] = "3d", ".im2col";
    cp_async_bulk_tensor_4d_shared_cluster_global_im2col,
    cp_async_bulk_tensor_4d_shared_cluster_global_im2col_l2_cache_hint,
    cp_async_bulk_tensor_4d_shared_cluster_global_im2col_multicast_cluster,
    cp_async_bulk_tensor_4d_shared_cluster_global_im2col_multicast_cluster_l2_cache_hint
        [c0, c1, c2, c3; "{c0}, {c1}, {c2}, {c3}"] [o0, o1; "{o0}, {o1}"] = "4d", ".im2col";
    cp_async_bulk_tensor_5d_shared_cluster_global_im2col,
    cp_async_bulk_tensor_5d_shared_cluster_global_im2col_l2_cache_hint,
    cp_async_bulk_tensor_5d_shared_cluster_global_im2col_multicast_cluster,
    cp_async_bulk_tensor_5d_shared_cluster_global_im2col_multicast_cluster_l2_cache_hint
        [c0, c1, c2, c3, c4; "{c0}, {c1}, {c2}, {c3}, {c4}"] [o0, o1, o2; "{o0}, {o1}, {o2}"]
        = "5d", ".im2col";
}

macro_rules! stores {
    ($($store:ident, $store_hint:ident[$($c:ident),*; $list:literal] = $dims:literal, $mode:literal;)*)
        => {$(
        stores!(@one $store, "", "", [$($c),*; $list], $dims, $mode, []);
        stores!(@one $store_hint, ".L2::cache_hint", ", {policy}", [$($c),*; $list], $dims, $mode,
            [policy: CachePolicy = policy.bits()]);
    )*};
    (@one $name:ident, $hint:literal, $tail:literal, [$($c:ident),*; $list:literal], $dims:literal,
        $mode:literal, [$($extra:ident: $ty:ty = $value:expr)?]) => {
        #[doc = concat!("`cp.async.bulk.tensor.", $dims, ".global.shared::cta", $mode, ".bulk_group",
            $hint, "`: stores a box from `src`.")]
        ///
        /// *Scope*: one thread, which commits it to a group and waits. *Proxy*: async; what threads
        /// wrote to `src` needs a proxy fence first. *Since*: PTX 8.0, sm_90.
        ///
        /// # Safety
        /// `map` is a tensor map of so many dimensions. `src` is aligned as its swizzle demands
        /// (128 bytes without one). Nobody writes there before the group has read it, nor uses the
        /// result before the group is complete.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name(
            map: *const TensorMap,
            [$($c),*]: [i32; [$(stringify!($c)),*].len()],
            src: SharedAddr,
            $($extra: $ty)?
        ) {
            on_device!("tma::tensor", (map, ($($c,)*), src $(, $extra)?), {
                // SAFETY: the caller's map and memory are what they should be.
                unsafe {
                    core::arch::asm!(
                        concat!("cp.async.bulk.tensor.", $dims, ".global.shared::cta", $mode,
                            ".bulk_group", $hint, " [{map}, {{", $list, "}}], [{src}]", $tail, ";"),
                        map = in(reg64) map, src = in(reg32) src.bits(), $($c = in(reg32) $c,)*
                        $($extra = in(reg64) $value,)? options(nostack));
                }
            })
        }
    };
}

stores! {
    cp_async_bulk_tensor_1d_global_shared_cta,
    cp_async_bulk_tensor_1d_global_shared_cta_l2_cache_hint [c0; "{c0}"] = "1d", "";
    cp_async_bulk_tensor_2d_global_shared_cta,
    cp_async_bulk_tensor_2d_global_shared_cta_l2_cache_hint [c0, c1; "{c0}, {c1}"] = "2d", "";
    cp_async_bulk_tensor_3d_global_shared_cta,
    cp_async_bulk_tensor_3d_global_shared_cta_l2_cache_hint
        [c0, c1, c2; "{c0}, {c1}, {c2}"] = "3d", "";
    cp_async_bulk_tensor_4d_global_shared_cta,
    cp_async_bulk_tensor_4d_global_shared_cta_l2_cache_hint
        [c0, c1, c2, c3; "{c0}, {c1}, {c2}, {c3}"] = "4d", "";
    cp_async_bulk_tensor_5d_global_shared_cta,
    cp_async_bulk_tensor_5d_global_shared_cta_l2_cache_hint
        [c0, c1, c2, c3, c4; "{c0}, {c1}, {c2}, {c3}, {c4}"] = "5d", "";
    cp_async_bulk_tensor_3d_global_shared_cta_im2col_no_offs,
    cp_async_bulk_tensor_3d_global_shared_cta_im2col_no_offs_l2_cache_hint
        [c0, c1, c2; "{c0}, {c1}, {c2}"] = "3d", ".im2col_no_offs";
    cp_async_bulk_tensor_4d_global_shared_cta_im2col_no_offs,
    cp_async_bulk_tensor_4d_global_shared_cta_im2col_no_offs_l2_cache_hint
        [c0, c1, c2, c3; "{c0}, {c1}, {c2}, {c3}"] = "4d", ".im2col_no_offs";
    cp_async_bulk_tensor_5d_global_shared_cta_im2col_no_offs,
    cp_async_bulk_tensor_5d_global_shared_cta_im2col_no_offs_l2_cache_hint
        [c0, c1, c2, c3, c4; "{c0}, {c1}, {c2}, {c3}, {c4}"] = "5d", ".im2col_no_offs";
}

macro_rules! prefetches {
    ($($name:ident[$($c:ident),*; $list:literal] = $dims:literal;)*) => {$(
        #[doc = concat!("`cp.async.bulk.prefetch.tensor.", $dims, ".L2.global`: brings a box into L2.")]
        ///
        /// *Scope*: one thread. *Since*: PTX 8.0, sm_90.
        ///
        /// # Safety
        /// `map` is a tensor map of so many dimensions.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name(map: *const TensorMap, [$($c),*]: [i32; [$(stringify!($c)),*].len()]) {
            on_device!("tma::tensor", (map, ($($c,)*)), {
                // SAFETY: the caller's map is one.
                unsafe {
                    core::arch::asm!(
                        concat!("cp.async.bulk.prefetch.tensor.", $dims, ".L2.global [{map}, {{",
                            $list, "}}];"),
                        map = in(reg64) map, $($c = in(reg32) $c,)* options(nostack));
                }
            })
        }
    )*};
}

prefetches! {
    cp_async_bulk_prefetch_tensor_1d_l2_global [c0; "{c0}"] = "1d";
    cp_async_bulk_prefetch_tensor_2d_l2_global [c0, c1; "{c0}, {c1}"] = "2d";
    cp_async_bulk_prefetch_tensor_3d_l2_global [c0, c1, c2; "{c0}, {c1}, {c2}"] = "3d";
    cp_async_bulk_prefetch_tensor_4d_l2_global [c0, c1, c2, c3; "{c0}, {c1}, {c2}, {c3}"] = "4d";
    cp_async_bulk_prefetch_tensor_5d_l2_global
        [c0, c1, c2, c3, c4; "{c0}, {c1}, {c2}, {c3}, {c4}"] = "5d";
}
