//! Findings after which a launch goes on.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use super::block::Launch;
use super::cluster::ClusterRun;
use super::fault::{Checked, Fault};
use crate::config::Ignored;
use crate::program::Program;
use crate::report::FaultKind;

/// What becomes of the findings of the clusters that one host thread runs.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    keep_going: bool,
    ignored: Vec<Ignored>,
    /// `None` where nothing is looked for.
    program: Option<Arc<Program>>,
    /// Kind and line of what was found already, and whether two clusters did it.
    known: RefCell<HashSet<(FaultKind, u32, bool)>>,
    found: RefCell<Vec<Fault>>,
}

impl Findings {
    pub(super) fn new(launch: &Launch) -> Self {
        Self {
            keep_going: launch.keep_going,
            ignored: launch.ignored.clone(),
            program: Some(launch.program.clone()),
            ..Self::default()
        }
    }

    /// Notes a finding of a kind that lets a kernel go on, by the instruction at `pc`; `fault` has
    /// its place.
    ///
    /// # Errors
    /// The fault, if it ends the launch.
    #[cold]
    pub(crate) fn note(
        &self,
        (kind, pc): (FaultKind, u32),
        across: bool,
        fault: impl FnOnce() -> Box<Fault>,
    ) -> Checked<()> {
        let program = self.program.as_ref();
        let inst = program.and_then(|program| program.code.get(pc as usize));
        let line = inst.map_or(0, |inst| inst.line);
        let is_ignored = |ignored: &Ignored| {
            ignored.kind == kind && ignored.line.is_none_or(|ignored| ignored == line)
        };
        if self.ignored.iter().any(is_ignored) {
            return Ok(());
        }
        if !self.keep_going {
            return Err(fault());
        }
        if self.known.borrow_mut().insert((kind, line, across)) {
            self.found.borrow_mut().push(*fault());
        }
        Ok(())
    }
}

impl ClusterRun<'_> {
    /// Takes out the findings after which the launch has gone on.
    pub(super) fn findings(&self) -> Vec<Fault> {
        let left_open = self.cluster.left_open.borrow();
        let found = self.cluster.findings.found.take().into_iter();
        let code = &self.launch.program.code;
        found
            .map(|fault| *left_open.explain(code, Box::new(fault)))
            .collect()
    }
}
