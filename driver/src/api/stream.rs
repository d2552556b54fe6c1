//! Streams. Work is done at the call that enqueues it, so a stream is always idle.

use crate::c::{Handle, HostFunction, In, Out, Room, StreamCallback};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::order::Lane;
use crate::state::{Current, Stream, current, current_of, current_of_even_if_faulty};
use crate::work::{Work, submit};

use super::context::{PRIORITIES, wait_for};

/// `CU_STREAM_NON_BLOCKING`
const NON_BLOCKING: u32 = 1;

/// `CUstreamAttrValue`
pub(crate) type AttributeValue = [u32; 16];

fn create(place: Out<Handle>, flags: u32, priority: i32) -> Answer {
    let current = current()?;
    if flags & !NON_BLOCKING != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let mut state = current.state();
    let handle = state.new_handle();
    let stream = Stream {
        context: current.context,
        flags,
        priority: priority.clamp(PRIORITIES.1, PRIORITIES.0),
    };
    state.streams.insert(handle, stream);
    drop(state);
    if flags & NON_BLOCKING != 0 {
        current.driver.order().set_apart(handle);
    }
    place.set(handle)
}

/// The context of a stream.
fn context_of(current: Current, stream: Handle) -> Answer<Handle> {
    let state = current.state();
    state.check_stream(stream)?;
    Ok(state
        .streams
        .get(&stream)
        .map_or(current.context, |stream| stream.context))
}

/// Flags and priority of a stream.
fn properties(stream: Handle) -> Answer<(u32, i32)> {
    let current = current_of(stream)?;
    let state = current.state();
    state.check_stream(stream)?;
    let found = state.streams.get(&stream);
    Ok(found.map_or((0, 0), |stream| (stream.flags, stream.priority)))
}

/// Waits for a stream: nothing is left to do, but a kernel may have had a fault.
fn wait(stream: Handle) -> Answer {
    let current = current_of_even_if_faulty(stream)?;
    let context = context_of(current, stream)?;
    current.state().check_not_captured(stream)?;
    current.state().check_unsafe()?;
    current
        .driver
        .order()
        .host_after(Lane::new(context, stream));
    wait_for(context)
}

/// Calls a function of the host, in its turn.
fn call_host(stream: Handle, function: HostFunction, data: Room) -> Answer {
    let current = current_of(stream)?;
    function.ok_or(Code::INVALID_VALUE)?;
    submit(current, stream, Work::Host(function, data as usize))
}

entries! {
    fn cuStreamCreate: "cuStreamCreate" @ 2000 (stream: Out<Handle>, flags: u32) {
        create(stream, flags, 0)
    }

    fn cuStreamCreateWithPriority: "cuStreamCreateWithPriority" @ 5050 (
        stream: Out<Handle>, flags: u32, priority: i32,
    ) {
        create(stream, flags, priority)
    }

    fn cuStreamDestroy_v2: "cuStreamDestroy" @ 4000 (stream: Handle) {
        let current = current_of_even_if_faulty(stream)?;
        let mut state = current.state();
        state.captures.streams.remove(&stream);
        let removed = state.streams.remove(&stream);
        state.attributes.retain(|(of, _), _| *of != stream);
        removed.map(|_| ()).ok_or(Code::INVALID_HANDLE)
    }

    fn cuStreamSynchronize | cuStreamSynchronize_ptsz: "cuStreamSynchronize" @ 2000 (
        stream: Handle,
    ) {
        wait(stream)
    }

    fn cuStreamQuery | cuStreamQuery_ptsz: "cuStreamQuery" @ 2000 (stream: Handle) {
        wait(stream)
    }

    fn cuStreamWaitEvent | cuStreamWaitEvent_ptsz: "cuStreamWaitEvent" @ 3020 (
        stream: Handle, event: Handle, _flags: u32,
    ) {
        let current = current_of(stream)?;
        current.check_stream(stream)?;
        let mut state = current.state();
        state.event(event)?;
        if !state.capture_wait(stream, event)? {
            drop(state);
            let lane = Lane::new(current.context, stream);
            current.driver.order().wait(lane, event);
        }
        Ok(())
    }

    fn cuStreamGetFlags | cuStreamGetFlags_ptsz: "cuStreamGetFlags" @ 5050 (
        stream: Handle, flags: Out<u32>,
    ) {
        flags.set(properties(stream)?.0)
    }

    fn cuStreamGetPriority | cuStreamGetPriority_ptsz: "cuStreamGetPriority" @ 5050 (
        stream: Handle, priority: Out<i32>,
    ) {
        priority.set(properties(stream)?.1)
    }

    fn cuStreamGetCtx | cuStreamGetCtx_ptsz: "cuStreamGetCtx" @ 9020 (
        stream: Handle, context: Out<Handle>,
    ) {
        context.set(context_of(current_of(stream)?, stream)?)
    }

    fn cuStreamGetCtx_v2 | cuStreamGetCtx_v2_ptsz: "cuStreamGetCtx" @ 12050 (
        stream: Handle, context: Out<Handle>, green_context: Out<Handle>,
    ) {
        context.set_if_wanted(context_of(current_of(stream)?, stream)?);
        green_context.set_if_wanted(0);
        Ok(())
    }

    fn cuStreamGetId | cuStreamGetId_ptsz: "cuStreamGetId" @ 12000 (
        stream: Handle, id: Out<u64>,
    ) {
        current_of(stream)?.check_stream(stream)?;
        id.set(stream as u64)
    }

    fn cuStreamGetDevice | cuStreamGetDevice_ptsz: "cuStreamGetDevice" @ 12080 (
        stream: Handle, device: Out<i32>,
    ) {
        current_of(stream)?.check_stream(stream)?;
        device.set(0)
    }

    fn cuStreamAddCallback | cuStreamAddCallback_ptsz: "cuStreamAddCallback" @ 5000 (
        stream: Handle, callback: StreamCallback, data: Room, _flags: u32,
    ) {
        let current = current_of(stream)?;
        current.check_stream(stream)?;
        current.state().check_not_captured(stream)?;
        let callback = callback.ok_or(Code::INVALID_VALUE)?;
        // It may tell other threads that the stream has come so far.
        current.driver.order().host_after(Lane::new(current.context, stream));
        // SAFETY: the caller's function, with the caller's data, as its contract says.
        unsafe { callback(stream, Code::SUCCESS, data) };
        Ok(())
    }

    fn cuLaunchHostFunc | cuLaunchHostFunc_ptsz: "cuLaunchHostFunc" @ 10000 (
        stream: Handle, function: HostFunction, data: Room,
    ) {
        call_host(stream, function, data)
    }

    fn cuLaunchHostFunc_v2 | cuLaunchHostFunc_v2_ptsz: "cuLaunchHostFunc" @ 13010 (
        stream: Handle, function: HostFunction, data: Room, _mode: u32,
    ) {
        call_host(stream, function, data)
    }

    fn cuStreamCopyAttributes | cuStreamCopyAttributes_ptsz: "cuStreamCopyAttributes" @ 11000 (
        to: Handle, from: Handle,
    ) {
        let current = current()?;
        current.check_stream(to)?;
        current.check_stream(from)?;
        let mut state = current.state();
        let of_from = |(&(of, number), value): (&(Handle, u32), &AttributeValue)| {
            (of == from).then_some(((to, number), *value))
        };
        let copied: Vec<_> = state.attributes.iter().filter_map(of_from).collect();
        state.attributes.extend(copied);
        Ok(())
    }

    fn cuStreamSetAttribute | cuStreamSetAttribute_ptsz: "cuStreamSetAttribute" @ 11000 (
        stream: Handle, number: u32, value: In<AttributeValue>,
    ) {
        // Attributes of streams guide caches and priorities, which are not modelled.
        let current = current_of(stream)?;
        current.check_stream(stream)?;
        current.state().attributes.insert((stream, number), value.get()?);
        Ok(())
    }

    fn cuStreamGetAttribute | cuStreamGetAttribute_ptsz: "cuStreamGetAttribute" @ 11000 (
        stream: Handle, number: u32, value: Out<AttributeValue>,
    ) {
        let current = current_of(stream)?;
        current.check_stream(stream)?;
        let set = current.state().attributes.get(&(stream, number)).copied();
        value.set(set.unwrap_or_default())
    }
}
