//! Integer arithmetic against i128 and u128, with wrapping done by division.

use proptest::prelude::*;
use warpsmith_emulator::semantics::int::{self, Integer};
use warpsmith_emulator::semantics::packed;

/// The value of `T` that is congruent to `value`.
fn wrap<T: Integer>(value: i128) -> i128 {
    let modulus = 1_i128 << T::BITS;
    let least = value.rem_euclid(modulus);
    if least > T::MAX.to_i128() {
        least - modulus
    } else {
        least
    }
}

/// `value / 2^bits`, rounded down.
fn floor_shift(value: i128, bits: u32) -> i128 {
    value.div_euclid(1 << bits)
}

/// Checks the operations that work alike on all types of at most 32 bits.
fn narrow<T: Integer>(a: T, b: T, c: T) {
    let (x, y, z) = (a.to_i128(), b.to_i128(), c.to_i128());
    assert_eq!(
        int::mul_hi(a, b).to_i128(),
        wrap::<T>(floor_shift(x * y, T::BITS))
    );
    assert_eq!(
        int::mad_hi(a, b, c).to_i128(),
        wrap::<T>(floor_shift(x * y, T::BITS) + z)
    );
    assert_eq!(int::mad_lo(a, b, c).to_i128(), wrap::<T>(x * y + z));
    assert_eq!(int::mul_lo(a, b).to_i128(), wrap::<T>(x * y));
}

fn common<T: Integer>(a: T, b: T, c: T, amount: u32) {
    let (x, y, z) = (a.to_i128(), b.to_i128(), c.to_i128());
    let check = |got: T, want: i128, name: &str| {
        assert_eq!(
            got.to_i128(),
            wrap::<T>(want),
            "{name} {a:?} {b:?} {c:?} {amount}"
        );
    };
    let clamp = |value: i128| value.clamp(T::MIN.to_i128(), T::MAX.to_i128());
    check(int::add(a, b), x + y, "add");
    check(int::sub(a, b), x - y, "sub");
    check(int::add_sat(a, b), clamp(x + y), "add.sat");
    check(int::sub_sat(a, b), clamp(x - y), "sub.sat");
    check(int::sad(a, b, c), z + (x - y).abs(), "sad");
    check(int::abs(a), x.abs(), "abs");
    check(int::neg(a), -x, "neg");
    check(int::min(a, b), x.min(y), "min");
    check(int::max(a, b), x.max(y), "max");
    check(int::min_relu(a, b), x.min(y).max(0), "min.relu");
    check(int::max_relu(a, b), x.max(y).max(0), "max.relu");
    check(int::cnot(a), i128::from(x == 0), "cnot");
    check(int::div(a, b), if y == 0 { -1 } else { x / y }, "div");
    check(int::rem(a, b), if y == 0 { -1 } else { x % y }, "rem");
    let places = amount.min(T::BITS);
    let left = if places == T::BITS {
        0
    } else {
        wrap::<T>(x) << places
    };
    check(int::shl(a, amount), left, "shl");
    check(int::shr(a, amount), floor_shift(x, places), "shr");
}

fn amounts() -> impl Strategy<Value = u32> {
    prop_oneof![0..70_u32, any::<u32>(), Just(u32::MAX)]
}

/// 64-bit values, often with few significant bits.
fn sized() -> impl Strategy<Value = u64> {
    let few = prop::sample::select(vec![
        0,
        1,
        u64::MAX,
        1 << 63,
        u64::MAX >> 1,
        1 << 31,
        0x8000,
    ]);
    prop_oneof![
        (any::<i64>(), 0..64_u32).prop_map(|(value, n)| (value >> n) as u64),
        few
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn arithmetic_and_shifts(a in sized(), b in sized(), c in sized(), n in amounts()) {
        common(a as u16, b as u16, c as u16, n);
        common(a as i16, b as i16, c as i16, n);
        common(a as u32, b as u32, c as u32, n);
        common(a as i32, b as i32, c as i32, n);
        common(a, b, c, n);
        common(a as i64, b as i64, c as i64, n);
        narrow(a as u16, b as u16, c as u16);
        narrow(a as i16, b as i16, c as i16);
        narrow(a as u32, b as u32, c as u32);
        narrow(a as i32, b as i32, c as i32);
    }

    #[test]
    fn wide_and_64_bit_products(a in sized(), b in sized(), c in sized()) {
        prop_assert_eq!(int::mul_wide(a as i16, b as i16), i32::from(a as i16) * i32::from(b as i16));
        prop_assert_eq!(int::mul_wide(a as u32, b as u32), u64::from(a as u32) * u64::from(b as u32));
        let exact = i128::from(a as i32) * i128::from(b as i32) + i128::from(c as i64);
        prop_assert_eq!(i128::from(int::mad_wide(a as i32, b as i32, c as i64)), wrap::<i64>(exact));
        let exact = i128::from(a as u16) * i128::from(b as u16) + i128::from(c as u32);
        prop_assert_eq!(i128::from(int::mad_wide(a as u16, b as u16, c as u32)), wrap::<u32>(exact));
        // Schoolbook multiplication of halves.
        let (a1, a0, b1, b0) = (a >> 32, a & 0xffff_ffff, b >> 32, b & 0xffff_ffff);
        let middle = ((a0 * b0) >> 32) + ((a1 * b0) & 0xffff_ffff) + ((a0 * b1) & 0xffff_ffff);
        let high = a1 * b1 + ((a1 * b0) >> 32) + ((a0 * b1) >> 32) + (middle >> 32);
        prop_assert_eq!(int::mul_hi(a, b), high);
        prop_assert_eq!(int::mad_hi(a, b, c), high.wrapping_add(c));
        let signed = i128::from(a as i64) * i128::from(b as i64);
        prop_assert_eq!(i128::from(int::mul_hi(a as i64, b as i64)), floor_shift(signed, 64));
        prop_assert_eq!(int::mul_lo(a, b) as i64, int::mul_lo(a as i64, b as i64));
    }

    #[test]
    fn carries_run_through(a: [u32; 4], b: [u32; 4], product: [u64; 2], addend: u128) {
        let join = |limbs: [u32; 4]| {
            limbs.iter().rev().fold(0_u128, |sum, limb| sum << 32 | u128::from(*limb))
        };
        let (mut carry, mut borrow) = (false, false);
        let (mut sum, mut difference) = ([0; 4], [0; 4]);
        for i in 0..4 {
            (sum[i], carry) = int::add_carry(a[i], b[i], carry);
            let flagged = int::sub_carry(a[i], b[i], !borrow);
            (difference[i], borrow) = int::sub_borrow(a[i], b[i], borrow);
            prop_assert_eq!(flagged, (difference[i], !borrow));
        }
        prop_assert_eq!((join(sum), carry), join(a).overflowing_add(join(b)));
        prop_assert_eq!((join(difference), borrow), join(a).overflowing_sub(join(b)));
        let [x, y] = product;
        let (low, carry) = int::mad_lo_carry(x, y, addend as u64, false);
        let (high, carry) = int::mad_hi_carry(x, y, (addend >> 64) as u64, carry);
        let exact = (u128::from(x) * u128::from(y)).overflowing_add(addend);
        prop_assert_eq!((u128::from(high) << 64 | u128::from(low), carry), exact);
        let (high, _) = int::mad_hi_carry_s64(x as i64, y as i64, 5, true);
        let signed = floor_shift(i128::from(x as i64) * i128::from(y as i64), 64) + 6;
        prop_assert_eq!(i128::from(high), wrap::<i64>(signed));
        let (high, _) = int::mad_hi_carry_s32(x as i32, y as i32, 5, false);
        let signed = floor_shift(i128::from(x as i32) * i128::from(y as i32), 32) + 5;
        prop_assert_eq!(i128::from(high), wrap::<i32>(signed));
    }

    #[test]
    fn multiplication_of_24_bits(a: u32, b: u32, c: u32) {
        let unsigned = i128::from(a % (1 << 24)) * i128::from(b % (1 << 24));
        prop_assert_eq!(i128::from(int::mul24_lo(a, b)), wrap::<u32>(unsigned));
        prop_assert_eq!(i128::from(int::mul24_hi(a, b)), wrap::<u32>(unsigned >> 16));
        let extend = |x: u32| i128::from(x % (1 << 24)) - if x >> 23 & 1 == 1 { 1 << 24 } else { 0 };
        let signed = extend(a) * extend(b);
        let (a, b, d) = (a as i32, b as i32, c as i32);
        prop_assert_eq!(i128::from(int::mul24_lo(a, b)), wrap::<i32>(signed));
        let high = wrap::<i32>(floor_shift(signed, 16));
        prop_assert_eq!(i128::from(int::mul24_hi(a, b)), high);
        prop_assert_eq!(i128::from(int::mad24_lo(a, b, d)), wrap::<i32>(signed + i128::from(d)));
        prop_assert_eq!(i128::from(int::mad24_hi(a, b, d)), wrap::<i32>(high + i128::from(d)));
        let clamped = (high + i128::from(d)).clamp(i32::MIN.into(), i32::MAX.into());
        prop_assert_eq!(i128::from(int::mad24_hi_sat(a, b, d)), clamped);
        let high = floor_shift(i128::from(a) * i128::from(b), 32) + i128::from(d);
        let clamped = high.clamp(i32::MIN.into(), i32::MAX.into());
        prop_assert_eq!(i128::from(int::mad_hi_sat(a, b, d)), clamped);
    }

    #[test]
    fn dot_products(a: u32, b: u32, c: u32) {
        let part = |x: u32, place: u32, width: u32, signed: bool| {
            let value = i64::from(x >> place) % (1 << width);
            if signed && value >= 1 << (width - 1) { value - (1 << width) } else { value }
        };
        for (sa, sb) in [(false, false), (false, true), (true, false), (true, true)] {
            let sum: i64 = (0..4).map(|i| part(a, 8 * i, 8, sa) * part(b, 8 * i, 8, sb)).sum();
            let want = (sum + i64::from(c)).rem_euclid(1 << 32) as u32;
            prop_assert_eq!(packed::dp4a(a, b, c, sa, sb), want);
            for high in [false, true] {
                let base = if high { 16 } else { 0 };
                let sum: i64 = (0..2)
                    .map(|i| part(a, 16 * i, 16, sa) * part(b, base + 8 * i, 8, sb))
                    .sum();
                let want = (sum + i64::from(c)).rem_euclid(1 << 32) as u32;
                prop_assert_eq!(packed::dp2a(a, b, c, sa, sb, high), want);
            }
        }
    }

    #[test]
    fn packed_pairs(a: u32, b: u32) {
        let unsigned = |x: u32| [(x & 0xffff) as u16, (x >> 16) as u16];
        let signed = |x: u32| unsigned(x).map(|half| half as i16);
        let join = |halves: [u16; 2]| u32::from(halves[0]) | u32::from(halves[1]) << 16;
        let ([a0, a1], [b0, b1]) = (unsigned(a), unsigned(b));
        let sum = join([a0.wrapping_add(b0), a1.wrapping_add(b1)]);
        prop_assert_eq!(packed::add_x2(a, b), sum);
        prop_assert_eq!(packed::min_u16x2(a, b), join([a0.min(b0), a1.min(b1)]));
        prop_assert_eq!(packed::max_u16x2(a, b), join([a0.max(b0), a1.max(b1)]));
        let ([a0, a1], [b0, b1]) = (signed(a), signed(b));
        for relu in [false, true] {
            let floor = if relu { 0 } else { i16::MIN };
            let pick = |low: i16, high: i16| {
                join([low.max(floor) as u16, high.max(floor) as u16])
            };
            prop_assert_eq!(packed::min_s16x2(a, b, relu), pick(a0.min(b0), a1.min(b1)));
            prop_assert_eq!(packed::max_s16x2(a, b, relu), pick(a0.max(b0), a1.max(b1)));
        }
    }
}
