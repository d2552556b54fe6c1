//! Copies of a call's matrices, through which measurements rotate, so that a launch finds none of
//! its operands in L2.

use super::call::{Call, Memory};
use super::desc::MatrixDesc;
use crate::launch::KernelArg;
use crate::{DeviceError, Error, Result};
use std::ops::Range;

/// Total size of the copies: a few times the L2 of today's GPUs (40 to 126 MB).
const COLD_BYTES: u64 = 256 << 20;
/// Most copies. Operands of which so many fit into L2 are so small that reading them counts little.
const COPIES_MAX: u64 = 128;
/// Copies keep addresses modulo this, the alignment of allocations.
const KEPT_ALIGN_BYTES: u64 = 256;

/// `call`, and as many calls on copies of its matrices as L2 cannot hold together. Fewer if there is
/// no memory for them; `call` alone if its matrices, with the gaps between their rows, are as large.
pub(super) fn rotation<'a>(call: &Call<'a>) -> Result<Vec<Call<'a>>> {
    let mut calls = vec![call.clone()];
    if call.stream.device().is_emulator() {
        return Ok(calls); // it has no L2
    }
    let copies = COLD_BYTES.div_ceil(call.span_bytes().max(1));
    for _ in 1..copies.min(COPIES_MAX) {
        match call.copied() {
            Ok(copy) => calls.push(copy),
            Err(Error::Device(DeviceError::OutOfMemory { .. })) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(calls)
}

impl<'a> Call<'a> {
    /// The same call on copies of A, B, C and the residual, with another D.
    fn copied(&self) -> Result<Call<'a>> {
        let desc = &self.desc;
        let by_rows = [desc.m, desc.n];
        let mut copy = self.clone();
        copy.a = self.copy_of(&self.a, &desc.a, [desc.m, desc.k])?;
        copy.b = self.copy_of(&self.b, &desc.b, [desc.k, desc.n])?;
        copy.d = self.place_like(&self.d, &desc.d.span(by_rows, desc.batch))?;
        if let (Some(c), Some(of_c)) = (&self.c, &desc.c) {
            copy.c = Some(self.copy_of(c, of_c, by_rows)?);
        }
        if let (Some(residual), Some(of_residual)) = (&self.residual, &desc.residual) {
            copy.residual = Some(self.copy_of(residual, of_residual, by_rows)?);
        }
        Ok(copy)
    }

    /// Bytes of [`copied`](Self::copied).
    fn span_bytes(&self) -> u64 {
        let desc = &self.desc;
        let by_rows = [desc.m, desc.n];
        let read = [
            (Some(&desc.a), [desc.m, desc.k]),
            (Some(&desc.b), [desc.k, desc.n]),
            (desc.c.as_ref(), by_rows),
            (desc.residual.as_ref(), by_rows),
            (Some(&desc.d), by_rows),
        ];
        let spans = read.into_iter().filter_map(|(matrix, extents)| {
            let span = matrix?.span(extents, desc.batch);
            Some(span.end.abs_diff(span.start))
        });
        spans.fold(0, u64::saturating_add)
    }

    /// A copy of a matrix, and of what lies between its elements.
    fn copy_of(
        &self,
        from: &Memory,
        matrix: &MatrixDesc,
        [rows, columns]: [u32; 2],
    ) -> Result<Memory> {
        let span = matrix.span([rows, columns], self.desc.batch);
        let to = self.place_like(from, &span)?;
        let bytes = span.end.abs_diff(span.start) as usize;
        if bytes > 0 {
            from.use_on(self.stream)?;
            let (to, from) = (to.offset(span.start), from.offset(span.start));
            let backend = self.stream.device().backend();
            // SAFETY: a matrix lies inside of its storage from its first to its last element; the
            // place was made for as many bytes. Both are freed after this work, and do not overlap.
            unsafe { backend.copy(to.address(), from.address(), bytes, self.stream.raw()) }?;
        }
        Ok(to)
    }

    /// Memory for a matrix that has this span around its first element, with the alignment of
    /// `model`.
    fn place_like(&self, model: &Memory, span: &Range<i64>) -> Result<Memory> {
        let lead = model.offset(span.start).address() % KEPT_ALIGN_BYTES;
        let bytes = span.end.abs_diff(span.start).saturating_add(lead);
        let place = self.workspace(bytes)?.offset(lead as i64);
        Ok(place.offset(-span.start))
    }
}

impl MatrixDesc {
    /// The bytes from the lowest to the highest element of `[rows, columns]`, relative to the
    /// address of the first one.
    fn span(&self, extents: [u32; 2], batch: u32) -> Range<i64> {
        let [lines, len] = self.stored(extents);
        if lines == 0 || len == 0 {
            return 0..0;
        }
        let reach = |extent: u32, stride: i64| (i64::from(extent) - 1) * stride;
        let of_lines = reach(lines, self.ld);
        let of_batch = reach(batch, self.batch_stride);
        let size = self.dtype.size_bytes() as i64;
        let first = of_lines.min(0) + of_batch.min(0);
        let last = of_lines.max(0) + of_batch.max(0) + i64::from(len);
        first * size..last * size
    }
}

#[cfg(test)]
mod tests {
    use super::super::desc::tests::plain;
    use super::*;
    use crate::{DType, Device};
    use abi::gemm::Transpose;

    #[test]
    fn a_span_holds_all_elements_whatever_the_strides() {
        let matrix = |transpose, ld, batch_stride| MatrixDesc {
            transpose,
            ld,
            batch_stride,
            ..plain(DType::Bf16, 3, 4, 5).a
        };
        assert_eq!(matrix(Transpose::N, 10, 0).span([3, 4], 1), 0..48);
        assert_eq!(matrix(Transpose::T, 10, 0).span([3, 4], 1), 0..66);
        assert_eq!(matrix(Transpose::N, -10, 0).span([3, 4], 7), -40..8);
        assert_eq!(matrix(Transpose::N, 10, -100).span([3, 4], 3), -400..48);
        assert_eq!(matrix(Transpose::N, 10, 100).span([0, 4], 3), 0..0);
    }

    #[test]
    fn a_copy_has_the_same_bytes_at_the_same_alignment() -> Result<()> {
        let stream = Device::emulator()?.stream()?;
        let values: Vec<f32> = (0..100).map(|i| i as f32).collect();
        let whole = crate::Tensor::from_slice(stream.device(), &[100], &values)?;
        // Rows of 4, backwards from element 53 on, 7 apart.
        let view = whole.as_strided(&[6, 4], &[-7, 1], 53)?;
        let mut desc = plain(DType::F32, 6, 8, 4);
        desc.a.ld = -7;
        let b = crate::Tensor::<f32>::zeros(&stream, &[4, 8])?;
        let d = crate::Tensor::<f32>::zeros(&stream, &[6, 8])?;
        let call = Call::plain(&stream, desc, [&view, &b, &d].map(Memory::of));
        let copy = call.copied()?;
        assert_ne!(copy.a.address(), call.a.address());
        assert_eq!(copy.a.address() % 256, call.a.address() % 256);
        let mut got = vec![0.0_f32; 39];
        let bytes = 4 * got.len();
        let from = copy.a.offset(-35 * 4).address();
        // SAFETY: the copy's span is 35 elements before the first to 4 behind it.
        unsafe {
            let backend = stream.device().backend();
            backend.copy_out(got.as_mut_ptr().cast(), from, bytes, stream.raw())?;
        }
        stream.synchronize()?;
        assert_eq!(got, values[18..57]);
        Ok(())
    }
}
