//! The devices that tests run on, and captures of what they do. Not part of the library's interface.

pub use crate::capture::{Capture, Data, Launch, Link, Place, Recording, Step};

use crate::device::Device;
use crate::error::{DeviceError, Error};

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
