//! Programmatic dependent launch (PDL): a grid may start before the previous one in the stream has
//! ended.
//!
//! A kernel may be launched this way if every thread that accesses global memory calls
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
