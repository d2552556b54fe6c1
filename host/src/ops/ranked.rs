//! The plan of an operation that has several kernels: which runs, and which else could.

use std::fmt;

/// A candidate: its `Display` is the name by which it can be demanded.
pub(super) trait Ranked: Copy + fmt::Display {
    /// Estimate of its time, which ranks candidates and predicts nothing.
    fn estimated_ns(&self) -> f64;
}

/// Of the candidates that `offer` lists, the one named `forced`, or the best.
pub(super) fn choose<C: Ranked>(
    forced: Option<&str>,
    offer: impl FnOnce(&mut dyn FnMut(C)),
) -> Option<C> {
    let mut chosen: Option<C> = None;
    offer(&mut |candidate| {
        let is_better = match forced {
            Some(name) => candidate.to_string() == name,
            None => chosen.is_none_or(|best| candidate.estimated_ns() < best.estimated_ns()),
        };
        if is_better {
            chosen = Some(candidate);
        }
    });
    chosen
}

/// All candidates that `offer` lists, the one expected to be fastest first.
pub(super) fn all<C: Ranked>(offer: impl FnOnce(&mut dyn FnMut(C))) -> Vec<C> {
    let mut all = Vec::new();
    offer(&mut |candidate| all.push(candidate));
    all.sort_by(|x, y| x.estimated_ns().total_cmp(&y.estimated_ns()));
    all
}

/// The kernel that an operation would run, and all other candidates. The operation's `plan` makes it,
/// and its `Display` lists them.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<Candidate> {
    description: String,
    chosen: Option<Candidate>,
    candidates: Vec<Candidate>,
}

impl<Candidate> Plan<Candidate> {
    /// The plan of an operation that has nothing to compute.
    pub(super) fn empty() -> Self {
        Self {
            description: "nothing to compute".into(),
            chosen: None,
            candidates: Vec::new(),
        }
    }

    /// Of `candidates`, the one with the lowest estimate first, `chosen` runs.
    pub(super) fn of(description: String, chosen: Candidate, candidates: Vec<Candidate>) -> Self {
        Self {
            description,
            chosen: Some(chosen),
            candidates,
        }
    }

    /// The candidate that runs; `None` if there is nothing to compute.
    pub fn chosen(&self) -> Option<&Candidate> {
        self.chosen.as_ref()
    }

    /// All candidates, the one with the lowest estimate first.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }
}

impl<Candidate: fmt::Display + PartialEq> fmt::Display for Plan<Candidate> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description)?;
        if let Some(chosen) = &self.chosen {
            write!(f, "\nruns {chosen}")?;
        }
        for other in &self.candidates {
            if Some(other) != self.chosen.as_ref() {
                write!(f, "\nor {other}")?;
            }
        }
        Ok(())
    }
}
