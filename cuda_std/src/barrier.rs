//! Named barriers: the 16 hardware barriers of a block. [`crate::thread::sync_threads`] uses number
//! 0 with all threads, and so do the reductions `bar_red_*` here.
//!
//! The accesses of shared and global memory by participating threads before they arrive are ordered
//! before those after the barrier by the threads that wait at it. The functions rely on
//! cuda_builder to keep them convergent.

/// `bar.sync id, threads;`: arrives at barrier `id` and waits until `threads` threads have arrived,
/// those of [`bar_arrive`] included.
///
/// *Scope*: `threads` threads of the block; whole warps, converged. *Since*: PTX 2.0, sm_20.
///
/// # Safety
/// `id < 16`. `threads` is a multiple of 32 and the same for all participants, and exactly so many
/// threads arrive.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn bar_sync(id: u32, threads: u32) {
    on_device!("barrier::bar_sync", (id, threads), {
        // SAFETY: the caller's threads all arrive.
        unsafe {
            core::arch::asm!("bar.sync {}, {};", in(reg32) id, in(reg32) threads, options(nostack));
        }
    })
}

/// `bar.arrive id, threads;`: arrives at barrier `id` without waiting, for a producer whose
/// consumers call [`bar_sync`].
///
/// *Scope*: `threads` threads of the block; whole warps, converged. *Since*: PTX 2.0, sm_20.
///
/// # Safety
/// As for [`bar_sync`].
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn bar_arrive(id: u32, threads: u32) {
    on_device!("barrier::bar_arrive", (id, threads), {
        // SAFETY: the caller's threads all arrive.
        unsafe {
            core::arch::asm!("bar.arrive {}, {};", in(reg32) id, in(reg32) threads,
                options(nostack));
        }
    })
}

/// `bar.red.popc.u32 .., 0, predicate;`: a block barrier that returns, in every thread, the number
/// of threads whose predicate is true.
///
/// *Scope*: block, every thread. *Since*: PTX 2.0, sm_20.
///
/// # Safety
/// Every thread of the block executes it, whole warps converged.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn bar_red_popc(predicate: bool) -> u32 {
    on_device!("barrier::bar_red_popc", (predicate), {
        let count: u32;
        // SAFETY: the caller's threads all arrive.
        unsafe {
            core::arch::asm!("{{", ".reg .pred p;", "setp.ne.u32 p, {}, 0;",
                "bar.red.popc.u32 {}, 0, p;", "}}", in(reg32) u32::from(predicate),
                out(reg32) count, options(nostack));
        }
        count
    })
}

macro_rules! predicates {
    ($($name:ident = $op:literal, $doc:literal;)*) => {$(
        #[doc = concat!("`bar.red.", $op, ".pred .., 0, predicate;`: ", $doc)]
        ///
        /// *Scope*: block, every thread. *Since*: PTX 2.0, sm_20.
        ///
        /// # Safety
        /// Every thread of the block executes it, whole warps converged.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name(predicate: bool) -> bool {
            on_device!("barrier::bar_red", (predicate), {
                let result: u32;
                // SAFETY: the caller's threads all arrive.
                unsafe {
                    core::arch::asm!("{{", ".reg .pred p;", "setp.ne.u32 p, {}, 0;",
                        concat!("bar.red.", $op, ".pred p, 0, p;"), "selp.u32 {}, 1, 0, p;", "}}",
                        in(reg32) u32::from(predicate), out(reg32) result, options(nostack));
                }
                result != 0
            })
        }
    )*};
}

predicates! {
    bar_red_and = "and", "whether all threads' predicates are true.";
    bar_red_or = "or", "whether some thread's predicate is true.";
}
