//! A thread's indices in its block and grid, the block barrier, and the older `membar` fences
//! ([`crate::fence`] has those of the PTX memory model).

#[cfg(target_arch = "nvptx64")]
use core::arch::nvptx;

/// Threads in a warp.
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

/// `bar.sync 0;`: the block barrier (CUDA's `__syncthreads()`).
///
/// *Scope*: block. Every thread of it must arrive, and each warp converged: all its lanes at the
/// same barrier. Relies on cuda_builder to keep it convergent. *Ordering*: all accesses of shared
/// and global memory by the block's threads before the barrier are ordered before those after it.
/// *Since*: PTX 1.0, sm_10.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn sync_threads() {
    on_device!("thread::sync_threads", (), {
        // SAFETY: touches neither memory nor stack; a barrier that not all threads reach hangs,
        // which the emulator reports.
        unsafe { core::arch::asm!("bar.sync 0;", options(nostack)) }
    })
}

/// Index of the thread in its warp, from 0 to 31. Computed from the thread index, so it is right
/// for blocks of any dimensions.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn lane_idx() -> u32 {
    flat_thread_idx() % WARP_THREADS
}

/// Index of the thread's warp in its block.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn warp_idx() -> u32 {
    flat_thread_idx() / WARP_THREADS
}

/// Linear index of the thread in its block, x fastest: `x + dim_x * (y + dim_y * z)`. In a
/// one-dimensional block [`thread_idx_x`] is the same and takes fewer instructions.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn flat_thread_idx() -> u32 {
    thread_idx_x() + block_dim_x() * (thread_idx_y() + block_dim_y() * thread_idx_z())
}

/// Index of the thread in a one-dimensional grid: `block_idx_x * block_dim_x + thread_idx_x`, in 32
/// bits, wrapping.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn index_1d() -> u32 {
    block_idx_x() * block_dim_x() + thread_idx_x()
}

/// Index of the thread in a two-dimensional grid, as [`index_1d`] in y and x: row and column.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn index_2d() -> [u32; 2] {
    [block_idx_y() * block_dim_y() + thread_idx_y(), index_1d()]
}

/// Index of the thread in a three-dimensional grid, as [`index_1d`] in z, y and x: plane, row and
/// column.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn index_3d() -> [u32; 3] {
    let [row, column] = index_2d();
    [block_idx_z() * block_dim_z() + thread_idx_z(), row, column]
}

/// Number of threads in a one-dimensional grid.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn threads_1d() -> u64 {
    u64::from(grid_dim_x()) * u64::from(block_dim_x())
}

/// Grid-stride loop: the indices in `0..len` that this thread of a one-dimensional grid processes.
/// The first is the thread's index in the grid, the step is [`threads_1d`].
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn grid_stride(len: u64) -> GridStride {
    GridStride {
        next: u64::from(block_idx_x()) * u64::from(block_dim_x()) + u64::from(thread_idx_x()),
        len,
        step: threads_1d(),
    }
}

/// The iterator that [`grid_stride`] returns.
#[derive(Clone, Debug)]
pub struct GridStride {
    next: u64,
    len: u64,
    step: u64,
}

impl Iterator for GridStride {
    type Item = u64;

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        let index = self.next;
        (index < self.len).then(|| {
            self.next = index.saturating_add(self.step);
            index
        })
    }
}

/// `trap;`: aborts the launch; the host gets an error.
///
/// *Scope*: thread. *Since*: PTX 1.0, sm_10.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn trap() -> ! {
    on_device!("thread::trap", (), {
        // SAFETY: `trap` has no precondition.
        unsafe { nvptx::trap() }
    })
}

/// `nanosleep.u32`: suspends the thread for about `duration_ns`, at most 1 ms.
///
/// *Scope*: thread. *Since*: PTX 6.3, sm_70.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn nanosleep(duration_ns: u32) {
    on_device!("thread::nanosleep", (duration_ns), {
        // SAFETY: touches nothing.
        unsafe {
            core::arch::asm!("nanosleep.u32 {};", in(reg32) duration_ns, options(nostack));
        }
    })
}

/// `%globaltimer`: a timer in nanoseconds that is common to all SMs.
///
/// *Scope*: thread. *Since*: PTX 3.1, sm_30.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn globaltimer_ns() -> u64 {
    on_device!("thread::globaltimer_ns", (), {
        let time: u64;
        // SAFETY: reads a special register.
        unsafe {
            core::arch::asm!("mov.u64 {}, %globaltimer;", out(reg64) time, options(nostack));
        }
        time
    })
}

/// `%clock64`: a counter of the cycles of this SM. Differences on one SM are times.
///
/// *Scope*: thread. *Since*: PTX 2.0, sm_20.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn clock64() -> u64 {
    on_device!("thread::clock64", (), {
        let cycles: u64;
        // SAFETY: reads a special register.
        unsafe {
            core::arch::asm!("mov.u64 {}, %clock64;", out(reg64) cycles, options(nostack));
        }
        cycles
    })
}

macro_rules! shared_sizes {
    ($($name:ident = $register:literal, $doc:literal;)*) => {$(
        #[doc = concat!("`", $register, "`: ", $doc)]
        ///
        /// *Scope*: thread. *Since*: PTX 4.1, sm_20.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub fn $name() -> u32 {
            on_device!(concat!("thread::", stringify!($name)), (), {
                let bytes: u32;
                // SAFETY: reads a special register.
                unsafe {
                    core::arch::asm!(concat!("mov.u32 {}, ", $register, ";"), out(reg32) bytes,
                        options(nostack));
                }
                bytes
            })
        }
    )*};
}

shared_sizes! {
    dynamic_smem_size = "%dynamic_smem_size", "dynamic shared memory of the block, in bytes.";
    total_smem_size = "%total_smem_size",
        "all shared memory of the block, in bytes, rounded up to the device's unit.";
}

/// `brkpt`: stops in a debugger. Without one, the launch ends with an error.
///
/// *Scope*: thread. *Since*: PTX 1.0, sm_11.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn brkpt() {
    on_device!("thread::brkpt", (), {
        // SAFETY: touches nothing.
        unsafe { core::arch::asm!("brkpt;", options(nostack)) }
    })
}

/// `pmevent`: counts one event of number `EVENT`, 0 to 15, for a profiler.
///
/// *Scope*: warp. *Since*: PTX 1.4, sm_10.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn pmevent<const EVENT: u32>() {
    const {
        assert!(EVENT < 16, "an event has a number from 0 to 15");
    }
    on_device!("thread::pmevent", (), {
        // SAFETY: touches nothing.
        unsafe { core::arch::asm!("pmevent {};", const EVENT, options(nostack)) }
    })
}

macro_rules! fences {
    ($($name:ident = $instruction:literal, $doc:literal;)*) => {$(
        #[doc = concat!("`", $instruction, "`: ", $doc)]
        ///
        /// *Scope*: thread. *Since*: PTX 1.4, sm_10.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub fn $name() {
            on_device!("thread::membar", (), {
                // SAFETY: orders memory accesses and has no precondition.
                unsafe { core::arch::asm!(concat!($instruction, ";"), options(nostack)) }
            })
        }
    )*};
}

fences! {
    membar_cta = "membar.cta", "orders the thread's accesses for its block.";
    membar_gl = "membar.gl", "orders the thread's accesses for the device.";
    membar_sys = "membar.sys", "orders the thread's accesses for device and host.";
}
