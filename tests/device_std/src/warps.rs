//! Shuffles, votes, matches and reductions of one warp.

use cuda_std::bits::prmt;
use cuda_std::math::directed::Directed;
use cuda_std::warp::{self, FULL_MASK};
use cuda_std::{kernel, thread};

/// `out[question * 32 + lane]`, of one warp.
///
/// # Safety
/// One block of 32 threads; `out` holds 23 * 32 words.
#[kernel(max_threads = 32)]
pub unsafe fn warp_answers(out: *mut u32) {
    let lane = thread::thread_idx_x();
    let mut at = out.wrapping_add(lane as usize);
    let mut answer = |word: u32| {
        // SAFETY: the launch's array is long enough.
        unsafe { at.write(word) };
        at = at.wrapping_add(32);
    };
    let wide = u64::from(lane) << 32 | 7;
    // SAFETY: all lanes are here.
    unsafe {
        answer(warp::shfl_idx(FULL_MASK, lane * 10, 5));
        answer(warp::shfl_up(FULL_MASK, lane, 3));
        answer(warp::shfl_down(FULL_MASK, lane, 3));
        answer(warp::shfl_bfly(FULL_MASK, lane, 8));
        answer((warp::shfl_bfly(FULL_MASK, wide, 1) >> 32) as u32);
        answer(warp::shfl_down(FULL_MASK, f64::from(lane) + 0.5, 1) as u32);
        answer(u32::from(warp::vote_all(FULL_MASK, lane < 32)));
        answer(u32::from(warp::vote_all(FULL_MASK, lane < 31)));
        answer(u32::from(warp::vote_any(FULL_MASK, lane == 31)));
        answer(u32::from(warp::vote_uni(FULL_MASK, lane > 40)));
        answer(u32::from(warp::vote_uni(FULL_MASK, lane > 4)));
        answer(warp::vote_ballot(FULL_MASK, lane % 3 == 0));
        answer(warp::match_any(FULL_MASK, lane / 8));
        answer(warp::match_all(FULL_MASK, 9));
        answer(warp::match_all(FULL_MASK, lane));
        answer(warp::match_any(FULL_MASK, f64::from(lane / 8)));
        answer(warp::match_all(FULL_MASK, (u64::from(lane) << 40) | 7));
        answer(warp::redux_add_u32(FULL_MASK, lane));
        answer(warp::redux_min_i32(FULL_MASK, 5 - lane as i32) as u32);
        answer(warp::redux_max_u32(FULL_MASK, lane));
        answer(warp::redux_xor(FULL_MASK, 1 << lane));
        answer(warp::reduce_sum(lane as f32) as u32);
        answer(warp::reduce_max(lane as f32) as u32);
        warp::bar_warp_sync(FULL_MASK);
        answer(warp::activemask());
        answer(thread::lane_idx() + 100 * thread::warp_idx());
    }
}

/// `out[question * 32 + lane]`, of one warp: shuffles in segments and of other types, directed
/// rounding, bytes.
///
/// # Safety
/// One block of 32 threads; `out` holds 12 * 32 words.
#[kernel(max_threads = 32)]
pub unsafe fn more_warp_answers(out: *mut u32) {
    let lane = thread::thread_idx_x();
    let mut at = out.wrapping_add(lane as usize);
    let mut answer = |word: u32| {
        // SAFETY: the launch's array is long enough.
        unsafe { at.write(word) };
        at = at.wrapping_add(32);
    };
    let three = [lane, lane * 2, lane * 3];
    // SAFETY: all lanes are here.
    unsafe {
        answer(warp::shfl_idx_within::<8, _>(FULL_MASK, lane, 3));
        answer(warp::shfl_up_within::<8, _>(FULL_MASK, lane, 2));
        answer(warp::shfl_down_within::<16, _>(FULL_MASK, lane, 5));
        answer(warp::shfl_bfly_within::<4, _>(FULL_MASK, lane, 2));
        answer(u32::from(warp::shfl_bfly(FULL_MASK, lane as u8 + 200, 1)));
        answer(warp::shfl_bfly(FULL_MASK, -(lane as i16), 1) as u32);
        answer(u32::from(warp::shfl_bfly(FULL_MASK, lane % 2 == 0, 1)));
        answer((warp::shfl_bfly(FULL_MASK, u128::from(lane) << 100, 1) >> 100) as u32);
        answer(warp::shfl_bfly(FULL_MASK, three, 1)[2]);
    }
    let third = lane as f32 + 1.0 / 3.0;
    answer(1.0_f32.div_rz(third).to_bits() + u32::from(1.0_f32.div_rp(third) > 1.0 / third));
    answer(u32::from((-third).add_rz(1e-9) > -third) + u32::from(third.add_rm(1e-9) == third));
    answer(prmt(lane, lane << 8, 0x5410));
}
