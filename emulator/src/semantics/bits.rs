//! Bit counting, bit fields, funnel shifts, three-input logic and byte permutation.

use super::int::Integer;

/// An integer type of the bit instructions, as unsigned: `b32`, `b64`.
pub trait Bits: Integer {
    #[doc(hidden)]
    fn ones(self) -> u32;
    #[doc(hidden)]
    fn leading(self) -> u32;
    #[doc(hidden)]
    fn reversed(self) -> Self;
    #[doc(hidden)]
    fn not(self) -> Self;
    #[doc(hidden)]
    fn and(self, b: Self) -> Self;
    #[doc(hidden)]
    fn or(self, b: Self) -> Self;
    #[doc(hidden)]
    fn is_negative(self) -> bool;
}

macro_rules! bits {
    ($($t:ty)*) => {$(
        impl Bits for $t {
            #[inline(always)]
            fn ones(self) -> u32 { self.count_ones() }
            #[inline(always)]
            fn leading(self) -> u32 { self.leading_zeros() }
            #[inline(always)]
            fn reversed(self) -> Self { self.reverse_bits() }
            #[inline(always)]
            fn not(self) -> Self { !self }
            #[inline(always)]
            fn and(self, b: Self) -> Self { self & b }
            #[inline(always)]
            fn or(self, b: Self) -> Self { self | b }
            #[inline(always)]
            fn is_negative(self) -> bool { self >> (<$t>::BITS - 1) != 0 }
        }
    )*};
}

bits!(u32 u64);

/// `popc`
#[inline(always)]
pub fn popc<T: Bits>(a: T) -> u32 {
    a.ones()
}

/// `clz`; of 0: the width.
#[inline(always)]
pub fn clz<T: Bits>(a: T) -> u32 {
    a.leading()
}

/// `brev`
#[inline(always)]
pub fn brev<T: Bits>(a: T) -> T {
    a.reversed()
}

/// `bfind.u32`, `bfind.u64`: position of the highest one bit, `0xffffffff` if there is none.
#[inline(always)]
pub fn bfind<T: Bits>(a: T) -> u32 {
    (T::BITS - 1).wrapping_sub(a.leading())
}

/// `bfind.shiftamt`: the left shift that brings that bit to the top; `0xffffffff` if there is none.
#[inline(always)]
pub fn bfind_shiftamt<T: Bits>(a: T) -> u32 {
    if a == T::ZERO { u32::MAX } else { a.leading() }
}

/// The operand of `bfind.s32` and `bfind.s64` as [`bfind`] takes it: inverted if negative, so that
/// the highest one bit is the highest that differs from the sign.
#[inline(always)]
pub fn bfind_signed_input<T: Bits>(a: T) -> T {
    if a.is_negative() { a.not() } else { a }
}

/// `fns.b32`: position of the `offset`-th one bit of `mask` from `base` on (downward if negative; 0
/// asks for `base` itself), `0xffffffff` if there is none.
#[inline]
pub fn fns(mask: u32, base: u32, offset: i32) -> u32 {
    if base > 31 {
        return u32::MAX;
    }
    if offset == 0 {
        return if mask >> base & 1 == 1 {
            base
        } else {
            u32::MAX
        };
    }
    let mut remaining = offset.unsigned_abs();
    let mut place = base as i32;
    while (0..32).contains(&place) {
        if mask >> place & 1 == 1 {
            remaining -= 1;
            if remaining == 0 {
                return place as u32;
            }
        }
        place += offset.signum();
    }
    u32::MAX
}

/// Position or length of a bit field. 32-bit instructions use the low 8 bits of the operand. For
/// 64-bit ones PTX leaves values above 255 open; hardware uses the whole operand.
#[inline(always)]
fn field_operand<T: Bits>(operand: u32) -> u32 {
    if T::BITS == 32 {
        operand & 0xff
    } else {
        operand
    }
}

/// Ones in the low `len` bits, for any `len`.
#[inline(always)]
fn low_ones<T: Bits>(len: u32) -> T {
    T::ZERO.not().shl(len).not()
}

/// `bfe.u32`, `bfe.u64`: `len` bits of `a` from bit `pos` on.
#[inline(always)]
pub fn bfe<T: Bits>(a: T, pos: u32, len: u32) -> T {
    a.shr(field_operand::<T>(pos))
        .and(low_ones(field_operand::<T>(len)))
}

/// `bfe.s32`, `bfe.s64`: as [`bfe`], sign-extended from the highest bit of the field (the highest
/// bit of `a` if the field reaches past it). An empty field gives 0.
#[inline(always)]
pub fn bfe_signed<T: Bits>(a: T, pos: u32, len: u32) -> T {
    let (pos, len) = (field_operand::<T>(pos), field_operand::<T>(len));
    let top = pos.saturating_add(len).wrapping_sub(1).min(T::BITS - 1);
    let sign = len != 0 && a.shr(top).and(T::truncate(1)) != T::ZERO;
    let present = low_ones::<T>(len).and(low_ones(T::BITS.saturating_sub(pos)));
    let field = a.shr(pos).and(present);
    if sign { field.or(present.not()) } else { field }
}

/// `bfi`: `b` with the low `len` bits of `a` inserted from bit `pos` on; what reaches past the top
/// is dropped.
#[inline(always)]
pub fn bfi<T: Bits>(a: T, b: T, pos: u32, len: u32) -> T {
    let (pos, len) = (field_operand::<T>(pos), field_operand::<T>(len));
    let field = low_ones::<T>(len).shl(pos);
    b.and(field.not()).or(a.shl(pos).and(field))
}

/// How a shift amount outside `0..32` is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShiftMode {
    /// `.clamp`: as 32.
    Clamp,
    /// `.wrap`: only the low 5 bits count.
    Wrap,
}

impl ShiftMode {
    #[inline(always)]
    fn amount(self, n: u32) -> u32 {
        match self {
            Self::Clamp => n.min(32),
            Self::Wrap => n & 31,
        }
    }
}

/// `bmsk`: a mask of `width` ones from bit `start` on.
#[inline(always)]
pub fn bmsk(start: u32, width: u32, mode: ShiftMode) -> u32 {
    low_ones::<u32>(mode.amount(width)).shl(mode.amount(start))
}

/// `szext.u32`: the low `width` bits of `a`.
#[inline(always)]
pub fn szext_unsigned(a: u32, width: u32, mode: ShiftMode) -> u32 {
    a & low_ones::<u32>(mode.amount(width))
}

/// `szext.s32`: the low `width` bits of `a`, sign-extended.
#[inline(always)]
pub fn szext_signed(a: u32, width: u32, mode: ShiftMode) -> u32 {
    let width = mode.amount(width);
    if width == 0 {
        return 0;
    }
    let unused = 32 - width;
    ((a << unused) as i32 >> unused) as u32
}

/// `shf.l`: the upper half of `hi:lo` shifted left by `n`.
#[inline(always)]
pub fn shf_left(lo: u32, hi: u32, n: u32, mode: ShiftMode) -> u32 {
    let both = u64::from(hi) << 32 | u64::from(lo);
    (both << mode.amount(n) >> 32) as u32
}

/// `shf.r`: the lower half of `hi:lo` shifted right by `n`.
#[inline(always)]
pub fn shf_right(lo: u32, hi: u32, n: u32, mode: ShiftMode) -> u32 {
    let both = u64::from(hi) << 32 | u64::from(lo);
    (both >> mode.amount(n)) as u32
}

/// `lop3.b32`: each bit of the result is bit `4a + 2b + c` of `table`.
#[inline(always)]
pub fn lop3(a: u32, b: u32, c: u32, table: u8) -> u32 {
    let term = |bit: u32, x: u32| 0u32.wrapping_sub(u32::from(table) >> bit & 1) & x;
    (term(0, !a & !b & !c) | term(1, !a & !b & c) | term(2, !a & b & !c) | term(3, !a & b & c))
        | (term(4, a & !b & !c) | term(5, a & !b & c) | term(6, a & b & !c) | term(7, a & b & c))
}

/// The modes of `prmt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PermuteMode {
    /// No modifier: a byte index (0 to 7) and a sign bit for each byte of the result.
    Index,
    /// `.f4e`: four bytes forward from the selected one.
    ForwardFour,
    /// `.b4e`: four bytes backward from the selected one.
    BackwardFour,
    /// `.rc8`: the selected byte in all four places.
    ReplicateByte,
    /// `.ecl`: edge clamp left.
    EdgeClampLeft,
    /// `.ecr`: edge clamp right.
    EdgeClampRight,
    /// `.rc16`: the selected halfword in both places.
    ReplicateHalf,
}

impl PermuteMode {
    /// The mode that a modifier of `prmt.b32` names.
    #[must_use]
    pub fn from_modifier(modifier: &str) -> Option<Self> {
        Some(match modifier {
            "f4e" => Self::ForwardFour,
            "b4e" => Self::BackwardFour,
            "rc8" => Self::ReplicateByte,
            "ecl" => Self::EdgeClampLeft,
            "ecr" => Self::EdgeClampRight,
            "rc16" => Self::ReplicateHalf,
            _ => return None,
        })
    }

    /// The byte indices, 4 bits each, that selector values 0 to 3 stand for.
    #[inline(always)]
    fn indices(self, selector: u32) -> u32 {
        let table: [u32; 4] = match self {
            Self::Index => return selector,
            Self::ForwardFour => [0x3210, 0x4321, 0x5432, 0x6543],
            Self::BackwardFour => [0x5670, 0x6701, 0x7012, 0x0123],
            Self::ReplicateByte => [0x0000, 0x1111, 0x2222, 0x3333],
            Self::EdgeClampLeft => [0x3210, 0x3211, 0x3222, 0x3333],
            Self::EdgeClampRight => [0x0000, 0x1110, 0x2210, 0x3210],
            Self::ReplicateHalf => [0x1010, 0x3232, 0x1010, 0x3232],
        };
        table[(selector & 3) as usize]
    }
}

/// `prmt.b32`: each byte of the result is one of the eight bytes of `b:a`, or, if bit 3 of its
/// index is set, that byte's sign bit replicated.
#[inline(always)]
pub fn prmt(a: u32, b: u32, selector: u32, mode: PermuteMode) -> u32 {
    let both = u64::from(b) << 32 | u64::from(a);
    let indices = mode.indices(selector);
    let byte = |place: u32| {
        let index = indices >> (4 * place) & 0xf;
        let value = (both >> (8 * (index & 7))) as u8;
        let sign = (value as i8 >> 7) as u8;
        u32::from(if index & 8 == 0 { value } else { sign }) << (8 * place)
    };
    byte(0) | byte(1) | byte(2) | byte(3)
}
