//! Contexts. All share the device's memory; a fault is the context's alone.

use crate::c::{Data, Device, Handle, In, Out};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::state::{
    Context, Driver, Range, RangeKind, check_device, current, current_even_if_faulty, driver, stack,
};

use super::host_memory;

/// Priorities of streams: the least and the greatest.
pub(super) const PRIORITIES: (i32, i32) = (0, -5);

/// First values of the limits, from `CU_LIMIT_STACK_SIZE` and `CU_LIMIT_PRINTF_FIFO_SIZE` on.
const LIMITS: [usize; 7] = [1024, 1 << 20, 8 << 20, 0, 2048, 64, 0];

/// `CUctxCreateParams`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct ContextParams {
    affinities: Data,
    count: i32,
    graphics: Data,
}

fn create(place: Out<Handle>, flags: u32, device: Device) -> Answer {
    let driver = driver()?;
    check_device(device)?;
    let mut state = driver.state();
    let handle = state.new_handle();
    state.contexts.insert(
        handle,
        Context {
            flags,
            ..Context::default()
        },
    );
    drop(state);
    stack(|stack| stack.push(handle));
    place.set(handle)
}

/// Frees all that belongs to a context.
fn destroy(driver: &Driver, context: Handle) -> Answer {
    driver.in_turn(|| {
        driver.order().host_after_all(context);
        let arrays = driver.state().arrays_of(context);
        let ranges = driver.state().take_context(context)?;
        for address in arrays {
            driver
                .emulator
                .free(address)
                .map_err(|_| Code::INVALID_VALUE)?;
        }
        for (address, range) in ranges {
            free(driver, address, range)?;
        }
        Ok(())
    })
}

/// Frees a range that is in no table any longer.
pub(super) fn free(driver: &Driver, address: u64, range: Range) -> Answer {
    let freed = driver.emulator.free(host_memory::base(address, range));
    match range.kind {
        RangeKind::Device => freed.map_err(|_| Code::INVALID_VALUE),
        _ => {
            host_memory::release(address, range);
            Ok(())
        }
    }
}

fn release_primary(device: Device) -> Answer {
    let driver = driver()?;
    check_device(device)?;
    let mut state = driver.state();
    let primary = &mut state.primary;
    let Some(context) = primary.context else {
        return Err(Code::INVALID_CONTEXT);
    };
    primary.users -= 1;
    if primary.users > 0 {
        return Ok(());
    }
    primary.context = None;
    drop(state);
    destroy(driver, context)
}

fn reset_primary(device: Device) -> Answer {
    let driver = driver()?;
    check_device(device)?;
    let state = driver.state();
    let Some(context) = state.primary.context else {
        return Ok(());
    };
    let flags = state.primary.flags;
    drop(state);
    destroy(driver, context)?;
    // Its users keep the handle, which is that of a fresh context.
    let fresh = Context {
        flags,
        ..Context::default()
    };
    driver.state().contexts.insert(context, fresh);
    Ok(())
}

fn set_primary_flags(device: Device, flags: u32) -> Answer {
    let driver = driver()?;
    check_device(device)?;
    let mut state = driver.state();
    state.primary.flags = flags;
    if let Some(context) = state.primary.context {
        state.context(context)?.flags = flags;
    }
    Ok(())
}

/// The current context, or another that is named.
fn named(context: Handle) -> Answer<Handle> {
    match context {
        0 => current_even_if_faulty().map(|current| current.context),
        _ => Ok(context),
    }
}

/// Waits for all work of a context.
fn wait_for_all(context: Handle) -> Answer {
    let driver = driver()?;
    driver.state().check_unsafe()?;
    driver.order().host_after_all(context);
    wait_for(context)
}

/// What a call that waits says: all work is done, but a kernel may have had a fault.
pub(super) fn wait_for(context: Handle) -> Answer {
    let fault = driver()?.state().context(context)?.fault;
    fault.map_or(Ok(()), Err)
}

entries! {
    fn cuDevicePrimaryCtxRetain: "cuDevicePrimaryCtxRetain" @ 7000 (
        place: Out<Handle>, device: Device,
    ) {
        let driver = driver()?;
        check_device(device)?;
        let mut state = driver.state();
        let context = match state.primary.context {
            Some(context) => context,
            None => {
                let known = state.primary.handle;
                let context = known.unwrap_or_else(|| state.new_handle());
                state.primary.handle = Some(context);
                let flags = state.primary.flags;
                state.contexts.insert(context, Context { flags, ..Context::default() });
                state.primary.context = Some(context);
                context
            }
        };
        state.primary.users += 1;
        place.set(context)
    }

    fn cuDevicePrimaryCtxRelease: "cuDevicePrimaryCtxRelease" @ 7000 (device: Device) {
        release_primary(device)
    }

    fn cuDevicePrimaryCtxRelease_v2: "cuDevicePrimaryCtxRelease" @ 11000 (device: Device) {
        release_primary(device)
    }

    fn cuDevicePrimaryCtxReset: "cuDevicePrimaryCtxReset" @ 7000 (device: Device) {
        reset_primary(device)
    }

    fn cuDevicePrimaryCtxReset_v2: "cuDevicePrimaryCtxReset" @ 11000 (device: Device) {
        reset_primary(device)
    }

    fn cuDevicePrimaryCtxGetState: "cuDevicePrimaryCtxGetState" @ 7000 (
        device: Device, flags: Out<u32>, is_active: Out<i32>,
    ) {
        let driver = driver()?;
        check_device(device)?;
        let state = driver.state();
        flags.set(state.primary.flags)?;
        is_active.set(state.primary.context.is_some().into())
    }

    fn cuDevicePrimaryCtxSetFlags: "cuDevicePrimaryCtxSetFlags" @ 7000 (
        device: Device, flags: u32,
    ) {
        set_primary_flags(device, flags)
    }

    fn cuDevicePrimaryCtxSetFlags_v2: "cuDevicePrimaryCtxSetFlags" @ 11000 (
        device: Device, flags: u32,
    ) {
        set_primary_flags(device, flags)
    }

    fn cuCtxCreate_v2: "cuCtxCreate" @ 3020 (place: Out<Handle>, flags: u32, device: Device) {
        create(place, flags, device)
    }

    fn cuCtxCreate_v3: "cuCtxCreate" @ 11040 (
        place: Out<Handle>, _affinities: Data, count: i32, flags: u32, device: Device,
    ) {
        match count {
            0 => create(place, flags, device),
            _ => Err(Code::NOT_SUPPORTED),
        }
    }

    fn cuCtxCreate_v4: "cuCtxCreate" @ 12050 (
        place: Out<Handle>, params: In<ContextParams>, flags: u32, device: Device,
    ) {
        // A share of the multiprocessors needs NVIDIA's service for several processes, and graphics
        // are not there.
        if !params.is_null() {
            let ContextParams { affinities, count, graphics } = params.get()?;
            if count != 0 && !affinities.is_null() || !graphics.is_null() {
                return Err(Code::NOT_SUPPORTED);
            }
        }
        create(place, flags, device)
    }

    fn cuCtxDestroy_v2: "cuCtxDestroy" @ 4000 (context: Handle) {
        let driver = driver()?;
        if driver.state().primary.context == Some(context) {
            return Err(Code::INVALID_CONTEXT);
        }
        destroy(driver, context)?;
        stack(|stack| {
            if stack.last() == Some(&context) {
                stack.pop();
            }
        });
        Ok(())
    }

    fn cuCtxPushCurrent_v2: "cuCtxPushCurrent" @ 4000 (context: Handle) {
        driver()?.state().context(context)?;
        stack(|stack| stack.push(context));
        Ok(())
    }

    fn cuCtxPopCurrent_v2: "cuCtxPopCurrent" @ 4000 (place: Out<Handle>) {
        driver()?;
        let popped = stack(Vec::pop).ok_or(Code::INVALID_CONTEXT)?;
        place.set_if_wanted(popped);
        Ok(())
    }

    fn cuCtxSetCurrent: "cuCtxSetCurrent" @ 4000 (context: Handle) {
        let driver = driver()?;
        if context != 0 {
            driver.state().context(context)?;
        }
        stack(|stack| {
            stack.pop();
            if context != 0 {
                stack.push(context);
            }
        });
        Ok(())
    }

    fn cuCtxGetCurrent: "cuCtxGetCurrent" @ 4000 (place: Out<Handle>) {
        driver()?;
        place.set(stack(|stack| stack.last().copied()).unwrap_or(0))
    }

    fn cuCtxGetDevice: "cuCtxGetDevice" @ 2000 (device: Out<Device>) {
        current_even_if_faulty()?;
        device.set(0)
    }

    fn cuCtxGetDevice_v2: "cuCtxGetDevice" @ 13000 (device: Out<Device>, context: Handle) {
        let context = named(context)?;
        driver()?.state().context(context)?;
        device.set(0)
    }

    fn cuCtxSynchronize: "cuCtxSynchronize" @ 2000 () {
        wait_for_all(current_even_if_faulty()?.context)
    }

    fn cuCtxSynchronize_v2: "cuCtxSynchronize" @ 13000 (context: Handle) {
        wait_for_all(named(context)?)
    }

    fn cuCtxGetApiVersion: "cuCtxGetApiVersion" @ 3020 (context: Handle, version: Out<u32>) {
        let context = named(context)?;
        driver()?.state().context(context)?;
        version.set(3020)
    }

    fn cuCtxGetFlags: "cuCtxGetFlags" @ 7000 (flags: Out<u32>) {
        let current = current_even_if_faulty()?;
        let value = current.state().context(current.context)?.flags;
        flags.set(value)
    }

    fn cuCtxSetFlags: "cuCtxSetFlags" @ 12010 (flags: u32) {
        let current = current()?;
        current.state().context(current.context)?.flags = flags;
        Ok(())
    }

    fn cuCtxGetId: "cuCtxGetId" @ 12000 (context: Handle, id: Out<u64>) {
        let context = named(context)?;
        driver()?.state().context(context)?;
        id.set(context as u64)
    }

    fn cuCtxGetLimit: "cuCtxGetLimit" @ 3010 (value: Out<usize>, limit: u32) {
        let current = current()?;
        let first = LIMITS.get(limit as usize).ok_or(Code::UNSUPPORTED_LIMIT)?;
        let set = current.state().context(current.context)?.limits.get(&limit).copied();
        value.set(set.unwrap_or(*first))
    }

    fn cuCtxSetLimit: "cuCtxSetLimit" @ 3010 (limit: u32, value: usize) {
        let current = current()?;
        if limit as usize >= LIMITS.len() {
            return Err(Code::UNSUPPORTED_LIMIT);
        }
        current.state().context(current.context)?.limits.insert(limit, value);
        Ok(())
    }

    fn cuCtxGetCacheConfig: "cuCtxGetCacheConfig" @ 3020 (value: Out<i32>) {
        let current = current()?;
        let cache = current.state().context(current.context)?.cache;
        value.set(cache)
    }

    fn cuCtxSetCacheConfig: "cuCtxSetCacheConfig" @ 3020 (value: i32) {
        let current = current()?;
        current.state().context(current.context)?.cache = value;
        Ok(())
    }

    fn cuCtxGetSharedMemConfig: "cuCtxGetSharedMemConfig" @ 4020 (value: Out<i32>) {
        let current = current()?;
        let banks = current.state().context(current.context)?.banks;
        value.set(banks)
    }

    fn cuCtxSetSharedMemConfig: "cuCtxSetSharedMemConfig" @ 4020 (value: i32) {
        let current = current()?;
        current.state().context(current.context)?.banks = value;
        Ok(())
    }

    fn cuCtxGetStreamPriorityRange: "cuCtxGetStreamPriorityRange" @ 5050 (
        least: Out<i32>, greatest: Out<i32>,
    ) {
        current()?;
        least.set_if_wanted(PRIORITIES.0);
        greatest.set_if_wanted(PRIORITIES.1);
        Ok(())
    }

    fn cuCtxResetPersistingL2Cache: "cuCtxResetPersistingL2Cache" @ 11000 () {
        current().map(|_| ())
    }

    fn cuCtxEnablePeerAccess: "cuCtxEnablePeerAccess" @ 4000 (_peer: Handle, _flags: u32) {
        current()?;
        Err(Code::PEER_ACCESS_UNSUPPORTED)
    }

    fn cuCtxDisablePeerAccess: "cuCtxDisablePeerAccess" @ 4000 (_peer: Handle) {
        current()?;
        Err(Code::PEER_ACCESS_NOT_ENABLED)
    }
}
