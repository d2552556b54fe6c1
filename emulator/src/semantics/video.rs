//! SIMD video instructions on two halfwords or four bytes: `vadd4`, `vabsdiff2` and so on.

/// The operation on each pair of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Video {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Mean, rounded up.
    Average,
    /// Absolute difference.
    AbsDiff,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
}

/// How the parts are read and the results written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoMode {
    /// The operation.
    pub op: Video,
    /// Bits of a part: 8 or 16.
    pub bits: u32,
    /// Whether `d`, `a` and `b` are signed.
    pub signed: [bool; 3],
    /// Whether each result is clamped to the range of its type.
    pub saturate: bool,
    /// Whether the results are added to `c` instead of packed.
    pub accumulate: bool,
}

impl VideoMode {
    /// The mode as one number, for an instruction's immediate.
    pub fn encode(self) -> u32 {
        let flags = [
            self.signed[0],
            self.signed[1],
            self.signed[2],
            self.saturate,
            self.accumulate,
        ];
        let flags = flags
            .iter()
            .enumerate()
            .fold(0, |bits, (i, flag)| bits | u32::from(*flag) << i);
        flags | self.bits << 8 | (self.op as u32) << 16
    }

    /// The inverse of [`VideoMode::encode`].
    pub fn decode(code: u32) -> Self {
        let flag = |i: u32| code >> i & 1 != 0;
        Self {
            op: match code >> 16 {
                0 => Video::Add,
                1 => Video::Sub,
                2 => Video::Average,
                3 => Video::AbsDiff,
                4 => Video::Min,
                _ => Video::Max,
            },
            bits: code >> 8 & 0xff,
            signed: [flag(0), flag(1), flag(2)],
            saturate: flag(3),
            accumulate: flag(4),
        }
    }
}

/// `v<op>2` and `v<op>4` without masks and selectors.
#[inline]
pub fn video(mode: VideoMode, a: u32, b: u32, c: u32) -> u32 {
    let bits = mode.bits;
    let part = |word: u32, at: u32, signed: bool| {
        let high = word << (32 - bits - at);
        if signed {
            i64::from(high as i32 >> (32 - bits))
        } else {
            i64::from(high >> (32 - bits))
        }
    };
    let (mut packed, mut sum) = (0u32, i64::from(c));
    for at in (0..32).step_by(bits as usize) {
        let (x, y) = (part(a, at, mode.signed[1]), part(b, at, mode.signed[2]));
        let mut r = match mode.op {
            Video::Add => x + y,
            Video::Sub => x - y,
            Video::Average => (x + y + i64::from(x + y >= 0)) >> 1,
            Video::AbsDiff => (x - y).abs(),
            Video::Min => x.min(y),
            Video::Max => x.max(y),
        };
        if mode.saturate {
            let (low, high) = if mode.signed[0] {
                (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1)
            } else {
                (0, (1i64 << bits) - 1)
            };
            r = r.clamp(low, high);
        }
        packed |= (r as u32 & (u32::MAX >> (32 - bits))) << at;
        sum += r;
    }
    if mode.accumulate { sum as u32 } else { packed }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: VideoMode = VideoMode {
        op: Video::Add,
        bits: 8,
        signed: [false; 3],
        saturate: false,
        accumulate: false,
    };

    #[test]
    fn bytes_and_halfwords_do_not_carry_into_each_other() {
        assert_eq!(video(PLAIN, 0xff01_7f80, 0x01ff_0180, 9), 0x0000_8000);
        let halves = VideoMode { bits: 16, ..PLAIN };
        assert_eq!(video(halves, 0xffff_0001, 0x0001_ffff, 9), 0);
        let sub = VideoMode {
            op: Video::Sub,
            ..PLAIN
        };
        assert_eq!(video(sub, 0x0001_0203, 0x0101_0101, 0), 0xff00_0102);
    }

    #[test]
    fn signs_saturation_and_means() {
        let clamped = VideoMode {
            signed: [true; 3],
            saturate: true,
            ..PLAIN
        };
        assert_eq!(video(clamped, 0x7f80_0110, 0x01ff_ff70, 0), 0x7f80_007f);
        let unsigned = VideoMode {
            saturate: true,
            op: Video::Sub,
            ..PLAIN
        };
        assert_eq!(video(unsigned, 0x0510_00ff, 0x0601_0101, 0), 0x000f_00fe);
        let mean = VideoMode {
            op: Video::Average,
            ..PLAIN
        };
        assert_eq!(video(mean, 0x00ff_0103, 0x01ff_0204, 0), 0x01ff_0204);
        let mean = VideoMode {
            signed: [true; 3],
            ..mean
        };
        assert_eq!(video(mean, 0xfdff_0103, 0xfefe_0204, 0), 0xfdfe_0204);
    }

    #[test]
    fn distances_add_up() {
        let sad = VideoMode {
            op: Video::AbsDiff,
            accumulate: true,
            ..PLAIN
        };
        assert_eq!(
            video(sad, 0xff00_0510, 0x00ff_0610, 1000),
            1000 + 255 + 255 + 1
        );
        let low = VideoMode {
            op: Video::Min,
            signed: [true, true, false],
            ..PLAIN
        };
        assert_eq!(video(low, 0xff7f_0005, 0x01ff_0002, 0), 0xff7f_0002);
        let high = VideoMode {
            op: Video::Max,
            ..low
        };
        assert_eq!(video(high, 0xff7f_0005, 0x01ff_0002, 0), 0x01ff_0005);
    }

    #[test]
    fn modes_survive_their_encoding() {
        for op in [
            Video::Add,
            Video::Sub,
            Video::Average,
            Video::AbsDiff,
            Video::Min,
            Video::Max,
        ] {
            for bits in [8, 16] {
                let mode = VideoMode {
                    op,
                    bits,
                    signed: [true, false, true],
                    saturate: true,
                    accumulate: false,
                };
                assert_eq!(VideoMode::decode(mode.encode()), mode);
            }
        }
    }
}
