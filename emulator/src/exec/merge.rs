//! Compares what the clusters of a launch touched in cluster order, whichever of them ends first.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};

use super::block::Launch;
use super::fault::Fault;
use super::findings::Findings;
use crate::check::{Touched, across};
use crate::report::FaultKind;

/// How many clusters may run ahead of the first that has not ended.
const AHEAD: usize = 64;

/// The clusters that have ended, in a launch in which they cannot wait for each other.
#[derive(Debug)]
pub(super) struct Merger<'a> {
    launch: &'a Launch,
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The first cluster that has not ended.
    next: u64,
    /// Later clusters that have ended; `None` if they failed.
    ended: BTreeMap<u64, Option<Touched>>,
    /// Whether a cluster has failed or raced with an earlier one: later ones do not matter then.
    over: bool,
    /// Host memory for reuse.
    spare: Vec<Touched>,
}

impl<'a> Merger<'a> {
    /// `None` if there is nothing to compare.
    pub(super) fn new(launch: &'a Launch) -> Option<Self> {
        let compares = launch.checks.races && !launch.program.ordered && launch.clusters() > 1;
        compares.then(|| Self {
            launch,
            state: Mutex::default(),
            moved: Condvar::new(),
        })
    }

    /// Takes what a cluster touched; nothing if it failed. Races go to `findings`. Returns host
    /// memory for reuse.
    ///
    /// # Errors
    /// The first cluster whose race with an earlier one ends the launch, and the race.
    pub(super) fn ended(
        &self,
        linear: u64,
        touched: Option<Touched>,
        findings: &Findings,
    ) -> Result<Option<Touched>, (u64, Box<Fault>)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while linear != state.next && state.ended.len() >= AHEAD && !state.over {
            let moved = self.moved.wait(state);
            state = moved.unwrap_or_else(PoisonError::into_inner);
        }
        state.ended.insert(linear, touched);
        let mut result = Ok(());
        while !state.over
            && let next = state.next
            && let Some(touched) = state.ended.remove(&next)
        {
            state.next += 1;
            let Some(touched) = touched else {
                state.over = true;
                break;
            };
            let between = &self.launch.between;
            let mut between = between.lock().unwrap_or_else(PoisonError::into_inner);
            let raced = between.merge(&touched).into_iter().try_for_each(|hit| {
                findings.note((FaultKind::DataRace, hit.first.1.pc()), true, || {
                    across(self.launch.warps(), Some(&self.launch.memory), &hit)
                })
            });
            if let Err(fault) = raced {
                state.over = true;
                result = Err((next, fault));
            }
            state.spare.push(touched);
        }
        self.moved.notify_all();
        result.map(|()| state.spare.pop())
    }
}
