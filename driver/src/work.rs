//! Work of streams: what a call enqueues is done at once, or becomes a node of a graph if the stream
//! is being captured.

use std::ffi::c_void;

use crate::api::copy::{self, Fill};
use crate::api::event;
use crate::api::launch::Launch;
use crate::c::{Address, Copy3d, Handle, HostFunction};
use crate::code::{Answer, Code};
use crate::state::Current;

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
    /// The work of another graph, in order.
    Child(Vec<Work>),
    Nothing,
    WaitForEvent,
    RecordEvent(Handle),
}

impl Work {
    /// `CUgraphNodeType`
    pub(crate) fn kind(&self) -> u32 {
        match self {
            Self::Kernel(_) => 0,
            Self::Copy { .. } | Self::Copy3d(_) => 1,
            Self::Fill(_) => 2,
            Self::Host(..) => 3,
            Self::Child(_) => 4,
            Self::Nothing => 5,
            Self::WaitForEvent => 6,
            Self::RecordEvent(_) => 7,
        }
    }

    /// Does the work on a stream. All streams share one order, that of the calls, which is an order
    /// that a GPU may choose.
    pub(crate) fn run(&self, current: Current, stream: Handle) -> Answer {
        let in_turn = |work: &dyn Fn() -> Answer| current.driver.in_turn(work);
        match self {
            Self::Kernel(launch) => launch.run(current, stream),
            Self::Copy { to, from, len } => in_turn(&|| {
                // SAFETY: by the contract of the functions that copy, ranges of the host are valid
                // until the stream has passed, or the graph is destroyed.
                unsafe { copy::copy(current.driver, *to, *from, *len) }
            }),
            Self::Copy3d(shape) => in_turn(&|| copy::copy_3d(current.driver, shape)),
            Self::Fill(fill) => in_turn(&|| copy::fill(current.driver, fill)),
            Self::Host(function, data) => {
                let function = function.ok_or(Code::INVALID_VALUE)?;
                // SAFETY: the caller's function, with the caller's data, as its contract says. No
                // lock is held.
                unsafe { function(*data as *mut c_void) };
                Ok(())
            }
            Self::Child(all) => all.iter().try_for_each(|work| work.run(current, stream)),
            // What an event recorded is done.
            Self::Nothing | Self::WaitForEvent => Ok(()),
            Self::RecordEvent(recorded) => event::record_now(current, *recorded),
        }
    }
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
    work.run(current, stream)
}
