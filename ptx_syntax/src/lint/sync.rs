//! Counts of instructions that threads must execute together.

use serde::Serialize;

use crate::ast::{Function, Instruction};

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
            let counter = match instruction.opcode.as_str() {
                "bar" | "barrier" if instruction.has("cluster") => &mut counts.cluster_barriers,
                "bar" | "barrier" if instruction.has("warp") => continue,
                "bar" => &mut counts.aligned_barriers,
                "barrier" if instruction.has("aligned") => &mut counts.aligned_barriers,
                "barrier" => &mut counts.unaligned_barriers,
                "wgmma" if instruction.has("mma_async") => &mut counts.wgmma,
                _ if instruction.has("aligned") => &mut counts.other_aligned,
                _ => continue,
            };
            *counter += 1;
        }
        counts
    }
}

/// Whether it is a block barrier that all threads of a warp must reach together.
pub(super) fn is_aligned_barrier(instruction: &Instruction) -> bool {
    match instruction.opcode.as_str() {
        "bar" => !instruction.has("warp"),
        "barrier" => instruction.has("aligned"),
        _ => false,
    }
}
