//! Vector accesses.

use cuda_std::{kernel, mem, thread};

/// `y = x` four at a time, then two at a time, then through the read-only cache.
///
/// # Safety
/// `x` holds `4 * threads` elements, `y` three times as many; both aligned to 16 bytes.
#[kernel]
pub unsafe fn vector_copies(x: *const f32, y: *mut f32, threads: u32) {
    let at = 4 * thread::index_1d() as usize;
    let len = 4 * threads as usize;
    if thread::index_1d() < threads {
        // SAFETY: the launch's arrays hold four elements a thread.
        unsafe {
            mem::st_v4_f32(y.add(at), mem::ld_v4_f32(x.add(at)));
            let halves = [mem::ld_v2_f32(x.add(at)), mem::ld_v2_f32(x.add(at + 2))];
            mem::st_v2_f32(y.add(len + at), halves[0]);
            mem::st_v2_f32(y.add(len + at + 2), halves[1]);
            mem::st_v4_f32(y.add(2 * len + at), mem::ld_global_nc_v4_f32(x.add(at)));
        }
    }
}
