//! Functions of i32 and i64.
//!
//! **Numerics**: two's complement, wrapping. Quotients and remainders by 0 are 0. A shift by less
//! than 0, or by the number of bits or more, shifts all bits out.

use cuda_std::hint::opaque;

/// All functions of one type.
macro_rules! integers {
    ($ty:ty, $unsigned:ty, $bits:literal: $neg:ident $abs:ident $relu:ident $square:ident $sign:ident
     $not:ident $bit_not:ident $add:ident $sub:ident $mul:ident $div:ident $max:ident $min:ident
     $remainder:ident $fmod:ident $eq:ident $ne:ident $lt:ident $le:ident $gt:ident $ge:ident
     $and:ident $or:ident $xor:ident $bit_and:ident $bit_or:ident $bit_xor:ident
     $shift_left:ident $shift_right:ident $is_true:ident $select:ident) => {
        fragments! {
            $neg(x: $ty) -> $ty = x.wrapping_neg();
            $abs(x: $ty) -> $ty = x.wrapping_abs();
            $relu(x: $ty) -> $ty = if x < 0 { 0 } else { x };
            $square(x: $ty) -> $ty = x.wrapping_mul(x);
            $sign(x: $ty) -> $ty = <$ty>::from(x > 0) - <$ty>::from(x < 0);
            $not(x: $ty) -> $ty = <$ty>::from(x == 0);
            $bit_not(x: $ty) -> $ty = !x;

            $add(a: $ty, b: $ty) -> $ty = a.wrapping_add(b);
            $sub(a: $ty, b: $ty) -> $ty = a.wrapping_sub(b);
            $mul(a: $ty, b: $ty) -> $ty = a.wrapping_mul(b);
            $div(a: $ty, b: $ty) -> $ty = if b == 0 { 0 } else { a.wrapping_div(b) };
            $max(a: $ty, b: $ty) -> $ty = if a > b { a } else { b };
            $min(a: $ty, b: $ty) -> $ty = if a < b { a } else { b };
            $remainder(a: $ty, b: $ty) -> $ty = {
                let rest = if b == 0 { 0 } else { a.wrapping_rem(b) };
                if rest != 0 && (rest < 0) != (b < 0) { rest.wrapping_add(b) } else { rest }
            };
            $fmod(a: $ty, b: $ty) -> $ty = if b == 0 { 0 } else { a.wrapping_rem(b) };
            $eq(a: $ty, b: $ty) -> $ty = <$ty>::from(a == b);
            $ne(a: $ty, b: $ty) -> $ty = <$ty>::from(a != b);
            $lt(a: $ty, b: $ty) -> $ty = <$ty>::from(a < b);
            $le(a: $ty, b: $ty) -> $ty = <$ty>::from(a <= b);
            $gt(a: $ty, b: $ty) -> $ty = <$ty>::from(a > b);
            $ge(a: $ty, b: $ty) -> $ty = <$ty>::from(a >= b);
            $and(a: $ty, b: $ty) -> $ty = <$ty>::from((a != 0) & (b != 0));
            $or(a: $ty, b: $ty) -> $ty = <$ty>::from((a != 0) | (b != 0));
            $xor(a: $ty, b: $ty) -> $ty = <$ty>::from((a != 0) != (b != 0));
            $bit_and(a: $ty, b: $ty) -> $ty = a & b;
            $bit_or(a: $ty, b: $ty) -> $ty = a | b;
            $bit_xor(a: $ty, b: $ty) -> $ty = a ^ b;
            $shift_left(a: $ty, b: $ty) -> $ty = {
                // Opaque: LLVM 22 would take only the low half of a 64-bit distance.
                let by = opaque(if (b as $unsigned) < $bits { b as u32 } else { $bits });
                if by < $bits { a.wrapping_shl(by) } else { 0 }
            };
            $shift_right(a: $ty, b: $ty) -> $ty = {
                let by = if (b as $unsigned) < $bits { b as u32 } else { $bits - 1 };
                a.wrapping_shr(by)
            };

            $is_true(x: $ty) -> u32 = u32::from(x != 0);
            $select(condition: u32, x: $ty, y: $ty) -> $ty = if condition != 0 { x } else { y };
        }
    };
}

integers! { i32, u32, 32: i32_neg i32_abs i32_relu i32_square i32_sign
i32_not i32_bit_not i32_add i32_sub i32_mul i32_div i32_max i32_min
i32_remainder i32_fmod i32_eq i32_ne i32_lt i32_le i32_gt i32_ge
i32_and i32_or i32_xor i32_bit_and i32_bit_or i32_bit_xor
i32_shift_left i32_shift_right i32_is_true i32_select }

integers! { i64, u64, 64: i64_neg i64_abs i64_relu i64_square i64_sign
i64_not i64_bit_not i64_add i64_sub i64_mul i64_div i64_max i64_min
i64_remainder i64_fmod i64_eq i64_ne i64_lt i64_le i64_gt i64_ge
i64_and i64_or i64_xor i64_bit_and i64_bit_or i64_bit_xor
i64_shift_left i64_shift_right i64_is_true i64_select }
