//! Async-groups of copies: what each thread has issued, committed, and not yet waited for.

use super::row::{LANES, Lanes};
use crate::check::Stamp;
use crate::program::GroupKind;

/// The copies of one instruction, for the lanes that are in the same group.
#[derive(Clone, Debug)]
struct Flight {
    id: u64,
    lanes: u32,
    /// Number of groups that these lanes had committed before.
    group: u32,
    /// Copies that have not finished reading their source.
    reading: u32,
    /// Copies that have not finished writing their destination.
    writing: u32,
    /// Whether they read shared memory of the issuing block.
    from_shared: bool,
    /// Position of the instruction.
    pc: u32,
    read: Stamp,
    written: Stamp,
}

/// The copies of one kind by one warp.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    committed: [u32; LANES],
    flights: Vec<Flight>,
    next: u64,
    /// Stamps of copies that have ended although only their reads were waited for.
    ended: Stamp,
}

/// Identifies the copies of one instruction of a warp.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlightId {
    pub(crate) kind: GroupKind,
    /// Warp in the cluster.
    pub(crate) agent: u32,
    id: u64,
}

/// The groups of all warps of a cluster.
#[derive(Debug, Default)]
pub(crate) struct AllGroups {
    cp_async: Vec<Groups>,
    bulk: Vec<Groups>,
}

impl AllGroups {
    pub(crate) fn new(warps: usize) -> Self {
        Self {
            cp_async: vec![Groups::default(); warps],
            bulk: vec![Groups::default(); warps],
        }
    }

    pub(crate) fn of(&mut self, kind: GroupKind, agent: u32) -> &mut Groups {
        match kind {
            GroupKind::CpAsync => &mut self.cp_async[agent as usize],
            GroupKind::Bulk => &mut self.bulk[agent as usize],
        }
    }

    /// Adds one copy for each of `lanes`, which are in the same group.
    pub(crate) fn issue(
        &mut self,
        kind: GroupKind,
        agent: u32,
        lanes: u32,
        from_shared: bool,
        pc: u32,
    ) -> FlightId {
        let groups = self.of(kind, agent);
        let id = groups.next;
        groups.next += 1;
        groups.flights.push(Flight {
            id,
            lanes,
            group: groups.committed[lanes.trailing_zeros() as usize],
            reading: 1,
            writing: 1,
            from_shared,
            pc,
            read: Stamp::default(),
            written: Stamp::default(),
        });
        FlightId { kind, agent, id }
    }

    /// A copy has read its source.
    pub(crate) fn has_read(&mut self, flight: FlightId, stamp: Stamp) {
        if let Some(flight) = self.find(flight) {
            flight.reading = 0;
            flight.read = stamp;
        }
    }

    /// A copy has written its destination.
    pub(crate) fn has_written(&mut self, flight: FlightId, stamp: Stamp) {
        if let Some(flight) = self.find(flight) {
            flight.writing = 0;
            flight.written = stamp;
        }
    }

    fn find(&mut self, flight: FlightId) -> Option<&mut Flight> {
        let flights = &mut self.of(flight.kind, flight.agent).flights;
        flights.iter_mut().find(|found| found.id == flight.id)
    }

    /// The first copy out of shared memory by these warps whose thread has not waited for it: warp,
    /// lane, position.
    pub(crate) fn unread(&self, agents: std::ops::Range<u32>) -> Option<(u32, u32, u32)> {
        agents.into_iter().find_map(|agent| {
            let flights = &self.bulk.get(agent as usize)?.flights;
            let flight = flights.iter().find(|flight| flight.from_shared)?;
            Some((agent, flight.lanes.trailing_zeros(), flight.pc))
        })
    }
}

/// A wait of lanes of a warp.
struct Wait<'a> {
    committed: &'a [u32; LANES],
    mask: u32,
    leave: Option<u32>,
    /// Groups that all of the lanes have committed, if they are equally many.
    common: Option<u32>,
}

impl Wait<'_> {
    /// The lanes that a flight concerns.
    fn concerned(&self, flight: &Flight) -> u32 {
        let lanes = flight.lanes & self.mask;
        let Some(leave) = self.leave else {
            return lanes;
        };
        let due = |committed: u32| flight.group < committed.saturating_sub(leave);
        match self.common {
            Some(committed) if due(committed) => lanes,
            Some(_) => 0,
            None => Lanes(lanes)
                .filter(|&lane| due(self.committed[lane]))
                .fold(0, |lanes, lane| lanes | 1 << lane),
        }
    }
}

impl Groups {
    /// The lanes of `mask` that are in the same group as the lowest of them.
    pub(crate) fn together(&self, mask: u32) -> u32 {
        let group = self.committed[mask.trailing_zeros() as usize];
        Lanes(mask)
            .filter(|&lane| self.committed[lane] == group)
            .fold(0, |lanes, lane| lanes | 1 << lane)
    }

    pub(crate) fn commit(&mut self, mask: u32) {
        for lane in Lanes(mask) {
            self.committed[lane] += 1;
        }
    }

    /// What the lanes of `mask` wait for, when all but the `leave` newest groups are waited for;
    /// `None` also waits for what is not committed.
    fn wait(&self, mask: u32, leave: Option<u32>) -> Wait<'_> {
        let first = self.committed[mask.trailing_zeros() as usize % LANES];
        Wait {
            committed: &self.committed,
            mask,
            leave,
            common: (self.together(mask) == mask).then_some(first),
        }
    }

    /// The lanes of `mask` that have to wait.
    pub(crate) fn pending(&self, mask: u32, leave: Option<u32>, read: bool) -> u32 {
        let wait = self.wait(mask, leave);
        let flights = self.flights.iter();
        flights
            .filter(|flight| flight.reading > 0 || !read && flight.writing > 0)
            .fold(0, |lanes, flight| lanes | wait.concerned(flight))
    }

    /// Forgets what the lanes of `mask` have waited for; returns the stamp that they acquire.
    pub(crate) fn retire(&mut self, mask: u32, leave: Option<u32>, read: bool) -> Stamp {
        let mut stamp = Stamp::default();
        let mut flights = std::mem::take(&mut self.flights);
        let wait = self.wait(mask, leave);
        flights.retain_mut(|flight| {
            let lanes = wait.concerned(flight);
            if lanes == 0 {
                return true;
            }
            stamp.join(&flight.read);
            flight.from_shared &= flight.lanes & !lanes != 0;
            if read {
                return true;
            }
            stamp.join(&flight.written);
            flight.lanes &= !lanes;
            flight.lanes != 0
        });
        if read {
            let ended = &mut self.ended;
            flights.retain(|flight| {
                let over = !flight.from_shared && flight.reading + flight.writing == 0;
                if over {
                    ended.join(&flight.written);
                }
                !over
            });
        } else {
            stamp.join(&self.ended);
        }
        self.flights = flights;
        stamp
    }

    /// What is in flight, as a report's text.
    pub(crate) fn describe(&self, mask: u32) -> String {
        let flights = self.flights.iter();
        let count = flights.filter(|flight| flight.lanes & mask != 0).count();
        format!(", {count} copies in flight or not waited for")
    }
}
