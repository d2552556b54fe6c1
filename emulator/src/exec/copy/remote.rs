//! `st.async` and `red.async`: stores to a block of the cluster that complete on an mbarrier there.

use super::Issuer;
use super::reduce::combine;
use crate::check::{Channel, Kind, Proxy};
use crate::exec::block::Block;
use crate::exec::cluster::Cluster;
use crate::exec::engine::Landing;
use crate::exec::fault::{Checked, Fault};
use crate::exec::mbarrier::{MBARRIER_BYTES, Place, misuse};
use crate::exec::row::Lanes;
use crate::exec::warp::Warp;
use crate::profile::Copied;
use crate::program::{AtomicOp, AtomicType, Combine, RemoteStore, Width};
use crate::report::FaultKind;
use crate::tensor_map::Swizzle;
use crate::trace::{CopyKind, Landed};

/// One lane's store.
#[derive(Debug)]
struct Sent {
    issuer: Issuer,
    target: Place,
    mbarrier: Place,
    data: Vec<u8>,
    reduce: Option<(AtomicOp, AtomicType)>,
}

impl Landing for Sent {
    fn land(self: Box<Self>, cluster: &Cluster) -> Checked<()> {
        let issuer = &self.issuer;
        let bytes = self.data.len();
        let mut data = self.data;
        let mut kind = Kind::Write;
        if let Some((op, ty)) = self.reduce {
            kind = Kind::STRONG_WRITE;
            let old = Kind::STRONG_READ;
            let mut old = issuer.read_shared(cluster, self.target, bytes, Swizzle::None, old)?;
            combine(op, ty, &mut old, &data);
            data = old;
        }
        issuer.write_shared(cluster, self.target, &data, Swizzle::None, kind)?;
        issuer.complete(cluster, self.mbarrier, bytes as u64)
    }

    fn copy(&self) -> Option<Landed> {
        Some(self.issuer.copy(CopyKind::Sent, self.data.len() as u64))
    }

    fn left_behind(&self, _cluster: &Cluster, rank: u32) -> Option<Box<Fault>> {
        if self.target.rank != rank {
            return None;
        }
        let message = format!(
            "the block of rank {rank} exits while a store to 0x{:x} of its shared memory is in \
             flight",
            self.target.offset
        );
        let fault = Fault::new(FaultKind::LeftInFlight, None, message);
        Some(self.issuer.blame(fault))
    }
}

impl Warp {
    /// `st.async` and `red.async`
    pub(in crate::exec) fn remote_store(
        &mut self,
        block: &mut Block<'_>,
        op: &RemoteStore,
        index: usize,
        active: u32,
    ) -> Checked<()> {
        let to = self.shared_addresses(block, &op.to, index, active)?;
        let at = self.shared_addresses(block, &op.mbarrier, index, active)?;
        let constants = &block.launch.program.constants;
        block.cluster.effect();
        for lane in Lanes(active) {
            let mut data = Vec::new();
            for value in &op.values {
                match value.width {
                    Width::B64 => {
                        let value = self.regs.row::<u64>(constants, value.slot).0[lane];
                        data.extend(value.to_le_bytes());
                    }
                    _ => {
                        let value = self.regs.row::<u32>(constants, value.slot).0[lane];
                        data.extend(value.to_le_bytes());
                    }
                }
            }
            let size = data.len() as u64;
            let what = "the destination of a store";
            let target = block.shared_place(to.0[lane], lane, size, size, what)?;
            let size = MBARRIER_BYTES;
            let mbarrier = block.shared_place(at.0[lane], lane, size, size, "an mbarrier")?;
            if mbarrier.rank != target.rank {
                let message = format!(
                    "the destination lies in the shared memory of rank {}, its mbarrier in that \
                     of rank {}: both must be the same block's",
                    target.rank, mbarrier.rank
                );
                return Err(misuse(Some(lane as u32), message).at(mbarrier.offset));
            }
            block.counters.copy(Copied::Stores, 1, data.len() as u64);
            let channel = Channel::Mbarrier {
                rank: mbarrier.rank,
                offset: mbarrier.offset as u32,
            };
            let issuer = Issuer::new(self, block, index, lane, Proxy::Generic, channel);
            block.cluster.engine.borrow_mut().issue(Box::new(Sent {
                issuer,
                target,
                mbarrier,
                data,
                reduce: match op.combine {
                    Combine::Reduce(op, ty) => Some((op, ty)),
                    Combine::Replace | Combine::ReduceMapped(_) => None,
                },
            }));
        }
        Ok(())
    }
}
