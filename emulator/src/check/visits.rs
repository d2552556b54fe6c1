//! What the [exploration](crate::explore) of orders is told: accesses that others can see.

use super::flags::FlagUse;
use super::order::{Order, Target};
use crate::exec::row::{Lanes, Row};
use crate::explore::{Mode, Object, Visit};

impl Order {
    /// A strong access by the lanes of `mask`.
    #[inline(always)]
    pub(super) fn visit_words(
        &mut self,
        target: Target,
        usage: FlagUse,
        offsets: &Row<u64>,
        mask: u32,
    ) {
        let cluster = u64::from(self.cluster);
        let Some(visits) = &mut self.visits else {
            return;
        };
        let mode = match usage {
            FlagUse::Read => Mode::Read,
            FlagUse::Write | FlagUse::Atomic => Mode::Write,
        };
        for lane in Lanes(mask) {
            let word = offsets.0[lane] / 4;
            let object = match target {
                Target::Shared { rank } => Object::Shared {
                    cluster,
                    rank,
                    word,
                },
                Target::Global { allocation } => Object::Global { allocation, word },
            };
            visits.push((object, mode));
        }
    }

    /// A use of the mbarrier at an offset of a block's shared memory.
    pub(crate) fn visit_mbarrier(&mut self, (rank, offset): (u32, u64), mode: Mode) {
        let cluster = u64::from(self.cluster);
        if let Some(visits) = &mut self.visits {
            let object = Object::Mbarrier {
                cluster,
                rank,
                offset,
            };
            visits.push((object, mode));
        }
    }

    /// An arrival at a barrier of a block (rank and id) or of the cluster, or the end of a wait.
    pub(crate) fn visit_barrier(&mut self, of: Option<(u32, usize)>, mode: Mode) {
        let cluster = u64::from(self.cluster);
        if let Some(visits) = &mut self.visits {
            visits.push((Object::Barrier { cluster, of }, mode));
        }
    }

    /// Whether there have been any since they were taken out.
    pub(crate) fn has_visits(&self) -> bool {
        self.visits
            .as_ref()
            .is_some_and(|visits| !visits.is_empty())
    }

    /// Takes them out, each once.
    pub(crate) fn take_visits(&mut self) -> Vec<Visit> {
        let mut visits = self.visits.as_mut().map(std::mem::take).unwrap_or_default();
        visits.sort_unstable();
        visits.dedup();
        visits
    }
}
