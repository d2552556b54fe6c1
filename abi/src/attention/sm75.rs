//! Kernels by `mma.sync` for sm_75: those of [`sm80`](super::sm80) with tiles that fit Turing's
//! shared memory.
//!
//! Entries: `flash_fwd_sm75_f16_d<head_dim cap>`; [`Sm75Entry::ALL`] has all. They require what
//! [`sm80`](super::sm80) requires; q, k and v are f16, o is f16 or f32.

use super::sm80::Sm80Tile;
use super::{FlashFwdLengths, FlashFwdParams};
use crate::DType;
use crate::entry::{Parts, entries};

/// Element types of o.
pub const O_DTYPES: [DType; 2] = [DType::F16, DType::F32];

/// The tile of a cap: an SM has 64 KiB of shared memory.
const fn turing_tile(head_dim_cap: u32) -> Sm80Tile {
    let (tile_m, tile_n) = if head_dim_cap <= 64 {
        (128, 32)
    } else {
        (64, 64)
    };
    Sm80Tile {
        tile_m,
        tile_n,
        head_dim_cap,
    }
}

/// One kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm75Entry {
    name: &'static str,
    /// Largest head_dim and head_dim_v.
    pub head_dim_cap: u32,
}

impl Sm75Entry {
    /// The entry of a name `flash_fwd_sm75_f16_d<head_dim cap>`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("flash_fwd_sm75_f16");
        let head_dim_cap = parts.number("d");
        parts.end();
        Self { name, head_dim_cap }
    }

    /// The kernel of the smallest cap that serves both head dimensions; `None` if there is none.
    pub fn of(dtype: DType, head_dim: u32, head_dim_v: u32) -> Option<Self> {
        let is_whole = head_dim.is_multiple_of(8) && head_dim_v.is_multiple_of(8);
        let has_room = |entry: &Self| head_dim.max(head_dim_v) <= entry.head_dim_cap;
        Self::find(|entry| dtype == DType::F16 && is_whole && has_room(entry))
    }

    /// Its tile.
    pub const fn tile(&self) -> Sm80Tile {
        turing_tile(self.head_dim_cap)
    }
}

entries! { $ Sm75Entry((FlashFwdLengths, FlashFwdParams)) {
    /// The smallest cap comes first.
    flash_fwd_sm75 {
        flash_fwd_sm75_f16_d64(TuringF16);
        flash_fwd_sm75_f16_d128(TuringF16);
    }
} }

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn entries_are_of_f16_in_multiples_of_8_up_to_128() {
        let entry = Sm75Entry::of(DType::F16, 64, 72).expect("there is one");
        assert_eq!(entry.to_string(), "flash_fwd_sm75_f16_d128");
        assert_eq!(Sm75Entry::of(DType::Bf16, 64, 64), None);
        assert_eq!(Sm75Entry::of(DType::F16, 60, 64), None);
        assert_eq!(Sm75Entry::of(DType::F16, 136, 64), None);
    }

    #[test]
    fn a_multiprocessor_of_turing_holds_a_block_and_two_of_the_smaller() {
        assert!(2 * turing_tile(64).smem_bytes() <= 64 << 10);
        assert!(turing_tile(128).smem_bytes() <= 64 << 10);
    }
}
