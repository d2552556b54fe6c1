//! Fences, registers, clusters, mbarriers.

use cuda_std::cluster::atomic;
use cuda_std::kernel;
use cuda_std::mbarrier::{Mbarrier, RemoteMbarrier};
use cuda_std::shared::{ClusterAddr, SharedAddr};
use cuda_std::tma::TensorMap;
use cuda_std::{cluster, elect, fence, regs};

/// # Safety
/// Not for running.
#[kernel(arch = "sm_90a", max_threads = 128, min_blocks = 1)]
pub unsafe fn every_fence(map: *const TensorMap, out: *mut u32) {
    fence::fence_acq_rel_cta();
    fence::fence_acq_rel_cluster();
    fence::fence_acq_rel_gpu();
    fence::fence_acq_rel_sys();
    fence::fence_sc_cta();
    fence::fence_sc_cluster();
    fence::fence_sc_gpu();
    fence::fence_sc_sys();
    fence::fence_proxy_async();
    fence::fence_proxy_async_global();
    fence::fence_proxy_async_shared_cta();
    fence::fence_proxy_async_shared_cluster();
    fence::fence_proxy_alias();
    fence::fence_proxy_tensormap_generic_release_gpu();
    fence::fence_mbarrier_init_release_cluster();
    // SAFETY: not for running.
    unsafe {
        fence::fence_proxy_tensormap_generic_acquire_gpu(map);
        regs::setmaxnreg_dec::<40>();
        regs::setmaxnreg_inc::<232>();
        out.write(u32::from(elect::elect_sync(u32::MAX)));
    }
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_90a", max_threads = 128, min_blocks = 1)]
pub unsafe fn every_cluster_instruction(address: u32, rank: u32, out: *mut u32) {
    let numbers = [
        cluster::clusterid_x(),
        cluster::clusterid_y(),
        cluster::clusterid_z(),
        cluster::nclusterid_x(),
        cluster::nclusterid_y(),
        cluster::nclusterid_z(),
        cluster::cluster_ctaid_x(),
        cluster::cluster_ctaid_y(),
        cluster::cluster_ctaid_z(),
        cluster::cluster_nctaid_x(),
        cluster::cluster_nctaid_y(),
        cluster::cluster_nctaid_z(),
        cluster::cluster_ctarank(),
        cluster::cluster_nctarank(),
    ];
    // SAFETY: not for running.
    unsafe {
        for (index, number) in numbers.into_iter().enumerate() {
            out.add(index).write(number);
        }
        cluster::barrier_cluster_arrive_release_aligned();
        cluster::barrier_cluster_arrive_relaxed_aligned();
        cluster::barrier_cluster_wait_acquire_aligned();
        cluster::barrier_cluster_arrive_release();
        cluster::barrier_cluster_arrive_relaxed();
        cluster::barrier_cluster_wait_acquire();
        let other = cluster::mapa_shared_cluster(SharedAddr::from_bits(address), rank);
        out.add(14).write(cluster::getctarank_shared_cluster(other));
        let value = cluster::ld_shared_cluster_u32(other);
        cluster::st_shared_cluster_u32(other, value);
        let value = cluster::ld_shared_cluster_f32(other);
        cluster::st_shared_cluster_f32(other, value);
        let value = cluster::ld_shared_cluster_u64(other);
        cluster::st_shared_cluster_u64(other, value);
        let value = cluster::ld_shared_cluster_u8(other);
        cluster::st_shared_cluster_u8(other, value);
        let value = cluster::ld_shared_cluster_i8(other);
        cluster::st_shared_cluster_i8(other, value);
        let value = cluster::ld_shared_cluster_u16(other);
        cluster::st_shared_cluster_u16(other, value);
        let value = cluster::ld_shared_cluster_i16(other);
        cluster::st_shared_cluster_i16(other, value);
        let value = cluster::ld_shared_cluster_i32(other);
        cluster::st_shared_cluster_i32(other, value);
        let value = cluster::ld_shared_cluster_i64(other);
        cluster::st_shared_cluster_i64(other, value);
        let value = cluster::ld_shared_cluster_f64(other);
        cluster::st_shared_cluster_f64(other, value);
    }
}

macro_rules! every_cluster_atomic {
    ($($operation:ident: $($ty:ty),*;)*) => {
        /// # Safety
        /// Not for running.
        #[kernel(arch = "sm_90a")]
        pub unsafe fn every_cluster_atomic(address: u32, out: *mut u32) {
            let at = ClusterAddr::from_bits(address);
            // SAFETY: not for running.
            unsafe {
                $($(super::keep(out, atomic::$operation(at, out.cast::<$ty>().read_volatile()));)*)*
                let (old, new) = (out.read_volatile(), out.read_volatile());
                super::keep(out, atomic::atom_cas(at, old, new));
                let (old, new) = (u64::from(old), u64::from(new));
                super::keep(out, atomic::atom_cas(at, old, new));
            }
        }
    };
}

every_cluster_atomic! {
    atom_add: u32, i32, u64, i64, f32, f64;
    atom_min: u32, i32, u64, i64;
    atom_max: u32, i32, u64, i64;
    atom_and: u32, u64;
    atom_or: u32, u64;
    atom_xor: u32, u64;
    atom_exch: u32, u64, f32, f64;
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_90a", max_threads = 128, min_blocks = 1)]
pub unsafe fn every_mbarrier_instruction(address: u32, number: u32, out: *mut u32) {
    let barrier = Mbarrier::at(SharedAddr::from_bits(address));
    let remote = RemoteMbarrier::at(ClusterAddr::from_bits(address));
    // SAFETY: not for running.
    unsafe {
        barrier.init(number);
        barrier.inval();
        barrier.arrive();
        barrier.arrive_count(number);
        barrier.arrive_expect_tx(number);
        barrier.arrive_drop();
        barrier.expect_tx(number);
        barrier.complete_tx(number);
        remote.arrive();
        remote.arrive_release_cluster();
        remote.arrive_count(number);
        remote.arrive_expect_tx(number);
        remote.expect_tx(number);
        remote.complete_tx(number);
        let state = barrier.arrive_state();
        out.write(u32::from(barrier.test_wait(state)));
        out.add(1)
            .write(u32::from(barrier.test_wait_parity(number)));
        out.add(2).write(u32::from(barrier.try_wait(state)));
        out.add(3).write(u32::from(barrier.try_wait_parity(number)));
        out.add(4)
            .write(u32::from(barrier.try_wait_parity_for(number, 1000)));
        let acquired = barrier.try_wait_parity_acquire_cluster(number);
        out.add(5).write(u32::from(acquired));
        out.add(6).write(state.pending_count());
        // A loop of exactly the wait.
        barrier.wait_parity(number);
    }
}
