//! The launch itself, the only place of this program with unsafe code.
#![allow(unsafe_code)] // a kernel from a file is beyond what a compiler can check

use std::ffi::c_void;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use warpsmith::{Device, DeviceBuffer, Kernel, KernelArg, LaunchConfig, TensorMap};

use super::args::{Arg, Places, Pointer};
use super::description::Launch;

/// A kernel argument passed by value, as its bytes.
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
    Map(&'b TensorMap),
    Value(Bytes),
}

/// The launch's tensor maps, encoded for a device.
struct Maps {
    encoded: Vec<TensorMap>,
    /// Their bytes in device memory.
    copies: Vec<DeviceBuffer<u8>>,
}

impl Maps {
    fn new(device: &Device, launch: &Launch, buffers: &[DeviceBuffer<u8>]) -> Result<Self> {
        let mut maps = Self {
            encoded: Vec::new(),
            copies: Vec::new(),
        };
        for map in &launch.maps {
            let describe = || format!("tensor_map `{}`", map.name);
            let encoded = map
                .desc
                .encode(&buffers[map.buffer])
                .with_context(describe)?;
            let copy = DeviceBuffer::from_slice(device, encoded.bytes()).with_context(describe)?;
            maps.encoded.push(encoded);
            maps.copies.push(copy);
        }
        Ok(maps)
    }
}

/// Launches the kernel, waits for it, and returns its time (device time on a GPU).
pub(super) fn launch(
    device: &Device,
    kernel: &Kernel,
    launch: &Launch,
    buffers: &[DeviceBuffer<u8>],
) -> Result<Duration> {
    let maps = Maps::new(device, launch, buffers)?;
    let places = OnDevice {
        launch,
        buffers,
        maps: &maps,
    };
    let bound = launch.args.iter().zip(kernel.params()).map(|(arg, param)| {
        let by_value = param.size_bytes as usize == TensorMap::BYTES;
        bind(arg, by_value, &places)
    });
    let bound: Vec<Bound<'_>> = bound.collect();
    let args: Vec<&dyn KernelArg> = bound
        .iter()
        .map(|bound| match bound {
            Bound::Buffer(buffer) => buffer as &dyn KernelArg,
            Bound::Map(map) => map as &dyn KernelArg,
            Bound::Value(bytes) => bytes as &dyn KernelArg,
        })
        .collect();
    let config = LaunchConfig {
        grid: launch.grid,
        block: launch.block,
        shared_bytes: launch.shared_bytes,
        cluster: launch.cluster,
    };
    let stream = device.stream()?;
    let started = Instant::now();
    let before = stream.record()?;
    // SAFETY: the user vouches for the kernel of a file by running it. Buffers stay allocated until
    // the synchronisation below, and nothing else of this process uses the device. A faulty kernel
    // can corrupt this device's context, but no host memory.
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

/// The buffers and maps of a launch on its device.
struct OnDevice<'b> {
    launch: &'b Launch,
    buffers: &'b [DeviceBuffer<u8>],
    maps: &'b Maps,
}

impl OnDevice<'_> {
    fn buffer_index(&self, name: &str) -> Option<usize> {
        self.launch.buffers.iter().position(|own| own.name == name)
    }

    fn map_index(&self, name: &str) -> Option<usize> {
        self.launch.maps.iter().position(|own| own.name == name)
    }
}

// Names were checked when the file was read.
impl Places for OnDevice<'_> {
    fn address(&self, pointer: &Pointer) -> u64 {
        let at = self.buffer_index(pointer.name());
        let start = at.map_or(0, |at| self.buffers[at].device_ptr().as_raw());
        start + pointer.offset_bytes()
    }

    fn map(&self, name: &str) -> [u8; TensorMap::BYTES] {
        let mut bytes = [0; TensorMap::BYTES];
        if let Some(at) = self.map_index(name) {
            bytes.copy_from_slice(self.maps.encoded[at].bytes());
        }
        bytes
    }
}

fn bind<'b>(arg: &Arg, by_value: bool, places: &OnDevice<'b>) -> Bound<'b> {
    match arg {
        Arg::Buffer(pointer @ Pointer::Start(_)) => {
            if let Some(at) = places.buffer_index(pointer.name()) {
                return Bound::Buffer(&places.buffers[at]);
            }
        }
        Arg::Map(name) => match places.map_index(name) {
            Some(at) if by_value => return Bound::Map(&places.maps.encoded[at]),
            Some(at) => return Bound::Buffer(&places.maps.copies[at]),
            None => {}
        },
        _ => {}
    }
    Bound::Value(Bytes(arg.bytes(places)))
}
