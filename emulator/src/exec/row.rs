//! A row: one value for each lane of a warp.

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;
/// The mask of all lanes.
pub(crate) const FULL_MASK: u32 = u32::MAX;

/// 32 values, aligned for vector instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Row<T>(pub(crate) [T; LANES]);

impl<T: Copy + Default> Default for Row<T> {
    fn default() -> Self {
        Self([T::default(); LANES])
    }
}

impl<T: Copy> Row<T> {
    /// `f` of each value.
    #[inline(always)]
    pub(crate) fn map<R: Copy + Default>(self, f: impl Fn(T) -> R) -> Row<R> {
        let mut out = Row::default();
        for i in 0..LANES {
            out.0[i] = f(self.0[i]);
        }
        out
    }

    /// Takes the lanes of `mask` from `new`.
    #[inline(always)]
    pub(crate) fn blend(&mut self, new: &Self, mask: u32) {
        if mask == FULL_MASK {
            *self = *new;
            return;
        }
        for i in 0..LANES {
            self.0[i] = if mask >> i & 1 != 0 {
                new.0[i]
            } else {
                self.0[i]
            };
        }
    }
}

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
