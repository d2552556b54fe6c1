//! Dot products of integers that lie four to a register, with the same bits on host, emulator and GPU.

/// `dp4a.s32.s32`: `c` plus the products of the four bytes of `a` and `b`, which have a sign. It wraps.
///
/// *Scope*: thread. *Since*: PTX 5.0, sm_61.
#[inline(always)]
pub fn dp4a_s32_s32(a: u32, b: u32, c: i32) -> i32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let d: i32;
        // SAFETY: one instruction on registers.
        unsafe {
            core::arch::asm!("dp4a.s32.s32 {}, {}, {}, {};", out(reg32) d, in(reg32) a, in(reg32) b,
                in(reg32) c, options(pure, nomem, nostack));
        }
        d
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let bytes = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
        bytes.fold(c, |sum, (x, y)| {
            sum.wrapping_add(i32::from(x as i8) * i32::from(y as i8))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_a_sign_and_sums_wrap() {
        let bytes = |x: [i8; 4]| u32::from_le_bytes(x.map(|x| x as u8));
        let (a, b) = (bytes([1, -2, 127, -128]), bytes([5, 6, -128, -128]));
        assert_eq!(dp4a_s32_s32(a, b, 10), 5 - 12 - 127 * 128 + 128 * 128 + 10);
        let lowest = bytes([-128; 4]);
        assert_eq!(dp4a_s32_s32(lowest, lowest, i32::MAX), i32::MIN + 65_535);
    }
}
