//! Time of saxpy: `cargo bench`.

use std::time::Instant;

use warpsmith::{Device, Tensor};

mod kernels {
    include!(concat!(env!("OUT_DIR"), "/ptx/kernels.rs"));
}

fn main() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    // The emulator's time says nothing about a GPU: few elements will do.
    let (len, launches) = match device.is_emulator() {
        true => (1 << 16, 3),
        false => (1 << 26, 100),
    };
    let stream = device.default_stream();
    let x = Tensor::<f32>::zeros(&stream, &[len])?;
    let mut y = Tensor::<f32>::zeros(&stream, &[len])?;
    let kernels = kernels::load(&device)?;
    let mut launch = || kernels.saxpy(&stream, 2.0, &x, &mut y);
    launch()?;
    stream.synchronize()?;
    let started = Instant::now();
    for _ in 0..launches {
        launch()?;
    }
    stream.synchronize()?;
    let seconds = started.elapsed().as_secs_f64() / f64::from(launches);
    let rate = (3 * len * size_of::<f32>()) as f64 / seconds;
    println!("{device}: {:.1} us, {:.0} GB/s", seconds * 1e6, rate / 1e9);
    Ok(())
}
