//! Integer arithmetic and shifts.
//!
//! Everything wraps unless the name says `sat`. 8-bit types are implemented too, although the
//! instructions do not have them: conversions and tests need them.

/// An integer type of PTX: `u8 u16 u32 u64 s8 s16 s32 s64`.
pub trait Integer: Copy + Ord + core::fmt::Debug + private::Sealed {
    /// Width in bits.
    const BITS: u32;
    /// Whether the type is signed (`sN`).
    const SIGNED: bool;
    /// Least value.
    const MIN: Self;
    /// Greatest value.
    const MAX: Self;
    /// 0
    const ZERO: Self;
    /// The type of twice the width and the same signedness.
    type Wide: Copy;
    #[doc(hidden)]
    fn add(self, b: Self) -> Self;
    #[doc(hidden)]
    fn sub(self, b: Self) -> Self;
    #[doc(hidden)]
    fn mul(self, b: Self) -> Self;
    #[doc(hidden)]
    fn mul_wide(self, b: Self) -> Self::Wide;
    #[doc(hidden)]
    fn high(wide: Self::Wide) -> Self;
    #[doc(hidden)]
    fn add_wide(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    #[doc(hidden)]
    fn div(self, b: Self) -> Self;
    #[doc(hidden)]
    fn rem(self, b: Self) -> Self;
    #[doc(hidden)]
    fn shl(self, n: u32) -> Self;
    #[doc(hidden)]
    fn shr(self, n: u32) -> Self;
    #[doc(hidden)]
    fn saturate(value: i128) -> Self;
    #[doc(hidden)]
    fn clamp_f32(value: f32) -> Self;
    #[doc(hidden)]
    fn clamp_f64(value: f64) -> Self;
    #[doc(hidden)]
    fn nearest_f32(self) -> f32;
    #[doc(hidden)]
    fn nearest_f64(self) -> f64;
    /// The value, in a type that holds any of them.
    fn to_i128(self) -> i128;
    /// The low bits of `value`.
    fn truncate(value: i128) -> Self;
}

mod private {
    pub trait Sealed {}
}

macro_rules! integer {
    ($($t:ty, $wide:ty, $signed:literal;)*) => {$(
        impl private::Sealed for $t {}
        impl Integer for $t {
            const BITS: u32 = <$t>::BITS;
            const SIGNED: bool = $signed;
            const MIN: Self = <$t>::MIN;
            const MAX: Self = <$t>::MAX;
            const ZERO: Self = 0;
            type Wide = $wide;
            #[inline(always)]
            fn add(self, b: Self) -> Self { self.wrapping_add(b) }
            #[inline(always)]
            fn sub(self, b: Self) -> Self { self.wrapping_sub(b) }
            #[inline(always)]
            fn mul(self, b: Self) -> Self { self.wrapping_mul(b) }
            #[inline(always)]
            fn mul_wide(self, b: Self) -> $wide { <$wide>::from(self) * <$wide>::from(b) }
            #[inline(always)]
            fn high(wide: $wide) -> Self { (wide >> <$t>::BITS) as $t }
            #[inline(always)]
            fn add_wide(a: $wide, b: $wide) -> $wide { a.wrapping_add(b) }
            #[inline(always)]
            fn div(self, b: Self) -> Self {
                if b == 0 { (0 as $t).wrapping_sub(1) } else { self.wrapping_div(b) }
            }
            #[inline(always)]
            fn rem(self, b: Self) -> Self {
                if b == 0 { (0 as $t).wrapping_sub(1) } else { self.wrapping_rem(b) }
            }
            #[inline(always)]
            fn shl(self, n: u32) -> Self {
                if n < <$t>::BITS { self.wrapping_shl(n) } else { 0 }
            }
            #[inline(always)]
            fn shr(self, n: u32) -> Self {
                if $signed {
                    self.wrapping_shr(n.min(<$t>::BITS - 1))
                } else if n < <$t>::BITS {
                    self.wrapping_shr(n)
                } else {
                    0
                }
            }
            #[inline(always)]
            fn saturate(value: i128) -> Self {
                value.clamp(<$t>::MIN as i128, <$t>::MAX as i128) as $t
            }
            #[inline(always)]
            fn clamp_f32(value: f32) -> Self { value as $t }
            #[inline(always)]
            fn clamp_f64(value: f64) -> Self { value as $t }
            #[inline(always)]
            fn nearest_f32(self) -> f32 { self as f32 }
            #[inline(always)]
            fn nearest_f64(self) -> f64 { self as f64 }
            #[inline(always)]
            fn to_i128(self) -> i128 { self as i128 }
            #[inline(always)]
            fn truncate(value: i128) -> Self { value as $t }
        }
    )*};
}

integer! {
    u8, u16, false;
    u16, u32, false;
    u32, u64, false;
    u64, u128, false;
    i8, i16, true;
    i16, i32, true;
    i32, i64, true;
    i64, i128, true;
}

/// `add`
#[inline(always)]
pub fn add<T: Integer>(a: T, b: T) -> T {
    a.add(b)
}

/// `sub`
#[inline(always)]
pub fn sub<T: Integer>(a: T, b: T) -> T {
    a.sub(b)
}

/// `add.sat` (PTX has it for `s32`).
#[inline(always)]
pub fn add_sat<T: Integer>(a: T, b: T) -> T {
    T::saturate(a.to_i128() + b.to_i128())
}

/// `sub.sat` (PTX has it for `s32`).
#[inline(always)]
pub fn sub_sat<T: Integer>(a: T, b: T) -> T {
    T::saturate(a.to_i128() - b.to_i128())
}

/// `mul.lo`
#[inline(always)]
pub fn mul_lo<T: Integer>(a: T, b: T) -> T {
    a.mul(b)
}

/// `mul.hi`: the upper half of the double-width product.
#[inline(always)]
pub fn mul_hi<T: Integer>(a: T, b: T) -> T {
    T::high(a.mul_wide(b))
}

/// `mul.wide`: the whole product, in the type of twice the width.
#[inline(always)]
pub fn mul_wide<T: Integer>(a: T, b: T) -> T::Wide {
    a.mul_wide(b)
}

/// `mad.lo`
#[inline(always)]
pub fn mad_lo<T: Integer>(a: T, b: T, c: T) -> T {
    a.mul(b).add(c)
}

/// `mad.hi`
#[inline(always)]
pub fn mad_hi<T: Integer>(a: T, b: T, c: T) -> T {
    mul_hi(a, b).add(c)
}

/// `mad.hi.sat.s32`
#[inline(always)]
pub fn mad_hi_sat(a: i32, b: i32, c: i32) -> i32 {
    mul_hi(a, b).saturating_add(c)
}

/// `mad.wide`
#[inline(always)]
pub fn mad_wide<T: Integer>(a: T, b: T, c: T::Wide) -> T::Wide {
    T::add_wide(a.mul_wide(b), c)
}

/// `sad`: `c + |a - b|`, the difference taken without overflow.
#[inline(always)]
pub fn sad<T: Integer>(a: T, b: T, c: T) -> T {
    c.add(if a < b { b.sub(a) } else { a.sub(b) })
}

/// `div`, toward zero. Division by zero gives all ones, `MIN / -1` gives `MIN`.
#[inline(always)]
pub fn div<T: Integer>(a: T, b: T) -> T {
    a.div(b)
}

/// `rem`, with the sign of `a`. Division by zero gives all ones, `MIN % -1` gives 0.
#[inline(always)]
pub fn rem<T: Integer>(a: T, b: T) -> T {
    a.rem(b)
}

/// `abs`; `MIN` gives `MIN`.
#[inline(always)]
pub fn abs<T: Integer>(a: T) -> T {
    if a < T::ZERO { T::ZERO.sub(a) } else { a }
}

/// `neg`; `MIN` gives `MIN`.
#[inline(always)]
pub fn neg<T: Integer>(a: T) -> T {
    T::ZERO.sub(a)
}

/// `min`
#[inline(always)]
pub fn min<T: Integer>(a: T, b: T) -> T {
    if a < b { a } else { b }
}

/// `max`
#[inline(always)]
pub fn max<T: Integer>(a: T, b: T) -> T {
    if a > b { a } else { b }
}

/// `min.relu`: negative results become 0.
#[inline(always)]
pub fn min_relu<T: Integer>(a: T, b: T) -> T {
    max(min(a, b), T::ZERO)
}

/// `max.relu`: negative results become 0.
#[inline(always)]
pub fn max_relu<T: Integer>(a: T, b: T) -> T {
    max(max(a, b), T::ZERO)
}

/// `shl`: a shift by the width or more gives 0.
#[inline(always)]
pub fn shl<T: Integer>(a: T, n: u32) -> T {
    a.shl(n)
}

/// `shr`: arithmetic for signed types. A shift by the width or more gives copies of the sign, or 0.
#[inline(always)]
pub fn shr<T: Integer>(a: T, n: u32) -> T {
    a.shr(n)
}

/// `cnot`: 1 if `a` is 0, else 0; as an integer of the same width.
#[inline(always)]
pub fn cnot<T: Integer>(a: T) -> T {
    T::truncate(i128::from(a == T::ZERO))
}

/// The low 24 bits of `a`, sign- or zero-extended as `T` is signed or not; `T` is `u32` or `i32`.
#[inline(always)]
fn low_24<T: Integer>(a: T) -> i64 {
    let unused = T::BITS - 24;
    a.shl(unused).shr(unused).to_i128() as i64
}

/// `mul24.lo`: bits 0 to 31 of the 48-bit product of the low 24 bits.
#[inline(always)]
pub fn mul24_lo<T: Integer>(a: T, b: T) -> T {
    T::truncate(i128::from(low_24(a) * low_24(b)))
}

/// `mul24.hi`: bits 16 to 47 of the 48-bit product of the low 24 bits.
#[inline(always)]
pub fn mul24_hi<T: Integer>(a: T, b: T) -> T {
    T::truncate(i128::from((low_24(a) * low_24(b)) >> 16))
}

/// `mad24.lo`
#[inline(always)]
pub fn mad24_lo<T: Integer>(a: T, b: T, c: T) -> T {
    mul24_lo(a, b).add(c)
}

/// `mad24.hi`
#[inline(always)]
pub fn mad24_hi<T: Integer>(a: T, b: T, c: T) -> T {
    mul24_hi(a, b).add(c)
}

/// `mad24.hi.sat.s32`
#[inline(always)]
pub fn mad24_hi_sat(a: i32, b: i32, c: i32) -> i32 {
    mul24_hi(a, b).saturating_add(c)
}

/// An unsigned type for carry chains: `u32`, `u64`.
pub trait Carry: Integer {
    /// `addc`: the sum plus `carry`, and the carry out.
    fn add_carry(self, b: Self, carry: bool) -> (Self, bool);
    /// `subc`: the difference minus `borrow`, and the borrow out.
    fn sub_borrow(self, b: Self, borrow: bool) -> (Self, bool);
}

macro_rules! carry {
    ($($t:ty)*) => {$(
        impl Carry for $t {
            #[inline(always)]
            fn add_carry(self, b: Self, carry: bool) -> (Self, bool) {
                let (sum, first) = self.overflowing_add(b);
                let (sum, second) = sum.overflowing_add(<$t>::from(carry));
                (sum, first | second)
            }
            #[inline(always)]
            fn sub_borrow(self, b: Self, borrow: bool) -> (Self, bool) {
                let (difference, first) = self.overflowing_sub(b);
                let (difference, second) = difference.overflowing_sub(<$t>::from(borrow));
                (difference, first | second)
            }
        }
    )*};
}

carry!(u32 u64);

/// `add.cc` (`carry` false) and `addc`: the sum and the carry out. The same for signed types.
#[inline(always)]
pub fn add_carry<T: Carry>(a: T, b: T, carry: bool) -> (T, bool) {
    a.add_carry(b, carry)
}

/// The difference minus `borrow`, and the borrow out.
#[inline(always)]
pub fn sub_borrow<T: Carry>(a: T, b: T, borrow: bool) -> (T, bool) {
    a.sub_borrow(b, borrow)
}

/// `sub.cc` (`carry` true) and `subc`, with the flag as hardware keeps it, the complement of the
/// borrow: `a + !b + carry`.
#[inline(always)]
pub fn sub_carry<T: Carry>(a: T, b: T, carry: bool) -> (T, bool) {
    let (difference, borrow) = a.sub_borrow(b, !carry);
    (difference, !borrow)
}

/// `mad.lo.cc` (`carry` false) and `madc.lo`.
#[inline(always)]
pub fn mad_lo_carry<T: Carry>(a: T, b: T, c: T, carry: bool) -> (T, bool) {
    mul_lo(a, b).add_carry(c, carry)
}

/// `mad.hi.cc` (`carry` false) and `madc.hi`, of `u32` and `u64`.
#[inline(always)]
pub fn mad_hi_carry<T: Carry>(a: T, b: T, c: T, carry: bool) -> (T, bool) {
    mul_hi(a, b).add_carry(c, carry)
}

/// `mad.hi.cc.s32` and `madc.hi.s32`: the product is signed; the carry is that of the unsigned
/// addition of its bits.
#[inline(always)]
pub fn mad_hi_carry_s32(a: i32, b: i32, c: i32, carry: bool) -> (i32, bool) {
    let (sum, out) = (mul_hi(a, b) as u32).add_carry(c as u32, carry);
    (sum as i32, out)
}

/// `mad.hi.cc.s64` and `madc.hi.s64`: the product is signed; the carry is that of the unsigned
/// addition of its bits.
#[inline(always)]
pub fn mad_hi_carry_s64(a: i64, b: i64, c: i64, carry: bool) -> (i64, bool) {
    let (sum, out) = (mul_hi(a, b) as u64).add_carry(c as u64, carry);
    (sum as i64, out)
}

/// `cvt` between integers: truncates, or extends by the source's signedness.
#[inline(always)]
pub fn convert<S: Integer, D: Integer>(a: S) -> D {
    D::truncate(a.to_i128())
}

/// `cvt.sat` between integers: clamps to the range of the destination.
#[inline(always)]
pub fn convert_sat<S: Integer, D: Integer>(a: S) -> D {
    D::saturate(a.to_i128())
}
