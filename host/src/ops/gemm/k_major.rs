//! K-major copies of operands: `wgmma` reads 8-bit operands and tf32 in no other layout, and tensor
//! copies read no rows that are not aligned to 16 bytes.

use super::call::{Call, Memory};
use super::candidates::{Candidate, Reads};
use super::desc::{GemmDesc, MatrixDesc, Side};
use crate::ops::copy::copy_between;
use crate::ops::elementwise::Steps;
use crate::ops::plan::Machine;
use crate::{Error, Result};
use abi::elementwise::MAX_RANK;

/// Rows of a copy begin at multiples of this.
const ROW_ALIGN_BYTES: u32 = 16;
/// Rows that begin at multiples of this are copied at the bandwidth of memory.
const FAST_COPY_ALIGN_BYTES: u32 = 8;

/// Offers what `family` offers for `desc`, or for K-major copies of the operands that tensor copies
/// and `wgmma` do not read as they are.
pub(super) fn offer_readable(
    desc: &GemmDesc,
    machine: &Machine,
    family: fn(&GemmDesc, &Machine, &mut dyn FnMut(Candidate)),
    offer: &mut dyn FnMut(Candidate),
) {
    let Some(copied) = desc.k_major() else {
        return family(desc, machine, offer);
    };
    let copies_ns = desc.k_major_ns(machine);
    family(&copied, machine, &mut |candidate| {
        offer(Candidate {
            reads: Reads::KMajor,
            estimated_ns: candidate.estimated_ns + copies_ns,
            ..candidate
        })
    });
}

impl GemmDesc {
    /// The same GEMM with K-major copies of those operands that tensor copies and `wgmma` do not read
    /// as they are; `None` if they read both.
    pub(super) fn k_major(&self) -> Option<Self> {
        let mut copied = *self;
        for side in self.copied_sides() {
            *copied.operand_mut(side) = self.k_major_copy(side)?;
        }
        (copied != *self).then_some(copied)
    }

    fn copied_sides(&self) -> impl Iterator<Item = Side> {
        let is_read = |side: Side| {
            let matrix = self.operand(side);
            let takes_mn_major = matrix.dtype.size_bytes() == 2;
            let layout_suits = takes_mn_major || matrix.transpose == side.k_major();
            layout_suits && matrix.suits_tensor_map()
        };
        Side::BOTH.into_iter().filter(move |&side| !is_read(side))
    }

    /// The layout of the copy of one operand; `None` if its strides exceed 64 bits.
    fn k_major_copy(&self, side: Side) -> Option<MatrixDesc> {
        let matrix = self.operand(side);
        let ld = self.copy_ld(side);
        Some(MatrixDesc {
            transpose: side.k_major(),
            ld: i64::from(ld),
            batch_stride: match matrix.batch_stride {
                0 => 0,
                _ => i64::from(self.lines(side)).checked_mul(i64::from(ld))?,
            },
            align_bytes: MatrixDesc::MOST_ALIGN_BYTES,
            ..*matrix
        })
    }

    /// k with the gap behind each row.
    fn copy_ld(&self, side: Side) -> u32 {
        let size_bytes = self.operand(side).dtype.size_bytes() as u32;
        self.k.next_multiple_of(ROW_ALIGN_BYTES / size_bytes)
    }

    /// Time of the copies.
    pub(super) fn k_major_ns(&self, machine: &Machine) -> f64 {
        let of_side = |side| {
            let bytes = 2.0 * self.operand_bytes(side); // read and written
            let (costs, launch_ns) = (&machine.model.gemm, machine.model.launch_ns);
            let share = match self.operand(side).row_align_bytes() {
                ..FAST_COPY_ALIGN_BYTES => costs.copy_apart,
                _ => costs.copy_of_bandwidth,
            };
            let bytes_per_ns = share * machine.bytes_per_ns;
            launch_ns + costs.copy_ns + bytes / bytes_per_ns
        };
        self.copied_sides().map(of_side).sum()
    }
}

impl<'a> Call<'a> {
    /// The call for the description of [`GemmDesc::k_major`]; enqueues the copies.
    pub(super) fn k_major(&self) -> Result<Call<'a>> {
        let mut call = self.clone();
        for side in self.desc.copied_sides() {
            let (memory, matrix) = self.k_major_copy(side)?;
            *call.desc.operand_mut(side) = matrix;
            match side {
                Side::A => call.a = memory,
                Side::B => call.b = memory,
            }
        }
        Ok(call)
    }

    fn k_major_copy(&self, side: Side) -> Result<(Memory, MatrixDesc)> {
        let desc = &self.desc;
        let from = desc.operand(side);
        let batch = if from.batch_stride == 0 {
            1
        } else {
            desc.batch
        };
        let (lines, size_bytes) = (desc.lines(side), from.dtype.size_bytes());
        let scratch = self.scratch(&[batch, lines, desc.copy_ld(side)], size_bytes)?;
        let to = desc.k_major_copy(side);
        let to = to.ok_or(Error::Bug("scratch memory beyond 64 bits"))?;
        let memory = self.operand(side);
        let steps = |memory: &Memory, matrix: &MatrixDesc| {
            let [line, k] = if matrix.transpose == side.k_major() {
                [matrix.ld, 1]
            } else {
                [1, matrix.ld]
            };
            let mut strides = [0; MAX_RANK];
            strides[..3].copy_from_slice(&[matrix.batch_stride, line, k]);
            Steps {
                strides,
                address: memory.address(),
                size_bytes,
            }
        };
        let shape = [batch, lines, desc.k].map(|extent| extent as usize);
        let both = [steps(&scratch, &to), steps(memory, from)];
        // SAFETY: the strides are those of the operand, which lies inside of its storage, and of the
        // scratch memory, which is as large, is written once and overlaps nothing.
        unsafe {
            copy_between(&shape, both, self.stream, |tensor, address| match tensor {
                0 => scratch.argument(address),
                _ => memory.argument(address),
            })
        }?;
        Ok((scratch, to))
    }
}

#[cfg(test)]
mod tests {
    use super::super::candidates::tests::{H200, by_estimate};
    use super::super::desc::tests::{plain, weighted};
    use super::super::options::Precision;
    use super::super::{mma, simt, sm90};
    use super::*;
    use crate::DType;
    use abi::gemm::Transpose;

    #[test]
    fn only_operands_that_cannot_be_read_are_copied() {
        assert_eq!(weighted(DType::E4m3, [64, 64, 64]).k_major(), None);
        assert_eq!(plain(DType::Bf16, 64, 64, 64).k_major(), None);
        let desc = plain(DType::E4m3, 10, 64, 70);
        let copied = desc.k_major().expect("neither can be read");
        assert_eq!((copied.a.transpose, copied.a.ld), (Transpose::N, 80));
        assert_eq!((copied.b.transpose, copied.b.ld), (Transpose::T, 80));
        let desc = plain(DType::F32, 10, 64, 64);
        let copied = desc.k_major().expect("B is not K-major");
        assert_eq!(copied.a, desc.a);
        assert_eq!((copied.b.transpose, copied.b.ld), (Transpose::T, 64));
        let desc = plain(DType::Bf16, 64, 65, 64);
        let copied = desc.k_major().expect("rows of B are not aligned");
        assert_eq!(copied.a, desc.a);
        assert_eq!((copied.b.transpose, copied.b.ld), (Transpose::T, 64));
        assert!(desc.k_major_ns(&H200) > H200.model.launch_ns);
    }

    #[test]
    fn what_is_broadcast_is_copied_once() {
        let mut desc = plain(DType::E4m3, 16, 32, 48);
        desc.batch = 3;
        desc.b.batch_stride = 48 * 32;
        let copied = desc.k_major().expect("B is not K-major");
        assert_eq!(copied.b.batch_stride, 32 * 48);
        desc.b.batch_stride = 0;
        assert_eq!(desc.k_major().map(|copied| copied.b.batch_stride), Some(0));
    }

    #[test]
    fn copies_are_made_for_large_products_and_not_for_small_ones() {
        let best = |dtype: DType, [m, n, k]: [u32; 3]| {
            let mut desc = GemmDesc {
                precision: Precision::Tf32,
                ..plain(dtype, m, n, k)
            };
            if dtype == DType::E4m3 {
                desc.d.dtype = DType::Bf16;
            }
            let all = by_estimate(|each| {
                simt::offer(&desc, &H200, each);
                mma::offer(&desc, &H200, each);
                sm90::offer(&desc, &H200, each);
            });
            all[0].to_string()
        };
        let name = best(DType::F32, [4096; 3]);
        assert_eq!(name, "gemm_sm90_f32_nt_128x256_s4_plain+kmajor");
        let name = best(DType::E4m3, [4096; 3]);
        assert_eq!(name, "gemm_sm90_e4m3_bf16_nt_128x256_s4_promoted+kmajor");
        let name = best(DType::Bf16, [4096, 4097, 4096]);
        assert!(
            name.starts_with("gemm_sm90_bf16_nt_") && name.ends_with("+kmajor"),
            "{name}"
        );
        // (Of 8 bits the other kernels make copies too, in 16 bits.)
        for (dtype, n) in [(DType::F32, 128), (DType::Bf16, 132)] {
            let name = best(dtype, [128, n, 128]);
            assert!(!name.contains("kmajor"), "{name}");
        }
    }
}
