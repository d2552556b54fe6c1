//! By-value parameters that a kernel reads directly from parameter space.

use core::ops::Deref;

/// A struct of `BYTES` bytes that the launch passes by value and the kernel reads in place. For the
/// host, the parameter is a `T`. cuda_builder recognises it by this type's name.
///
/// A plain by-value struct stays in registers only as far as the kernel indexes its arrays by
/// constants. With `ByValue` the index may be computed at run time:
/// `params.program[step]` is one load from the launch's parameters.
///
/// `BYTES` must be written as a number and equal `size_of::<T>()`; any other number does not
/// compile.
///
/// ```
/// # use cuda_std::param::ByValue;
/// #[repr(C)]
/// #[derive(Clone, Copy)]
/// pub struct Weights([f32; 16]);
///
/// #[cuda_std::kernel]
/// pub unsafe fn pick(out: *mut f32, weights: ByValue<Weights, 64>, index: u32) {
///     unsafe { out.write(weights.0[index as usize & 15]) }
/// }
/// ```
#[derive(Debug)]
#[repr(transparent)]
pub struct ByValue<T: Copy, const BYTES: usize>(*const T);

impl<T: Copy, const BYTES: usize> Clone for ByValue<T, BYTES> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Copy, const BYTES: usize> Copy for ByValue<T, BYTES> {}

impl<T: Copy, const BYTES: usize> Deref for ByValue<T, BYTES> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        const {
            assert!(size_of::<T>() == BYTES, "BYTES is the size of T");
            assert!(
                align_of::<T>() <= 8,
                "parameters by value are aligned to 8 bytes"
            );
        }
        // SAFETY: cuda_builder makes the parameter a pointer to the launch's own copy of a T, which
        // nobody writes.
        unsafe { &*self.0 }
    }
}
