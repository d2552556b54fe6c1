//! Systematic exploration of the orders in which warps and asynchronous operations meet.
//!
//! A launch is run again and again, each time in another order. An order is a choice at each
//! *point*: which warp runs on, up to and with its next access that another warp can see, or which
//! asynchronous operation lands. Accesses that others can see are strong accesses, atomics, and
//! uses of mbarriers and barriers. All other accesses are the race check's matter: unless they race,
//! their order has no effect.
//!
//! Two orders are the same if they differ only in accesses that do not conflict. Of these, one is
//! run: dynamic partial-order reduction with sleep sets (Flanagan and Godefroid, 2005).

mod search;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use search::Search;

pub(crate) use search::{Mode, Object, Process, Visit};

/// Chooses the order of the launches of an emulator, one order for each launch. All launches have to
/// be of the same kernel with the same inputs and memory. Clones share the search.
#[derive(Clone, Debug)]
pub struct Explorer(Arc<Mutex<Search>>);

impl Explorer {
    /// Most warps of a launch that can be explored.
    pub const MOST_WARPS: u64 = 256;

    /// A new search.
    #[expect(clippy::new_without_default, reason = "a search is started on purpose")]
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Search::default())))
    }

    /// Whether every order has been tried. Before the first launch it is `false`.
    pub fn is_complete(&self) -> bool {
        self.search().is_complete()
    }

    /// Orders that launches have run to their end.
    pub fn orders(&self) -> u64 {
        self.search().orders()
    }

    /// Whether the last launch ended early, because its order was the same as one before. Its
    /// results are incomplete.
    pub fn was_cut_off(&self) -> bool {
        self.search().was_cut_off()
    }

    pub(crate) fn search(&self) -> MutexGuard<'_, Search> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
