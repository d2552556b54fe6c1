//! The grid as a whole: a barrier of all its blocks, and programmatic dependent launch.
//!
//! # A barrier of the grid
//!
//! [`sync`] waits for all blocks of the grid. All of them have to run at the same time for this, which a
//! *cooperative launch* guarantees. The host library launches each kernel that has the barrier
//! cooperatively. It refuses a grid that the device does not hold at a time.
//! `#[kernel(grid = "resident(y)")]` states a grid for `y` that always fits.
//!
//! What blocks hand to each other across the barrier is in atomics, which any thread may access, or
//! behind pointers of an `unsafe` kernel:
//!
//! ```
//! use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
//! use cuda_std::{grid, prelude::*};
//!
//! /// Counts how often the largest value occurs. `largest` and `count` are 0 before.
//! #[kernel(block = 256, grid = "resident(x.len())")]
//! pub fn count_largest(x: &[u32], largest: &[AtomicU32], count: &[AtomicU32]) {
//!     for i in Index1::grid_stride(x.len()) {
//!         largest[0].fetch_max(x[i.get()], Relaxed);
//!     }
//!     grid::sync();
//!     let largest = largest[0].load(Relaxed);
//!     for i in Index1::grid_stride(x.len()) {
//!         if x[i.get()] == largest {
//!             count[0].fetch_add(1, Relaxed);
//!         }
//!     }
//! }
//! ```
//!
//! # Programmatic dependent launch
//!
//! By programmatic dependent launch (PDL), a grid may start before the previous one in the stream has
//! ended. A kernel may be launched this way if every thread that accesses global memory calls
//! [`griddepcontrol_wait`] first. What precedes the wait (initialising mbarriers, prefetching
//! tensor maps) then overlaps with the tail of the previous launch. The host launches warpsmith's
//! own kernels this way, and yours where you ask for it by `Module::early_kernel`.

macro_rules! controls {
    ($($name:ident = $instruction:literal, $doc:literal;)*) => {$(
        #[doc = concat!("`", $instruction, "`: ", $doc)]
        ///
        /// *Scope*: thread. *Since*: PTX 7.8, sm_90.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub fn $name() {
            on_device!("grid::griddepcontrol", (), {
                // SAFETY: orders launches; touches nothing.
                unsafe { core::arch::asm!(concat!($instruction, ";"), options(nostack)) }
            })
        }
    )*};
}

controls! {
    griddepcontrol_launch_dependents = "griddepcontrol.launch_dependents",
        "this block has no objection to the next launch beginning; it still waits, at its own \
         `griddepcontrol_wait`, until all of this launch has ended. An H200 takes 2.4 ns for each \
         block that says so, one after the other: for launches of few blocks.";
    griddepcontrol_wait = "griddepcontrol.wait",
        "waits until the launches before have ended and what they wrote is seen. No wait where \
         this launch did not begin early.";
}

/// Waits for all threads of all blocks of the grid. All accesses before the barrier are ordered before
/// all accesses behind it.
///
/// Every thread of the grid calls it, or none does. cuda_builder refuses a safe kernel in which a
/// condition that differs between threads or blocks decides that. In an `unsafe` kernel the grid hangs
/// there, which the emulator reports.
///
/// It keeps its state where `grid.sync()` of CUDA C++ does: in the workspace that the driver gives to a
/// cooperative launch.
///
/// *Scope*: grid, every thread. *Ordering*: all accesses of global memory, of all threads.
/// *Since*: PTX 6.0, sm_70. Relies on cuda_builder to keep it convergent.
///
/// # Panics
/// In a launch that is not cooperative. On the host.
#[inline(always)]
#[track_caller]
pub fn sync() {
    on_device!("grid::sync", (), {
        use crate::atomic::{self, Order, Scope};
        use crate::thread;

        // The highest bit of the barrier's word turns when all blocks have arrived.
        const ROUND: u32 = 1 << 31;
        let workspace = cooperative_workspace();
        thread::sync_threads();
        if thread::flat_thread_idx() == 0 {
            let blocks = thread::grid_dim_x() * thread::grid_dim_y() * thread::grid_dim_z();
            let is_first =
                thread::block_idx_x() | thread::block_idx_y() | thread::block_idx_z() == 0;
            let arrived = if is_first { ROUND - (blocks - 1) } else { 1 };
            // SAFETY: the second word of the workspace is the barrier of the grid, which its blocks
            // access by atomics alone.
            unsafe {
                let barrier = workspace.add(1);
                let before = atomic::atom_add(barrier, arrived, Order::AcqRel, Scope::Gpu);
                while (atomic::ld_acquire_gpu(barrier) ^ before) & ROUND == 0 {}
            }
        }
        thread::sync_threads();
    })
}

/// Panics in a launch that is not cooperative. The host library launches each kernel that has this call
/// cooperatively, so all blocks run at the same time and may wait for each other.
///
/// `#[kernel(cooperative)]` begins with it:
///
/// ```
/// use cuda_std::atomic::{Order, Scope, atom_add, ld_acquire_gpu};
/// use cuda_std::prelude::*;
///
/// /// Each block waits for the block before it, by the flag `turn`, which is 0 before.
/// ///
/// /// # Safety
/// /// `turn` points to one number that nothing else accesses, `order` to one for each block.
/// #[kernel(block = 32, cooperative)]
/// pub unsafe fn one_after_the_other(turn: *mut u32, order: *mut u32) {
///     if thread::thread_idx_x() == 0 {
///         let block = thread::block_idx_x();
///         // SAFETY: `turn` is accessed by atomics alone, an element of `order` by one thread.
///         unsafe {
///             while ld_acquire_gpu(turn) != block {}
///             *order.add(block as usize) = block;
///             atom_add(turn, 1, Order::Release, Scope::Gpu);
///         }
///     }
/// }
/// ```
///
/// *Scope*: grid. *Since*: PTX 6.0, sm_70.
///
/// # Panics
/// In a launch that is not cooperative. On the host.
#[inline(always)]
#[track_caller]
pub fn assert_cooperative() {
    on_device!("grid::assert_cooperative", (), {
        cooperative_workspace();
    })
}

/// The workspace of a cooperative launch. Panics in any other launch.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
#[track_caller]
fn cooperative_workspace() -> *mut u32 {
    let workspace = workspace();
    assert!(
        !workspace.is_null(),
        "blocks that wait for each other take a cooperative launch"
    );
    workspace
}

/// The workspace of a cooperative launch, which is null in any other launch.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
fn workspace() -> *mut u32 {
    let (low, high): (u32, u32);
    // SAFETY: reads two special registers, in which the driver passes the halves of the address.
    unsafe {
        core::arch::asm!(
            "mov.b32 {}, %envreg2;",
            "mov.b32 {}, %envreg1;",
            out(reg32) low,
            out(reg32) high,
            options(nostack)
        );
    }
    (u64::from(high) << 32 | u64::from(low)) as *mut u32
}
