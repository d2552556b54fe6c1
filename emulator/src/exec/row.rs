//! A row: one value for each lane of a warp.

use std::ops::{BitAnd, BitXor};

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;
/// The mask of all lanes.
pub(crate) const FULL_MASK: u32 = u32::MAX;

/// One value for each of 32 lanes, aligned for vector instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C, align(64))]
pub(crate) struct Row<T>(pub(crate) [T; LANES]);

impl<T: Copy + Default> Default for Row<T> {
    fn default() -> Self {
        Self([T::default(); LANES])
    }
}

impl<T: Copy> Row<T> {
    /// Applies `f` to each value.
    #[inline(always)]
    pub(crate) fn map<R: Copy + Default>(self, f: impl Fn(T) -> R) -> Row<R> {
        let mut out = Row::default();
        for i in 0..LANES {
            out.0[i] = f(self.0[i]);
        }
        out
    }
}

impl<T: Bits> Row<T> {
    /// Takes the lanes of `mask` from `new`.
    #[inline(always)]
    pub(crate) fn blend(&mut self, new: &Self, mask: u32) {
        if mask == FULL_MASK {
            *self = *new;
            return;
        }
        // A table: of shifts of the mask, compilers make a branch for each lane.
        for (i, (own, new)) in self
            .0
            .chunks_exact_mut(4)
            .zip(new.0.chunks_exact(4))
            .enumerate()
        {
            let chosen = &T::FOUR_LANES[(mask >> (4 * i) & 15) as usize];
            for lane in 0..4 {
                own[lane] = own[lane] ^ (own[lane] ^ new[lane]) & chosen[lane];
            }
        }
    }
}

/// An integer of a lane.
pub(crate) trait Bits:
    Copy + Default + BitXor<Output = Self> + BitAnd<Output = Self> + 'static
{
    /// All ones in the lanes of each mask of four lanes.
    const FOUR_LANES: &'static [[Self; 4]; 16];
}

macro_rules! bits {
    ($($t:ty)*) => {$(
        impl Bits for $t {
            const FOUR_LANES: &'static [[Self; 4]; 16] = &{
                let mut masks = [[0; 4]; 16];
                let mut at = 0;
                while at < 64 {
                    if at / 4 >> (at % 4) & 1 != 0 {
                        masks[at / 4][at % 4] = Self::MAX;
                    }
                    at += 1;
                }
                masks
            };
        }
    )*};
}

bits!(u8 u16 u32 u64);

/// Iterates over the set bits of a mask, lowest first.
#[derive(Clone, Copy)]
pub(crate) struct Lanes(pub(crate) u32);

impl Iterator for Lanes {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let lane = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(lane)
    }
}

/// The mask whose bit `i` is `f(i)`.
#[inline(always)]
pub(crate) fn mask_of(f: impl Fn(usize) -> bool) -> u32 {
    let mut bytes = [0u8; LANES];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from(f(i));
    }
    let mut mask = 0;
    for (group, chunk) in bytes.chunks_exact(8).enumerate() {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        // Gathers the low bits of eight bytes into the top byte.
        let bits = u64::from_le_bytes(word).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask |= (bits as u32) << (8 * group);
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blend_takes_the_lanes_of_the_mask_and_no_others() {
        let old = Row(std::array::from_fn(|lane| 0x1111_0000_u64 + lane as u64));
        let new = Row(std::array::from_fn(|lane| 0xffff_2222_0000 + lane as u64));
        for mask in [
            0,
            1,
            1 << 31,
            0x8421_8421,
            0xffff_0000,
            0x5a5a_a5a5,
            FULL_MASK,
        ] {
            let from = |lane: usize| if mask >> lane & 1 != 0 { &new } else { &old };
            let want = Row(std::array::from_fn(|lane| from(lane).0[lane]));
            let mut got = old;
            got.blend(&new, mask);
            assert_eq!(got, want);
            let narrow = |row: Row<u64>| row.map(|value| value as u32);
            let mut got = narrow(old);
            got.blend(&narrow(new), mask);
            assert_eq!(got, narrow(want));
            let narrow = |row: Row<u64>| row.map(|value| (value >> 16) as u16);
            let mut got = narrow(old);
            got.blend(&narrow(new), mask);
            assert_eq!(got, narrow(want));
        }
    }
}
