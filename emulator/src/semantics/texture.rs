//! `tex`: which texels a coordinate means, and what becomes of them.
//!
//! The numbers are those of an H200. A coordinate becomes a fixed-point number with 21 bits behind
//! the point, towards minus infinity; a normalised one before it is multiplied by the extent. A
//! weight of linear filtering has 8 bits behind the point. The weights of the 4 or 8 texels are
//! products that are rounded to 8 bits in a tree, so that they add up to 1.

/// Bits behind the point of a coordinate.
const COORDINATE: u32 = 21;
/// Bits behind the point of a weight.
const WEIGHT: u32 = 8;
/// A weight of 1.
pub const ONE: i32 = 1 << WEIGHT;
/// Largest coordinate in texels: beyond it all are alike.
const FAR: i64 = 1 << 45;

/// What happens to a coordinate outside of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressMode {
    /// The image repeats. Only with normalised coordinates; else it is [`Clamp`](Self::Clamp).
    Wrap,
    /// The texel at the edge.
    Clamp,
    /// The image repeats, every other time mirrored. Only with normalised coordinates; else it is
    /// [`Clamp`](Self::Clamp).
    Mirror,
    /// The border's colour.
    Border,
}

/// A coordinate in texels, in fixed point.
#[derive(Clone, Copy, Debug)]
pub struct Coordinate(i64);

/// The two texels that linear filtering takes along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Index of the first.
    pub first: i64,
    /// Weight of the second, of [`ONE`].
    pub weight: i32,
}

impl Coordinate {
    /// A coordinate of an axis with this extent. NaN is 0.
    pub fn new(value: f32, extent: u32, normalized: bool) -> Self {
        let fixed = (f64::from(value) * f64::from(1_u32 << COORDINATE)).floor() as i64;
        let fixed = fixed.clamp(-FAR, FAR);
        Self(if normalized {
            fixed * i64::from(extent)
        } else {
            fixed
        })
    }

    /// The texel that it lies in.
    pub fn nearest(self) -> i64 {
        self.0 >> COORDINATE
    }

    /// The texels around it.
    pub fn pair(self, extent: u32, mode: AddressMode) -> Pair {
        let half = 1_i64 << (COORDINATE - 1);
        let inside = match mode {
            AddressMode::Clamp => {
                let end = i64::from(extent) << COORDINATE;
                self.0.clamp(half, end - half)
            }
            _ => self.0,
        };
        let bits = COORDINATE - WEIGHT;
        let fixed = (inside - half + (1 << (bits - 1))) >> bits;
        Pair {
            first: fixed >> WEIGHT,
            weight: (fixed & i64::from(ONE - 1)) as i32,
        }
    }
}

impl AddressMode {
    /// The mode that coordinates allow.
    pub fn allowed(self, normalized: bool) -> Self {
        match self {
            Self::Wrap | Self::Mirror if !normalized => Self::Clamp,
            mode => mode,
        }
    }

    /// The texel behind an index; `None` is the border.
    pub fn index(self, index: i64, extent: u32) -> Option<u32> {
        let extent = i64::from(extent);
        let found = match self {
            Self::Wrap => index.rem_euclid(extent),
            Self::Clamp => index.clamp(0, extent - 1),
            Self::Mirror => {
                let twice = index.rem_euclid(2 * extent);
                twice.min(2 * extent - 1 - twice)
            }
            Self::Border if (0..extent).contains(&index) => index,
            Self::Border => return None,
        };
        Some(found as u32)
    }
}

/// The weights of the 8 texels around a point. The texel's index has a bit for each axis, x lowest;
/// arguments are the weights of the second texel along x, y and z.
pub fn weights([x, y, z]: [i32; 3]) -> [i32; 8] {
    let round = |product: i32, up: bool| (product + ONE / 2 - i32::from(!up)) >> WEIGHT;
    let both = round(x * z, false);
    let planes = [[ONE - x - z + both, x - both], [z - both, both]];
    let mut all = [0; 8];
    for (k, row) in planes.iter().enumerate() {
        for (i, weight) in row.iter().enumerate() {
            let second = round(weight * y, i == 1);
            all[i + 4 * k] = weight - second;
            all[i + 2 + 4 * k] = second;
        }
    }
    all
}

/// How the channels of a texel are stored, and what a fetch makes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Channel {
    /// An integer without sign, of 8, 16 or 32 bits.
    Unsigned(u32),
    /// An integer with sign, of 8, 16 or 32 bits.
    Signed(u32),
    /// An integer of 8 or 16 bits that stands for 0 to 1.
    UnsignedNormalized(u32),
    /// An integer of 8 or 16 bits that stands for -1 to 1.
    SignedNormalized(u32),
    /// f16
    Half,
    /// f32
    Float,
}

impl Channel {
    /// Bits in memory.
    pub fn bits(self) -> u32 {
        match self {
            Self::Unsigned(bits)
            | Self::Signed(bits)
            | Self::UnsignedNormalized(bits)
            | Self::SignedNormalized(bits) => bits,
            Self::Half => 16,
            Self::Float => 32,
        }
    }

    /// Whether fetches give floats.
    pub fn is_float(self) -> bool {
        !matches!(self, Self::Unsigned(_) | Self::Signed(_))
    }

    fn sign_extended(self, raw: u32) -> i32 {
        let unused = 32 - self.bits();
        (raw << unused) as i32 >> unused
    }

    /// The value of one texel, as the bits of a register.
    pub fn value(self, raw: u32) -> u32 {
        match self {
            Self::Unsigned(_) | Self::Float => raw,
            Self::Signed(_) => self.sign_extended(raw) as u32,
            Self::UnsignedNormalized(bits) => (raw as f32 / ((1_u32 << bits) - 1) as f32).to_bits(),
            Self::SignedNormalized(bits) => {
                let value = self.sign_extended(raw) as f32 / ((1_u32 << (bits - 1)) - 1) as f32;
                value.max(-1.0).to_bits()
            }
            Self::Half => f16(raw).to_bits(),
        }
    }

    /// The bits of a value of the border.
    pub fn border(self, value: f32) -> u32 {
        match self {
            Self::Unsigned(_) | Self::Signed(_) => value as i32 as u32,
            _ => value.to_bits(),
        }
    }

    /// The value between texels, which come as [`value`](Self::value) gives them, with their
    /// weights.
    pub fn filtered(self, texels: &[(u32, i32)]) -> f32 {
        let floats = texels.iter();
        let floats = floats.map(|(bits, weight)| (f32::from_bits(*bits), *weight));
        match self {
            Self::Float | Self::Unsigned(_) | Self::Signed(_) => aligned(floats, F32),
            Self::Half => aligned(floats, F16),
            Self::UnsignedNormalized(_) => scaled(floats, u16::MAX.into(), u16::MAX.into()),
            Self::SignedNormalized(8) => scaled(floats, 127, i16::MAX.into()),
            Self::SignedNormalized(_) => scaled(floats, i16::MAX.into(), i16::MAX.into()),
        }
    }
}

fn f16(raw: u32) -> f32 {
    use super::fp16::{F16, Half};
    F16::widen(raw as u16)
}

/// The sum of weighted texels whose values are multiples of 1/`from`, rounded up from the middle to
/// a multiple of 1/`to`.
fn scaled(texels: impl Iterator<Item = (f32, i32)>, from: i64, to: i64) -> f32 {
    let sum: i64 = texels
        .map(|(value, weight)| (f64::from(value) * from as f64).round() as i64 * i64::from(weight))
        .sum();
    let unit = from * i64::from(ONE);
    let rounded = (2 * sum * to + unit).div_euclid(2 * unit);
    rounded as f32 / to as f32
}

/// A format of floats: bits of the significand, bits that a sum has beside them, and the exponent of
/// the smallest number.
struct Format {
    significand: u32,
    guard: u32,
    smallest: i32,
}

const F32: Format = Format {
    significand: 24,
    guard: 4,
    smallest: -149,
};
const F16: Format = Format {
    significand: 11,
    guard: 4,
    smallest: -24,
};

/// The sum of weighted texels, without subnormal numbers. Each is cut off at a unit that the largest one gives, and the sum is
/// rounded, away from zero in the middle.
fn aligned(texels: impl Iterator<Item = (f32, i32)> + Clone, format: Format) -> f32 {
    if texels.clone().any(|(value, _)| !value.is_finite()) {
        // Infinity times a weight of 0 is NaN, too.
        let sum: f32 = texels.map(|(value, weight)| value * weight as f32).sum();
        return if sum.is_nan() { super::fp32::NAN } else { sum };
    }
    let has_weight = texels.filter(|(value, weight)| *weight != 0 && !value.is_subnormal());
    let values = || {
        has_weight
            .clone()
            .map(|(value, weight)| (f64::from(value), weight))
    };
    let largest = values().fold(0.0, |largest: f64, (value, _)| largest.max(value.abs()));
    if largest == 0.0 {
        return 0.0;
    }
    let normal = format.smallest + format.significand as i32 - 1;
    let unit = exponent(largest).max(normal) - (format.significand + format.guard - 1) as i32;
    let sum: i64 = values()
        .map(|(value, weight)| (value * power(-unit)).trunc() as i64 * i64::from(weight))
        .sum();
    let unit = unit - WEIGHT as i32;
    let size = sum.unsigned_abs();
    let bits = (u64::BITS - size.leading_zeros()).saturating_sub(format.significand);
    let bits = bits.max((format.smallest - unit).max(0) as u32);
    let rounded = match bits {
        0 => size,
        _ => (size + (1 << (bits - 1))) >> bits << bits,
    };
    let value = (rounded as f64 * power(unit) * sum.signum() as f64) as f32;
    if value.is_subnormal() {
        return 0.0_f32.copysign(value);
    }
    value
}

/// The exponent of a positive number.
fn exponent(value: f64) -> i32 {
    (value.to_bits() >> 52) as i32 - 1023
}

fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}
