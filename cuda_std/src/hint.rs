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

/// Computes `values` here: the compiler does not put it off to where they are used next, which may
/// keep more values alive until then. Costs no instruction. `N` is a multiple of 4.
///
/// # Examples
/// ```
/// let sums = [1.0_f32, 2.0, 3.0, 4.0];
/// cuda_std::hint::settle(&sums);
/// ```
#[inline(always)]
pub fn settle<const N: usize>(values: &[f32; N]) {
    const { assert!(N.is_multiple_of(4)) };
    #[cfg(target_arch = "nvptx64")]
    {
        let mut i = 0;
        while i < N {
            let [a, b, c, d] = [0, 1, 2, 3].map(|j| values[i + j]);
            // SAFETY: no instruction.
            unsafe {
                core::arch::asm!("// {0}, {1}, {2} and {3} are computed", in(reg32) a, in(reg32) b,
                    in(reg32) c, in(reg32) d, options(nomem, nostack, preserves_flags));
            }
            i += 4;
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    core::hint::black_box(values);
}
