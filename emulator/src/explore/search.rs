//! The search: a stack of points, each with what was chosen and what remains to be tried.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What takes turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Process {
    /// A warp of a block (rank) of a cluster.
    Warp { cluster: u64, rank: u32, warp: u32 },
    /// An asynchronous operation in flight, by its number in the cluster.
    Landing { cluster: u64, number: u64 },
}

/// What processes can access in an order that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Object {
    /// A word of an allocation.
    Global { allocation: usize, word: u64 },
    /// A word of the shared memory of a block.
    Shared { cluster: u64, rank: u32, word: u64 },
    /// An mbarrier.
    Mbarrier {
        cluster: u64,
        rank: u32,
        offset: u64,
    },
    /// A barrier of a block, by its id, or, without a block, that of the cluster.
    Barrier {
        cluster: u64,
        of: Option<(u32, usize)>,
    },
}

/// How it is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    Read,
    Write,
    /// Arrivals: their order among each other has no effect.
    Arrive,
    /// The end of a wait that ends the same way in each order.
    Pass,
}

/// An access.
pub(crate) type Visit = (Object, Mode);

/// For each process, the number of its points that have happened before.
type Clock = HashMap<Process, usize>;

/// A point.
#[derive(Debug)]
struct Point {
    enabled: Vec<Process>,
    chosen: Process,
    visits: Vec<Visit>,
    /// What happened before it, itself included.
    clock: Clock,
    /// What has been tried here, and what has to be.
    done: BTreeMap<Process, Vec<Visit>>,
    todo: BTreeSet<Process>,
    /// What need not be tried: the orders that begin with it have been.
    asleep: BTreeMap<Process, Vec<Visit>>,
}

/// The state of a search.
#[derive(Debug, Default)]
pub(crate) struct Search {
    points: Vec<Point>,
    /// The point that comes next in the launch that runs.
    at: usize,
    /// Of the launch that runs: the clock of each process, and of what was done to each object.
    clocks: HashMap<Process, Clock>,
    objects: HashMap<Object, Clock>,
    cut_off: bool,
    orders: u64,
    complete: bool,
}

/// Whether the order of two accesses matters.
fn conflict(a: &[Visit], b: &[Visit]) -> bool {
    let matters = |one: Mode, other: Mode| {
        !matches!(
            (one, other),
            (Mode::Read, Mode::Read)
                | (Mode::Arrive, Mode::Arrive)
                | (Mode::Pass, _)
                | (_, Mode::Pass)
        )
    };
    a.iter().any(|(object, mode)| {
        b.iter()
            .any(|(other, how)| object == other && matters(*mode, *how))
    })
}

fn join(own: &mut Clock, other: &Clock) {
    for (process, count) in other {
        let known = own.entry(*process).or_default();
        *known = (*known).max(*count);
    }
}

impl Search {
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    pub(crate) fn orders(&self) -> u64 {
        self.orders
    }

    pub(crate) fn was_cut_off(&self) -> bool {
        self.cut_off
    }

    /// A launch begins.
    pub(crate) fn begin(&mut self) {
        self.at = 0;
        self.clocks.clear();
        self.objects.clear();
        self.cut_off = false;
    }

    /// Chooses what goes on; `None` if every order from here on has been tried.
    pub(crate) fn choose(&mut self, enabled: &[Process]) -> Option<Process> {
        if let Some(point) = self.points.get(self.at) {
            return Some(point.chosen);
        }
        let before = self.points.last();
        let mut asleep = BTreeMap::new();
        if let Some(before) = before {
            let others = before.asleep.iter().chain(&before.done);
            let sleeps = others.filter(|(process, visits)| {
                **process != before.chosen && !conflict(visits, &before.visits)
            });
            asleep.extend(sleeps.map(|(process, visits)| (*process, visits.clone())));
        }
        let awake = |process: &&Process| !asleep.contains_key(process);
        let same = before.map(|before| before.chosen);
        let same = same.filter(|same| enabled.contains(same) && awake(&same));
        let Some(chosen) = same.or_else(|| enabled.iter().find(awake).copied()) else {
            self.cut_off = true;
            return None;
        };
        self.points.push(Point {
            enabled: enabled.to_vec(),
            chosen,
            visits: Vec::new(),
            clock: Clock::new(),
            done: BTreeMap::new(),
            todo: BTreeSet::new(),
            asleep,
        });
        Some(chosen)
    }

    /// The process that was chosen cannot go on: it waits. Chooses another one; `None` if there is
    /// none, or if every order from here on has been tried.
    pub(crate) fn refuse(&mut self, process: Process) -> Option<Process> {
        let point = self.points.get_mut(self.at)?;
        point.enabled.retain(|other| *other != process);
        let is_awake = |other: &&Process| !point.asleep.contains_key(other);
        let next = if point.done.is_empty() {
            point.enabled.iter().find(is_awake).copied()
        } else {
            point.done.insert(process, Vec::new());
            let left = |other: &&Process| !point.done.contains_key(other) && is_awake(other);
            point.todo.iter().find(left).copied()
        };
        match next {
            Some(next) => point.chosen = next,
            None => {
                self.cut_off = !point.enabled.is_empty();
                self.points.pop();
            }
        }
        next
    }

    /// What was chosen has run. `waited` says that it had to wait for what it visits, `woken` which
    /// processes it lets go on, and `issued` which ones it starts.
    pub(crate) fn ran(
        &mut self,
        visits: Vec<Visit>,
        waited: bool,
        woken: &[Process],
        issued: &[Process],
    ) {
        let at = self.at;
        self.at += 1;
        let Some(chosen) = self.points.get(at).map(|point| point.chosen) else {
            return;
        };
        let mut clock = self.clocks.get(&chosen).cloned().unwrap_or_default();
        for (object, mode) in &visits {
            let follows = waited || *mode == Mode::Pass;
            if let Some(known) = self.objects.get(object).filter(|_| follows) {
                join(&mut clock, known);
            }
        }
        let is_new = at + 1 == self.points.len();
        for earlier in (0..at).rev() {
            let other = &self.points[earlier];
            let position = other.clock.get(&other.chosen).copied().unwrap_or(0);
            let is_known = clock
                .get(&other.chosen)
                .is_some_and(|known| *known >= position);
            if other.chosen == chosen || is_known || !conflict(&other.visits, &visits) {
                continue;
            }
            if is_new {
                self.try_before(earlier, chosen, &clock);
            }
            let known = self.points[earlier].clock.clone();
            join(&mut clock, &known);
        }
        *clock.entry(chosen).or_default() += 1;
        let point = &mut self.points[at];
        (point.visits, point.clock) = (visits, clock.clone());
        for (object, mode) in &self.points[at].visits {
            if matches!(mode, Mode::Write | Mode::Arrive) {
                join(self.objects.entry(*object).or_default(), &clock);
            }
        }
        for process in issued {
            self.clocks.insert(*process, clock.clone());
        }
        self.clocks.insert(chosen, clock.clone());
        for (object, _) in &self.points[at].visits {
            if let (Object::Barrier { .. }, Some(known)) = (object, self.objects.get(object)) {
                join(&mut clock, known);
            }
        }
        for process in woken {
            join(self.clocks.entry(*process).or_default(), &clock);
        }
    }

    /// A process conflicts with what was chosen at an earlier point: it has to be tried there.
    fn try_before(&mut self, earlier: usize, process: Process, clock: &Clock) {
        let leads_there = |other: &Point| {
            let position = other.clock.get(&other.chosen).copied().unwrap_or(0);
            clock
                .get(&other.chosen)
                .is_some_and(|known| *known >= position)
        };
        let (before, after) = self.points.split_at_mut(earlier + 1);
        let point = &mut before[earlier];
        if point.enabled.contains(&process) {
            point.todo.insert(process);
            return;
        }
        let via = after.iter().filter(|other| leads_there(other));
        let via = via
            .map(|other| other.chosen)
            .find(|other| point.enabled.contains(other));
        match via {
            Some(other) => {
                point.todo.insert(other);
            }
            None => point.todo.extend(point.enabled.iter().copied()),
        }
    }

    /// The launch has ended. Prepares the next order.
    pub(crate) fn end(&mut self) {
        self.orders += u64::from(!self.cut_off);
        while let Some(point) = self.points.last_mut() {
            let visits = std::mem::take(&mut point.visits);
            point.done.insert(point.chosen, visits);
            let left = point.todo.iter().find(|process| {
                !point.done.contains_key(process) && !point.asleep.contains_key(process)
            });
            match left {
                Some(next) => {
                    point.chosen = *next;
                    return;
                }
                None => {
                    self.points.pop();
                }
            }
        }
        self.complete = true;
    }
}
