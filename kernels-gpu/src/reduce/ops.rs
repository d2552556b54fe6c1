//! What is accumulated, one type an operation.

use cuda_std::math::{log, max_nan, min_nan};
use cuda_std::warp::Words;

use crate::online::MaxSum;

/// A reduction of f32 elements with their index on the axis.
pub(super) trait Reduction {
    /// A partial result; its size is `ReduceOp::partial_bytes`.
    type Acc: Words;
    /// The result: f32 or i64.
    type Out;
    /// Of no elements.
    const EMPTY: Self::Acc;

    /// With one element more, whose index is above those before.
    fn push(acc: Self::Acc, x: f32, index: u64) -> Self::Acc;

    /// Of both; commutative to the bit.
    fn merge(a: Self::Acc, b: Self::Acc) -> Self::Acc;

    /// The result for an axis of `n` elements.
    fn finish(acc: Self::Acc, n: u64) -> Self::Out;
}

/// The NaN that GPU arithmetic gives, in place of whichever came in.
#[inline(always)]
fn canonical(x: f32) -> f32 {
    if x.is_nan() {
        f32::from_bits(0x7fff_ffff)
    } else {
        x
    }
}

macro_rules! values {
    ($($name:ident: $empty:expr, |$a:ident, $b:ident| $merge:expr, |$acc:ident, $n:ident| $finish:expr;)*) => {$(
        pub(super) struct $name;

        impl Reduction for $name {
            type Acc = f32;
            type Out = f32;
            const EMPTY: f32 = $empty;

            #[inline(always)]
            fn push(acc: f32, x: f32, _: u64) -> f32 {
                Self::merge(acc, x)
            }
            #[inline(always)]
            fn merge($a: f32, $b: f32) -> f32 {
                $merge
            }
            #[inline(always)]
            fn finish($acc: f32, $n: u64) -> f32 {
                $finish
            }
        }
    )*};
}

values! {
    Sum: 0.0, |a, b| a + b, |acc, _n| acc;
    Mean: 0.0, |a, b| a + b, |acc, n| acc / n as f32;
    Max: f32::NEG_INFINITY, |a, b| max_nan(a, b), |acc, _n| canonical(acc);
    Min: f32::INFINITY, |a, b| min_nan(a, b), |acc, _n| canonical(acc);
}

pub(super) struct Logsumexp;

impl Reduction for Logsumexp {
    type Acc = MaxSum;
    type Out = f32;
    const EMPTY: MaxSum = MaxSum::EMPTY;

    #[inline(always)]
    fn push(acc: MaxSum, x: f32, _: u64) -> MaxSum {
        acc.push(x)
    }
    #[inline(always)]
    fn merge(a: MaxSum, b: MaxSum) -> MaxSum {
        a.merge(b)
    }
    #[inline(always)]
    fn finish(acc: MaxSum, _: u64) -> f32 {
        // An infinite maximum is the result, unless a NaN was among the elements.
        if acc.max.is_infinite() && !acc.sum.is_nan() {
            acc.max
        } else {
            acc.max + log(acc.sum)
        }
    }
}

/// Where the largest key is.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Best {
    index: u64,
    key: u32,
}

impl Words for Best {
    #[inline(always)]
    fn map_words(self, mut f: impl FnMut(u32) -> u32) -> Self {
        Self {
            index: self.index.map_words(&mut f),
            key: f(self.key),
        }
    }
}

impl Best {
    /// Below every element's key.
    const EMPTY: Self = Self {
        index: u64::MAX,
        key: 0,
    };

    #[inline(always)]
    fn push(self, key: u32, index: u64) -> Self {
        if key > self.key {
            Self { index, key }
        } else {
            self
        }
    }

    #[inline(always)]
    fn merge(self, other: Self) -> Self {
        if other.key > self.key || (other.key == self.key && other.index < self.index) {
            other
        } else {
            self
        }
    }
}

/// An integer that grows with x, both zeros alike and NaN above all; never 0.
#[inline(always)]
fn key(x: f32) -> u32 {
    // + 0.0 makes -0.0 a +0.0.
    let bits = (x + 0.0).to_bits();
    let ordered = bits ^ (((bits as i32) >> 31) as u32 | 0x8000_0000);
    if x.is_nan() { u32::MAX } else { ordered }
}

macro_rules! indices {
    ($($name:ident: |$x:ident| $key:expr;)*) => {$(
        pub(super) struct $name;

        impl Reduction for $name {
            type Acc = Best;
            type Out = i64;
            const EMPTY: Best = Best::EMPTY;

            #[inline(always)]
            fn push(acc: Best, $x: f32, index: u64) -> Best {
                acc.push($key, index)
            }
            #[inline(always)]
            fn merge(a: Best, b: Best) -> Best {
                a.merge(b)
            }
            #[inline(always)]
            fn finish(acc: Best, _: u64) -> i64 {
                acc.index as i64
            }
        }
    )*};
}

indices! {
    Argmax: |x| key(x);
    Argmin: |x| key(-x);
}
