//! The positions at which running extremes are reached: of each element that is equal to the extreme up
//! to it, its position, else -1. Running maxima of these are the indices of the extremes.

use abi::scan::MarkParams;
use cuda_std::{kernel, thread};

/// The bits of an element.
///
/// # Safety
/// It is readable.
#[inline(always)]
unsafe fn bits(row: *const u8, i: u64, size_log2: u32) -> u64 {
    let at = row.wrapping_add((i << size_log2) as usize);
    // SAFETY: passed on to the caller.
    unsafe {
        match size_log2 {
            1 => u64::from(at.cast::<u16>().read()),
            2 => u64::from(at.cast::<u32>().read()),
            _ => at.cast::<u64>().read(),
        }
    }
}

/// Marks rows of x, given their running extremes.
///
/// # Safety
/// Launched as `abi::scan` says, with tensors of these extents and strides.
#[kernel]
pub unsafe fn scan_marks(x: *const u8, values: *const u8, marks: *mut i64, params: MarkParams) {
    let size_log2 = params.size_log2;
    let mut row = u64::from(thread::block_idx_y());
    while row < params.rows {
        let at = |stride: i64| ((row as i64).wrapping_mul(stride) << size_log2) as isize;
        let x = x.wrapping_offset(at(params.x_stride));
        let values = values.wrapping_offset(at(params.n as i64));
        let marks = marks.wrapping_add((row * params.n) as usize);
        let mut i = u64::from(thread::block_idx_x()) * u64::from(thread::block_dim_x())
            + u64::from(thread::thread_idx_x());
        while i < params.n {
            // SAFETY: an element of each row; one thread writes it.
            unsafe {
                let (own, extreme) = (bits(x, i, size_log2), bits(values, i, size_log2));
                // Integers have no NaN, and no second zero: all of their bits are the magnitude.
                let magnitude = own & params.magnitude;
                let are_zeros = (own | extreme) & params.magnitude == 0;
                let is_reached = own == extreme || are_zeros || magnitude > params.largest;
                let mark = if is_reached { i as i64 } else { -1 };
                marks.wrapping_add(i as usize).write(mark);
            }
            i += u64::from(thread::grid_dim_x()) * u64::from(thread::block_dim_x());
        }
        row += u64::from(thread::grid_dim_y());
    }
}
