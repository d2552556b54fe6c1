//! Operand values for testing instructions: combinations of special values, then random ones.

/// A small generator (splitmix64), written here so that no update of a dependency changes the
/// values.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound as u64) as usize
    }

    /// One of `items`.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// The kind of an operand, which determines the values worth testing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// 16-bit integer.
    I16,
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
    /// A shift amount, bit position or length, in 32 bits: mostly below 70.
    Amount,
    /// A bit position from 0 to 31, in 32 bits.
    Place,
    /// f16 bits.
    F16,
    /// bf16 bits.
    Bf16,
    /// Two f16.
    F16x2,
    /// Two bf16.
    Bf16x2,
    /// f32 bits.
    F32,
    /// f64 bits.
    F64,
    /// Two fp8.
    Fp8x2,
}

impl Kind {
    /// The kind with this name in the table.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "I16" => Self::I16,
            "I32" => Self::I32,
            "I64" => Self::I64,
            "Amount" => Self::Amount,
            "Place" => Self::Place,
            "F16" => Self::F16,
            "Bf16" => Self::Bf16,
            "F16x2" => Self::F16x2,
            "Bf16x2" => Self::Bf16x2,
            "F32" => Self::F32,
            "F64" => Self::F64,
            "Fp8x2" => Self::Fp8x2,
            _ => return None,
        })
    }

    /// Width in bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Self::I16 | Self::F16 | Self::Bf16 | Self::Fp8x2 => 16,
            Self::I64 | Self::F64 => 64,
            _ => 32,
        }
    }

    /// Special values, the most revealing first.
    #[must_use]
    pub fn specials(self) -> Vec<u64> {
        match self {
            Self::I16 => I16.to_vec(),
            Self::I32 => I32.to_vec(),
            Self::I64 => I64.to_vec(),
            Self::Amount => AMOUNTS.to_vec(),
            Self::Place => (0..32).collect(),
            Self::F16 => F16.to_vec(),
            Self::Bf16 => BF16.to_vec(),
            Self::F16x2 => pairs(&F16),
            Self::Bf16x2 => pairs(&BF16),
            Self::F32 => F32.to_vec(),
            Self::F64 => F64.to_vec(),
            Self::Fp8x2 => vec![0, 0x7f80, 0x007f, 0xff01],
        }
    }

    /// A random value. Half of the floats have an exponent near that of 1, so that results are more
    /// often ordinary numbers than zero or infinity.
    pub fn random(self, random: &mut Random) -> u64 {
        let bits = random.bits();
        let near_one = random.bits() & 1 == 0;
        let float = |fraction: u32, one: u64, width: u32| {
            let kept = bits & ((1 << width) - 1);
            if !near_one {
                return kept;
            }
            let exponent = (one + bits.rotate_left(17) % 24 - 12) << fraction;
            kept & (1 << (width - 1) | ((1 << fraction) - 1)) | exponent
        };
        match self {
            Self::Amount => bits % 70,
            Self::Place => bits % 32,
            Self::I16 | Self::Fp8x2 => bits & 0xffff,
            // Small and large magnitudes, both signs.
            Self::I32 => ((bits as i32) >> (bits >> 32 & 31)) as u32 as u64,
            Self::I64 => ((bits as i64) >> (random.bits() & 63)) as u64,
            Self::F16 => float(10, 15, 16),
            Self::Bf16 => float(7, 127, 16),
            Self::F16x2 => float(10, 15, 16) | Self::F16.random(random) << 16,
            Self::Bf16x2 => float(7, 127, 16) | Self::Bf16.random(random) << 16,
            Self::F32 => float(23, 127, 32),
            Self::F64 => {
                let exponent = (1023 + bits.rotate_left(17) % 64 - 32) << 52;
                if near_one {
                    bits & 0x800f_ffff_ffff_ffff | exponent
                } else {
                    bits
                }
            }
        }
    }
}

/// The operand tuples of a form: all values if there is a single 16-bit operand. Otherwise `count`
/// tuples: combinations of special values, then random ones.
#[must_use]
pub fn tuples(kinds: &[Kind], count: usize, seed: u64) -> Vec<Vec<u64>> {
    if let [kind] = kinds
        && kind.bits() == 16
    {
        return (0..0x1_0000).map(|bits| vec![bits]).collect();
    }
    let mut random = Random::new(seed);
    // Combinations take at most two thirds: the largest n with n^kinds within that.
    let budget = count * 2 / 3;
    let per_operand = (1..)
        .take_while(|n: &usize| n.pow(kinds.len() as u32) <= budget)
        .last();
    let lists: Vec<Vec<u64>> = kinds
        .iter()
        .map(|kind| {
            let mut list = kind.specials();
            list.truncate(per_operand.unwrap_or(1));
            list
        })
        .collect();
    let combinations: usize = lists.iter().map(Vec::len).product();
    let mut tuples: Vec<Vec<u64>> = (0..combinations)
        .map(|mut rest| {
            let pick = |list: &Vec<u64>| {
                let value = list[rest % list.len()];
                rest /= list.len();
                value
            };
            lists.iter().map(pick).collect()
        })
        .collect();
    while tuples.len() < count {
        let any = |kind: &Kind| match random.below(8) {
            0 => *random.choose(&kind.specials()),
            _ => kind.random(&mut random),
        };
        tuples.push(kinds.iter().map(any).collect());
    }
    tuples
}

/// Every special value in both halves, each with a few others.
fn pairs(halves: &[u64]) -> Vec<u64> {
    let rotated = halves.iter().cycle().skip(5);
    halves
        .iter()
        .zip(rotated)
        .map(|(low, high)| high << 16 | low)
        .collect()
}

const I16: [u64; 16] = [
    0, 1, 0xffff, 0x8000, 0x7fff, 2, 0xfffe, 0x8001, 0x7ffe, 0x0100, 0x00ff, 0x0080, 0x007f,
    0xff80, 0xff7f, 0x5555,
];

const I32: [u64; 26] = [
    0,
    1,
    0xffff_ffff,
    0x8000_0000,
    0x7fff_ffff,
    2,
    0xffff_fffe,
    0x8000_0001,
    0x7fff_fffe,
    0xffff,
    0x1_0000,
    0x80,
    0x7f,
    0xff,
    0x8000,
    0x7fff,
    0xffff_8000,
    0xffff_7fff,
    0xffff_ff80,
    0xffff_ff7f,
    0x00ff_ffff,
    0x0100_0000,
    0x0100_0001,
    0xff00_0000,
    0x5555_5555,
    0x3210_fdb9,
];

const I64: [u64; 26] = [
    0,
    1,
    u64::MAX,
    1 << 63,
    (1 << 63) - 1,
    0xffff_ffff,
    0x1_0000_0000,
    0x8000_0000,
    0x7fff_ffff,
    u64::MAX - 1,
    2,
    0xffff_ffff_8000_0000,
    0xffff_ffff_7fff_ffff,
    (1 << 53) + 1,
    (1 << 53) - 1,
    (1 << 24) + 1,
    0x7fff_ff80_0000_0000,
    0x7fff_ffbf_ffff_ffff,
    0x7fff_ffff_ffff_fe00,
    0x7fff_ffff_ffff_fdff,
    0xffff,
    0xff,
    0xffff_ffff_ffff_8000,
    0xffff_ffff_ffff_ff7f,
    0x8000_0000_0000_0001,
    0x5555_5555_5555_5555,
];

const AMOUNTS: [u64; 20] = [
    0,
    1,
    31,
    32,
    33,
    63,
    64,
    65,
    16,
    15,
    8,
    7,
    24,
    255,
    256,
    257,
    0x8000_0000,
    0xffff_ffff,
    4,
    17,
];

const F16: [u64; 32] = [
    0, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0x7e00, 1, 0x7bff, 0x0400, 0x8400, 0x3bff, 0xfc00, 0x7fff,
    0x8001, 0xfbff, 0x03ff, 0x83ff, 0x7c01, 0xfd00, 0x3c01, 0x3800, 0xb800, 0x4000, 0x6400, 0x6401,
    0x7800, 0x0200, 0x1400, 0x0c00, 0x3555, 0x57ff, 0x5c00,
];

const BF16: [u64; 32] = [
    0, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc0, 0x7fff, 1, 0x8001, 0x7f7f, 0xff7f, 0x0080,
    0x007f, 0x807f, 0x8080, 0x7f81, 0xffa0, 0x3f81, 0x3f7f, 0x3f00, 0xbf00, 0x4000, 0x4300, 0x4301,
    0x7f00, 0x0040, 0x2000, 0x1f80, 0x3eab, 0x477f, 0x4f00,
];

const F32: [u64; 57] = [
    0x0000_0000,
    0x8000_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x7f80_0000,
    0x7fc0_0000,
    0x0000_0001,
    0x7f7f_ffff,
    0x0080_0000,
    0x8080_0000,
    0x3f7f_ffff,
    0xff80_0000,
    0x8000_0001,
    0xff7f_ffff,
    0x007f_ffff,
    0x3f80_0001,
    0x7fff_ffff,
    0xffc1_2345,
    0x7f80_0001,
    0x3f00_0000,
    0x807f_ffff,
    0x3f7f_fffe,
    0x0080_0001,
    0x4000_0000,
    0xbf00_0000,
    0x3fc0_0000,
    0x4020_0000,
    0x4b00_0000,
    0x4b00_0001,
    0x4b7f_ffff,
    0x4f00_0000,
    0x4eff_ffff,
    0xcf00_0000,
    0xcf00_0001,
    0x4f7f_ffff,
    0x4f80_0000,
    0x5f00_0000,
    0x5eff_ffff,
    0xdf00_0000,
    0x5f7f_ffff,
    0x5f80_0000,
    0x477f_e000,
    0x477f_f000,
    0x477f_efff,
    0x3300_0000,
    0x3300_0001,
    0x3880_0000,
    0x387f_c000,
    0x387f_e000,
    0x7f7f_8000,
    0x7f7f_7fff,
    0x7f00_0000,
    0x0000_8000,
    0x0000_8001,
    0x43e8_0000,
    0x43e0_0000,
    0x4768_0000,
];

const F64: [u64; 50] = [
    0,
    1 << 63,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0xfff8_0000_0123_4567,
    0x7ff4_5678_9abc_def0,
    1,
    0x0010_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x8000_0000_0000_0001,
    0x7fef_ffff_ffff_ffff,
    0xffef_ffff_ffff_ffff,
    0x000f_ffff_ffff_ffff,
    0x3fef_ffff_ffff_ffff,
    0x3ff0_0000_0000_0001,
    0x7ff0_0000_0000_0001,
    0xffff_ffff_ffff_ffff,
    0x3fe0_0000_0000_0000,
    0xbfe0_0000_0000_0000,
    0x8010_0000_0000_0000,
    0x4000_0000_0000_0000,
    0x3ff8_0000_0000_0000,
    0x4004_0000_0000_0000,
    0x4330_0000_0000_0000,
    0x4340_0000_0000_0000,
    0x41df_ffff_ffc0_0000,
    0x41df_ffff_ffe0_0000,
    0x41e0_0000_0000_0000,
    0xc1e0_0000_0000_0000,
    0xc1e0_0000_0020_0000,
    0x41ef_ffff_ffe0_0000,
    0x41f0_0000_0000_0000,
    0x43e0_0000_0000_0000,
    0x43df_ffff_ffff_ffff,
    0xc3e0_0000_0000_0000,
    0x43f0_0000_0000_0000,
    0x43ef_ffff_ffff_ffff,
    0x47ef_ffff_e000_0000,
    0x47ef_ffff_f000_0000,
    0x47ef_ffff_efff_ffff,
    0x36a0_0000_0000_0000,
    0x3690_0000_0000_0000,
    0x3690_0000_0000_0001,
    0x3810_0000_0000_0000,
    0x380f_ffff_ffff_ffff,
    0x380f_ffff_f000_0000,
    0x40ef_fe00_0000_0000,
    0x3e60_0000_0000_0001,
];
