//! The side of a copy that is not its shared-memory operand: a range, or a box or column of a
//! tensor.

use std::rc::Rc;

use super::Issuer;
use super::tile::{Span, rows};
use super::window::pixels;
use crate::check::Kind;
use crate::exec::cluster::Cluster;
use crate::exec::fault::Checked;
use crate::profile::Touch;
use crate::program::{AtomicOp, AtomicType};
use crate::tensor_map::{Fill, Im2col, Swizzle, TensorMapDesc, TensorMapType};

/// A box of a tensor, or a column of an im2col map.
#[derive(Clone, Debug)]
pub(super) struct TensorBox {
    pub(super) map: TensorMapDesc,
    pub(super) window: Option<Im2col>,
    pub(super) start: [i32; 5],
    /// Offsets of an im2col copy.
    pub(super) offsets: [u16; 3],
}

/// What a copy moves, seen from global memory.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Linear { address: u64, bytes: u64 },
    Tensor(Rc<TensorBox>),
}

impl Shape {
    /// Bytes in shared memory, without padding of a swizzle.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Linear { bytes, .. } => *bytes,
            Self::Tensor(tensor) => tensor.bytes(),
        }
    }

    /// Bytes of a row in shared memory, and the distance from one row to the next. With a swizzle,
    /// every row has a span of its own, as an H200 lays it out.
    pub(super) fn rows(&self) -> (u64, u64) {
        match (self, self.swizzle().span()) {
            (Self::Tensor(tensor), Some(span)) => {
                let row = tensor.row() as u64 * tensor.map.data_type.bytes();
                (row, span)
            }
            _ => (self.bytes().max(1), self.bytes().max(1)),
        }
    }

    /// Bytes of shared memory from the first to the last that is touched, in whole spans of a
    /// swizzle.
    pub(super) fn footprint(&self) -> u64 {
        let (row, pitch) = self.rows();
        self.bytes() / row * pitch
    }

    pub(super) fn swizzle(&self) -> Swizzle {
        match self {
            Self::Linear { .. } => Swizzle::None,
            Self::Tensor(tensor) => tensor.map.swizzle,
        }
    }

    /// Required alignment in shared memory.
    pub(super) fn align(&self) -> u64 {
        match self {
            Self::Linear { .. } => 16,
            Self::Tensor(_) => 128,
        }
    }

    /// Reads all data, in the order in which it will lie in shared memory before the swizzle.
    pub(super) fn gather(&self, cluster: &Cluster, issuer: &Issuer) -> Checked<Vec<u8>> {
        cluster.counters.at(issuer.pc);
        match self {
            Self::Linear { address, bytes } => {
                let mut data = vec![0; *bytes as usize];
                if *bytes > 0 {
                    cluster.counters.global_row(Touch::CopyIn, *address, *bytes);
                    issuer.read_global(cluster, *address, &mut data, Kind::Read)?;
                }
                Ok(data)
            }
            Self::Tensor(tensor) => tensor.gather(cluster, issuer),
        }
    }

    /// Writes all data, or combines it with what is there.
    pub(super) fn scatter(
        &self,
        cluster: &Cluster,
        issuer: &Issuer,
        data: &[u8],
        reduce: Option<(AtomicOp, AtomicType)>,
    ) -> Checked<()> {
        cluster.counters.at(issuer.pc);
        let put = |address: u64, data: &[u8]| {
            let touch = Touch::CopyOut;
            cluster
                .counters
                .global_row(touch, address, data.len() as u64);
            match reduce {
                Some(reduce) => issuer.reduce_global(cluster, address, data, reduce),
                None => issuer.write_global(cluster, address, data, Kind::Write),
            }
        };
        match self {
            Self::Linear { bytes: 0, .. } => Ok(()),
            Self::Linear { address, .. } => put(*address, data),
            Self::Tensor(tensor) => tensor.scatter(data, reduce.is_none(), put),
        }
    }
}

impl TensorBox {
    /// Elements of a row in shared memory.
    fn row(&self) -> usize {
        match &self.window {
            Some(window) => window.channels_per_pixel as usize,
            None => self.map.box_dims[0] as usize,
        }
    }

    fn bytes(&self) -> u64 {
        match &self.window {
            Some(window) => {
                let row = self.row() as u64 * self.map.data_type.bytes();
                u64::from(window.pixels_per_column) * row
            }
            None => self.map.box_bytes(),
        }
    }

    fn each(&self, f: impl FnMut(Span) -> Checked<()>) -> Checked<()> {
        match &self.window {
            Some(window) => pixels(&self.map, window, &self.start, &self.offsets, f),
            None => rows(&self.map, &self.start, f),
        }
    }

    fn gather(&self, cluster: &Cluster, issuer: &Issuer) -> Checked<Vec<u8>> {
        let map = &self.map;
        let element = map.data_type.bytes() as usize;
        let row = self.row() * element;
        let mut data = filled(map.fill, self.bytes() as usize);
        let mut out = data.chunks_exact_mut(row);
        self.each(|span: Span| {
            let Some(row) = out.next() else { return Ok(()) };
            if span.inside == 0 {
                return Ok(());
            }
            let inside = &mut row[span.before * element..][..span.inside * element];
            let bytes = inside.len() as u64;
            let counters = &cluster.counters;
            counters.global_row(Touch::CopyIn, span.address, bytes);
            issuer.read_global(cluster, span.address, inside, Kind::Read)?;
            convert(map.data_type, inside);
            Ok(())
        })?;
        Ok(data)
    }

    /// Writes the rows. An H200 stores whole 16-byte units: if a row of the tensor ends inside a
    /// unit, the data of the box for the rest of that unit is written too. Whether reductions do so
    /// is not known.
    fn scatter(
        &self,
        data: &[u8],
        whole_units: bool,
        put: impl Fn(u64, &[u8]) -> Checked<()>,
    ) -> Checked<()> {
        const UNIT: u64 = 16;
        let element = self.map.data_type.bytes() as usize;
        let row = self.row() * element;
        let mut source = data.chunks_exact(row);
        self.each(|span: Span| match source.next() {
            Some(row) if span.inside > 0 => {
                let from = &row[span.before * element..];
                let inside = (span.inside * element) as u64;
                let bytes = match whole_units {
                    true => (span.address + inside).next_multiple_of(UNIT) - span.address,
                    false => inside,
                };
                put(span.address, &from[..from.len().min(bytes as usize)])
            }
            _ => Ok(()),
        })
    }
}

/// `bytes` of the fill value for elements outside a tensor. An H200 uses one 16-bit NaN for all
/// types, which is a NaN of every wider type too.
fn filled(fill: Fill, bytes: usize) -> Vec<u8> {
    match fill {
        Fill::Zeros => vec![0; bytes],
        Fill::Nan => [0xf7, 0x7f].into_iter().cycle().take(bytes).collect(),
    }
}

/// Applies the conversions of the types that do not copy plain bits.
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
            // To 10 bits of fraction, ties away from zero, as `cvt.rna.tf32.f32` rounds.
            bits = bits.wrapping_add(0x1000) & !0x1fff;
        }
        word.copy_from_slice(&bits.to_le_bytes());
    }
}
