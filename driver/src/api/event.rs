//! Events. Recorded work is done at once, and the times are as if streams went on side by side.

use crate::c::{Handle, Out};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::order::Lane;
use crate::state::{Current, Event, current, current_even_if_faulty, current_of};

use super::context::wait_for;

/// `CU_EVENT_DISABLE_TIMING`
const DISABLE_TIMING: u32 = 2;
/// All flags of events.
const FLAGS: u32 = 7;

/// Records an event on a stream.
pub(super) fn record(event: Handle, stream: Handle) -> Answer {
    let current = current_of(stream)?;
    current.check_stream(stream)?;
    let mut state = current.state();
    state.event(event)?;
    if state.capture_record(event, stream) {
        return Ok(());
    }
    drop(state);
    record_now(current, event, Lane::new(current.context, stream))
}

/// Records an event after the work of a lane, which is done.
pub(crate) fn record_now(current: Current, event: Handle, lane: Lane) -> Answer {
    current.state().event(event)?;
    let time = current.driver.order().record(event, lane);
    current.state().event(event)?.recorded = Some(time);
    Ok(())
}

/// Waits for an event: nothing is left to do, but a kernel may have had a fault.
fn wait(event: Handle) -> Answer {
    let current = current_even_if_faulty()?;
    let context = current.state().event(event)?.context;
    if current.state().captures.events.contains_key(&event) {
        return Err(Code::CAPTURED_EVENT);
    }
    current.state().check_unsafe()?;
    current.driver.order().host_after_event(event);
    wait_for(context)
}

/// Milliseconds between two events.
fn elapsed(milliseconds: Out<f32>, start: Handle, end: Handle) -> Answer {
    let current = current()?;
    let mut state = current.state();
    let mut time = |event| {
        let event = state.event(event)?;
        let recorded = event.recorded.filter(|_| event.is_timed);
        recorded.ok_or(Code::INVALID_HANDLE)
    };
    let (start, end) = (time(start)?, time(end)?);
    milliseconds.set(((end.as_secs_f64() - start.as_secs_f64()) * 1e3) as f32)
}

entries! {
    fn cuEventCreate: "cuEventCreate" @ 2000 (place: Out<Handle>, flags: u32) {
        let current = current()?;
        if flags & !FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let event = Event {
            context: current.context,
            is_timed: flags & DISABLE_TIMING == 0,
            recorded: None,
        };
        let mut state = current.state();
        let handle = state.new_handle();
        state.events.insert(handle, event);
        place.set(handle)
    }

    fn cuEventDestroy_v2: "cuEventDestroy" @ 4000 (event: Handle) {
        let removed = current_even_if_faulty()?.state().events.remove(&event);
        removed.map(|_| ()).ok_or(Code::INVALID_HANDLE)
    }

    fn cuEventRecord | cuEventRecord_ptsz: "cuEventRecord" @ 2000 (
        event: Handle, stream: Handle,
    ) {
        record(event, stream)
    }

    fn cuEventRecordWithFlags | cuEventRecordWithFlags_ptsz: "cuEventRecordWithFlags" @ 11010 (
        event: Handle, stream: Handle, _flags: u32,
    ) {
        record(event, stream)
    }

    fn cuEventQuery: "cuEventQuery" @ 2000 (event: Handle) {
        wait(event)
    }

    fn cuEventSynchronize: "cuEventSynchronize" @ 2000 (event: Handle) {
        wait(event)
    }

    fn cuEventElapsedTime: "cuEventElapsedTime" @ 2000 (
        milliseconds: Out<f32>, start: Handle, end: Handle,
    ) {
        elapsed(milliseconds, start, end)
    }

    fn cuEventElapsedTime_v2: "cuEventElapsedTime" @ 12080 (
        milliseconds: Out<f32>, start: Handle, end: Handle,
    ) {
        elapsed(milliseconds, start, end)
    }
}
