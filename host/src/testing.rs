//! Which devices tests run on. Not part of the library's interface.

use crate::device::Device;
use crate::error::Error;

/// The environment variable that chooses.
pub const VARIABLE: &str = "WARPSMITH_TEST_DEVICE";

/// The devices that a test shall run on: by [`VARIABLE`], `emulator`, `gpu`, or `all` for both;
/// where it is not set, the emulator, and the GPU where there is one.
///
/// # Panics
/// Where a device that was asked for is not there, or one that is there cannot be used: a test
/// must not pass because it did not run.
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
                Err(Error::NoDriver { .. } | Error::NoDevice { .. }) => {}
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
