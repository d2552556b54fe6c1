//! Candidates of operations whose first choice follows from a rule instead of estimates.

use super::{Choice, Shown};
use crate::{LaunchConfig, Result};
use std::fmt;

/// A candidate with an entry of type `E`, or its name, and a decision of type `L`, which its launch
/// follows.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Ruled<E, L> {
    /// The main kernel.
    pub(in crate::ops) entry: E,
    /// What distinguishes it from other candidates of this kernel, such as `+early`; else empty.
    pub(in crate::ops) option: &'static str,
    /// Number of parts of the reduced axis.
    pub(in crate::ops) split: u32,
    /// The launch of the main kernel: the first one, if there are several.
    pub(in crate::ops) config: LaunchConfig,
    pub(in crate::ops) decision: L,
    /// Whether the rule takes it.
    pub(in crate::ops) is_first: bool,
    pub(in crate::ops) estimated_ns: f64,
}

impl<E: fmt::Display, L> fmt::Display for Ruled<E, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.entry, self.option)
    }
}

impl<E, L> Choice for Ruled<E, L>
where
    E: Copy + fmt::Display + Send + Sync + 'static,
    L: Copy + Send + Sync + 'static,
{
    type Call<'a> = Box<dyn Fn(&Self) -> Result<()> + 'a>;

    fn estimated_ns(&self) -> f64 {
        self.estimated_ns
    }

    fn is_preferred(&self) -> bool {
        self.is_first
    }

    fn shown(&self) -> Shown {
        Shown {
            entry: self.entry.to_string(),
            tile: [0; 3],
            split: self.split,
            config: self.config,
        }
    }

    fn launch(&self, call: &Self::Call<'_>) -> Result<()> {
        call(self)
    }
}
