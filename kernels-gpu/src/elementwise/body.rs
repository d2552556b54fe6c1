//! The loop of all entries.

use cuda_std::thread;
use spec::elementwise::{ElementwiseParams, MAX_RANK};

use cuda_std::element::Element;

/// Element offsets of element `index` in the output and `N` inputs.
#[inline(always)]
fn offsets<const N: usize>(index: u64, params: &ElementwiseParams) -> (isize, [isize; N]) {
    if params.contiguous != 0 {
        return (index as isize, [index as isize; N]);
    }
    let mut rest = index;
    let mut out = 0i64;
    let mut inputs = [0i64; N];
    // Every index of `params` is a constant once unrolled: a by-value parameter that is indexed by
    // a variable would be copied to local memory.
    for d in (0..MAX_RANK).rev() {
        if MAX_RANK - d > params.rank as usize {
            break;
        }
        let extent = params.shape[d];
        let i = (rest % extent) as i64;
        rest /= extent;
        out = out.wrapping_add(i.wrapping_mul(params.strides[0][d]));
        for (input, strides) in inputs.iter_mut().zip(&params.strides[1..]) {
            *input = input.wrapping_add(i.wrapping_mul(strides[d]));
        }
    }
    (out as isize, inputs.map(|offset| offset as isize))
}

/// `y = f(x)` of every element.
///
/// # Safety
/// The tensors are those of `params`.
#[inline(always)]
pub(super) unsafe fn map<X: Element, Y: Element, const N: usize>(
    x: [*const X; N],
    y: *mut Y,
    params: &ElementwiseParams,
    f: impl Fn([f32; N]) -> f32,
) {
    let is_vector = params.contiguous != 0
        && x.iter().all(|&x| X::is_vector_aligned(x))
        && Y::is_vector_aligned(y);
    let vectors = if is_vector { params.len / 4 } else { 0 };
    for v in thread::grid_stride(vectors) {
        let at = v as usize * 4;
        // SAFETY: four elements of each tensor, aligned as just found.
        unsafe {
            let x = x.map(|x| X::load4(x.wrapping_add(at)));
            let y4 = [0, 1, 2, 3].map(|j: usize| f(x.map(|x4| x4[j])));
            Y::store4(y.wrapping_add(at), y4);
        }
    }
    for i in thread::grid_stride(params.len - vectors * 4) {
        let (out, inputs) = offsets::<N>(vectors * 4 + i, params);
        // SAFETY: one element of each tensor.
        unsafe {
            let mut values = [0.0; N];
            for j in 0..N {
                values[j] = X::load(x[j].wrapping_offset(inputs[j]));
            }
            Y::store(y.wrapping_offset(out), f(values));
        }
    }
}

/// `y = x` of every element, as bits.
///
/// # Safety
/// The tensors are those of `params`.
#[inline(always)]
pub(super) unsafe fn copy<T: Copy>(x: *const T, y: *mut T, params: &ElementwiseParams) {
    for i in thread::grid_stride(params.len) {
        let (out, [input]) = offsets::<1>(i, params);
        // SAFETY: one element of each tensor.
        unsafe {
            y.wrapping_offset(out)
                .write(x.wrapping_offset(input).read())
        };
    }
}
