//! Work of streams: what a call enqueues is done at once, or becomes a node of a graph if the stream
//! is being captured.

use std::ffi::c_void;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use warpsmith_emulator::Footprint;

use crate::api::copy;
use crate::api::event;
use crate::api::fill::{self, Fill};
use crate::api::launch::Launch;
use crate::c::{Address, Copy3d, Handle, HostFunction};
use crate::code::{Answer, Code};
use crate::order::Lane;
use crate::report;
use crate::state::{Current, DEVICE_ADDRESSES, Driver};

/// A piece of work, which can be done any number of times.
#[derive(Clone)]
pub(crate) enum Work {
    Kernel(Box<Launch>),
    /// A copy of bytes from one place to another.
    Copy {
        to: Address,
        from: Address,
        len: usize,
    },
    Copy3d(Box<Copy3d>),
    Fill(Fill),
    /// A function of the program, and the address of its data.
    Host(HostFunction, usize),
    /// The work of a graph, in an order that it allows.
    Graph(Vec<Step>),
    Nothing,
    WaitForEvent(Handle),
    RecordEvent(Handle),
}

/// A piece of work in a graph.
#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) work: Work,
    /// Positions of the work that comes before.
    pub(crate) after: Vec<usize>,
}

/// Most graphs in graphs in graphs, and most work in all of them.
const MOST_DEPTH: usize = 64;
const MOST_STEPS: usize = 1 << 20;

impl Work {
    /// Refuses graphs in graphs that are too deep or too large for the driver.
    pub(crate) fn check_size(&self) -> Answer {
        let (mut depth, mut steps) = (0, 0);
        let mut level = vec![self];
        while !level.is_empty() {
            depth += 1;
            steps += level.len();
            let inner = level.iter().flat_map(|work| match work {
                Self::Graph(steps) => steps.as_slice(),
                _ => &[],
            });
            level = inner.map(|step| &step.work).collect();
            if depth > MOST_DEPTH || steps > MOST_STEPS {
                report::unsupported("a graph of more than 64 levels or 1,048,576 nodes");
                return Err(Code::NOT_SUPPORTED);
            }
        }
        Ok(())
    }

    /// Whether memory of the host takes part.
    fn uses_host(&self) -> bool {
        let is_host = |address: &Address| !DEVICE_ADDRESSES.contains(address);
        match self {
            Self::Copy { to, from, .. } => is_host(to) || is_host(from),
            Self::Copy3d(shape) => [shape.to, shape.from].into_iter().any(copy::is_of_host),
            Self::Fill(fill) => is_host(&fill.to),
            _ => false,
        }
    }

    /// Whether each call that does such work waits for it: a copy to memory of the host that is not
    /// page-locked.
    fn is_waited_for(&self, driver: &Driver) -> bool {
        let is_pageable = |address: Address| {
            !DEVICE_ADDRESSES.contains(&address) && driver.state().range_at(address).is_none()
        };
        match self {
            Self::Copy { to, .. } => is_pageable(*to),
            Self::Copy3d(shape) => {
                copy::is_of_host(shape.to) && is_pageable(copy::address_of(shape.to))
            }
            _ => false,
        }
    }

    /// `CUgraphNodeType`
    pub(crate) fn kind(&self) -> u32 {
        match self {
            Self::Kernel(_) => 0,
            Self::Copy { .. } | Self::Copy3d(_) => 1,
            Self::Fill(_) => 2,
            Self::Host(..) => 3,
            Self::Graph(_) => 4,
            Self::Nothing => 5,
            Self::WaitForEvent(_) => 6,
            Self::RecordEvent(_) => 7,
        }
    }

    /// Does the work. All lanes share one order, that of the calls, which is an order that a GPU may
    /// choose.
    pub(crate) fn run(&self, current: Current, lane: Lane) -> Answer {
        let driver = current.driver;
        match self {
            Self::Kernel(launch) => launch.run(current, lane),
            Self::Copy { to, from, len } => in_order(
                driver,
                lane,
                || "a copy".to_owned(),
                || {
                    // SAFETY: by the contract of the functions that copy, ranges of the host are valid
                    // until the stream has passed, or the graph is destroyed.
                    unsafe { copy::copy(driver, *to, *from, *len) }?;
                    Ok(copy::touched(driver, *to, *from, *len))
                },
            ),
            Self::Copy3d(shape) => in_order(
                driver,
                lane,
                || "a copy".to_owned(),
                || copy::copy_3d(driver, shape),
            ),
            Self::Fill(fill) => in_order(
                driver,
                lane,
                || "a fill".to_owned(),
                || fill::fill(driver, fill),
            ),
            Self::Host(function, data) => {
                let function = function.ok_or(Code::INVALID_VALUE)?;
                // It may tell other threads that the stream has come so far.
                driver.order().host_after(lane);
                tell_if_slow(|| {
                    // SAFETY: the caller's function, with the caller's data, as its contract says.
                    // No lock is held.
                    unsafe { function(*data as *mut c_void) };
                });
                Ok(())
            }
            Self::Graph(steps) => run_graph(steps, current, lane),
            Self::Nothing => Ok(()),
            // What an event recorded is done.
            Self::WaitForEvent(event) => {
                driver.order().wait(lane, *event);
                Ok(())
            }
            Self::RecordEvent(recorded) => event::record_now(current, *recorded, lane),
        }
    }
}

/// Runs a function of the program. If it takes long, a note says why it may never end.
fn tell_if_slow(function: impl FnOnce()) {
    const SLOW: Duration = Duration::from_secs(10);
    let (ended, end) = mpsc::channel::<()>();
    let watch = thread::Builder::new().spawn(move || {
        if end.recv_timeout(SLOW) == Err(mpsc::RecvTimeoutError::Timeout) {
            let text = "a host function on a stream runs for long. The call that enqueues it waits \
                for it, so it must not wait for that call's thread";
            report::note_once("slow host function", text);
        }
    });
    function();
    drop(ended);
    // Without a thread there is no note.
    if let Ok(watch) = watch {
        watch.join().ok();
    }
}

/// Does the work of a graph.
fn run_graph(steps: &[Step], current: Current, lane: Lane) -> Answer {
    // A graph in a graph keeps the order of its nodes.
    let is_outer = lane.is_stream();
    if is_outer {
        current.driver.order().fork(lane, steps.len());
    }
    for (position, step) in steps.iter().enumerate() {
        if is_outer {
            current.driver.order().after(lane, position, &step.after);
        }
        step.work.run(current, lane.of_node(position))?;
    }
    if is_outer {
        current.driver.order().join(lane, steps.len());
    }
    Ok(())
}

/// Does a piece of work in its lane when no other is being done. The work says what it read and
/// wrote.
pub(crate) fn in_order(
    driver: &Driver,
    lane: Lane,
    what: impl FnOnce() -> String,
    work: impl FnOnce() -> Answer<Footprint>,
) -> Answer {
    driver.in_turn(|| {
        let ticket = {
            let mut order = driver.order();
            order.lift();
            order.begin(lane)
        };
        let done = work();
        let state = driver.state();
        let mut order = driver.order();
        match done {
            Ok(touched) => {
                order.end(ticket, what(), touched, &state);
                Ok(())
            }
            Err(code) => {
                order.restore();
                Err(code)
            }
        }
    })
}

/// Does work that a call enqueues on a stream, or makes it a node of the graph that the stream is
/// captured to.
pub(crate) fn submit(current: Current, stream: Handle, work: Work) -> Answer {
    current.check_stream(stream)?;
    let mut state = current.state();
    if state.captures.streams.contains_key(&stream) {
        return state.capture(stream, work);
    }
    state.check_legacy(stream)?;
    drop(state);
    let lane = Lane::new(current.context, stream);
    work.run(current, lane)?;
    if work.is_waited_for(current.driver) {
        current.driver.order().host_after(lane);
    }
    Ok(())
}

/// Does work of a call that waits for it, on the legacy stream. A call does not wait for copies
/// within the device.
pub(crate) fn submit_and_wait(current: Current, work: Work) -> Answer {
    const LEGACY: Handle = 0;
    let uses_host = work.uses_host();
    submit(current, LEGACY, work)?;
    if uses_host {
        let lane = Lane::new(current.context, LEGACY);
        current.driver.order().host_after(lane);
    }
    Ok(())
}
