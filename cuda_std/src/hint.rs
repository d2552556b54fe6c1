//! What the compiler is not to know.

/// `value`, of which the compiler knows nothing more: a loop up to it stays a loop.
///
/// Each call gives another value as far as it knows. No instruction. *Scope*: thread.
///
/// ```
/// # use cuda_std::hint::opaque;
/// let mut sum = 0;
/// let mut i = 0;
/// while i < opaque(3) {
///     sum += i; // is there once, not three times
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
