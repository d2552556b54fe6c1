//! The shared-memory matrix that a `wgmma` descriptor describes, and the addresses of its elements.
//!
//! A matrix is `extent` rows of A (columns of B) by 32 bytes of k. It consists of 16-byte units,
//! contiguous along k (K-major) or along the other dimension (MN-major). With a swizzle of `span`
//! bytes, the units within each line of `span` bytes are permuted. The bits of the *address* from
//! bit 4 on are xored with those from bit 7 on, minus the base offset. A matrix that was written by
//! addresses, as TMA does, has the base offset 0 wherever it begins. Another may have one that says
//! how far its start is from a multiple of eight lines.
//!
//! | | element (row, byte of k) at |
//! |---|---|
//! | K-major, no swizzle | `row / 8 * SBO + byte / 16 * LBO + row % 8 * 16 + byte % 16` |
//! | K-major, span `s` | `row / 8 * SBO + row % 8 * s + byte`; LBO has no effect |
//!
//! | | element (byte of row, k) at |
//! |---|---|
//! | MN-major, no swizzle | `byte / 16 * SBO + k / 8 * LBO + k % 8 * 16 + byte % 16` |
//! | MN-major, span `s` | `byte / s * LBO + k / 8 * SBO + k % 8 * s + byte % s` |
//!
//! Source: PTX ISA 9.0, "Matrix Descriptor Format" and "Strides". Every formula was checked on an
//! H200 with strides that no real layout has, and with starts inside the swizzle's pattern.

/// Swizzle of a matrix, named after its span in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Swizzle {
    None,
    B32,
    B64,
    B128,
}

impl Swizzle {
    /// Length of a line in bytes; 16 without swizzle.
    pub(crate) fn span(self) -> u32 {
        match self {
            Self::None => 16,
            Self::B32 => 32,
            Self::B64 => 64,
            Self::B128 => 128,
        }
    }

    /// Number of units in a line, minus one.
    fn mask(self) -> u32 {
        self.span() / 16 - 1
    }
}

/// A matrix descriptor, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// Shared address of the matrix.
    pub(crate) start: u32,
    /// Leading dimension byte offset.
    pub(crate) leading: u32,
    /// Stride dimension byte offset.
    pub(crate) stride: u32,
    pub(crate) base_offset: u32,
    pub(crate) swizzle: Swizzle,
}

impl Descriptor {
    /// Decodes the 64 bits.
    pub(crate) fn decode(bits: u64) -> Self {
        let field = |at: u32, width: u32| (bits >> at) as u32 & ((1 << width) - 1);
        Self {
            start: field(0, 14) << 4,
            leading: field(16, 14) << 4,
            stride: field(32, 14) << 4,
            base_offset: field(49, 3),
            swizzle: match field(62, 2) {
                0 => Swizzle::None,
                1 => Swizzle::B128,
                2 => Swizzle::B64,
                _ => Swizzle::B32,
            },
        }
    }

    /// The base offset of a matrix whose pattern begins with it: the number of 128-byte lines since
    /// the pattern by addresses began.
    pub(crate) fn wanted_base_offset(&self) -> u32 {
        match self.swizzle {
            Swizzle::None => 0,
            swizzle => (self.start >> 7) & swizzle.mask(),
        }
    }

    /// Bits that are set although the format requires zero.
    pub(crate) fn reserved(bits: u64) -> u64 {
        const USED: u64 = 0x3fff | 0x3fff << 16 | 0x3fff << 32 | 7 << 49 | 3 << 62;
        bits & !USED
    }

    /// Address of the 16-byte unit at byte `byte` of k (a multiple of 16) in row `row`.
    #[inline(always)]
    pub(crate) fn k_major(&self, row: u32, byte: u32) -> u32 {
        let offset = match self.swizzle {
            Swizzle::None => row / 8 * self.stride + byte / 16 * self.leading + row % 8 * 16,
            swizzle => row / 8 * self.stride + row % 8 * swizzle.span() + byte,
        };
        self.swizzled(self.start + offset)
    }

    /// Address of the 16-byte unit at byte `byte` of the rows (a multiple of 16), at `k`.
    #[inline(always)]
    pub(crate) fn mn_major(&self, byte: u32, k: u32) -> u32 {
        let offset = match self.swizzle {
            Swizzle::None => byte / 16 * self.stride + k / 8 * self.leading + k % 8 * 16,
            swizzle => {
                let span = swizzle.span();
                byte / span * self.leading + k / 8 * self.stride + k % 8 * span + byte % span
            }
        };
        self.swizzled(self.start + offset)
    }

    #[inline(always)]
    fn swizzled(&self, address: u32) -> u32 {
        let line = (address >> 7).wrapping_sub(self.base_offset);
        address ^ (line & self.swizzle.mask()) << 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn encode(start: u32, leading: u32, stride: u32, base: u64, mode: u64) -> u64 {
        u64::from(start >> 4)
            | u64::from(leading >> 4) << 16
            | u64::from(stride >> 4) << 32
            | base << 49
            | mode << 62
    }

    const MODES: [(u64, u32); 4] = [(0, 16), (3, 32), (2, 64), (1, 128)];

    #[test]
    fn decodes_every_field() {
        let bits = encode(0x1230, 0x450, 0x2000, 5, 2);
        let want = Descriptor {
            start: 0x1230,
            leading: 0x450,
            stride: 0x2000,
            base_offset: 5,
            swizzle: Swizzle::B64,
        };
        assert_eq!(Descriptor::decode(bits), want);
        assert_eq!(Descriptor::reserved(bits), 0);
        assert_eq!(Descriptor::reserved(bits | 1 << 15), 1 << 15);
    }

    /// A tile that is written by the rule of tensor copies (unit `u` of line `l` of an aligned
    /// pattern goes to unit `u ^ l % (span / 16)`) is read back element by element.
    #[test]
    fn k_major_swizzles_read_what_a_tensor_copy_writes() {
        for (mode, span) in MODES.into_iter().skip(1) {
            for step in 0..span / 32 {
                let start = 4096 + 32 * step;
                let matrix = Descriptor::decode(encode(start, 16, 8 * span, 0, mode));
                for row in 0..64 {
                    for byte in [0, 16] {
                        let unit = (32 * step + byte) / 16;
                        let lines_of_128 = row * span / 128;
                        let swapped = unit ^ (lines_of_128 % (span / 16));
                        // Lines shorter than 128 bytes lie side by side in lines of 128.
                        let within = row * span % 128 / 16;
                        let want =
                            4096 + lines_of_128 * 128 + ((within + unit) ^ (unit ^ swapped)) * 16;
                        assert_eq!(matrix.k_major(row, byte), want, "row {row} span {span}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_two_elements_share_a_place_in_either_major() {
        for (mode, span) in MODES {
            let (leading, stride) = if mode == 0 { (128, 256) } else { (0, 8 * span) };
            let tall = Descriptor::decode(encode(1024, leading, stride, 0, mode));
            let mut seen = HashSet::new();
            for row in 0..256 {
                for byte in [0, 16] {
                    assert!(seen.insert(tall.k_major(row, byte)));
                }
            }
            let (leading, stride) = if mode == 0 {
                (4096, 128)
            } else {
                (16 * span, 8 * span)
            };
            let wide = Descriptor::decode(encode(1024, leading, stride, 0, mode));
            let mut seen = HashSet::new();
            for byte in (0..512).step_by(16) {
                for k in 0..16 {
                    assert!(seen.insert(wide.mn_major(byte, k)), "byte {byte} k {k}");
                }
            }
        }
    }

    /// Every address, with strides that no real layout has, starts inside a pattern, and base
    /// offsets: hashes of what an H200 read, made by scripts/gpu/tensor.
    #[test]
    fn addresses_are_those_of_an_h200() {
        let mut count = 0;
        let lines = include_str!("../../../tests/tensor/h200_layouts.txt").lines();
        for line in lines.filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let rows = if words.next() == Some("b") { 128 } else { 64 };
            let hash = words.next_back().expect("a line ends with a hash");
            let numbers: Vec<u32> = words.map(|word| word.parse().expect("a number")).collect();
            let [bits, transposed, mode, leading, stride, start, base] = numbers[..] else {
                panic!("{line}");
            };
            let matrix =
                Descriptor::decode(encode(start, leading, stride, base.into(), mode.into()));
            let mut got = 0xcbf2_9ce4_8422_2325u64;
            for row in 0..rows {
                for k in 0..256 / bits {
                    let address = if transposed == 1 {
                        matrix.mn_major(row * 2 / 16 * 16, k) + row * 2 % 16
                    } else {
                        let byte = k * bits / 8;
                        matrix.k_major(row, byte / 16 * 16) + byte % 16
                    };
                    got = (got ^ u64::from(address)).wrapping_mul(0x100_0000_01b3);
                }
            }
            assert_eq!(format!("{got:016x}"), hash, "{line}");
            count += 1;
        }
        assert_eq!(count, 224);
    }

    #[test]
    fn the_base_offset_shifts_the_pattern_by_lines() {
        // Seen on an H200: with start 384 and base offset 3, the pattern is that of start 0, moved
        // by 384.
        let at = |start, base| Descriptor::decode(encode(start, 16, 1024, base, 1)).k_major(0, 0);
        assert_eq!(at(384, 3), 384);
        assert_eq!(at(384, 0), 432);
        assert_eq!(at(0, 5), 48);
    }
}
