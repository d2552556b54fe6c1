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

/// Returns `N`, but hides it from rustc and LLVM, so that a loop up to it is once in the PTX. ptxas
/// knows it, and unrolls the loop. An array whose elements the loop goes through stays in registers
/// if it turns ([`rotate`]).
///
/// ```
/// # use cuda_std::hint::{constant, rotate};
/// let mut squares = [1, 2, 3];
/// let mut i = 0;
/// while i < constant::<3>() {
///     squares[0] *= squares[0]; // once in PTX, three times in machine code
///     rotate(&mut squares);
///     i += 1;
/// }
/// assert_eq!(squares, [1, 4, 9]);
/// ```
#[inline(always)]
pub fn constant<const N: usize>() -> usize {
    #[cfg(target_arch = "nvptx64")]
    {
        let value: u32;
        // SAFETY: writes its operand.
        unsafe {
            core::arch::asm!("mov.b32 {0}, {1};", out(reg32) value, const N,
                options(pure, nomem, nostack, preserves_flags));
        }
        value as usize
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        N
    }
}

/// Moves all elements one to the front, and the first behind them. Where a loop works on the first
/// element and turns, the array's elements are in the code once. Not a mere shift: of that LLVM
/// makes a copy of the loop's code for each element.
///
/// ```
/// let mut x = [1, 2, 3];
/// cuda_std::hint::rotate(&mut x);
/// assert_eq!(x, [2, 3, 1]);
/// ```
#[inline(always)]
pub fn rotate<T: Copy, const N: usize>(x: &mut [T; N]) {
    let first = x[0];
    let mut i = 1;
    while i < N {
        x[i - 1] = x[i];
        i += 1;
    }
    x[N - 1] = first;
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
