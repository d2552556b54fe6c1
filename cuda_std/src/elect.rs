//! Electing one lane of a warp.

/// `elect.sync _|p, mask`: true in exactly one lane of `mask`, the same lane each time. For work
/// that one thread does on behalf of the warp, such as issuing TMA copies or arriving at an
/// mbarrier.
///
/// *Scope*: warp, converged; it relies on cuda_builder to keep it convergent. *Since*: PTX 8.0,
/// sm_90.
///
/// # Safety
/// All lanes of `mask` execute it together.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn elect_sync(mask: u32) -> bool {
    on_device!("elect::elect_sync", (mask), {
        let elected: u32;
        // SAFETY: the caller's lanes are converged.
        unsafe {
            core::arch::asm!("{{", ".reg .pred p;", "elect.sync _|p, {};",
                "selp.u32 {}, 1, 0, p;", "}}",
                in(reg32) mask, out(reg32) elected, options(nostack));
        }
        elected != 0
    })
}
