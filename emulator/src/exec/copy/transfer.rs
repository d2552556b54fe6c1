//! Copies in flight.

use std::ops::Range;

use super::Issuer;
use super::reduce::combine;
use super::shape::Shape;
use crate::check::Kind;
use crate::exec::cluster::Cluster;
use crate::exec::engine::Landing;
use crate::exec::fault::{Checked, Fault};
use crate::exec::groups::FlightId;
use crate::exec::mbarrier::Place;
use crate::program::{AtomicOp, AtomicType};
use crate::report::FaultKind;
use crate::tensor_map::Swizzle;
use crate::trace::{CopyKind, Landed};

/// The fault of a block that exits before a copy from or to its shared memory has landed.
#[cold]
fn left_behind(
    cluster: &Cluster,
    issuer: &Issuer,
    (place, bytes): (Place, u64),
    mbarrier: Place,
) -> Box<Fault> {
    let message = format!(
        "the block of rank {} exits while a copy of {bytes} bytes at 0x{:x} of its shared memory \
         is in flight",
        place.rank, place.offset
    );
    let note = format!(
        "wait for the mbarrier at 0x{:x} of rank {} before its last thread exits",
        mbarrier.offset, mbarrier.rank
    );
    let mut fault = Fault::new(FaultKind::LeftInFlight, None, message).note(note);
    let mut table = cluster.mbarriers.borrow_mut();
    if table
        .get(mbarrier)
        .is_ok_and(|found| found.expects_nothing())
    {
        let note = "that mbarrier expects no bytes now: a phase whose expect_tx does not count the \
                    bytes of a copy ends without it";
        fault = fault.note(note.to_owned());
    }
    issuer.blame(fault)
}

/// The contiguous pieces of a copy in shared memory: the place of each, and its range of the data.
fn parts(shape: &Shape, first: Place) -> impl Iterator<Item = (Place, Range<usize>)> {
    let bytes = shape.bytes();
    let (row, pitch) = match shape.rows() {
        (row, pitch) if row == pitch => (bytes, bytes),
        short => short,
    };
    (0..bytes.div_ceil(row.max(1))).map(move |i| {
        let place = Place {
            offset: first.offset + i * pitch,
            ..first
        };
        (place, (i * row) as usize..((i + 1) * row) as usize)
    })
}

/// A copy from global memory to the shared memory of one block.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) issuer: Issuer,
    pub(super) shape: Shape,
    pub(super) target: Place,
    pub(super) mbarrier: Place,
}

impl Landing for Load {
    fn land(self: Box<Self>, cluster: &Cluster) -> Checked<()> {
        let data = self.shape.gather(cluster, &self.issuer)?;
        let swizzle = self.shape.swizzle();
        for (place, part) in parts(&self.shape, self.target) {
            let part = data.get(part).unwrap_or_default();
            self.issuer
                .write_shared(cluster, place, part, swizzle, Kind::Write)?;
        }
        let written = (self.target, data.len() as u64);
        self.issuer.complete_copy(cluster, self.mbarrier, written)
    }

    fn copy(&self) -> Option<Landed> {
        Some(self.issuer.copy(CopyKind::Load, self.shape.bytes()))
    }

    fn left_behind(&self, cluster: &Cluster, rank: u32) -> Option<Box<Fault>> {
        let whole = (self.target, self.shape.bytes());
        let fault = || left_behind(cluster, &self.issuer, whole, self.mbarrier);
        (self.target.rank == rank).then(fault)
    }
}

/// A copy from the shared memory of one block to that of a block of the cluster.
#[derive(Debug)]
pub(super) struct Across {
    pub(super) issuer: Issuer,
    pub(super) source: Place,
    pub(super) target: Place,
    pub(super) bytes: u64,
    pub(super) mbarrier: Place,
    pub(super) reduce: Option<(AtomicOp, AtomicType)>,
}

impl Landing for Across {
    fn land(self: Box<Self>, cluster: &Cluster) -> Checked<()> {
        let bytes = self.bytes as usize;
        let issuer = &self.issuer;
        let mut data =
            issuer.read_shared(cluster, self.source, bytes, Swizzle::None, Kind::Read)?;
        let mut kind = Kind::Write;
        if let Some((op, ty)) = self.reduce {
            kind = Kind::STRONG_WRITE;
            let old = Kind::STRONG_READ;
            let mut old = issuer.read_shared(cluster, self.target, bytes, Swizzle::None, old)?;
            combine(op, ty, &mut old, &data);
            data = old;
        }
        issuer.write_shared(cluster, self.target, &data, Swizzle::None, kind)?;
        issuer.complete_copy(cluster, self.mbarrier, (self.target, self.bytes))
    }

    fn copy(&self) -> Option<Landed> {
        Some(self.issuer.copy(CopyKind::Across, self.bytes))
    }

    fn left_behind(&self, cluster: &Cluster, rank: u32) -> Option<Box<Fault>> {
        let place = [self.target, self.source]
            .into_iter()
            .find(|place| place.rank == rank)?;
        let whole = (place, self.bytes);
        Some(left_behind(cluster, &self.issuer, whole, self.mbarrier))
    }
}

/// A copy from shared memory to global memory: its reads.
#[derive(Debug)]
pub(super) struct Store {
    /// As the issuer of the reads.
    pub(super) reader: Issuer,
    /// As the issuer of the writes.
    pub(super) writer: Issuer,
    pub(super) shape: Shape,
    pub(super) source: Place,
    pub(super) flight: FlightId,
    pub(super) reduce: Option<(AtomicOp, AtomicType)>,
}

impl Landing for Store {
    fn land(self: Box<Self>, cluster: &Cluster) -> Checked<()> {
        let swizzle = self.shape.swizzle();
        let reader = &self.reader;
        let mut data = Vec::with_capacity(self.shape.bytes() as usize);
        for (place, part) in parts(&self.shape, self.source) {
            let row = reader.read_shared(cluster, place, part.len(), swizzle, Kind::Read)?;
            data.extend(row);
        }
        let stamp = reader.stamp(cluster);
        cluster.groups.borrow_mut().has_read(self.flight, stamp);
        cluster.engine.borrow_mut().issue(Box::new(StoreWrite {
            writer: self.writer,
            shape: self.shape,
            flight: self.flight,
            reduce: self.reduce,
            data,
        }));
        Ok(())
    }
}

/// The writes of such a copy.
#[derive(Debug)]
struct StoreWrite {
    writer: Issuer,
    shape: Shape,
    flight: FlightId,
    reduce: Option<(AtomicOp, AtomicType)>,
    data: Vec<u8>,
}

impl Landing for StoreWrite {
    fn land(self: Box<Self>, cluster: &Cluster) -> Checked<()> {
        let writer = &self.writer;
        self.shape
            .scatter(cluster, writer, &self.data, self.reduce)?;
        let stamp = writer.stamp(cluster);
        cluster.groups.borrow_mut().has_written(self.flight, stamp);
        Ok(())
    }

    fn copy(&self) -> Option<Landed> {
        Some(self.writer.copy(CopyKind::Store, self.shape.bytes()))
    }
}
