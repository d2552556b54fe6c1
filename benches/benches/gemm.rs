//! Criterion benches of products, per architecture: of each family of kernels that the device
//! runs, the one that the cost model puts first. The device is the one that
//! `WARPSMITH_BENCH_DEVICE` names, time is by its events.

use std::error::Error;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use half::{bf16, f16};
use warpsmith::{Float, Gemm, GemmInput, Plan, Stream};
use warpsmith_benches::bench_device;
use warpsmith_benches::inputs::{Sample, normal_tensor};

use events::DeviceTime;

mod events;

fn main() -> Result<(), Box<dyn Error>> {
    let device = bench_device()?;
    let stream = device.default_stream();
    let mut criterion = events::criterion(&stream)?;
    let sizes: &[usize] = if device.is_emulator() {
        &[64]
    } else {
        &[1024, 4096, 8192]
    };
    for &size in sizes {
        squares::<bf16>(&mut criterion, &stream, size)?;
        squares::<f16>(&mut criterion, &stream, size)?;
        squares::<f32>(&mut criterion, &stream, size)?;
    }
    criterion.final_summary();
    Ok(())
}

/// `gemm/<architecture>/<dtype>/nt/..` for each architecture that has a kernel.
fn squares<T>(
    criterion: &mut Criterion<DeviceTime>,
    stream: &Stream,
    size: usize,
) -> Result<(), Box<dyn Error>>
where
    T: GemmInput<Output = T> + Float + Sample,
{
    let a = normal_tensor::<T>(stream.device(), &[size, size], 1)?;
    let b = normal_tensor::<T>(stream.device(), &[size, size], 2)?.t();
    let d = Gemm::new(&a, &b).run(stream)?;
    let mut group = criterion.benchmark_group("gemm");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .throughput(Throughput::Elements(2 * (size as u64).pow(3)));
    for (architecture, kernel) in first_of_each(&Gemm::new(&a, &b).plan(stream)?) {
        let name = format!("{architecture}/{}/nt/m{size}_n{size}_k{size}", T::DTYPE);
        group.bench_function(&name, |bencher| {
            let gemm = Gemm::new(&a, &b).with_kernel(&kernel);
            bencher.iter(|| {
                let done = gemm.run_into(&d, stream);
                done.unwrap_or_else(|error| panic!("{name}: {error}"));
            });
        });
    }
    group.finish();
    Ok(())
}

/// Architectures that have a candidate, each with the best one's name. Entries are named
/// `gemm_<architecture>_<dtype>_..`.
fn first_of_each(plan: &Plan) -> Vec<(String, String)> {
    let mut first: Vec<(String, String)> = Vec::new();
    for candidate in plan.candidates() {
        let architecture = candidate.entry.split('_').nth(1).unwrap_or_default();
        if first.iter().all(|(known, _)| known != architecture) {
            first.push((architecture.to_owned(), candidate.name.clone()));
        }
    }
    first
}
