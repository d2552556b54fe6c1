//! How many elements are not zero: count_nonzero, any, all.

use core::marker::PhantomData;

use abi::reduce::{FINISH_ALL, FINISH_ANY, ReduceParams};

use super::fold::{Fold, Indices};

/// Elements whose bits are tested.
pub(super) trait Bits: Copy {
    fn is_set(self, mask: u64) -> bool;
}

impl Bits for u32 {
    #[inline(always)]
    fn is_set(self, mask: u64) -> bool {
        self & mask as u32 != 0
    }
}

impl Bits for u64 {
    #[inline(always)]
    fn is_set(self, mask: u64) -> bool {
        self & mask != 0
    }
}

/// Counts the elements that have some bit of the mask.
pub(super) struct Count<B>(PhantomData<B>);

impl<B: Bits> Fold for Count<B> {
    type Number = B;
    type Local = u32;
    type Acc = u64;
    type Out = i64;
    const WORDS: usize = 2;

    #[inline(always)]
    fn start(_: &ReduceParams) -> u32 {
        0
    }
    #[inline(always)]
    fn empty(_: &ReduceParams) -> u64 {
        0
    }
    #[inline(always)]
    fn batch<const V: usize, const U: usize>(
        mut locals: [u32; V],
        xs: impl Fn(usize, usize) -> B,
        _: u32,
        params: &ReduceParams,
    ) -> [u32; V] {
        for (v, local) in locals.iter_mut().enumerate() {
            for u in 0..U {
                *local += u32::from(xs(u, v).is_set(params.mask));
            }
        }
        locals
    }
    #[inline(always)]
    fn close(local: u32, _: u32, _: &Indices, _: usize) -> u64 {
        u64::from(local)
    }
    #[inline(always)]
    fn single(x: B, _: u64, params: &ReduceParams) -> u64 {
        u64::from(x.is_set(params.mask))
    }
    #[inline(always)]
    fn merge(a: u64, b: u64, _: &ReduceParams) -> u64 {
        a + b
    }
    #[inline(always)]
    fn result(acc: u64, params: &ReduceParams) -> i64 {
        let result = match params.finish {
            FINISH_ANY => u64::from(acc > 0),
            FINISH_ALL => u64::from(acc == params.view.len()),
            _ => acc,
        };
        result as i64
    }
}
