//! The kernels that put rows, and the choice between them. All of them give the same bits.

use crate::ops::plan::{Desc, Machine, MachineModel, Ruled};
use crate::{DType, DeviceInfo, LaunchConfig};
use abi::scatter::{ScatterEntry, ScatterFewEntry, THREADS};
use std::fmt;

/// How rows are moved: the size of an element, and the blocks of the first launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Moves {
    pub(super) size_bytes: usize,
    pub(super) blocks: u32,
}

/// Rows with elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ScatterDesc {
    pub(super) dtype: DType,
    /// Number of indices.
    pub(super) indices: u64,
    /// Elements of all rows.
    pub(super) elements: u64,
    /// In one launch, where the indices are few enough.
    pub(super) few: Option<Moves>,
    /// After a launch that finds last positions.
    pub(super) many: Moves,
}

impl fmt::Display for ScatterDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dtype, indices, elements) = (self.dtype, self.indices, self.elements);
        write!(f, "{dtype} indices{indices} elements{elements}")?;
        let moves = self.few.into_iter().chain([self.many]);
        moves
            .into_iter()
            .try_for_each(|moves| write!(f, " {}x{}", moves.blocks, moves.size_bytes))
    }
}

/// The launch that moves rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The only one, where there are few indices.
    Few,
    /// The one after the search for last positions.
    Rows,
}

/// One way to put rows: the name of the kernel that moves them.
pub(super) type Candidate = Ruled<&'static str, Step>;

impl ScatterDesc {
    /// Bytes that are read and written.
    pub(super) fn bytes(&self) -> u64 {
        let size = self.dtype.size_bytes() as u64;
        self.elements.saturating_mul(2 * size)
    }
}

impl Desc for ScatterDesc {
    const OPERATION: &'static str = "scatter";

    type Candidate = Candidate;

    /// Few indices take one launch.
    fn candidates(
        &self,
        device: &DeviceInfo,
        model: &MachineModel,
        offer: &mut dyn FnMut(Candidate),
    ) {
        let machine = Machine::of(device, model);
        let few = self.few.map(|moves| (Step::Few, moves));
        for (step, moves) in few.into_iter().chain([(Step::Rows, self.many)]) {
            let entry = match step {
                Step::Few => ScatterFewEntry::of(moves.size_bytes).map(|entry| entry.name()),
                Step::Rows => ScatterEntry::of(moves.size_bytes).map(|entry| entry.name()),
            };
            let Some(entry) = entry else { continue };
            let moving_ns = machine.moving_ns(self.bytes() as f64, moves.blocks.into());
            offer(Ruled {
                entry,
                option: "",
                split: 1,
                config: LaunchConfig::linear(moves.blocks, THREADS),
                decision: step,
                is_first: step == Step::Few || self.few.is_none(),
                estimated_ns: match step {
                    Step::Few => moving_ns,
                    Step::Rows => moving_ns + 2.0 * model.launch_ns,
                },
            });
        }
    }

    fn supported(&self) -> String {
        "elements of 1, 2, 4, 8 and 16 bytes".into()
    }
}
