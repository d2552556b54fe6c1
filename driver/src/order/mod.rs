//! What happens before what: which streams and events a piece of work comes after, and what the
//! host has waited for. Two accesses to the same bytes without an order are a report.
//!
//! Work is done at the call, so results do not show a missing wait. Vector clocks do: each stream
//! has one, and the host, whose threads count as one. Work comes after all that the host knew when
//! it enqueued it. The clocks have times too, as if streams went on side by side: those of events.
//!
//! | file | contents |
//! |---|---|
//! | `clock` | vector clocks and times |
//! | `conflict` | accesses, and where two of them overlap |
//! | `guard` | pages of the host that it must not touch before it has waited |

mod clock;
mod conflict;
mod guard;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use warpsmith_emulator::Footprint;

use crate::c::Handle;
use crate::report;
use crate::state::State;

use clock::{Clock, Watch};
use conflict::{Access, overlap};
pub(crate) use conflict::{all_of, parts};
use guard::{Guard, Guarded};

/// Most pieces of work that are remembered until the host has waited for them.
const MOST_PENDING: usize = 4096;
/// Most parts of memory that they name together.
const MOST_PARTS: usize = 1 << 20;

/// What a recorded event takes of its stream's time, so that no two have one time.
const EVENT: Duration = Duration::from_micros(1);

/// The legacy stream's names.
const LEGACY: [Handle; 2] = [0, 1];

/// What does one thing after another: a stream of a context, or a node of a graph that was launched
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lane {
    context: Handle,
    pub(crate) stream: Handle,
    /// 0 for the stream itself, else the position of the node plus one.
    node: usize,
}

impl Lane {
    pub(crate) fn new(context: Handle, stream: Handle) -> Self {
        let stream = if LEGACY.contains(&stream) { 0 } else { stream };
        Self {
            context,
            stream,
            node: 0,
        }
    }

    /// The lane of a node of a graph; of a graph in a graph, the lane of the whole.
    pub(crate) fn of_node(self, position: usize) -> Self {
        match self.node {
            0 => Self {
                node: position + 1,
                ..self
            },
            _ => self,
        }
    }

    pub(crate) fn is_stream(self) -> bool {
        self.node == 0
    }
}

/// A piece of work that has begun.
pub(crate) struct Ticket {
    lane: Lane,
    agent: usize,
    epoch: u64,
    clock: Clock,
    begun: Instant,
}

/// Work that the host has not waited for.
struct Pending {
    agent: usize,
    epoch: u64,
    access: Access,
    guarded: Vec<Guarded>,
}

/// The order of all work.
#[derive(Default)]
pub(crate) struct Order {
    agents: HashMap<Lane, usize>,
    lanes: Vec<Lane>,
    /// For each lane, what comes before its next work.
    clocks: Vec<Clock>,
    /// What the host has waited for.
    host: Clock,
    events: HashMap<Handle, Clock>,
    /// Streams that neither wait for the legacy stream nor it for them.
    apart: HashSet<Handle>,
    pending: VecDeque<Pending>,
    parts: usize,
    told: BTreeSet<String>,
    guard: Guard,
    watch: Watch,
}

impl Order {
    /// A stream that neither waits for the legacy stream nor it for it.
    pub(crate) fn set_apart(&mut self, stream: Handle) {
        self.apart.insert(stream);
    }

    fn agent(&mut self, lane: Lane) -> usize {
        let fresh = self.lanes.len();
        let agent = *self.agents.entry(lane).or_insert(fresh);
        if agent == fresh {
            self.lanes.push(lane);
            self.clocks.push(Clock::default());
        }
        agent
    }

    /// What comes before the next work of a lane.
    fn before(&mut self, lane: Lane) -> Clock {
        let agent = self.agent(lane);
        let mut clock = self.clocks[agent].clone();
        clock.join(&self.host);
        if !lane.is_stream() || self.apart.contains(&lane.stream) {
            return clock;
        }
        let is_legacy = |lane: &Lane| lane.stream == 0;
        for (other, known) in self.lanes.iter().zip(&self.clocks) {
            let blocks = other.context == lane.context
                && other.is_stream()
                && !self.apart.contains(&other.stream);
            if blocks && (is_legacy(&lane) || is_legacy(other)) {
                clock.join(known);
            }
        }
        clock
    }

    /// Begins a piece of work.
    pub(crate) fn begin(&mut self, lane: Lane) -> Ticket {
        let mut clock = self.before(lane);
        clock.time = clock.time.max(self.watch.now());
        let agent = self.agent(lane);
        let epoch = clock.advance(agent);
        self.clocks[agent] = clock.clone();
        Ticket {
            lane,
            agent,
            epoch,
            clock,
            begun: Instant::now(),
        }
    }

    /// A lane's work that began then has taken so long.
    fn pass(&mut self, ticket: &Ticket, taken: Duration) -> Duration {
        let end = ticket.clock.time + taken;
        let time = &mut self.clocks[ticket.agent].time;
        *time = end.max(*time);
        end
    }

    /// Ends it: what it is called, and what it read and wrote. Tells of each earlier access that it
    /// does not come after.
    pub(crate) fn end(&mut self, ticket: Ticket, what: String, touched: Footprint, state: &State) {
        let taken = ticket.begun.elapsed();
        self.pass(&ticket, taken);
        self.watch.add(taken);
        let access = Access {
            what,
            stream: ticket.lane.stream,
            touched,
        };
        let unordered = |p: &&Pending| ticket.clock.get(p.agent) < p.epoch;
        let hits: Vec<String> = self
            .pending
            .iter()
            .filter(unordered)
            .filter_map(|p| Some(overlap(&access, &p.access)?.told(state)))
            .collect();
        for hit in hits {
            self.tell(hit);
        }
        if self.host.get(ticket.agent) < ticket.epoch && !access.is_empty() {
            let guarded = guard::pages(&access.touched, state);
            self.parts += access.parts();
            self.pending.push_back(Pending {
                agent: ticket.agent,
                epoch: ticket.epoch,
                access,
                guarded,
            });
        }
        while self.pending.len() > MOST_PENDING || self.parts > MOST_PARTS {
            let Some(oldest) = self.pending.pop_front() else {
                break;
            };
            self.parts -= oldest.access.parts();
        }
        self.restore();
    }

    /// Reports each thing once: what differs between two reports of one thing are addresses, which
    /// stand in the lines that begin with `=`.
    fn tell(&mut self, hit: String) {
        let lines = hit.lines().filter(|line| !line.contains("= "));
        if self.told.insert(lines.collect()) {
            report::fault(hit);
        }
    }

    /// Records an event after the work of a lane, and gives its time.
    pub(crate) fn record(&mut self, event: Handle, lane: Lane) -> Duration {
        let ticket = self.begin(lane);
        let mut clock = ticket.clock.clone();
        clock.time = self.pass(&ticket, EVENT);
        let time = clock.time;
        self.events.insert(event, clock);
        time
    }

    /// What the lane does next comes after what the event recorded.
    pub(crate) fn wait(&mut self, lane: Lane, event: Handle) {
        let agent = self.agent(lane);
        if let Some(clock) = self.events.get(&event) {
            self.clocks[agent].join(clock);
        }
    }

    /// The lanes of a graph's nodes begin after the work of a stream.
    pub(crate) fn fork(&mut self, lane: Lane, nodes: usize) {
        let base = self.begin(lane).clock;
        for position in 0..nodes {
            let agent = self.agent(lane.of_node(position));
            self.clocks[agent].join(&base);
        }
    }

    /// A node comes after others.
    pub(crate) fn after(&mut self, lane: Lane, position: usize, before: &[usize]) {
        let agent = self.agent(lane.of_node(position));
        for before in before {
            let before = self.agent(lane.of_node(*before));
            let clock = self.clocks[before].clone();
            self.clocks[agent].join(&clock);
        }
    }

    /// A stream goes on after all nodes of a graph.
    pub(crate) fn join(&mut self, lane: Lane, nodes: usize) {
        let agent = self.agent(lane);
        for position in 0..nodes {
            let node = self.agent(lane.of_node(position));
            let clock = self.clocks[node].clone();
            self.clocks[agent].join(&clock);
        }
    }

    /// The host has waited for a lane.
    pub(crate) fn host_after(&mut self, lane: Lane) {
        self.host = self.before(lane);
        self.settle();
    }

    /// The host has waited for an event.
    pub(crate) fn host_after_event(&mut self, event: Handle) {
        if let Some(clock) = self.events.get(&event) {
            self.host.join(clock);
        }
        self.settle();
    }

    /// The host has waited for all work of a context.
    pub(crate) fn host_after_all(&mut self, context: Handle) {
        for (lane, clock) in self.lanes.iter().zip(&self.clocks) {
            if lane.context == context {
                self.host.join(clock);
            }
        }
        self.settle();
    }

    /// The host has waited for all work.
    pub(crate) fn host_after_everything(&mut self) {
        for clock in &self.clocks {
            self.host.join(clock);
        }
        self.settle();
    }

    /// Forgets what the host has waited for: all that comes later knows it.
    fn settle(&mut self) {
        self.watch.wait_until(self.host.time);
        let (host, parts) = (&self.host, &mut self.parts);
        self.pending.retain(|pending| {
            let is_open = host.get(pending.agent) < pending.epoch;
            if !is_open {
                *parts -= pending.access.parts();
            }
            is_open
        });
        self.restore();
    }

    /// Lets the driver touch all memory of the host.
    pub(crate) fn lift(&mut self) {
        self.guard.set(std::iter::empty());
    }

    /// Guards the memory of the host that work may still use.
    pub(crate) fn restore(&mut self) {
        self.guard
            .set(self.pending.iter().flat_map(|p| p.guarded.iter().cloned()));
    }

    /// The host touches a page; false if it is not guarded.
    fn touched_by_host(&mut self, address: u64, writes: bool) -> bool {
        if !self.guard.open(address) {
            return false;
        }
        let host = self
            .pending
            .iter()
            .find_map(|pending| conflict::with_host(&pending.access, address, writes));
        if let Some(hit) = host {
            self.tell(hit);
        }
        true
    }
}
