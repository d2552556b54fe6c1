//! Stores results that a thread, or a warp, has alone directly from registers: no warp waits for
//! another, so some load while others store.

use abi::reduce::ReduceParams;
use cuda_std::hint::opaque;
use cuda_std::mem;
use cuda_std::warp::Words;

use super::body::Arrays;
use super::fold::Fold;
use super::fragment::{Fragment, Item, Role};
use super::store::{Rounded, is_rounded};

/// Most 32-bit words of the results of a vector.
const WORDS_MAX: usize = 16;

/// Outputs that a thread has alone: the first `count` of `accs`, from number `at` on.
pub(super) struct Own<A, const V: usize> {
    accs: [A; V],
    at: u64,
    count: u32,
}

impl<A: Words, const V: usize> Own<A, V> {
    /// The output of a row, which one of the warp's threads has.
    #[inline(always)]
    pub(super) fn row(acc: A, at: u64, is_first: bool) -> Self {
        Self {
            accs: [acc; V],
            at,
            count: u32::from(is_first),
        }
    }

    /// The outputs of the thread's columns in the item.
    #[inline(always)]
    pub(super) fn columns<F: Fold<Acc = A>>(
        locals: [F::Local; V],
        item: &Item,
        fragment: &Fragment,
        role: &Role,
        params: &ReduceParams,
    ) -> Self {
        let extent = params.view.inner;
        let vector = (item.column << params.across_log2) + u64::from(role.x);
        let inner = vector * V as u64;
        let indices = fragment.indices(params, V);
        Self {
            accs: F::close_columns(locals, fragment.count, &indices),
            at: item.outer * extent + inner,
            count: extent.saturating_sub(inner).min(V as u64) as u32,
        }
    }

    /// Stores them.
    ///
    /// # Safety
    /// They are outputs of the launch that nobody else writes.
    #[inline(always)]
    pub(super) unsafe fn write<F: Fold<Acc = A>>(self, arrays: &Arrays<F>, params: &ReduceParams) {
        let is_whole = F::IS_WRITTEN_AT_ONCE && self.count == V as u32;
        let to = arrays.out.wrapping_add(self.at as usize);
        let narrow = arrays.out.cast::<u16>().wrapping_add(self.at as usize);
        // SAFETY: passed on to the caller.
        unsafe {
            let is_narrow = is_rounded::<F::Out, V>(params);
            let address = if is_narrow { narrow.addr() } else { to.addr() };
            if is_whole && address.is_multiple_of(16) {
                let results = self.accs.map(|acc| F::result(acc, params));
                if is_narrow {
                    let bits = results.map(|result| u32::from(result.rounded(params.mask)));
                    let words = core::array::from_fn(|i| bits[2 * i] | bits[2 * i + 1] << 16);
                    mem::st_v4_u32(narrow.cast(), words);
                } else {
                    write_all(to, results);
                }
                return;
            }
            let (mut accs, mut v) = (self.accs, 0);
            while v < opaque(self.count) {
                F::finish::<V>(accs[0], params, arrays.out, self.at + u64::from(v));
                // Rotates the array, as registers cannot be indexed in a loop.
                accs = core::array::from_fn(|v| accs[(v + 1) % V]);
                v += 1;
            }
        }
    }
}

/// Stores neighbours by 16 bytes.
///
/// # Safety
/// They are writable, aligned to 16, and a multiple of 16 bytes in all.
#[inline(always)]
unsafe fn write_all<N: Words, const V: usize>(to: *mut N, results: [N; V]) {
    let mut words = [0; WORDS_MAX];
    let mut count = 0;
    for result in results {
        result.map_words(|word| {
            words[count] = word;
            count += 1;
            word
        });
    }
    let mut i = 0;
    while i < count {
        let four = [words[i], words[i + 1], words[i + 2], words[i + 3]];
        // SAFETY: passed on to the caller.
        unsafe { mem::st_v4_u32(to.cast::<u32>().wrapping_add(i), four) };
        i += 4;
    }
}
