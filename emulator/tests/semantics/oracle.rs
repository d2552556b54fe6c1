//! Rounding by search. The two values of the format around the exact one are found by bisection,
//! with exact comparisons in a wide fixed-point number. Then one of them is chosen.
//!
//! It shares no code with the implementation under test, which shifts significands.

use std::cmp::Ordering;

use warpsmith_emulator::semantics::Rounding;

/// The rounding modes that results can have.
pub(crate) const MODES: [Rounding; 4] = [
    Rounding::NearestEven,
    Rounding::TowardZero,
    Rounding::Down,
    Rounding::Up,
];

/// A format by its field widths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Number of stored fraction bits.
    pub(crate) fraction: u32,
    /// Number of exponent bits.
    pub(crate) exponent: u32,
    /// Bits of the largest finite number.
    pub(crate) largest: u64,
}

pub(crate) const F64: Layout = Layout {
    fraction: 52,
    exponent: 11,
    largest: 0x7fef_ffff_ffff_ffff,
};
pub(crate) const F32: Layout = Layout {
    fraction: 23,
    exponent: 8,
    largest: 0x7f7f_ffff,
};
pub(crate) const F16: Layout = Layout {
    fraction: 10,
    exponent: 5,
    largest: 0x7bff,
};
pub(crate) const BF16: Layout = Layout {
    fraction: 7,
    exponent: 8,
    largest: 0x7f7f,
};
pub(crate) const TF32: Layout = Layout {
    fraction: 10,
    exponent: 8,
    largest: 0x3fbff,
};
pub(crate) const E5M2: Layout = Layout {
    fraction: 2,
    exponent: 5,
    largest: 0x7b,
};
pub(crate) const E4M3: Layout = Layout {
    fraction: 3,
    exponent: 4,
    largest: 0x7e,
};

impl Layout {
    /// The sign bit.
    pub(crate) fn sign(self) -> u64 {
        1 << (self.fraction + self.exponent)
    }

    /// A finite value; the bits after the largest number count as the next power of two.
    pub(crate) fn value(self, bits: u64) -> Dyadic {
        let magnitude = bits & (self.sign() - 1);
        let field = (magnitude >> self.fraction) as i32;
        let fraction = magnitude & ((1 << self.fraction) - 1);
        let bias = (1 << (self.exponent - 1)) - 1;
        let (significand, exponent) = if field == 0 {
            (fraction, 1)
        } else {
            (fraction | 1 << self.fraction, field)
        };
        Dyadic {
            negative: bits & self.sign() != 0,
            significand: significand.into(),
            exponent: exponent - bias - self.fraction as i32,
        }
    }

    /// The bits that `mode` chooses for a nonzero exact value, given its sign and a comparison of
    /// positive candidates with its magnitude. Overflow gives the bits after the largest number.
    pub(crate) fn round_by(
        self,
        negative: bool,
        mode: Rounding,
        compare: impl Fn(Dyadic) -> Ordering,
    ) -> u64 {
        let (mut low, mut high) = (0, self.largest + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if compare(self.value(middle)).is_le() {
                low = middle
            } else {
                high = middle
            }
        }
        let exact = compare(self.value(low)).is_eq();
        let beyond = compare(self.value(high)).is_le();
        let up = match mode {
            Rounding::TowardZero => false,
            Rounding::Down => negative,
            Rounding::Up => !negative,
            Rounding::NearestEven | Rounding::NearestAway => {
                // Halfway: the doubled significands fit, and neighbours are added.
                let (a, b) = (self.value(low), self.value(high));
                let exponent = a.exponent.min(b.exponent);
                let scaled = |x: Dyadic| x.significand << (x.exponent - exponent);
                let halfway = Dyadic {
                    negative: false,
                    significand: scaled(a) + scaled(b),
                    exponent: exponent - 1,
                };
                match compare(halfway) {
                    Ordering::Less => true,
                    Ordering::Greater => false,
                    Ordering::Equal => mode == Rounding::NearestAway || low & 1 == 1,
                }
            }
        };
        let magnitude = match (beyond, exact, up) {
            (true, _, up) => self.largest + u64::from(up || mode == Rounding::NearestEven),
            (_, true, _) => low,
            (_, _, up) => low + u64::from(up),
        };
        magnitude | if negative { self.sign() } else { 0 }
    }

    /// The bits that `mode` chooses for a nonzero exact value.
    pub(crate) fn round(self, exact: &Wide, mode: Rounding) -> u64 {
        let magnitude = exact.magnitude();
        self.round_by(exact.is_negative(), mode, |candidate| {
            Wide::new(candidate).compare(&magnitude)
        })
    }
}

/// `±significand * 2^exponent`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dyadic {
    pub(crate) negative: bool,
    pub(crate) significand: u128,
    pub(crate) exponent: i32,
}

impl Dyadic {
    pub(crate) fn times(self, other: Self) -> Self {
        Self {
            negative: self.negative ^ other.negative,
            significand: self.significand * other.significand,
            exponent: self.exponent + other.exponent,
        }
    }
}

const LIMBS: usize = 70;
const SCALE: i32 = 2200;

/// A two's complement number in units of 2^-2200, wide enough for sums of products of f64.
#[derive(Clone, Debug)]
pub(crate) struct Wide([u64; LIMBS]);

impl Wide {
    pub(crate) fn new(value: Dyadic) -> Self {
        let mut limbs = [0; LIMBS];
        let place = (value.exponent + SCALE) as usize;
        let (first, shift) = (place / 64, place % 64);
        let low = u128::from(value.significand as u64) << shift;
        let high = (value.significand >> 64) << shift;
        limbs[first] = low as u64;
        limbs[first + 1] = (low >> 64) as u64 | high as u64;
        limbs[first + 2] = (high >> 64) as u64;
        let wide = Self(limbs);
        if value.negative { wide.negated() } else { wide }
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        let mut carry = false;
        Self(std::array::from_fn(|i| {
            let (sum, first) = self.0[i].overflowing_add(other.0[i]);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            carry = first || second;
            sum
        }))
    }

    fn negated(&self) -> Self {
        let mut one = Self([0; LIMBS]);
        one.0[0] = 1;
        Self(self.0.map(|limb| !limb)).plus(&one)
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.0[LIMBS - 1] >> 63 == 1
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.iter().all(|limb| *limb == 0)
    }

    pub(crate) fn magnitude(&self) -> Self {
        if self.is_negative() {
            self.negated()
        } else {
            self.clone()
        }
    }

    /// Compares two numbers that are not negative.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        self.0.iter().rev().cmp(other.0.iter().rev())
    }
}

#[test]
fn the_oracle_agrees_with_native_rounding_where_that_is_known() {
    for (a, b) in [
        (1.0e16_f64, 3.0_f64),
        (0.1, 0.2),
        (1.0, f64::EPSILON / 2.0),
        (-1e300, 1e284),
    ] {
        let exact = Wide::new(F64.value(a.to_bits())).plus(&Wide::new(F64.value(b.to_bits())));
        assert_eq!(
            F64.round(&exact, Rounding::NearestEven),
            (a + b).to_bits(),
            "{a} + {b}"
        );
    }
    let past = Wide::new(Dyadic {
        negative: false,
        significand: 1,
        exponent: 16,
    });
    assert_eq!(F16.round(&past, Rounding::NearestEven), 0x7c00);
    assert_eq!(F16.round(&past, Rounding::TowardZero), 0x7bff);
    assert!(past.plus(&past.negated()).is_zero());
}
