//! The clocks of a [trace](crate::trace).

use crate::exec::block::Launch;

/// For each warp of a cluster, the steps up to which it has run. It has none without a trace.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// Number of warps; 0 without a trace.
    warps: usize,
    clocks: Vec<Clock>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    steps: u64,
    /// Whether the warp has acquired something since [`Steps::has_acquired`] was asked last.
    acquired: bool,
}

impl Steps {
    pub(super) fn new(launch: &Launch) -> Self {
        let warps = launch.cluster_blocks() * launch.warps() as usize;
        Self {
            warps: if launch.trace.is_some() { warps } else { 0 },
            clocks: Vec::new(),
        }
    }

    /// All clocks are at 0.
    pub(super) fn start(&mut self) {
        self.clocks.clear();
        self.clocks.resize(self.warps, Clock::default());
    }

    /// The clock of a warp.
    pub(crate) fn of(&self, warp: u32) -> u64 {
        let clock = self.clocks.get(warp as usize);
        clock.map_or(0, |clock| clock.steps)
    }

    /// The latest of all clocks: when what lands now lands.
    pub(crate) fn latest(&self) -> u64 {
        let all = self.clocks.iter().map(|clock| clock.steps);
        all.max().unwrap_or(0)
    }

    /// A warp has run instructions.
    pub(crate) fn advance(&mut self, warp: u32, by: u64) {
        if let Some(clock) = self.clocks.get_mut(warp as usize) {
            clock.steps += by;
        }
    }

    /// A warp goes on with what happened at `steps`.
    pub(super) fn reach(&mut self, warp: u32, steps: u64) {
        if let Some(clock) = self.clocks.get_mut(warp as usize) {
            clock.steps = clock.steps.max(steps);
            clock.acquired = true;
        }
    }

    /// Whether a warp has acquired something since this was asked last.
    pub(crate) fn has_acquired(&mut self, warp: u32) -> bool {
        let clock = self.clocks.get_mut(warp as usize);
        clock.is_some_and(|clock| std::mem::take(&mut clock.acquired))
    }
}
