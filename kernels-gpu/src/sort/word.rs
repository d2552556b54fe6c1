//! Elements' bits, keys and digits.

use abi::sort::{DIGITS, SortParams};

/// How keys are made of elements of `T`.
#[derive(Clone, Copy)]
pub(super) struct Order<T> {
    largest: T,
    sign: T,
    turn: T,
    is_float: bool,
}

/// The bits of an element.
pub(super) trait Word: Copy {
    /// Bytes of an element.
    const SIZE: u32 = size_of::<Self>() as u32;
    /// Bits of a key.
    const BITS: u32 = 8 * Self::SIZE;
    /// Elements of a vector.
    const LANES: usize = 16 / size_of::<Self>();
    const ZERO: Self;
    /// The order of a launch.
    fn order(params: &SortParams) -> Order<Self>;
    /// Element `v` of a vector.
    fn of(raw: [u32; 4], v: usize) -> Self;
    /// Its key.
    fn key(self, order: &Order<Self>) -> Self;
    /// The digit of its key at this bit.
    fn digit(self, shift: u32, order: &Order<Self>) -> u32;
    /// The same number.
    fn wide(self) -> u64;
}

macro_rules! words {
    ($($ty:ty: $signed:ty;)*) => {$(
        #[allow(clippy::unnecessary_cast)]
        impl Word for $ty {
            const ZERO: Self = 0;

            #[inline(always)]
            fn order(params: &SortParams) -> Order<Self> {
                Order {
                    largest: params.largest as $ty,
                    sign: params.sign as $ty,
                    turn: params.turn as $ty,
                    is_float: params.is_float != 0,
                }
            }

            #[inline(always)]
            fn of(raw: [u32; 4], v: usize) -> Self {
                let first = v * size_of::<$ty>() / 4;
                if size_of::<$ty>() == 8 {
                    (u64::from(raw[first]) | u64::from(raw[first + 1]) << 32) as $ty
                } else {
                    (raw[first] >> (8 * (v * size_of::<$ty>() % 4))) as $ty
                }
            }

            #[inline(always)]
            fn key(self, order: &Order<Self>) -> Self {
                let key = if order.is_float {
                    // Sign and magnitude to two's complement, which has one zero, and up by half of
                    // the range.
                    let magnitude = self & (<$ty>::MAX >> 1);
                    let sign = (self as $signed >> (<$ty>::BITS - 1)) as $ty;
                    let number = (magnitude ^ sign).wrapping_sub(sign);
                    match magnitude > order.largest {
                        true => <$ty>::MAX,
                        false => number ^ 1 << (<$ty>::BITS - 1),
                    }
                } else {
                    self ^ order.sign
                };
                key ^ order.turn
            }

            #[inline(always)]
            fn digit(self, shift: u32, order: &Order<Self>) -> u32 {
                (self.key(order) >> shift) as u32 & (DIGITS - 1)
            }

            #[inline(always)]
            fn wide(self) -> u64 {
                self as u64
            }
        }
    )*};
}

words! {
    u8: i8;
    u16: i16;
    u32: i32;
    u64: i64;
}
