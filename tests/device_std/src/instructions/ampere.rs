//! What sm_80 has.

use cuda_std::kernel;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::shared::SharedAddr;
use cuda_std::{cp_async, tma};

/// # Safety
/// Not for running.
#[kernel(arch = "sm_80")]
pub unsafe fn every_cp_async(address: u32, src: *const u8, src_size: u32, policies: *mut u64) {
    let dst = SharedAddr::from_bits(address);
    let barrier = Mbarrier::at(dst);
    // SAFETY: not for running.
    unsafe {
        let policy = tma::createpolicy_fractional_l2_evict_last(0.5);
        policies.write(policy.bits());
        let other = tma::createpolicy_fractional_l2_evict_normal(1.0);
        policies.add(1).write(other.bits());
        let other = tma::createpolicy_fractional_l2_evict_first(1.0);
        policies.add(2).write(other.bits());
        let other = tma::createpolicy_fractional_l2_evict_unchanged(1.0);
        policies.add(3).write(other.bits());
        let other = tma::createpolicy_range_l2_evict_last_l2_evict_first(src, 4096, 8192);
        policies.add(4).write(other.bits());
        let other = tma::createpolicy_range_l2_evict_last(src, 4096, 8192);
        policies.add(5).write(other.bits());
        cp_async::cp_async_ca_4(dst, src);
        cp_async::cp_async_ca_8(dst, src);
        cp_async::cp_async_ca_16(dst, src);
        cp_async::cp_async_cg_16(dst, src);
        cp_async::cp_async_ca_4_src_size(dst, src, src_size);
        cp_async::cp_async_ca_8_src_size(dst, src, src_size);
        cp_async::cp_async_ca_16_src_size(dst, src, src_size);
        cp_async::cp_async_cg_16_src_size(dst, src, src_size);
        cp_async::cp_async_cg_l2_128b_16(dst, src);
        cp_async::cp_async_cg_l2_128b_16_src_size(dst, src, src_size);
        cp_async::cp_async_cg_l2_cache_hint_16(dst, src, policy);
        cp_async::cp_async_commit_group();
        cp_async::cp_async_wait_group::<2>();
        cp_async::cp_async_wait_all();
        cp_async::cp_async_mbarrier_arrive(barrier);
        cp_async::cp_async_mbarrier_arrive_noinc(barrier);
        // The mbarrier functions that sm_80 has.
        barrier.init(1);
        barrier.arrive();
        barrier.arrive_drop();
        let state = barrier.arrive_state();
        policies.add(6).write(u64::from(barrier.test_wait(state)));
        policies
            .add(7)
            .write(u64::from(barrier.test_wait_parity(0)));
        policies.add(8).write(u64::from(state.pending_count()));
        barrier.inval();
    }
}
