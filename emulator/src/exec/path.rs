//! Paths: the groups of converged lanes of a warp.

use super::registers::Extent;

/// An active call: the kernel's frame or that of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The function.
    pub(crate) function: u32,
    /// Position of the call instruction; `u32::MAX` in the kernel's frame.
    pub(crate) call: u32,
    /// Its window of the register files.
    pub(crate) window: Extent,
    /// Offset of its frame in local memory, in bytes.
    pub(crate) local: u64,
}

/// Whether a path can run, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum State {
    /// Can run.
    Ready,
    /// Waits at an instruction that other lanes of the warp must reach too.
    Converging,
    /// Waits at a barrier of the block.
    Waiting,
    /// Waits at an instruction for an event, and runs it again after one.
    Blocked,
}

/// Lanes with the same position and call stack.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    pub(crate) frames: Vec<Frame>,
    pub(crate) state: State,
    /// When it was last chosen to run.
    pub(crate) chosen: u64,
    /// Whether the time limit of its current wait has expired.
    pub(crate) expired: bool,
}

impl Path {
    /// The innermost call.
    pub(crate) fn frame(&self) -> &Frame {
        self.frames
            .last()
            .expect("a path is in the kernel or in a function it called")
    }

    /// The order in which paths run: deepest call stack first, then lowest position.
    fn rank(&self) -> (std::cmp::Reverse<usize>, u32) {
        (std::cmp::Reverse(self.frames.len()), self.pc)
    }
}

/// The paths of one warp. Their masks are disjoint and together contain the lanes that have not
/// exited.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    pub(crate) list: Vec<Path>,
    clock: u64,
}

impl Paths {
    /// The lanes that have not exited.
    pub(crate) fn live(&self) -> u32 {
        self.list.iter().fold(0, |lanes, path| lanes | path.mask)
    }

    /// Reconverges paths at the same position with the same stack, and drops empty ones.
    pub(crate) fn merge(&mut self) {
        self.list.retain(|path| path.mask != 0);
        let mut i = 0;
        while i < self.list.len() {
            let mut j = i + 1;
            while j < self.list.len() {
                let (a, b) = (&self.list[i], &self.list[j]);
                let waits = |path: &Path| matches!(path.state, State::Waiting | State::Blocked);
                let waits = waits(a) || waits(b);
                if a.pc == b.pc && !waits && a.frames == b.frames {
                    let other = self.list.swap_remove(j);
                    self.list[i].mask |= other.mask;
                    self.list[i].state = State::Ready;
                } else {
                    j += 1;
                }
            }
            i += 1;
        }
    }

    /// Chooses a path to run: the first by rank, or, if `fair`, the one that has waited longest.
    pub(crate) fn choose(&mut self, fair: bool) -> Option<usize> {
        let ready = self
            .list
            .iter()
            .enumerate()
            .filter(|(_, path)| path.state == State::Ready);
        let (index, _) = if fair {
            ready.min_by_key(|(_, path)| path.chosen)?
        } else {
            ready.min_by_key(|(_, path)| path.rank())?
        };
        self.clock += 1;
        self.list[index].chosen = self.clock;
        Some(index)
    }

    /// Whether another path should run before `index`, or may reconverge with it.
    #[inline]
    pub(crate) fn behind(&self, index: usize) -> bool {
        let rank = self.list[index].rank();
        self.list.iter().enumerate().any(|(i, path)| {
            i != index
                && match path.state {
                    State::Ready => path.rank() <= rank,
                    State::Converging => path.rank() == rank,
                    State::Waiting | State::Blocked => false,
                }
        })
    }
}
