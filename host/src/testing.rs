//! The devices that tests run on, captures of what they do, and launches of entries. Not part of the library's interface.

pub use crate::capture::{Capture, Data, Launch, Link, Place, Recording, Step};

use crate::device::Device;
use crate::error::{DeviceError, Error, Result};
use crate::launch::{KernelArgs, LaunchConfig};
use crate::load;
use crate::stream::Stream;
use abi::entry::Entry;

/// The environment variable that selects the devices.
pub const VARIABLE: &str = "WARPSMITH_TEST_DEVICE";

/// The devices that a test runs on. [`VARIABLE`] selects them: `emulator`, `gpu`, or `all` for
/// both. If it is not set: the emulator, and the GPU if there is one.
///
/// # Panics
/// If a selected device does not exist, or an existing one cannot be used: a test must not pass
/// because it did not run.
pub fn devices() -> Vec<Device> {
    let asked = std::env::var(VARIABLE).ok();
    let names: &[&str] = match asked.as_deref() {
        Some("emulator") => &["emulator"],
        Some("gpu") => &["gpu"],
        Some("all") => &["emulator", "gpu"],
        Some(other) => panic!("{VARIABLE} is `{other}`, want emulator, gpu or all"),
        None => {
            let mut devices = Vec::new();
            if cfg!(feature = "emulator") {
                devices.push(open("emulator"));
            }
            match Device::gpu(0) {
                Ok(device) => devices.push(device),
                Err(
                    Error::Device(DeviceError::NoDriver { .. })
                    | Error::Device(DeviceError::NoDevice { .. }),
                ) => {}
                Err(error) => panic!("there is a GPU that cannot be used: {error}"),
            }
            return devices;
        }
    };
    names.iter().map(|name| open(name)).collect()
}

fn open(name: &str) -> Device {
    Device::from_name(name).unwrap_or_else(|error| panic!("{VARIABLE} wants `{name}`: {error}"))
}

/// Enqueues one launch of an entry, as operations do: `memory` is its pointers and tensor maps, and
/// `params` its parameter blocks.
///
/// # Errors
/// As [`Device::builtin_kernel`] and [`Kernel::launch`](crate::Kernel::launch).
///
/// # Safety
/// As [`Kernel::launch`](crate::Kernel::launch).
pub unsafe fn launch<E: Entry>(
    stream: &Stream,
    entry: E,
    config: LaunchConfig,
    memory: impl KernelArgs,
    params: &E::Params,
) -> Result<()> {
    let kernel = load::kernel(stream, entry)?;
    // SAFETY: guaranteed by the caller.
    unsafe { kernel.launch(stream, config, memory, params) }
}
