//! Division by a number that the host knows, without a division on the device.

use crate::kernel_param;

kernel_param! {
    /// Division of any n below 2^31 by a divisor, as a multiplication and a shift.
    #[derive(Debug, PartialEq, Eq)]
    pub struct Division {
        /// The divisor; at least 1.
        pub divisor: u32,
        /// ⌈2^(31 + shift) / divisor⌉.
        pub magic: u32,
        /// ⌈log2 divisor⌉.
        pub shift: u32,
    }
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
