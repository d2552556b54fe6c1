//! The emulator as a debugger: a kernel that writes past the end, and a kernel with a race.
//!
//! On a GPU, the first may cause no visible harm today, and corrupt other data tomorrow. The second
//! usually gives the right result. The emulator reports both on every run, with kernel, PTX line,
//! block and thread.
//!
//! ```text
//! cargo run --release --example 05_find_the_bug
//! ```

use anyhow::{Result, bail};
use warpsmith::{Device, DeviceBuffer, LaunchConfig, Stream};

/// The kernels' PTX, built by `warpsmith build examples/kernels`.
const OUT_OF_BOUNDS: &str = include_str!("../kernels/ptx/sm_75/vector_add.ptx");
const RACE: &str = include_str!("../kernels/ptx/sm_75/reverse.ptx");

fn main() -> Result<()> {
    let device = Device::emulator()?; // all checks are on
    let stream = device.stream()?;
    out_of_bounds(&device, &stream)?;
    race(&device, &stream)
}

fn out_of_bounds(device: &Device, stream: &Stream) -> Result<()> {
    let len = 1000; // not a multiple of the block
    let a = DeviceBuffer::from_slice(device, &vec![1.0_f32; len])?;
    let b = DeviceBuffer::from_slice(device, &vec![2.0_f32; len])?;
    let mut c = DeviceBuffer::<f32>::uninit(stream, len)?;

    let kernel = device
        .load_ptx(OUT_OF_BOUNDS)?
        .kernel("vector_add_with_a_bug")?;
    let config = LaunchConfig::for_elements(len as u64, 256); // 1024 threads
    // SAFETY: not sound on a GPU; the emulator checks every access, so nothing can be corrupted.
    let launched = unsafe { kernel.launch(stream, config, (&a, &b, &mut c)) };
    show(launched.and_then(|()| stream.synchronize()))
}

fn race(device: &Device, stream: &Stream) -> Result<()> {
    let rows = 4_usize;
    let x = DeviceBuffer::from_slice(device, &vec![1.0_f32; 256 * rows])?;
    let mut y = DeviceBuffer::<f32>::uninit(stream, 256 * rows)?;

    let kernel = device.load_ptx(RACE)?.kernel("reverse_rows")?;
    // SAFETY: the buffers have `rows` rows. The emulator ends the launch where the race shows.
    let launched =
        unsafe { kernel.launch(stream, LaunchConfig::linear(1, 256), (&x, &mut y, rows)) };
    show(launched.and_then(|()| stream.synchronize()))
}

fn show(launched: warpsmith::Result<()>) -> Result<()> {
    match launched {
        Ok(()) => bail!("the emulator missed the bug"),
        Err(report) => println!("found it:\n{report}\n"),
    }
    Ok(())
}
