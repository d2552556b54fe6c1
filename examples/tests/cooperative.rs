//! Kernels with a barrier of the grid, `examples/kernels/src/cooperative.rs`.

use anyhow::{Result, ensure};
use warpsmith::testing::devices;
use warpsmith::{Device, Error, KernelError, LaunchConfig, Tensor};
use warpsmith_examples::kernels;

/// The module of the kernels.
const PTX: &str = include_str!("../kernels/ptx/sm_75/cooperative.ptx");

#[test]
fn a_sum_of_all_blocks_is_there_behind_the_barrier() -> Result<()> {
    devices().iter().try_for_each(sum)
}

fn sum(device: &Device) -> Result<()> {
    let (stream, kernels) = (device.stream()?, kernels::load(device)?);
    // The last is more than the device holds at a time.
    for len in [1, 1000, 300_000] {
        let x: Vec<f32> = (0..len).map(|i| (i % 4 + 1) as f32 / 4.0).collect();
        let sum: f32 = x.iter().sum();
        let x_device = Tensor::from_slice(device, &[len], &x)?;
        let total = Tensor::<f32>::zeros(&stream, &[1])?;
        let mut y = Tensor::<f32>::empty(&stream, &[len])?;
        kernels.shares(&stream, &x_device, &total, &mut y)?;
        assert_eq!(total.to_vec()?, [sum]);
        let want: Vec<u32> = x.iter().map(|x| (x / sum).to_bits()).collect();
        let got: Vec<u32> = y.to_vec()?.iter().map(|y| y.to_bits()).collect();
        ensure!(got == want, "{len}");
    }
    Ok(())
}

#[test]
fn each_step_reads_what_all_blocks_wrote_in_the_step_before() -> Result<()> {
    devices().iter().try_for_each(steps)
}

fn steps(device: &Device) -> Result<()> {
    let (stream, kernels) = (device.stream()?, kernels::load(device)?);
    let (len, steps) = (700, 7);
    let mut rod = vec![0.0_f32; len];
    (rod[0], rod[len - 1]) = (100.0, -50.0);
    let a = Tensor::from_slice(device, &[len], &rod)?;
    let b = Tensor::<f32>::zeros(&stream, &[len])?;
    let config = LaunchConfig::for_elements(len as u64, 128);
    kernels.jacobi(&stream, config, steps, &a, &b)?;
    for _ in 0..steps {
        let before = rod.clone();
        for i in 1..len - 1 {
            rod[i] = 0.5 * (before[i - 1] + before[i + 1]);
        }
    }
    assert_eq!(b.to_vec()?, rod);
    Ok(())
}

#[test]
fn blocks_wait_for_flags_of_others() -> Result<()> {
    devices().iter().try_for_each(chained_sums)
}

fn chained_sums(device: &Device) -> Result<()> {
    let (stream, kernels) = (device.stream()?, kernels::load(device)?);
    let launch = |len: usize| {
        let x: Vec<u32> = (0..len as u32).map(|i| i % 7).collect();
        let (x, blocks) = (Tensor::from_slice(device, &[len], &x)?, len.div_ceil(128));
        let sums = Tensor::<u32>::zeros(&stream, &[blocks])?;
        let done = Tensor::<u32>::zeros(&stream, &[blocks])?;
        let mut y = Tensor::<u32>::zeros(&stream, &[len])?;
        kernels.chained_sums(&stream, &x, &sums, &done, &mut y)?;
        y.to_vec()
    };
    for len in [1, 128, 5000] {
        let sums = (0..len as u32).scan(0, |sum, i| {
            *sum += i % 7;
            Some(*sum)
        });
        assert_eq!(launch(len)?, sums.collect::<Vec<u32>>());
    }
    // More blocks than any GPU holds: the last would not begin before the first have ended.
    let refused = launch(128 * 100_000).map_err(|error| error.to_string());
    let want = "blocks of a cooperative launch";
    ensure!(
        matches!(&refused, Err(text) if text.contains(want)),
        "{refused:?}"
    );
    Ok(())
}

#[test]
fn a_grid_that_does_not_fit_at_once_is_refused() -> Result<()> {
    devices().iter().try_for_each(refusal)
}

fn refusal(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    let kernel = device.load_ptx(PTX)?.kernel("jacobi")?;
    assert!(kernel.is_cooperative());
    let config = LaunchConfig::linear(1, 128);
    let most = kernel.resident_blocks(&config)?;
    // No multiprocessor has more than 2048 threads.
    let multiprocessors = match device.is_emulator() {
        true => 132, // of an H200
        false => device.info().multiprocessors,
    };
    let range = multiprocessors..=multiprocessors * 2048 / 128;
    assert!(range.contains(&most), "{most}");
    let memory = Tensor::<f32>::zeros(&stream, &[2])?;
    let launch = |blocks| {
        let arguments = (1_u32, &memory, 2_usize, &memory, 2_usize);
        // SAFETY: two elements; no step reads what it writes, as both are ends.
        unsafe { kernel.launch(&stream, LaunchConfig::linear(blocks, 128), arguments) }
    };
    let refused = launch(most + 1);
    let limit = u64::from(most);
    ensure!(
        matches!(
            &refused,
            Err(Error::Kernel(KernelError::LaunchLimit { got, limit: most, .. }))
                if (*got, *most) == (limit + 1, limit)
        ),
        "{refused:?}"
    );
    let message = refused.map_err(|error| error.to_string());
    let want = "blocks of a cooperative launch";
    ensure!(
        matches!(&message, Err(text) if text.contains(want)),
        "{message:?}"
    );
    launch(33)?;
    Ok(())
}

#[test]
fn blocks_that_wait_for_others_in_vain_are_reported() -> Result<()> {
    let device = Device::emulator()?;
    let stream = device.stream()?;
    let kernel = device.load_ptx(PTX)?.kernel("half_of_the_grid_waits")?;
    // SAFETY: no memory is accessed.
    let launched = unsafe { kernel.launch(&stream, LaunchConfig::linear(4, 128), ()) };
    let report = launched.map_err(|error| error.to_string());
    ensure!(
        matches!(&report, Err(text) if text.contains("deadlock")),
        "{report:?}"
    );
    Ok(())
}
