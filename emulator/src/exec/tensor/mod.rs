//! Tensor-core instructions of a warp: registers, memory and checks around the arithmetic of
//! [`semantics::tensor`](crate::semantics::tensor).

mod flight;
mod matrices;
mod mma;
mod tile;
mod warpgroup;
mod wgmma;
mod wmma;

pub(crate) use flight::Flight;
pub(crate) use mma::Work;
pub(crate) use warpgroup::Warpgroup;

use super::block::Block;
use super::fault::{Checked, Fault};
use super::path::State;
use super::row::{FULL_MASK, Row};
use super::warp::Warp;
use crate::program::tensor::TensorOp;
use crate::report::FaultKind;

/// The value of an operand that must be the same in all lanes.
fn uniform(row: &Row<u64>, what: &str) -> Checked<u64> {
    let first = row.0[0];
    let Some(lane) = row.0.iter().position(|value| *value != first) else {
        return Ok(first);
    };
    let message = format!(
        "{what} is 0x{first:016x} in lane 0 and 0x{:016x} in lane {lane}",
        row.0[lane]
    );
    let lane = Some(lane as u32);
    Err(Fault::new(FaultKind::BarrierMisuse, lane, message))
}

impl Warp {
    /// Runs a tensor-core instruction once all lanes have reached it; false if they have not.
    pub(crate) fn tensor(
        &mut self,
        block: &mut Block<'_>,
        op: &TensorOp,
        index: usize,
        active: u32,
    ) -> Checked<bool> {
        if active == 0 {
            return Ok(true);
        }
        if !self.all_lanes(index, active)? {
            return Ok(false);
        }
        match op {
            TensorOp::Mma(mma) => self.mma(block, mma),
            TensorOp::LoadMatrix(matrices) => self.load_matrices(block, matrices, index)?,
            TensorOp::StoreMatrix(matrices) => self.store_matrices(block, matrices, index)?,
            TensorOp::MoveMatrix { d, a } => self.move_matrix(block, *d, *a),
            TensorOp::LoadFragment(fragment) => self.load_fragment(block, fragment, index)?,
            TensorOp::StoreFragment(fragment) => self.store_fragment(block, fragment, index)?,
            TensorOp::ConvertSums(sums) => self.convert_sums(block, sums),
            TensorOp::Wgmma(wgmma) => {
                let pc = self.paths.list[index].pc;
                self.wgmma(block, wgmma, pc)?;
            }
            TensorOp::WgmmaFence => self.flight.fence(self.regs.b32_count()),
            TensorOp::WgmmaCommit => self.flight.commit(),
            TensorOp::WgmmaWait(most) => {
                if !self.wait_wgmma(block, *most) {
                    self.block_on(index, active);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether all 32 lanes have reached the instruction; if not, those that have wait for the
    /// others.
    fn all_lanes(&mut self, index: usize, active: u32) -> Checked<bool> {
        if active == FULL_MASK {
            return Ok(true);
        }
        let live = self.paths.live();
        if live != FULL_MASK {
            let gone = !live;
            let message = format!(
                "this instruction takes all 32 lanes, but lanes 0x{gone:08x} of warp {} have exited \
                 or hold no thread",
                self.index
            );
            return Err(Fault::new(FaultKind::BarrierMisuse, None, message));
        }
        self.uncount(active);
        self.part(index, active, State::Converging);
        Ok(false)
    }
}
