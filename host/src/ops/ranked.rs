//! The plan of an operation that has several kernels: which runs, and which else could.

use std::fmt;

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
