//! Hints that keep the compiler from optimising.

/// Returns `value`, but hides it from the compiler, so that a loop up to it is not unrolled.
///
/// The compiler must assume that each call returns a different value. Emits no instruction.
/// *Scope*: thread.
///
/// ```
/// # use cuda_std::hint::opaque;
/// let mut sum = 0;
/// let mut i = 0;
/// while i < opaque(3) {
///     sum += i; // exists once in the code, not three times
///     i += 1;
/// }
/// assert_eq!(sum, 3);
/// ```
#[inline(always)]
pub fn opaque(value: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let mut value = value;
        // SAFETY: no instruction.
        unsafe {
            core::arch::asm!("// {0} is opaque", inout(reg32) value,
                options(nomem, nostack, preserves_flags));
        }
        value
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        core::hint::black_box(value)
    }
}
