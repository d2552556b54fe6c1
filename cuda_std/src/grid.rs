//! Launches that begin before the one before them has ended (programmatic dependent launch).
//!
//! A kernel that calls [`griddepcontrol_wait`] in every thread that touches global memory, before it
//! does, may be launched so: what it does before the wait (barriers, tensor maps) then overlaps with
//! the end of the launch before it. The host does so for warpsmith's own kernels.

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
         `griddepcontrol_wait`, until all of this launch has ended.";
    griddepcontrol_wait = "griddepcontrol.wait",
        "waits until the launches before have ended and what they wrote is seen. No wait where \
         this launch did not begin early.";
}
