//! Copies in flight.

use super::Issuer;
use super::shape::Shape;
use crate::exec::cluster::Cluster;
use crate::exec::engine::Landing;
use crate::exec::fault::{Checked, Fault};
use crate::exec::groups::FlightId;
use crate::exec::mbarrier::Place;
use crate::report::FaultKind;

/// From global memory into shared memory of one block.
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
        self.issuer
            .write_shared(cluster, self.target, &data, swizzle)?;
        self.issuer
            .complete(cluster, self.mbarrier, data.len() as u64)
    }

    fn left_behind(&self, rank: u32) -> Option<Box<Fault>> {
        if self.target.rank != rank {
            return None;
        }
        let message = format!(
            "the block of rank {rank} exits while a copy of {} bytes to 0x{:x} of its shared \
             memory is in flight",
            self.shape.bytes(),
            self.target.offset
        );
        let fault = Fault::new(FaultKind::LeftInFlight, None, message);
        let note = format!(
            "wait for the mbarrier at 0x{:x} before the last thread exits",
            self.mbarrier.offset
        );
        Some(self.issuer.blame(fault.note(note)))
    }
}

/// From shared memory to global memory: the reading half.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) issuer: Issuer,
    pub(super) shape: Shape,
    pub(super) source: Place,
    pub(super) flight: FlightId,
}

impl Landing for Store {
    fn land(self: Box<Self>, cluster: &Cluster) -> Checked<()> {
        let (bytes, swizzle) = (self.shape.bytes() as usize, self.shape.swizzle());
        let data = self
            .issuer
            .read_shared(cluster, self.source, bytes, swizzle)?;
        let stamp = cluster.order.borrow().finish(&self.issuer.operation);
        let mut groups = cluster.groups.borrow_mut();
        groups.has_read(self.flight, stamp);
        cluster.engine.borrow_mut().issue(Box::new(StoreWrite {
            issuer: self.issuer,
            shape: self.shape,
            flight: self.flight,
            data,
        }));
        Ok(())
    }
}

/// The writing half.
#[derive(Debug)]
struct StoreWrite {
    issuer: Issuer,
    shape: Shape,
    flight: FlightId,
    data: Vec<u8>,
}

impl Landing for StoreWrite {
    fn land(self: Box<Self>, cluster: &Cluster) -> Checked<()> {
        self.shape.scatter(cluster, &self.issuer, &self.data)?;
        let stamp = cluster.order.borrow().finish(&self.issuer.operation);
        cluster.groups.borrow_mut().has_written(self.flight, stamp);
        Ok(())
    }
}
