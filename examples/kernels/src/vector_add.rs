//! Examples 01 and 05.

use cuda_std::prelude::*;

/// `c = a + b`, with one element per thread.
///
/// # Safety
/// `a`, `b` and `c` have `len` elements.
#[kernel]
pub unsafe fn vector_add(a: *const f32, b: *const f32, c: *mut f32, len: usize) {
    let i = thread::index_1d() as usize;
    if i < len {
        // SAFETY: i < len, and no other thread writes c[i].
        unsafe { *c.add(i) = *a.add(i) + *b.add(i) };
    }
}

/// [`vector_add`] with a bug, for example 05 to find.
///
/// # Safety
/// It cannot be called soundly: threads past the end access memory there.
#[kernel]
pub unsafe fn vector_add_with_a_bug(a: *const f32, b: *const f32, c: *mut f32) {
    let i = thread::index_1d() as usize;
    // SAFETY: not sound if the grid has more threads than the arrays have elements. This is the
    // bug.
    unsafe { *c.add(i) = *a.add(i) + *b.add(i) };
}
