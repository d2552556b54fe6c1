//! The emulator as a debugger: a kernel that writes past the end.
//!
//! On a GPU, this launch may cause no visible harm today, and corrupt other data tomorrow. The
//! emulator reports the first invalid access with kernel, PTX line, block and thread.
//!
//! ```text
//! cargo run --release --example 05_find_the_bug
//! ```

use anyhow::{Result, bail};
use warpsmith::{Device, DeviceBuffer, LaunchConfig};

/// The kernels' PTX, built by `warpsmith build examples/kernels`.
const PTX: &str = include_str!("../kernels/ptx/sm_75/vector_add.ptx");

fn main() -> Result<()> {
    let device = Device::emulator()?;
    let stream = device.stream()?;

    let len = 1000; // not a multiple of the block
    let a = DeviceBuffer::from_slice(&device, &vec![1.0_f32; len])?;
    let b = DeviceBuffer::from_slice(&device, &vec![2.0_f32; len])?;
    let mut c = DeviceBuffer::<f32>::uninit(&stream, len)?;

    let kernel = device.load_ptx(PTX)?.kernel("vector_add_with_a_bug")?;
    let config = LaunchConfig::for_elements(len as u64, 256); // 1024 threads
    // SAFETY: not sound on a GPU; the emulator checks every access, so nothing can be corrupted.
    let launched = unsafe { kernel.launch(&stream, config, (&a, &b, &mut c)) };
    match launched.and_then(|()| stream.synchronize()) {
        Ok(()) => bail!("the emulator missed the bug"),
        Err(report) => println!("found it:\n{report}"),
    }
    Ok(())
}
