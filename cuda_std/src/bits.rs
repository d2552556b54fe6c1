//! Bytes of words.

/// `prmt.b32`: four bytes of `low` and `high`. Each of the lower four digits of `selector`, of 4 bits,
/// names one, the first digit for the lowest byte: 0 to 3 of `low`, 4 to 7 of `high`. With 8 added, the
/// byte is its sign bit eight times.
///
/// ```
/// use cuda_std::bits::prmt;
/// assert_eq!(prmt(0x3322_1100, 0x7766_5544, 0x0123), 0x0011_2233);
/// assert_eq!(prmt(0x8000_0000, 0, 0xbb3b), 0xffff_80ff);
/// ```
///
/// *Scope*: thread. *Since*: PTX 2.0, sm_20.
#[inline(always)]
pub fn prmt(low: u32, high: u32, selector: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let bytes: u32;
        // SAFETY: a function of its operands.
        unsafe {
            core::arch::asm!("prmt.b32 {}, {}, {}, {};", out(reg32) bytes, in(reg32) low,
                in(reg32) high, in(reg32) selector, options(pure, nomem, nostack));
        }
        bytes
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let both = (u64::from(high) << 32 | u64::from(low)).to_le_bytes();
        u32::from_le_bytes(core::array::from_fn(|at| {
            let digit = selector >> (4 * at) & 15;
            let byte = both[(digit & 7) as usize];
            match digit & 8 {
                0 => byte,
                _ => (byte.cast_signed() >> 7).cast_unsigned(),
            }
        }))
    }
}
