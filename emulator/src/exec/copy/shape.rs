//! The global side of a copy: a range, or a box of a tensor.

use std::rc::Rc;

use super::Issuer;
use super::tile::{Span, rows};
use crate::exec::cluster::Cluster;
use crate::exec::fault::Checked;
use crate::profile::Touch;
use crate::tensor_map::{Fill, Swizzle, TensorMapDesc, TensorMapType};

/// A box of a tensor.
#[derive(Clone, Debug)]
pub(super) struct TensorBox {
    pub(super) map: TensorMapDesc,
    pub(super) start: [i32; 5],
}

/// What a copy moves, on the side of global memory.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Tensor(Rc<TensorBox>),
}

impl Shape {
    /// Bytes in shared memory.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Tensor(tensor) => tensor.map.box_bytes(),
        }
    }

    /// The same, up to the end of the last span that a swizzle may touch.
    pub(super) fn footprint(&self) -> u64 {
        let span = self.swizzle().span().unwrap_or(1);
        self.bytes().next_multiple_of(span)
    }

    pub(super) fn swizzle(&self) -> Swizzle {
        match self {
            Self::Tensor(tensor) => tensor.map.swizzle,
        }
    }

    /// Reads everything, as it will lie in shared memory before the swizzle.
    pub(super) fn gather(&self, cluster: &Cluster, issuer: &Issuer) -> Checked<Vec<u8>> {
        cluster.counters.at(issuer.pc);
        match self {
            Self::Tensor(tensor) => tensor.gather(cluster, issuer),
        }
    }

    /// Writes everything.
    pub(super) fn scatter(&self, cluster: &Cluster, issuer: &Issuer, data: &[u8]) -> Checked<()> {
        cluster.counters.at(issuer.pc);
        match self {
            Self::Tensor(tensor) => tensor.scatter(cluster, issuer, data),
        }
    }
}

impl TensorBox {
    fn gather(&self, cluster: &Cluster, issuer: &Issuer) -> Checked<Vec<u8>> {
        let map = &self.map;
        let element = map.data_type.bytes() as usize;
        let row = map.box_dims[0] as usize * element;
        let mut data = filled(map.data_type, map.fill, map.box_bytes() as usize);
        let mut out = data.chunks_exact_mut(row);
        rows(map, &self.start, |span: Span| {
            let Some(row) = out.next() else { return Ok(()) };
            if span.inside == 0 {
                return Ok(());
            }
            let inside = &mut row[span.before * element..][..span.inside * element];
            let bytes = inside.len() as u64;
            cluster
                .counters
                .global_row(Touch::CopyIn, span.address, bytes);
            issuer.read_global(cluster, span.address, inside)?;
            convert(map.data_type, inside);
            Ok(())
        })?;
        Ok(data)
    }

    fn scatter(&self, cluster: &Cluster, issuer: &Issuer, data: &[u8]) -> Checked<()> {
        let map = &self.map;
        let element = map.data_type.bytes() as usize;
        let row = map.box_dims[0] as usize * element;
        let mut source = data.chunks_exact(row);
        rows(map, &self.start, |span: Span| {
            let Some(row) = source.next() else {
                return Ok(());
            };
            if span.inside == 0 {
                return Ok(());
            }
            let inside = &row[span.before * element..][..span.inside * element];
            cluster
                .counters
                .global_row(Touch::CopyOut, span.address, inside.len() as u64);
            issuer.write_global(cluster, span.address, inside)
        })
    }
}

/// `bytes` of what elements outside of a tensor read as.
fn filled(ty: TensorMapType, fill: Fill, bytes: usize) -> Vec<u8> {
    if fill == Fill::Zeros {
        return vec![0; bytes];
    }
    let element: &[u8] = match ty.bytes() {
        2 => &[0xff, 0x7f],
        4 => &[0xff, 0xff, 0xff, 0x7f],
        _ => &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
    };
    element.iter().copied().cycle().take(bytes).collect()
}

/// What the types do to a value on its way that are not just bits.
fn convert(ty: TensorMapType, data: &mut [u8]) {
    let (round, flush) = match ty {
        TensorMapType::F32Ftz => (false, true),
        TensorMapType::Tf32 => (true, false),
        TensorMapType::Tf32Ftz => (true, true),
        _ => return,
    };
    for word in data.chunks_exact_mut(4) {
        let mut bits = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        if flush && bits & 0x7f80_0000 == 0 {
            bits &= 0x8000_0000;
        }
        if round && bits & 0x7f80_0000 != 0x7f80_0000 {
            // To 10 bits of fraction, ties away from zero, as `cvt.rna.tf32.f32`.
            bits = bits.wrapping_add(0x1000) & !0x1fff;
        }
        word.copy_from_slice(&bits.to_le_bytes());
    }
}
