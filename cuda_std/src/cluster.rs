//! Thread block clusters: blocks that are scheduled together and can access each other's shared
//! memory (distributed shared memory).
//!
//! A launch without a cluster size has clusters of one block. `ctaid` and `nctaid` in the names of
//! registers are PTX's: a CTA is a block.
//!
//! Before a block accesses another one's shared memory, that block must have started; before a
//! block exits, the others must be done with its memory. The cluster barrier
//! ([`barrier_cluster_arrive_release_aligned`], then [`barrier_cluster_wait_acquire_aligned`])
//! ensures both.

pub mod atomic;

use crate::mbarrier::RemoteMbarrier;
use crate::shared::{ClusterAddr, SharedAddr};

macro_rules! registers {
    ($($name:ident = $register:literal, $doc:literal;)*) => {$(
        #[doc = concat!("`", $register, "`: ", $doc)]
        ///
        /// *Scope*: thread. *Since*: PTX 7.8, sm_90.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub fn $name() -> u32 {
            on_device!("cluster", (), {
                let value: u32;
                // SAFETY: reads a register that never changes.
                unsafe {
                    core::arch::asm!(concat!("mov.u32 {}, ", $register, ";"), out(reg32) value,
                        options(pure, nomem, nostack));
                }
                value
            })
        }
    )*};
}

registers! {
    clusterid_x = "%clusterid.x", "the cluster's index in the grid, x.";
    clusterid_y = "%clusterid.y", "the cluster's index in the grid, y.";
    clusterid_z = "%clusterid.z", "the cluster's index in the grid, z.";
    nclusterid_x = "%nclusterid.x", "clusters of the grid along x.";
    nclusterid_y = "%nclusterid.y", "clusters of the grid along y.";
    nclusterid_z = "%nclusterid.z", "clusters of the grid along z.";
    cluster_ctaid_x = "%cluster_ctaid.x", "the block's index in its cluster, x.";
    cluster_ctaid_y = "%cluster_ctaid.y", "the block's index in its cluster, y.";
    cluster_ctaid_z = "%cluster_ctaid.z", "the block's index in its cluster, z.";
    cluster_nctaid_x = "%cluster_nctaid.x", "blocks of the cluster along x.";
    cluster_nctaid_y = "%cluster_nctaid.y", "blocks of the cluster along y.";
    cluster_nctaid_z = "%cluster_nctaid.z", "blocks of the cluster along z.";
    cluster_ctarank = "%cluster_ctarank", "the block's rank in its cluster: x first, then y, z.";
    cluster_nctarank = "%cluster_nctarank", "blocks of the cluster.";
}

macro_rules! barriers {
    ($($name:ident = $instruction:literal, $scope:literal, $doc:literal;)*) => {$(
        #[doc = concat!("`", $instruction, "`: ", $doc)]
        ///
        #[doc = concat!("*Scope*: ", $scope)]
        /// It relies on cuda_builder to keep it convergent. *Since*: PTX 8.0, sm_90.
        ///
        /// # Safety
        /// Every thread of the cluster that has not exited arrives once, then waits once.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name() {
            on_device!("cluster::barrier_cluster", (), {
                // SAFETY: the caller's threads all arrive.
                unsafe { core::arch::asm!(concat!($instruction, ";"), options(nostack)) }
            })
        }
    )*};
}

barriers! {
    barrier_cluster_arrive_release_aligned = "barrier.cluster.arrive.release.aligned",
        "cluster; whole warps, converged.",
        "arrives and goes on; what the thread did before is seen by those that have waited.";
    barrier_cluster_arrive_relaxed_aligned = "barrier.cluster.arrive.relaxed.aligned",
        "cluster; whole warps, converged.",
        "arrives and goes on, and orders nothing.";
    barrier_cluster_wait_acquire_aligned = "barrier.cluster.wait.acquire.aligned",
        "cluster; whole warps, converged.",
        "waits until all have arrived; sees what they released.";
    barrier_cluster_arrive_release = "barrier.cluster.arrive.release",
        "cluster; threads one by one.",
        "as the aligned one, for a warp whose lanes are apart.";
    barrier_cluster_arrive_relaxed = "barrier.cluster.arrive.relaxed",
        "cluster; threads one by one.",
        "as the aligned one, for a warp whose lanes are apart.";
    barrier_cluster_wait_acquire = "barrier.cluster.wait.acquire",
        "cluster; threads one by one.",
        "as the aligned one, for a warp whose lanes are apart.";
}

/// `mapa.shared::cluster.u32`: the address, in the shared memory of the block of rank `rank`, that
/// corresponds to this block's `address`.
///
/// *Scope*: thread. *Since*: PTX 7.8, sm_90.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn mapa_shared_cluster(address: SharedAddr, rank: u32) -> ClusterAddr {
    on_device!("cluster::mapa_shared_cluster", (address, rank), {
        let mapped: u32;
        // SAFETY: only computes an address, which is unusable if the cluster has no such rank.
        unsafe {
            core::arch::asm!("mapa.shared::cluster.u32 {}, {}, {};", out(reg32) mapped,
                in(reg32) address.bits(), in(reg32) rank, options(pure, nomem, nostack));
        }
        ClusterAddr::from_bits(mapped)
    })
}

/// `getctarank.shared::cluster.u32`: the rank of the block that `address` is in.
///
/// *Scope*: thread. *Since*: PTX 7.8, sm_90.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn getctarank_shared_cluster(address: ClusterAddr) -> u32 {
    on_device!("cluster::getctarank_shared_cluster", (address), {
        let rank: u32;
        // SAFETY: computes a number from an address.
        unsafe {
            core::arch::asm!("getctarank.shared::cluster.u32 {}, {};", out(reg32) rank,
                in(reg32) address.bits(), options(pure, nomem, nostack));
        }
        rank
    })
}

macro_rules! remote {
    ($($load:ident, $store:ident: $ty:ty = $suffix:literal, $reg:ident;)*) => {$(
        #[doc = concat!("`ld.shared::cluster.", $suffix, "`: loads from a block of the cluster.")]
        ///
        /// *Scope*: thread. Weak: ordered by the cluster's barriers or mbarriers. *Since*: PTX 7.8,
        /// sm_90.
        ///
        /// # Safety
        /// `address` is aligned, initialised, and in a block of the cluster that has not exited.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $load(address: ClusterAddr) -> $ty {
            on_device!("cluster::ld_shared_cluster", (address), {
                let value: $ty;
                // SAFETY: the caller's address can be read.
                unsafe {
                    core::arch::asm!(concat!("ld.shared::cluster.", $suffix, " {}, [{}];"),
                        out($reg) value, in(reg32) address.bits(), options(nostack));
                }
                value
            })
        }

        #[doc = concat!("`st.shared::cluster.", $suffix, "`: stores to a block of the cluster.")]
        ///
        /// *Scope*: thread. Weak: ordered by the cluster's barriers or mbarriers. *Since*: PTX 7.8,
        /// sm_90.
        ///
        /// # Safety
        /// `address` is aligned, nobody else uses it meanwhile, and its block has not exited.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $store(address: ClusterAddr, value: $ty) {
            on_device!("cluster::st_shared_cluster", (address, value), {
                // SAFETY: the caller's address can be written.
                unsafe {
                    core::arch::asm!(concat!("st.shared::cluster.", $suffix, " [{}], {};"),
                        in(reg32) address.bits(), in($reg) value, options(nostack));
                }
            })
        }
    )*};
}

remote! {
    ld_shared_cluster_u8, st_shared_cluster_u8: u8 = "u8", reg16;
    ld_shared_cluster_i8, st_shared_cluster_i8: i8 = "s8", reg16;
    ld_shared_cluster_u16, st_shared_cluster_u16: u16 = "u16", reg16;
    ld_shared_cluster_i16, st_shared_cluster_i16: i16 = "s16", reg16;
    ld_shared_cluster_u32, st_shared_cluster_u32: u32 = "u32", reg32;
    ld_shared_cluster_i32, st_shared_cluster_i32: i32 = "s32", reg32;
    ld_shared_cluster_i64, st_shared_cluster_i64: i64 = "s64", reg64;
    ld_shared_cluster_f64, st_shared_cluster_f64: f64 = "f64", reg64;
    ld_shared_cluster_f32, st_shared_cluster_f32: f32 = "f32", reg32;
    ld_shared_cluster_u64, st_shared_cluster_u64: u64 = "u64", reg64;
}

/// `ld.shared::cluster.v4.f32`: loads 16 bytes from a block of the cluster.
///
/// *Scope*: thread. Weak: ordered by the cluster's barriers or mbarriers. *Since*: PTX 7.8, sm_90.
///
/// # Safety
/// `address` is a multiple of 16, initialised, and in a block of the cluster that has not exited.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn ld_shared_cluster_v4_f32(address: ClusterAddr) -> [f32; 4] {
    on_device!("cluster::ld_shared_cluster", (address), {
        let (x, y, z, w): (f32, f32, f32, f32);
        // SAFETY: the caller's address can be read.
        unsafe {
            core::arch::asm!("ld.shared::cluster.v4.f32 {{{}, {}, {}, {}}}, [{}];",
                out(reg32) x, out(reg32) y, out(reg32) z, out(reg32) w,
                in(reg32) address.bits(), options(nostack));
        }
        [x, y, z, w]
    })
}

/// `st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.u32`: stores 16 bytes to the
/// shared memory of a block of the cluster, asynchronously, and then counts 16 transaction bytes on
/// an mbarrier of the same block.
///
/// *Scope*: thread. Threads that have waited for the barrier's phase see the bytes. *Since*: PTX
/// 8.1, sm_90.
///
/// # Safety
/// `address` is a multiple of 16 and in the same block as `barrier`. That block has not exited, and
/// the barrier's phase expects the bytes. Nobody else accesses the 16 bytes before the phase
/// completes.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn st_async_shared_cluster_v4_u32(
    address: ClusterAddr,
    [a, b, c, d]: [u32; 4],
    barrier: RemoteMbarrier,
) {
    on_device!("cluster::st_async", (address, a, b, c, d, barrier), {
        // SAFETY: the caller's address and barrier.
        unsafe {
            core::arch::asm!(
                "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 \
                 [{at}], {{{a}, {b}, {c}, {d}}}, [{barrier}];",
                at = in(reg32) address.bits(), a = in(reg32) a, b = in(reg32) b,
                c = in(reg32) c, d = in(reg32) d, barrier = in(reg32) barrier.addr().bits(),
                options(nostack));
        }
    })
}
