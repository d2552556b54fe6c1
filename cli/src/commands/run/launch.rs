//! The launch itself: the one place of this program with unsafe code.
#![allow(unsafe_code)] // a kernel from a file is beyond what a compiler can check

use std::ffi::c_void;
use std::time::{Duration, Instant};

use anyhow::Result;
use warpsmith::{Device, DeviceBuffer, KernelArg, LaunchConfig, Module};

use super::description::{Arg, Launch};

/// A value of some size, passed as its bytes.
struct Bytes(Vec<u8>);

// SAFETY: the pointer is that of the vector, which holds `size_bytes` initialised bytes and is not
// touched while `self` is borrowed.
unsafe impl KernelArg for Bytes {
    fn size_bytes(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> *const c_void {
        self.0.as_ptr().cast()
    }
}

/// An argument with its owner or value.
enum Bound<'b> {
    Buffer(&'b DeviceBuffer<u8>),
    Value(Bytes),
}

/// Launches the kernel, waits for it, and gives the time it took (on a GPU by the GPU's clock).
pub(super) fn launch(
    device: &Device,
    module: &Module,
    launch: &Launch,
    buffers: &[DeviceBuffer<u8>],
) -> Result<Duration> {
    let kernel = module.kernel(&launch.kernel)?;
    let bound: Vec<Bound<'_>> = launch
        .args
        .iter()
        .map(|arg| bind(arg, launch, buffers))
        .collect();
    let args: Vec<&dyn KernelArg> = bound
        .iter()
        .map(|bound| match bound {
            Bound::Buffer(buffer) => buffer as &dyn KernelArg,
            Bound::Value(bytes) => bytes as &dyn KernelArg,
        })
        .collect();
    let config = LaunchConfig {
        grid: launch.grid,
        block: launch.block,
        shared_bytes: launch.shared_bytes,
        cluster: None,
    };
    let stream = device.stream()?;
    let started = Instant::now();
    let before = stream.record()?;
    // SAFETY: what a kernel from a file does with its memory is the caller's word, given by
    // running it: buffers are alive until the synchronisation below, and nothing else of this
    // process is on the device. A wild kernel can break this device's context and no host memory.
    unsafe { kernel.launch(&stream, config, args.as_slice())? };
    let after = stream.record()?;
    stream.synchronize()?;
    if device.is_emulator() {
        return Ok(started.elapsed());
    }
    Ok(Duration::from_secs_f64(
        f64::from(before.elapsed_ms(&after)?) / 1e3,
    ))
}

fn bind<'b>(arg: &Arg, launch: &Launch, buffers: &'b [DeviceBuffer<u8>]) -> Bound<'b> {
    if let Arg::Buffer(name) = arg
        && let Some(at) = launch
            .buffers
            .iter()
            .position(|buffer| buffer.name == *name)
    {
        return Bound::Buffer(&buffers[at]);
    }
    Bound::Value(Bytes(arg.bytes().unwrap_or_default()))
}
