//! The inputs that the probe gave an H200; each element depends only on a seed and its position.
//!
//! The same code as scripts/gpu/tensor/inputs.py.

/// Storage of a type: its bits, and for floats, exponent and mantissa bits.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    pub(crate) bits: u32,
    exponent: u32,
    mantissa: u32,
}

impl Format {
    pub(crate) fn of(name: &str) -> Self {
        let (bits, exponent, mantissa) = match name {
            "f16" => (16, 5, 10),
            "bf16" => (16, 8, 7),
            "tf32" | "f32" => (32, 8, 23),
            "f64" => (64, 11, 52),
            "e4m3" => (8, 4, 3),
            "e5m2" => (8, 5, 2),
            "s32" => (32, 0, 0),
            "s8" | "u8" => (8, 0, 0),
            "s4" | "u4" => (4, 0, 0),
            "b1" => (1, 0, 0),
            other => panic!("no format `{other}`"),
        };
        Self {
            bits,
            exponent,
            mantissa,
        }
    }
}

fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn start(seed: u64, stream: u64) -> u64 {
    mix((seed * 16 + stream + 1).wrapping_mul(STEP))
}

fn word(start: u64, i: u64) -> u64 {
    mix(start.wrapping_add(i.wrapping_mul(STEP)))
}

/// Rounds a value of moderate size to nearest even.
fn encode(value: f64, name: &str, format: Format) -> u64 {
    if name == "f64" {
        return value.to_bits();
    }
    let kept = if name == "tf32" { 10 } else { format.mantissa };
    let bias = (1 << (format.exponent - 1)) - 1;
    let magnitude = value.abs();
    let least = 1 - bias;
    let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(least);
    let units = (magnitude * 2f64.powi(kept as i32 - exponent)).round_ties_even() as u64;
    // The leading bit of a normal number adds one to the exponent field.
    let field = (((exponent + bias - 1) as u64) << kept) + units;
    field << (format.mantissa - kept) | u64::from(value.is_sign_negative()) << (format.bits - 1)
}

/// `count` elements of a type, as bits.
pub(crate) fn elements(name: &str, kind: &str, seed: u64, count: usize) -> Vec<u64> {
    let format = Format::of(name);
    let low = |bits: u32| {
        if bits == 64 {
            u64::MAX
        } else {
            (1 << bits) - 1
        }
    };
    let starts = [start(seed, 0), start(seed, 1), start(seed, 2)];
    let one = |i: u64| {
        let h = word(starts[0], i);
        if format.exponent == 0 {
            return match kind {
                "small" => h >> 44 & 0xf_ffff,
                _ => h >> 32 & low(format.bits),
            };
        }
        let sign = (h & 1) << (format.bits - 1);
        let mantissa = h >> 1 & low(format.mantissa);
        let bias = (1i64 << (format.exponent - 1)) - 1;
        let choice = h >> 55;
        let (family, reach) = kind.split_once(':').unwrap_or((kind, "0"));
        let reach: i64 = reach.parse().expect("a kind's reach is a number");
        let (field, mantissa) = match family {
            "zero" => return 0,
            "raw" => return h >> (64 - format.bits) & low(format.bits),
            "normal" => {
                let parts = starts.iter().map(|start| word(*start, i));
                let total: i64 = parts
                    .flat_map(|h| (0..4).map(move |part| (h >> (16 * part) & 0xffff) as i64))
                    .sum();
                let value = (2 * total - 12 * 65535) as f64 / 131_072.0;
                return encode(value, name, format);
            }
            "wide" => (choice as i64 % (2 * reach + 1) - reach + bias, mantissa),
            "ends" if choice & 2 != 0 => (0, 0),
            "ends" => (
                bias + if choice & 1 != 0 { reach } else { -reach },
                mantissa,
            ),
            "low" => (choice as i64 % reach, mantissa),
            other => panic!("no kind `{other}`"),
        };
        sign | (field as u64) << format.mantissa | mantissa
    };
    (0..count as u64).map(one).collect()
}

/// The value of an element. Integers of up to 32 bits are exact.
pub(crate) fn value(name: &str, bits: u64) -> f64 {
    let Format {
        bits: width,
        exponent,
        mantissa,
    } = Format::of(name);
    match name {
        "f64" => return f64::from_bits(bits),
        "u8" | "u4" | "b1" => return bits as f64,
        "s32" | "s8" | "s4" => return ((bits << (64 - width)) as i64 >> (64 - width)) as f64,
        _ => {}
    }
    let field = (bits >> mantissa & ((1 << exponent) - 1)) as i32;
    let fraction = (bits & ((1 << mantissa) - 1)) as f64 / 2f64.powi(mantissa as i32);
    let bias = (1 << (exponent - 1)) - 1;
    let magnitude = match field {
        0 => fraction * 2f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2f64.powi(field - bias),
    };
    match bits >> (width - 1) & 1 {
        0 => magnitude,
        _ => -magnitude,
    }
}

/// Elements packed to bytes, lowest first.
pub(crate) fn pack(values: &[u64], bits: u32) -> Vec<u8> {
    if bits >= 8 {
        let bytes = bits as usize / 8;
        return values
            .iter()
            .flat_map(|value| value.to_le_bytes().into_iter().take(bytes))
            .collect();
    }
    values
        .chunks_exact(8 / bits as usize)
        .map(|group| {
            let parts = group.iter().enumerate();
            parts.fold(0, |byte, (i, value)| {
                byte | (*value as u8) << (i as u32 * bits)
            })
        })
        .collect()
}
