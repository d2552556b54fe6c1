//! Bit instructions, bit by bit as in the ISA's pseudocode; comparisons by truth table.

use proptest::prelude::*;
use warpsmith_emulator::semantics::bits::{self, Bits, PermuteMode, ShiftMode};
use warpsmith_emulator::semantics::compare::{Compare, TestProperty};
use warpsmith_emulator::semantics::int::Integer;

/// The bits of `a`, lowest first.
fn to_bits<T: Bits>(a: T) -> Vec<bool> {
    (0..T::BITS).map(|i| a.to_i128() >> i & 1 == 1).collect()
}

fn from_bits(bits: &[bool]) -> i128 {
    bits.iter()
        .rev()
        .fold(0, |value, bit| value << 1 | i128::from(*bit))
}

/// As the ISA defines it: the field is `len` bits from `pos`, extended with its own sign.
fn bfe<T: Bits>(a: T, pos: u32, len: u32, signed: bool) -> i128 {
    let (source, top) = (to_bits(a), u64::from(T::BITS) - 1);
    let (pos, len) = (u64::from(pos), u64::from(len));
    let fill = signed && len > 0 && source[(pos + len - 1).min(top) as usize];
    let bit = |i: u64| {
        if i < len && pos + i <= top {
            source[(pos + i) as usize]
        } else {
            fill
        }
    };
    from_bits(&(0..=top).map(bit).collect::<Vec<_>>())
}

fn bfi<T: Bits>(a: T, b: T, pos: u32, len: u32) -> i128 {
    let (source, mut target) = (to_bits(a), to_bits(b));
    for i in 0..u64::from(len).min(64) {
        if u64::from(pos) + i < u64::from(T::BITS) {
            target[(u64::from(pos) + i) as usize] = source[i as usize];
        }
    }
    from_bits(&target)
}

fn counts<T: Bits>(a: T) {
    let source = to_bits(a);
    let highest = source.iter().rposition(|bit| *bit);
    let ones = source.iter().filter(|bit| **bit).count();
    assert_eq!(bits::popc(a) as usize, ones);
    assert_eq!(
        bits::clz(a),
        T::BITS - highest.map_or(0, |place| place as u32 + 1)
    );
    assert_eq!(
        bits::bfind(a),
        highest.map_or(u32::MAX, |place| place as u32)
    );
    let shift = highest.map_or(u32::MAX, |place| T::BITS - 1 - place as u32);
    assert_eq!(bits::bfind_shiftamt(a), shift);
    let mut reversed = source.clone();
    reversed.reverse();
    assert_eq!(bits::brev(a).to_i128(), from_bits(&reversed));
    let sign = source[source.len() - 1];
    let differing = source.iter().rposition(|bit| *bit != sign);
    let got = bits::bfind(bits::bfind_signed_input(a));
    assert_eq!(got, differing.map_or(u32::MAX, |place| place as u32));
}

fn fns(mask: u32, base: u32, offset: i32) -> u32 {
    let ones = |place: &i64| mask >> place & 1 == 1;
    let base = i64::from(base);
    let nth = offset.unsigned_abs() as usize;
    let found = match offset {
        0 => Some(base).filter(ones),
        1.. => (base..32).filter(ones).nth(nth - 1),
        _ => (0..=base).rev().filter(ones).nth(nth - 1),
    };
    found.map_or(u32::MAX, |place| place as u32)
}

fn amounts() -> impl Strategy<Value = u32> {
    prop_oneof![0..70_u32, 0..256_u32]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn counts_and_searches(a: u64, n in 0..64_u32, base in 0..32_u32, offset in -40..40_i32) {
        for a in [a, a >> n, (a as i64 >> n) as u64, 0, u64::MAX] {
            counts(a);
            counts(a as u32);
        }
        prop_assert_eq!(bits::fns(a as u32, base, offset), fns(a as u32, base, offset));
    }

    #[test]
    fn fields(a: u64, b: u64, pos in amounts(), len in amounts()) {
        let (c, d) = (a as u32, b as u32);
        prop_assert_eq!(bits::bfe(a, pos, len).to_i128(), bfe(a, pos, len, false));
        prop_assert_eq!(bits::bfe_signed(a, pos, len).to_i128(), bfe(a, pos, len, true));
        prop_assert_eq!(bits::bfe(c, pos, len).to_i128(), bfe(c, pos, len, false));
        prop_assert_eq!(bits::bfe_signed(c, pos, len).to_i128(), bfe(c, pos, len, true));
        prop_assert_eq!(bits::bfi(a, b, pos, len).to_i128(), bfi(a, b, pos, len));
        prop_assert_eq!(bits::bfi(c, d, pos, len).to_i128(), bfi(c, d, pos, len));
        // Of operands of 32-bit fields only the low 8 bits count.
        prop_assert_eq!(bits::bfe(c, pos + 256, len), bits::bfe(c, pos, len));
        prop_assert_eq!(bits::bfi(c, d, pos, len + 512), bits::bfi(c, d, pos, len));
    }

    #[test]
    fn masks_extensions_and_funnels(a: u32, b: u32, x in amounts(), y in amounts()) {
        for (mode, x5, y5) in [
            (ShiftMode::Clamp, x.min(32), y.min(32)),
            (ShiftMode::Wrap, x % 32, y % 32),
        ] {
            let mask = (0..32).filter(|i| (x5..x5 + y5).contains(i)).map(|i| 1 << i).sum::<u32>();
            prop_assert_eq!(bits::bmsk(x, y, mode), mask);
            let low = i64::from(a) % (1 << y5);
            prop_assert_eq!(i64::from(bits::szext_unsigned(a, y, mode)), low);
            let negative = y5 > 0 && low >= 1 << (y5 - 1);
            let signed = if negative { low - (1 << y5) } else { low };
            prop_assert_eq!(bits::szext_signed(a, y, mode) as i32, signed as i32);
            let both = u128::from(b) << 32 | u128::from(a);
            prop_assert_eq!(bits::shf_left(a, b, x, mode), (both << x5 >> 32) as u32);
            prop_assert_eq!(bits::shf_right(a, b, x, mode), (both >> x5) as u32);
        }
    }

    #[test]
    fn three_input_logic(a: u32, b: u32, c: u32, table: u8) {
        let bit = |x: u32, i: u32| usize::from(x >> i & 1 == 1);
        let want = (0..32)
            .filter(|i| table >> (4 * bit(a, *i) + 2 * bit(b, *i) + bit(c, *i)) & 1 == 1)
            .map(|i| 1_u32 << i)
            .sum::<u32>();
        prop_assert_eq!(bits::lop3(a, b, c, table), want);
    }

    #[test]
    fn permutations(a: u32, b: u32, selector: u32) {
        let bytes: Vec<u8> = [a.to_le_bytes(), b.to_le_bytes()].concat();
        let pick = |index: u32| {
            let byte = bytes[index as usize & 7];
            if index & 8 == 0 { byte } else if byte >= 0x80 { 0xff } else { 0 }
        };
        let want = [0, 4, 8, 12].map(|shift| pick(selector >> shift));
        prop_assert_eq!(bits::prmt(a, b, selector, PermuteMode::Index).to_le_bytes(), want);
        let n = selector & 3;
        // Byte indices, lowest first, from the ISA's table.
        let cases = [
            (PermuteMode::ForwardFour, [n, n + 1, n + 2, n + 3]),
            (PermuteMode::BackwardFour, [n, (n + 7) & 7, (n + 6) & 7, (n + 5) & 7]),
            (PermuteMode::ReplicateByte, [n; 4]),
            (PermuteMode::EdgeClampLeft, [n, n.max(1), n.max(2), 3]),
            (PermuteMode::EdgeClampRight, [0, n.min(1), n.min(2), n]),
            (PermuteMode::ReplicateHalf, [n & 1, 0, n & 1, 0].map(|h| h * 2)),
        ];
        for (mode, indices) in cases {
            let indices = match mode {
                PermuteMode::ReplicateHalf => [2 * (n & 1), 2 * (n & 1) + 1, 2 * (n & 1), 2 * (n & 1) + 1],
                _ => indices,
            };
            let want = indices.map(|index| bytes[index as usize]);
            prop_assert_eq!(bits::prmt(a, b, selector, mode).to_le_bytes(), want, "{:?}", mode);
        }
    }

    #[test]
    fn integer_comparisons(a: u64, b: u64) {
        for (a, b) in [(a, b), (a, a), (a & 1, b & 1)] {
            for (name, want) in [
                ("eq", a == b), ("ne", a != b), ("lo", a < b), ("ls", a <= b), ("hi", a > b),
                ("hs", a >= b),
            ] {
                prop_assert_eq!(Compare::from_modifier(name).map(|c| c.int(a, b)), Some(want));
            }
            let (x, y) = (a as i64, b as i64);
            for (name, want) in [("lt", x < y), ("le", x <= y), ("gt", x > y), ("ge", x >= y)] {
                prop_assert_eq!(Compare::from_modifier(name).map(|c| c.int(x, y)), Some(want));
            }
        }
    }
}

#[test]
fn float_comparisons_ordered_and_unordered() {
    let values = [
        f64::NEG_INFINITY,
        -1.0,
        -0.0,
        0.0,
        1.0,
        f64::INFINITY,
        f64::NAN,
    ];
    for a in values {
        for b in values {
            let unordered = a.is_nan() || b.is_nan();
            let table = [
                ("eq", "equ", a == b),
                ("ne", "neu", a != b && !unordered),
                ("lt", "ltu", a < b),
                ("le", "leu", a <= b),
                ("gt", "gtu", a > b),
                ("ge", "geu", a >= b),
            ];
            let test = |name: &str| {
                let compare = Compare::from_modifier(name).expect("a comparison");
                assert_eq!(compare.f64(a, b), compare.f32(a as f32, b as f32));
                compare.f64(a, b)
            };
            for (ordered, or_nan, want) in table {
                assert_eq!(test(ordered), want, "{ordered} {a} {b}");
                assert_eq!(test(or_nan), want || unordered, "{or_nan} {a} {b}");
            }
            assert_eq!(test("num"), !unordered);
            assert_eq!(test("nan"), unordered);
        }
    }
    assert_eq!(Compare::from_modifier("rn"), None);
}

#[test]
fn classes_of_numbers() {
    // Value; finite, infinite, number, notanumber, normal, subnormal.
    let table = [
        (0.0, [true, false, true, false, true, false]),
        (-1.5, [true, false, true, false, true, false]),
        (f64::from_bits(1), [true, false, true, false, false, true]),
        (f64::NEG_INFINITY, [false, true, true, false, false, false]),
        (f64::NAN, [false, false, false, true, false, false]),
    ];
    let names = [
        "finite",
        "infinite",
        "number",
        "notanumber",
        "normal",
        "subnormal",
    ];
    for (value, want) in table {
        let single = if value == f64::from_bits(1) {
            f32::from_bits(1)
        } else {
            value as f32
        };
        for (name, want) in names.into_iter().zip(want) {
            let property = TestProperty::from_modifier(name).expect("a property");
            assert_eq!(property.f64(value), want, "{name} {value}");
            assert_eq!(property.f32(single), want, "{name} {single}");
        }
    }
}
