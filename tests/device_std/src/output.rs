//! Printing, and what ends a launch.

use cuda_std::{kernel, println, thread};

/// Thread 0 prints two lines.
///
/// # Safety
/// None is needed.
#[kernel(allow_local)]
pub unsafe fn print_lines(scale: f32) {
    if thread::index_1d() == 0 {
        println!("100% of {} is {}, {{really}}", 7_u32, 0.25 * scale);
        println!("{} {} {} {}", -3_i64, true, 200_u8, c"text");
    }
}

/// Indexes out of bounds where `index` is above 3, which traps.
///
/// # Safety
/// `out` holds one word.
#[kernel(allow_local)]
pub unsafe fn index_or_trap(out: *mut u32, index: u32) {
    let values = [5, 6, 7, thread::block_dim_x()];
    // SAFETY: the launch's word.
    unsafe { out.write(values[index as usize]) };
}
