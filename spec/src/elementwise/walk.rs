//! The order in which a launch visits the elements of its tensors.

use super::MAX_RANK;

/// Division of any n below 2^31 by a divisor, as a multiplication and a shift.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// The divisor; at least 1.
    pub divisor: u32,
    /// ⌈2^(31 + shift) / divisor⌉.
    pub magic: u32,
    /// ⌈log2 divisor⌉.
    pub shift: u32,
}

impl Division {
    /// Division by 1.
    pub const ONE: Self = Self::new(1);

    /// Division by `divisor`, which is at least 1 and at most 2^31; 0 counts as 1.
    pub const fn new(divisor: u32) -> Self {
        let divisor = if divisor == 0 { 1 } else { divisor };
        let shift = divisor.next_power_of_two().trailing_zeros();
        let magic = (1_u64 << (31 + shift)).div_ceil(divisor as u64) as u32;
        Self {
            divisor,
            magic,
            shift,
        }
    }

    /// (n / divisor, n % divisor), for n < 2^31.
    #[inline(always)]
    pub const fn div_rem(self, n: u32) -> (u32, u32) {
        let quotient = ((n as u64 * self.magic as u64) >> (31 + self.shift)) as u32;
        (
            quotient,
            n.wrapping_sub(quotient.wrapping_mul(self.divisor)),
        )
    }
}

/// Extents and strides of a launch with up to five tensors: the output first, then the inputs.
/// Dimensions are ordered innermost first; unused ones have extent 1 and strides 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WalkParams {
    /// Number of elements of the output.
    pub len: u32,
    /// Number of dimensions in use.
    pub rank: u32,
    /// Neighbours along the innermost dimension that one access may move: 2 to 16, which then
    /// divides that dimension (if there is only one dimension, the remainder is moved one by one),
    /// or 1.
    pub chunk: u32,
    /// Bit t: tensor t has the same element throughout a chunk (an innermost stride of 0). If
    /// `chunk` is not 1, the other tensors have an innermost stride of 1 and aligned chunks.
    pub splat: u32,
    /// Extents.
    pub extents: [Division; MAX_RANK],
    /// Element strides of the output, then of the inputs.
    pub strides: [[i64; MAX_RANK]; 5],
}

/// One kernel; displays as its entry name: `copy_b32`, for elements of 1, 2, 4, 8 or 16 bytes of
/// any dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CopyEntry {
    /// Bytes of an element.
    pub size_bytes: usize,
}

impl CopyEntry {
    /// Elements a thread, all loaded before the first is stored. Of 16 bytes, one is enough.
    pub const fn per_thread(self) -> u32 {
        if self.size_bytes == 16 { 1 } else { 8 }
    }
}

impl core::fmt::Display for CopyEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "copy_b{}", self.size_bytes * 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_by_multiplication_is_exact() {
        let divisors = (1..200).chain((0..31).flat_map(|bit| {
            let power = 1_u32 << bit;
            [power.saturating_sub(1).max(1), power, power + 1]
        }));
        for divisor in divisors.chain([1 << 31, (1 << 31) - 1, 1_000_000_007]) {
            let division = Division::new(divisor);
            let multiples = [0, 1, 2, 1000, (1 << 31) / divisor];
            let near = multiples.into_iter().flat_map(|k| {
                [
                    k.wrapping_mul(divisor).wrapping_sub(1),
                    k.wrapping_mul(divisor),
                ]
            });
            let top = (1_u32 << 31) - 1;
            for n in near.chain([0, 1, 12_345, top - 1, top]) {
                if n <= top {
                    assert_eq!(
                        division.div_rem(n),
                        (n / divisor, n % divisor),
                        "{n} / {divisor}"
                    );
                }
            }
        }
    }
}
