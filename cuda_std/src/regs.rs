//! Register reallocation between the warpgroups of a block (`setmaxnreg`).
//!
//! A warp-specialised kernel launches with the same number of registers in every thread. Its
//! producer warpgroup gives registers back to the block's pool ([`setmaxnreg_dec`]), and the
//! consumer warpgroups take them ([`setmaxnreg_inc`]).
//!
//! A count that the instruction does not accept does not compile:
//! ```compile_fail
//! fn consumer() {
//!     unsafe { cuda_std::regs::setmaxnreg_inc::<230>() }
//! }
//! # fn main() { let _ = consumer as fn(); }
//! ```
//! ```
//! fn consumer() {
//!     unsafe { cuda_std::regs::setmaxnreg_inc::<232>() }
//! }
//! # fn main() { let _ = consumer as fn(); }
//! ```

macro_rules! setmaxnreg {
    ($($name:ident = $way:literal, $doc:literal, $wait:literal;)*) => {$(
        #[doc = concat!("`setmaxnreg.", $way, ".sync.aligned.u32 COUNT`: ", $doc)]
        ///
        #[doc = concat!("*Scope*: warpgroup, each warp converged. ", $wait)]
        /// The kernel has `max_threads` and `min_blocks = 1`, or ptxas ignores it. It relies on
        /// cuda_builder to keep it convergent. *Since*: PTX 8.0, sm_90a.
        ///
        /// # Safety
        /// All warps of the warpgroup execute it with the same count, and none again before they
        /// have met. All counts of a block's warps together fit the registers it was launched with.
        ///
        /// # Panics
        /// On the host. A count does not compile unless it is a multiple of 8 between 24 and 256.
        #[inline(always)]
        pub unsafe fn $name<const COUNT: u32>() {
            const {
                assert!(
                    COUNT >= 24 && COUNT <= 256 && COUNT.is_multiple_of(8),
                    "setmaxnreg takes a multiple of 8 between 24 and 256"
                );
            }
            on_device!("regs::setmaxnreg", (), {
                // SAFETY: the caller's warps are converged and its counts fit.
                unsafe {
                    core::arch::asm!(concat!("setmaxnreg.", $way, ".sync.aligned.u32 {};"),
                        const COUNT, options(nostack));
                }
            })
        }
    )*};
}

setmaxnreg! {
    setmaxnreg_inc = "inc", "the warps may use `COUNT` registers a thread from here on.",
        "Waits until the block's pool has them. What the new ones hold is undefined.";
    setmaxnreg_dec = "dec", "the warps give back what they have above `COUNT` registers a thread.",
        "Does not wait.";
}
