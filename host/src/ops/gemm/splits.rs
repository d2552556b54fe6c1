//! The steps around a main kernel: partial results of split-K, and the kernel that reduces them and
//! applies the epilogue. Also the conversion of operands that a kernel does not read in their
//! dtype. Partial results are in f32, or in i32 for i8, which is exact.

use super::call::{Call, Memory};
use super::desc::{GemmDesc, MatrixDesc};
use crate::ops::check;
use crate::ops::elementwise::{Fused, Steps, Walk};
use crate::ops::plan::{Machine, Work};
use crate::{DType, LaunchConfig, Result, Tensor};
use abi::elementwise::MAX_RANK;
use abi::gemm::{Activation, FINISH_THREADS, FinishEntry, Transpose, finish_blocks};

/// Parts of k start at multiples of this, so that they have the alignment of the start of k.
const K_STEP: u32 = 16;

/// k split into parts of equal length, and a remainder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KSplits {
    /// Number of parts, including the remainder.
    pub(super) count: u32,
    /// Length of each part but the remainder.
    pub(super) k: u32,
    /// Number of parts of that length.
    pub(super) whole: u32,
    /// Length of the remainder, 0 if all parts have the same length.
    pub(super) rest: u32,
}

impl KSplits {
    /// Splits `k` into at most `wanted` parts, whose lengths are multiples of 16 but for the last.
    pub(super) fn of(k: u32, wanted: u32) -> Self {
        let each = match wanted {
            0 | 1 => k,
            _ => k.div_ceil(wanted).next_multiple_of(K_STEP).min(k),
        };
        if each == 0 {
            return Self {
                count: 1,
                k: 0,
                whole: 1,
                rest: 0,
            };
        }
        Self {
            count: k.div_ceil(each),
            k: each,
            whole: k / each,
            rest: k % each,
        }
    }
}

impl GemmDesc {
    /// The dtype of partial results: what products are added up in.
    pub(super) fn partial_dtype(&self) -> DType {
        match self.a.dtype {
            DType::I8 => DType::I32,
            _ => DType::F32,
        }
    }

    /// The same GEMM without an epilogue, written in that dtype to a contiguous `[batch, m, n]`.
    pub(super) fn partial(&self) -> Self {
        let one = i64::from(self.m) * i64::from(self.n);
        Self {
            d: MatrixDesc {
                dtype: self.partial_dtype(),
                transpose: Transpose::N,
                ld: i64::from(self.n),
                batch_stride: if self.batch > 1 { one } else { 0 },
                align_bytes: MatrixDesc::MOST_ALIGN_BYTES,
            },
            c: None,
            residual: None,
            bias: None,
            row_scale: None,
            column_scale: None,
            activation: Activation::Identity,
            device_scalars: false,
            ..*self
        }
    }

    /// Bytes of `splits` partial results.
    pub(super) fn partial_bytes(&self, splits: u32) -> f64 {
        let results = f64::from(self.m) * f64::from(self.n) * f64::from(self.batch);
        4.0 * results * f64::from(splits)
    }

    /// Time of writing and reading the partial results of so many parts of k, and of the kernel
    /// that reduces them.
    pub(super) fn partials_ns(&self, splits: &KSplits, machine: &Machine) -> f64 {
        machine.model.launch_ns + 2.0 * self.partial_bytes(splits.count) / machine.bytes_per_ns
    }

    /// The work of whole tiles of these extents. A block has its part of k.
    pub(super) fn work(&self, splits: &KSplits, tile: [u32; 3]) -> Work {
        let [tile_m, tile_n, _] = tile;
        let tiles = u64::from(self.m.div_ceil(tile_m)) * u64::from(self.n.div_ceil(tile_n));
        let blocks = tiles as f64 * (f64::from(self.batch) * f64::from(splits.count));
        Work::of_tiles(blocks, tile, splits.k, self.bytes())
    }

    /// The same GEMM over a k of this length.
    pub(super) fn with_k(&self, k: u32) -> Self {
        Self { k, ..*self }
    }
}

/// Stride along k, in elements.
fn k_stride(matrix: &MatrixDesc, k_is_contiguous_in: Transpose) -> i64 {
    if matrix.transpose == k_is_contiguous_in {
        1
    } else {
        matrix.ld
    }
}

/// Enqueues `call` as partial results, which `product` enqueues for each part of k, and the kernel
/// that reduces them.
pub(super) fn by_partials(
    call: &Call<'_>,
    splits: &KSplits,
    product: &dyn Fn(&Call<'_>) -> Result<()>,
) -> Result<()> {
    let partials = call.partials(splits.count)?;
    let desc = call.desc.partial();
    let split = |first: u32, k: u32| {
        let bytes = 4 * i64::from(first) * i64::from(desc.m) * i64::from(desc.n);
        let to = partials.offset(bytes * i64::from(desc.batch));
        let split = call.partial(desc, to).at_k(first * splits.k);
        Call {
            desc: desc.with_k(k),
            ..split
        }
    };
    if desc.batch == 1 && splits.whole > 1 {
        // Parts of equal length are launched as a batch. (A single part is not: its batch strides
        // would only have to satisfy the limits of tensor maps.)
        let mut whole = split(0, splits.k);
        whole.desc.batch = splits.whole;
        let step = |matrix: &mut MatrixDesc, contiguous_in| {
            matrix.batch_stride = k_stride(matrix, contiguous_in) * i64::from(splits.k);
        };
        step(&mut whole.desc.a, Transpose::N);
        step(&mut whole.desc.b, Transpose::T);
        whole.desc.d.batch_stride = i64::from(desc.m) * i64::from(desc.n);
        product(&whole)?;
    } else {
        for idx in 0..splits.whole {
            product(&split(idx, splits.k))?;
        }
    }
    if splits.rest > 0 {
        product(&split(splits.whole, splits.rest))?;
    }
    call.finish(&partials, splits.count)
}

impl<'a> Call<'a> {
    /// The call for the description of [`GemmDesc::partial`], which writes to `partials`.
    pub(super) fn partial(&self, desc: GemmDesc, partials: Memory) -> Call<'a> {
        let (a, b) = (self.a.clone(), self.b.clone());
        Call::plain(self.stream, desc, [a, b, partials])
    }

    /// The same call with A and B starting at `k_idx`.
    pub(super) fn at_k(mut self, k_idx: u32) -> Call<'a> {
        let bytes = |matrix: &MatrixDesc, stride: i64| {
            stride * i64::from(k_idx) * matrix.dtype.size_bytes() as i64
        };
        let (a, b) = (&self.desc.a, &self.desc.b);
        self.a = self.a.offset(bytes(a, k_stride(a, Transpose::N)));
        self.b = self.b.offset(bytes(b, k_stride(b, Transpose::T)));
        self
    }

    /// Scratch memory for `splits` partial results.
    pub(super) fn partials(&self, splits: u32) -> Result<Memory> {
        let GemmDesc { m, n, batch, .. } = self.desc;
        self.scratch(&[splits, batch, m, n], DType::F32.size_bytes())
    }

    /// Enqueues the kernel that reduces the partial results in `partials` and applies the epilogue.
    pub(super) fn finish(&self, partials: &Memory, splits: u32) -> Result<()> {
        let desc = &self.desc;
        let results = [desc.m, desc.n, desc.batch].map(u64::from);
        let blocks = finish_blocks(results.iter().product());
        let config = LaunchConfig::linear(blocks, FINISH_THREADS);
        let entry = check::entry(FinishEntry::of(desc.partial_dtype(), desc.d.dtype))?;
        // SAFETY: `partials` holds `splits` partial results of this GEMM; the rest is this call's.
        unsafe {
            self.launch_fused(entry, config, (partials,), |params, epilogue| {
                (params, epilogue, splits)
            })
        }
    }

    /// The same call with A and B converted to `dtype`, with contiguous rows.
    pub(super) fn converted(&self, dtype: DType) -> Result<Call<'a>> {
        let GemmDesc { m, n, k, batch, .. } = self.desc;
        let mut call = self.clone();
        (call.a, call.desc.a) = self.convert(&self.a, &self.desc.a, [m, k, batch], dtype)?;
        (call.b, call.desc.b) = self.convert(&self.b, &self.desc.b, [k, n, batch], dtype)?;
        Ok(call)
    }

    fn convert(
        &self,
        from: &Memory,
        desc: &MatrixDesc,
        [rows, columns, batch]: [u32; 3],
        dtype: DType,
    ) -> Result<(Memory, MatrixDesc)> {
        let [rows, columns] = desc.stored([rows, columns]);
        let batch = if desc.batch_stride == 0 { 1 } else { batch };
        let extents = [batch, rows, columns];
        let to = self.scratch(&extents, dtype.size_bytes())?;
        let converted = desc.converted(rows, columns, dtype);
        if !extents.contains(&0) {
            let shape = extents.map(|extent| extent as usize);
            let steps = |memory: &Memory, dtype: DType, of: [i64; 3]| {
                let mut strides = [0; MAX_RANK];
                strides[..3].copy_from_slice(&of);
                Steps {
                    strides,
                    address: memory.address(),
                    size_bytes: dtype.size_bytes(),
                }
            };
            let to_strides = [i64::from(rows) * i64::from(columns), i64::from(columns), 1];
            let from_strides = [desc.batch_stride, desc.ld, 1];
            let into = steps(&to, dtype, to_strides);
            let walk = Walk::new(&shape, &[into, steps(from, desc.dtype, from_strides)]);
            let cast = Fused::cast(desc.dtype, dtype)?;
            cast.launches(&walk, self.stream.device(), |launch| {
                let at = |memory: &Memory, t: usize| {
                    let distance = launch.piece.addresses[t].wrapping_sub(memory.address());
                    memory.offset(distance as i64)
                };
                let (x, y) = (at(from, 1), at(&to, 0));
                let none: Option<&Tensor<u8>> = None;
                let memory = (&y, &x, none, none, none);
                // SAFETY: the walk's extents and strides are those of the matrix and of its copy.
                unsafe { launch.enqueue(memory, self.stream) }
            })?;
        }
        Ok((to, converted))
    }
}

impl MatrixDesc {
    /// The description of a contiguous copy, `rows` by `columns` as stored, in another dtype.
    pub(super) fn converted(&self, rows: u32, columns: u32, dtype: DType) -> Self {
        Self {
            dtype,
            transpose: self.transpose,
            ld: i64::from(columns),
            batch_stride: match self.batch_stride {
                0 => 0,
                _ => i64::from(rows) * i64::from(columns),
            },
            align_bytes: MatrixDesc::MOST_ALIGN_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::desc::tests::plain;
    use super::*;
    use crate::{Device, Error, ShapeError};

    /// One row, repeated, is an operand of any size in a few bytes; its copy in f32 is not.
    #[test]
    fn copies_beyond_64_bits_are_refused_before_anything_is_allocated() -> Result<()> {
        let stream = Device::emulator()?.stream()?;
        let ones = Tensor::<half::bf16>::zeros(&stream, &[64])?;
        let mut desc = plain(DType::Bf16, 1 << 31, 8, 1 << 31);
        desc.a.ld = 0;
        let call = Call::plain(&stream, desc, [(); 3].map(|()| Memory::of(&ones)));
        let refused = call.converted(DType::F32).map(drop);
        assert!(matches!(
            refused,
            Err(Error::Shape(ShapeError::Overflow { .. }))
        ));
        let refused = call.partials(1 << 29).map(drop);
        assert!(matches!(
            refused,
            Err(Error::Shape(ShapeError::Overflow { .. }))
        ));
        Ok(())
    }

    #[test]
    fn splits_cover_k_and_begin_at_multiples_of_sixteen() {
        for k in [0, 1, 5, 16, 17, 31, 32, 100, 4096, 4099] {
            for wanted in [1, 2, 3, 7, 64] {
                let splits = KSplits::of(k, wanted);
                assert_eq!(splits.whole * splits.k + splits.rest, k, "{k} in {wanted}");
                assert_eq!(splits.count, splits.whole + u32::from(splits.rest > 0));
                assert!(
                    splits.count >= 1 && splits.count <= wanted,
                    "{k} in {wanted}"
                );
                assert!(
                    splits.count == 1 || splits.k.is_multiple_of(K_STEP),
                    "{k} in {wanted}"
                );
            }
        }
        assert_eq!(KSplits::of(4096, 8).count, 8);
        assert_eq!(KSplits::of(4099, 8).count, 8);
    }
}
