//! Vectors of 16 bytes, of the dtype that the launch says.

use abi::scatter_add::{AddParams, codes};
use cuda_std::mem;
use half::{bf16, f16};

use super::lanes::Lanes;
use crate::reduce::load::{Load, Raw};

/// A vector of 16 bytes of the launch's dtype, one of [`VECTORS`](abi::scatter_add::VECTORS): the sums of
/// f32 are the first four.
#[derive(Clone, Copy)]
pub(super) struct AnyVector<'a>(pub(super) &'a AddParams);

/// Sums with those of vectors.
#[inline(always)]
fn with_all<T: Lanes<V>, const V: usize, const N: usize>(
    mut sums: [f32; 8],
    raws: [Raw; N],
) -> [f32; 8] {
    for j in 0..N {
        for v in 0..V {
            sums[v] += T::number(raws[j], v);
        }
    }
    sums
}

impl AnyVector<'_> {
    /// Sums with those of vectors, which are added one after the other.
    #[inline(always)]
    pub(super) fn plus<const N: usize>(self, sums: [f32; 8], raws: [Raw; N]) -> [f32; 8] {
        match self.0.code {
            codes::F16 => with_all::<f16, 8, N>(sums, raws),
            codes::BF16 => with_all::<bf16, 8, N>(sums, raws),
            _ => with_all::<f32, 4, N>(sums, raws),
        }
    }

    /// The numbers of a vector. Those of f32 are the first four, twice.
    #[inline(always)]
    pub(super) fn numbers(self, raw: Raw) -> [f32; 8] {
        match self.0.code {
            codes::F16 => core::array::from_fn(|v| <f16 as Load<8>>::number(raw, v)),
            codes::BF16 => core::array::from_fn(|v| <bf16 as Load<8>>::number(raw, v)),
            _ => core::array::from_fn(|v| <f32 as Load<4>>::number(raw, v % 4)),
        }
    }

    /// A word of a vector that changes no sums.
    #[inline(always)]
    pub(super) fn nothing(self) -> u32 {
        match self.0.size_log2 {
            1 => <f16 as Lanes<8>>::NOTHING,
            _ => <f32 as Lanes<4>>::NOTHING,
        }
    }

    /// Loads memory that nobody writes. Where it is not there, gives a value that changes no sum.
    ///
    /// # Safety
    /// Where it is there, it is readable.
    #[inline(always)]
    pub(super) unsafe fn row(self, at: *const u8, is_there: bool) -> Raw {
        // SAFETY: passed on to the caller.
        unsafe { mem::ld_global_nc_v4_u32_or(at.cast(), is_there, self.nothing()) }
    }

    /// A vector of sums, each rounded once.
    #[inline(always)]
    pub(super) fn packed(self, sums: [f32; 8]) -> Raw {
        match self.0.code {
            codes::F16 => <f16 as Lanes<8>>::packed(sums),
            codes::BF16 => <bf16 as Lanes<8>>::packed(sums),
            _ => [sums[0], sums[1], sums[2], sums[3]].map(f32::to_bits),
        }
    }
}
