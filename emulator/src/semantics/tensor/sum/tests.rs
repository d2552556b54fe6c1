//! Sums of a float tensor core, worked out by hand.

use super::*;

fn one(rule: Rule, element: Element, a: &[u32], b: &[u32], c: u32) -> u32 {
    let k = a.len();
    let (mut of_a, mut of_b) = (Floats::default(), Floats::default());
    of_a.set_a(element, &a.repeat(16), k, false);
    of_b.set_b(element, &b.repeat(8), k, false);
    let (a, b) = (of_a, of_b);
    let got = match rule.accumulator {
        Accumulator::F16 => accumulate_f16(rule, &a, &b, (0, 0, 0), &[c; 32]),
        _ => accumulate_f32(rule, &a, &b, (0, 0, 0), &[c; 32]),
    };
    assert!(got.iter().all(|lane| *lane == got[0]));
    got[0]
}

const BF16: Rule = Rule {
    fraction: 25,
    cleared: 0,
    steps: 0,
    accumulator: Accumulator::F32,
};

#[test]
fn what_lies_below_the_kept_bits_is_cut_off() {
    let one_bf16 = 0x3f80;
    let power = |e: i32| ((e + 127) as u32) << 7;
    let tiny = [power(0), power(-26)];
    let ones = [one_bf16; 2];
    // 1 + 2^-26 and 1 - 2^-26 both give 1: the small addend is truncated away before the sum.
    assert_eq!(one(BF16, Element::Bf16, &tiny, &ones, 0), 0x3f80_0000);
    let minus = [power(0), power(-26) | 0x8000];
    assert_eq!(one(BF16, Element::Bf16, &minus, &ones, 0), 0x3f80_0000);
    // 1 - 2^-25 is exact in the sum, then truncated to the f32 below 1.
    let minus = [power(0), power(-25) | 0x8000];
    assert_eq!(one(BF16, Element::Bf16, &minus, &ones, 0), 0x3f7f_ffff);
}

#[test]
fn infinities_and_nan_come_through() {
    let (inf, nan) = (0x7f80, 0x7fc0);
    let ones = [0x3f80; 2];
    assert_eq!(
        one(BF16, Element::Bf16, &[inf, 0x3f80], &ones, 0),
        0x7f80_0000
    );
    assert_eq!(
        one(BF16, Element::Bf16, &[inf, inf | 0x8000], &ones, 0),
        0x7fff_ffff
    );
    assert_eq!(
        one(BF16, Element::Bf16, &[inf, 0], &[0, 0x3f80], 0),
        0x7fff_ffff
    );
    assert_eq!(one(BF16, Element::Bf16, &[nan, 0], &[0, 0], 0), 0x7fff_ffff);
    assert_eq!(
        one(BF16, Element::Bf16, &[0, 0], &ones, 0xff80_0000),
        0xff80_0000
    );
}

#[test]
fn f16_results_are_rounded_to_nearest() {
    assert_eq!(f16_nearest(1.0), 0x3c00);
    assert_eq!(f16_nearest(65519.9), 0x7bff);
    assert_eq!(f16_nearest(-65520.0), 0xfc00);
    assert_eq!(f16_nearest(-(2f64.powi(-24))), 0x8001);
    assert_eq!(f16_nearest(-(2f64.powi(-25))), 0);
    assert_eq!(f16_nearest(1.0 + 2f64.powi(-11)), 0x3c00);
    assert_eq!(f16_nearest(2047.9999), 0x6800);
}

#[test]
fn the_vector_path_agrees_with_the_lane_by_lane_one() {
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u32
    };
    for (element, mask) in [
        (Element::F16, 0xbfff),
        (Element::Bf16, 0xc7ff),
        (Element::E4m3, 0xff),
    ] {
        let rule = Rule::of_wgmma(element, Accumulator::F32);
        for _ in 0..200 {
            let a: Vec<u32> = (0..16 * 16).map(|_| next() & mask).collect();
            let b: Vec<u32> = (0..8 * 16).map(|_| next() & mask).collect();
            let c = (next() & 0x81ff_ffff) + 0x3d00_0000;
            let (mut of_a, mut of_b) = (Floats::default(), Floats::default());
            of_a.set_a(element, &a, 16, false);
            of_b.set_b(element, &b, 16, false);
            let (a, b) = (of_a, of_b);
            let (a, b, c) = (a.vectors(3), b.vectors(1), [c; WIDTH]);
            assert_eq!(
                step::<F32>(rule, a, b, c),
                step_by_lane::<F32>(rule, a, b, c)
            );
        }
    }
}
