//! The kernels of `examples/kernels/src/block_calls.rs`, on the emulator with all its checks: scans, sorts
//! and histograms of a block.

use anyhow::{Result, ensure};
use warpsmith::{Device, Tensor};
use warpsmith_examples::kernels;

#[test]
fn running_sums_go_on_from_step_to_step() -> Result<()> {
    let device = Device::emulator()?;
    let stream = device.default_stream();
    let (rows, columns) = (3, 300);
    // Sums of integers are exact in any order.
    let x: Vec<f32> = (0..rows * columns).map(|i| (i % 7) as f32 - 2.0).collect();
    let on_device = Tensor::from_slice(&device, &[rows, columns], &x)?;
    let mut y = Tensor::<f32>::empty(&stream, &[rows, columns])?;
    kernels::load(&device)?.running_sums(&stream, &on_device, &mut y)?;
    let mut want = Vec::new();
    for row in x.chunks(columns) {
        want.extend(row.iter().scan(0.0, |sum, x| {
            *sum += x;
            Some(*sum)
        }));
    }
    assert_eq!(y.to_vec()?, want);
    Ok(())
}

#[test]
fn an_exclusive_scan_has_what_is_before() -> Result<()> {
    let device = Device::emulator()?;
    let stream = device.default_stream();
    let (rows, columns) = (2, 50);
    let x: Vec<f32> = (0..rows * columns).map(|i| (i * 5 % 3) as f32).collect();
    let on_device = Tensor::from_slice(&device, &[rows, columns], &x)?;
    let mut places = Tensor::<u32>::empty(&stream, &[rows, columns])?;
    kernels::load(&device)?.places_of_kept(&stream, &on_device, &mut places)?;
    let mut want = Vec::new();
    for row in x.chunks(columns) {
        let mut next = 0..;
        let place = |x: &f32| if *x == 0.0 { None } else { next.next() };
        want.extend(row.iter().map(place).map(|place| place.unwrap_or(u32::MAX)));
    }
    assert_eq!(places.to_vec()?, want);
    Ok(())
}

#[test]
fn rows_are_sorted_also_with_nans_and_zeros_of_both_signs() -> Result<()> {
    let device = Device::emulator()?;
    let stream = device.default_stream();
    for columns in [1, 31, 200, 256] {
        let mut x: Vec<f32> = (0..2 * columns)
            .map(|i| (i * 37 % 101) as f32 - 50.0)
            .collect();
        for (value, special) in x
            .iter_mut()
            .step_by(9)
            .zip([f32::NAN, -0.0, f32::INFINITY, 0.0])
        {
            *value = special;
        }
        let on_device = Tensor::from_slice(&device, &[2, columns], &x)?;
        let mut y = Tensor::<f32>::empty(&stream, &[2, columns])?;
        kernels::load(&device)?.sorted_rows(&stream, &on_device, &mut y)?;
        for row in x.chunks_mut(columns) {
            row.sort_by(f32::total_cmp);
        }
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&y.to_vec()?), bits(&x), "{columns} columns");
    }
    Ok(())
}

#[test]
fn counts_are_those_of_each_row() -> Result<()> {
    let device = Device::emulator()?;
    let stream = device.default_stream();
    let (rows, columns) = (3, 500);
    let mut x: Vec<u32> = (0..rows * columns).map(|i| (i * i % 61) as u32).collect();
    let mut counts = Tensor::<u32>::empty(&stream, &[rows, 64])?;
    let on_device = Tensor::from_slice(&device, &[rows, columns], &x)?;
    let kernels = kernels::load(&device)?;
    kernels.counts_of_rows(&stream, &on_device, &mut counts)?;
    let mut want = vec![0; rows * 64];
    for (row, values) in x.chunks(columns).enumerate() {
        for value in values {
            want[row * 64 + *value as usize] += 1;
        }
    }
    assert_eq!(counts.to_vec()?, want);
    x[7] = 64;
    let beyond = Tensor::from_slice(&device, &[rows, columns], &x)?;
    let launched = kernels.counts_of_rows(&stream, &beyond, &mut counts);
    let report = launched.expect_err("it traps").to_string();
    ensure!(report.contains("trap"), "{report}");
    Ok(())
}
