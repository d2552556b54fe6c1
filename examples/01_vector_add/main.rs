//! Your own kernel, from Rust to the GPU.
//!
//! The kernel is in `examples/kernels/src/vector_add.rs`. This program only needs its PTX, so it
//! builds with stable Rust alone and runs anywhere:
//!
//! ```text
//! cargo run --release --example 01_vector_add
//! ```

use anyhow::{Result, ensure};
use warpsmith::{Device, DeviceBuffer, LaunchConfig};

/// What `warpsmith build examples/kernels` made of the kernel.
const PTX: &str = include_str!("../kernels/ptx/sm_75/vector_add.ptx");

fn main() -> Result<()> {
    let device = Device::auto()?; // a GPU where there is one, else the emulator
    let stream = device.stream()?;

    let len = 10_000;
    let a: Vec<f32> = (0..len).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..len).map(|i| 0.5 * i as f32).collect();
    let a_device = DeviceBuffer::from_slice(&device, &a)?;
    let b_device = DeviceBuffer::from_slice(&device, &b)?;
    let mut c_device = DeviceBuffer::<f32>::uninit(&stream, len)?;

    let kernel = device.load_ptx(PTX)?.kernel("vector_add")?;
    let config = LaunchConfig::for_elements(len as u64, 256);
    // Number and sizes of the arguments are held against the PTX: a wrong one is an error.
    // SAFETY: all three buffers hold `len` elements, as the kernel demands.
    unsafe { kernel.launch(&stream, config, (&a_device, &b_device, &mut c_device, len))? };

    let c = c_device.to_vec()?; // waits for the kernel
    for i in 0..len {
        ensure!(
            c[i] == a[i] + b[i],
            "c[{i}] is {}, not {}",
            c[i],
            a[i] + b[i]
        );
    }
    println!("{len} sums are right on {}", device.name());
    Ok(())
}
