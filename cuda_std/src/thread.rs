//! Where a thread stands in its block and grid, and the block's barrier.

#[cfg(target_arch = "nvptx64")]
use core::arch::nvptx;

/// Threads of a warp.
pub const WARP_THREADS: u32 = 32;

macro_rules! special_register {
    ($($name:ident = $intrinsic:ident, $doc:literal;)*) => {$(
        #[doc = $doc]
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub fn $name() -> u32 {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: reads a special register.
            unsafe {
                nvptx::$intrinsic()
            }
            #[cfg(not(target_arch = "nvptx64"))]
            crate::host::device_only(concat!("thread::", stringify!($name)))
        }
    )*};
}

special_register! {
    thread_idx_x = _thread_idx_x, "`%tid.x`: index of the thread in its block.";
    thread_idx_y = _thread_idx_y, "`%tid.y`.";
    thread_idx_z = _thread_idx_z, "`%tid.z`.";
    block_dim_x = _block_dim_x, "`%ntid.x`: threads of a block.";
    block_dim_y = _block_dim_y, "`%ntid.y`.";
    block_dim_z = _block_dim_z, "`%ntid.z`.";
    block_idx_x = _block_idx_x, "`%ctaid.x`: index of the block in the grid.";
    block_idx_y = _block_idx_y, "`%ctaid.y`.";
    block_idx_z = _block_idx_z, "`%ctaid.z`.";
    grid_dim_x = _grid_dim_x, "`%nctaid.x`: blocks of the grid.";
    grid_dim_y = _grid_dim_y, "`%nctaid.y`.";
    grid_dim_z = _grid_dim_z, "`%nctaid.z`.";
}

/// `bar.sync 0;`
///
/// *Scope*: block; every thread of it must arrive, and all lanes of a warp at the same barrier.
/// Orders the block's shared and global memory accesses before it against those after it.
/// *Since*: PTX 1.0, sm_10. Relies on cuda_builder to keep it convergent.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn sync_threads() {
    on_device!("thread::sync_threads", (), {
        // SAFETY: no memory or stack of the caller's is touched; a barrier that not all threads
        // reach hangs, which the emulator reports.
        unsafe { core::arch::asm!("bar.sync 0;", options(nostack)) }
    })
}
