//! What is known of other clusters.

use std::collections::HashMap;
use std::sync::Arc;

use super::grid_plane::GridCell;

/// Most clusters that a warp knows of one by one; with more, it counts as knowing everything.
const MOST_KNOWN: usize = 4096;

/// What is known of other clusters: for each, the epochs of its agents that have happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Knowledge {
    all: bool,
    of: Arc<HashMap<u32, Arc<Vec<u32>>>>,
}

impl Knowledge {
    pub(super) fn knows(&self, cell: &GridCell) -> bool {
        let known = self.of.get(&cell.cluster);
        self.all
            || known.is_some_and(|epochs| {
                let epoch = epochs.get(usize::from(cell.agent));
                epoch.is_some_and(|epoch| *epoch >= cell.epoch)
            })
    }

    /// The epochs that are known of a cluster's agents.
    pub(super) fn of_cluster(&self, cluster: u32) -> Option<&Arc<Vec<u32>>> {
        self.of.get(&cluster)
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.all && self.of.is_empty()
    }

    /// Joins what another agent knows.
    pub(super) fn join(&mut self, other: &Self) {
        if other.is_empty() || self.all || Arc::ptr_eq(&self.of, &other.of) {
            self.all |= other.all;
            return;
        }
        if self.of.is_empty() {
            *self = other.clone();
            return;
        }
        self.all |= other.all;
        for (cluster, epochs) in &*other.of {
            self.learn(*cluster, epochs);
        }
    }

    /// Learns the epochs of a cluster's agents.
    pub(super) fn learn(&mut self, cluster: u32, epochs: &Arc<Vec<u32>>) {
        if let Some(known) = self.of.get(&cluster)
            && (Arc::ptr_eq(known, epochs) || known == epochs)
        {
            return;
        }
        if self.of.len() >= MOST_KNOWN {
            self.all = true;
            self.of = Arc::default();
            return;
        }
        let known = Arc::make_mut(&mut self.of).entry(cluster).or_default();
        let longer = known.len().max(epochs.len());
        let at = |epochs: &[u32], i: usize| epochs.get(i).copied().unwrap_or(0);
        *known = Arc::new(
            (0..longer)
                .map(|i| at(known, i).max(at(epochs, i)))
                .collect(),
        );
    }
}
