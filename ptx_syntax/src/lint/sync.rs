//! Counts of instructions that threads must execute together.

use serde::Serialize;

use crate::ast::Function;
use crate::isa::Collective;

/// How many collective instructions the text of one function contains, without its callees.
///
/// A compiler that duplicates such an instruction into divergent branches breaks the kernel. So a
/// build compares these counts with those of the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SyncCounts {
    /// Block barriers that all threads of a warp must reach together: `bar.*` (but not `bar.warp`)
    /// and `barrier.*.aligned`.
    pub aligned_barriers: usize,
    /// Block barriers without `.aligned`.
    pub unaligned_barriers: usize,
    /// `barrier.cluster.*`, aligned or not.
    pub cluster_barriers: usize,
    /// `wgmma.mma_async`.
    pub wgmma: usize,
    /// All other instructions with `.aligned`: wgmma fences and waits, mma, ldmatrix, setmaxnreg.
    pub other_aligned: usize,
}

impl Function {
    /// Counts the collective instructions of the body.
    pub fn sync_counts(&self) -> SyncCounts {
        let mut counts = SyncCounts::default();
        for instruction in self.instructions() {
            let counter = match instruction.collective() {
                Some(Collective::AlignedBarrier) => &mut counts.aligned_barriers,
                Some(Collective::UnalignedBarrier) => &mut counts.unaligned_barriers,
                Some(Collective::ClusterBarrier) => &mut counts.cluster_barriers,
                Some(Collective::Wgmma) => &mut counts.wgmma,
                Some(Collective::OtherAligned) => &mut counts.other_aligned,
                None => continue,
            };
            *counter += 1;
        }
        counts
    }
}
