//! Partial products and partial norms, which may leave the range of their type though the result
//! does not.
//!
//! The common path is plain arithmetic and one test of its result. Where that fails, some more
//! instructions find out what it means.
//!
//! **Products.** A factor of 0 makes a product of finite factors 0, even if others overflow. So there
//! are two infinities: that of an overflow, which a 0 ends, and that of an infinite factor, with which
//! a 0 is NaN. The latter is a NaN with a payload, the *mark*, until the end.
//!
//! **Norms.** A partial norm is a sum of squares, which is not below 0. Where that would overflow, or
//! be so small that squares were lost, it is the norm itself, with the sign of a negative number.
#![expect(
    clippy::manual_range_contains,
    reason = "`&` has no branch; `contains` has one"
)]

use cuda_std::hint::opaque;
use cuda_std::math::wide;

use super::fold::tree;
use super::number::Number;

/// A [`Number`] with partial products and norms.
pub(crate) trait Partial: Number {
    /// The partial product of these factors.
    fn product_of<const U: usize>(factors: [Self; U]) -> Self;
    /// That of two partial products.
    fn product(self, other: Self) -> Self;
    /// The product that a partial product is.
    fn product_result(self) -> Self;
    /// A partial norm, and what rounding lost, after more elements.
    fn norm_of<const U: usize>(local: [Self; 2], xs: [Self; U]) -> [Self; 2];
    /// That of two partial norms.
    fn norm(self, other: Self) -> Self;
    /// The norm that a partial norm is: a root, or of integers nothing but that.
    fn norm_result(self) -> Self;
}

macro_rules! floats {
    ($($ty:ident, $mark:literal, $least:literal, $of_roots:path, $of_root:path;)*) => {$(
        impl Partial for $ty {
            #[inline(always)]
            fn product_of<const U: usize>(factors: [Self; U]) -> Self {
                let product = tree(factors, Self::times);
                if Number::is_finite(product) {
                    return product;
                }
                let (mut sign, mut least, mut infinity) = (0, Self::INFINITY, Self::ZERO);
                let (mut xs, mut left) = (factors, opaque(U as u32)); // not unrolled
                while left > 0 {
                    let x = xs[0];
                    sign ^= x.to_bits();
                    least = least.min(x.abs());
                    // The sum of magnitudes: NaN if one of them is.
                    infinity += if x.abs() < Self::INFINITY { 0.0 } else { x.abs() };
                    xs = core::array::from_fn(|u| xs[(u + 1) % U]);
                    left -= 1;
                }
                let sign = sign & (-Self::ZERO).to_bits();
                let magnitude = match (infinity > 0.0, least == 0.0) {
                    _ if Number::is_nan(infinity) => return Self::not_a_number(product),
                    (true, true) => return Self::not_a_number(product),
                    (true, false) => $mark,
                    (false, true) => 0,
                    (false, false) => Self::INFINITY.to_bits(),
                };
                Self::from_bits(magnitude | sign)
            }
            #[inline(always)]
            fn product(self, other: Self) -> Self {
                let product = self * other;
                if !Number::is_nan(product) {
                    return product;
                }
                let sign = (self.to_bits() ^ other.to_bits()) & (-Self::ZERO).to_bits();
                let is_marked = |x: Self| x.abs().to_bits() == $mark;
                let is_nan = |x: Self| Number::is_nan(x) & !is_marked(x);
                let is_infinite = is_marked(self) | is_marked(other);
                let is_zero = (self == 0.0) | (other == 0.0);
                if is_nan(self) | is_nan(other) | (is_infinite & is_zero) {
                    Self::not_a_number(product)
                } else {
                    Self::from_bits(sign | if is_infinite { $mark } else { 0 })
                }
            }
            #[inline(always)]
            fn product_result(self) -> Self {
                match self.abs().to_bits() {
                    $mark => Self::INFINITY.copysign(self),
                    _ => self,
                }
            }
            #[inline(always)]
            fn norm_of<const U: usize>([value, lost]: [Self; 2], xs: [Self; U]) -> [Self; 2] {
                let more = tree(xs.map(|x| x * x), Self::plus);
                let sum = value + more;
                if (value >= 0.0) & (sum >= $least) & (sum < Self::INFINITY) {
                    return [sum, lost + Self::lost(value, more, sum)];
                }
                $of_roots([value, lost], xs, more)
            }
            #[inline(always)]
            fn norm(self, other: Self) -> Self {
                let sum = self + other;
                let is_plain = (self.min(other) >= 0.0) & (sum < Self::INFINITY);
                if is_plain & ((sum >= $least) | (sum == 0.0)) {
                    return sum;
                }
                let none = Self::NOTHING;
                let local = $of_root($of_root([Self::ZERO, none], self), other);
                local[0] + local[1]
            }
            #[inline(always)]
            fn norm_result(self) -> Self {
                if self < 0.0 { -self } else { self.root() }
            }
        }
    )*};
}

floats! {
    // 2^-80 and 2^-900: squares that underflow beside such a sum do not matter.
    f32, 0x7fc0_0001, 8.271_806e-25, single::with_elements, single::with_partial;
    f64, 0x7ff8_0000_0000_0001, 1.183_052_186_166_774_7e-271, double::with_elements,
        double::with_partial;
}

impl Partial for i64 {
    #[inline(always)]
    fn product_of<const U: usize>(factors: [Self; U]) -> Self {
        tree(factors, Self::times)
    }
    #[inline(always)]
    fn product(self, other: Self) -> Self {
        self.times(other)
    }
    #[inline(always)]
    fn product_result(self) -> Self {
        self
    }
    #[inline(always)]
    fn norm_of<const U: usize>([value, lost]: [Self; 2], xs: [Self; U]) -> [Self; 2] {
        [value.plus(tree(xs.map(|x| x.times(x)), Self::plus)), lost]
    }
    #[inline(always)]
    fn norm(self, other: Self) -> Self {
        self.plus(other)
    }
    #[inline(always)]
    fn norm_result(self) -> Self {
        self
    }
}

/// Norms of f32 beyond the range of squares: sums of squares in f64, which has room for all of them.
mod single {
    use super::{opaque, wide};

    /// The sum of squares that a partial norm and what it lost are.
    #[inline(always)]
    fn squares([value, lost]: [f32; 2]) -> f64 {
        let whole = f64::from(value) + f64::from(lost);
        if value < 0.0 { whole * whole } else { whole }
    }

    /// The root of a number above 0, to 2^-35. That of [`wide::sqrt`] needs more registers than the
    /// kernels have here.
    #[inline(always)]
    fn root(x: f64) -> f64 {
        if x.is_nan() | (x == f64::INFINITY) {
            return x;
        }
        // x is `near * half^2`, with `near` from 0.5 to 2.
        let exponent = ((x.to_bits() >> 53) << 1) + 1;
        let near = f64::from_bits(x.to_bits() - (exponent << 52) + (1023 << 52));
        let half = f64::from_bits(((exponent + 1023) / 2) << 52);
        // The famous first guess of an inverse root, and two steps of Newton's method.
        let short = near as f32;
        let mut inverse = f32::from_bits(0x5f37_59df - (short.to_bits() >> 1));
        for _ in 0..2 {
            inverse *= 1.5 - 0.5 * short * inverse * inverse;
        }
        let inverse = f64::from(inverse);
        let first = near * inverse;
        let rest = wide::fma(-first, first, near);
        wide::fma(rest, 0.5 * inverse, first) * half
    }

    /// The partial norm of a sum of squares, and what rounding it to f32 loses.
    #[inline(always)]
    fn partial(squares: f64) -> [f32; 2] {
        // 2^-80 and 2^127.
        let is_plain =
            (squares >= 8.271_806_125_530_277e-25) & (squares < 1.701_411_834_604_692_3e38);
        let whole = if is_plain | (squares == 0.0) {
            squares
        } else {
            -root(squares)
        };
        let value = whole as f32;
        let lost = (whole - f64::from(value)) as f32;
        [
            value,
            if value.abs() < f32::INFINITY {
                lost
            } else {
                -0.0
            },
        ]
    }

    #[inline(always)]
    pub(super) fn with_elements<const U: usize>(
        local: [f32; 2],
        mut xs: [f32; U],
        _: f32,
    ) -> [f32; 2] {
        let mut sum = squares(local);
        let mut left = opaque(U as u32); // not unrolled
        while left > 0 {
            let x = f64::from(xs[0]);
            sum = wide::fma(x, x, sum);
            xs = core::array::from_fn(|u| xs[(u + 1) % U]);
            left -= 1;
        }
        partial(sum)
    }

    #[inline(always)]
    pub(super) fn with_partial(local: [f32; 2], other: f32) -> [f32; 2] {
        partial(squares(local) + squares([other, -0.0]))
    }
}

/// Norms of f64 beyond the range of squares: squares are scaled by a power of two of the largest
/// magnitude.
mod double {
    use super::wide;

    /// The norm that a partial norm and what it lost are.
    #[inline(always)]
    fn root([value, lost]: [f64; 2]) -> f64 {
        let whole = value + lost;
        if value < 0.0 {
            -whole
        } else {
            wide::sqrt(whole)
        }
    }

    /// A power of two that brings a finite number near 1: so near that squares fit.
    #[inline(always)]
    fn scale(largest: f64) -> f64 {
        let exponent = largest.to_bits() >> 52;
        f64::from_bits(2046_u64.saturating_sub(exponent).max(1) << 52)
    }

    /// The partial norm of a norm, and what rounding its square loses.
    #[inline(always)]
    fn partial(norm: f64) -> [f64; 2] {
        let square = norm * norm;
        // 2^-900 and 2^1022.
        let is_plain =
            (square >= 1.183_052_186_166_774_7e-271) & (square < 4.494_232_837_155_79e307);
        if is_plain | (norm == 0.0) {
            [square, wide::fma(norm, norm, -square)]
        } else {
            [-norm, -0.0]
        }
    }

    /// With elements whose squares have this sum, which may be beyond the range.
    #[inline(always)]
    pub(super) fn with_elements<const U: usize>(
        local: [f64; 2],
        xs: [f64; U],
        squares: f64,
    ) -> [f64; 2] {
        let before = root(local);
        let mut most = before;
        for x in &xs {
            most = most.max(x.abs());
        }
        if !(most > 0.0 && most < f64::INFINITY) {
            return partial(before + squares); // 0, infinite or NaN
        }
        let scale = scale(most);
        let mut sum = (before * scale) * (before * scale);
        for x in &xs {
            sum = wide::fma(x * scale, x * scale, sum);
        }
        partial(wide::sqrt(sum) / scale)
    }

    #[inline(always)]
    pub(super) fn with_partial(local: [f64; 2], other: f64) -> [f64; 2] {
        let other = root([other, -0.0]);
        with_elements(local, [other], other)
    }
}
