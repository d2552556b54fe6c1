//! The kernels without `unsafe` of `examples/kernels/src/safe.rs`, on the emulator with all its checks.

use anyhow::{Context, Result, ensure};
use warpsmith::{Device, DeviceBuffer, Error, KernelError, LaunchConfig, Stream, Tensor};
use warpsmith_examples::kernels::{self, Kernels};

/// The kernels on the emulator.
struct Emulated {
    device: Device,
    stream: Stream,
    kernels: Kernels,
}

impl Emulated {
    fn new() -> Result<Self> {
        let device = Device::emulator()?;
        let kernels = kernels::load(&device)?;
        let stream = device.stream()?;
        Ok(Self {
            device,
            stream,
            kernels,
        })
    }

    fn tensor<T: warpsmith::Element>(&self, shape: &[usize], values: &[T]) -> Result<Tensor<T>> {
        Ok(Tensor::from_slice(&self.device, shape, values)?)
    }

    fn empty(&self, shape: &[usize]) -> Result<Tensor<f32>> {
        Ok(Tensor::empty(&self.stream, shape)?)
    }
}

/// `len` numbers of both signs, which f32 has exactly.
fn numbers(len: usize) -> Vec<f32> {
    let number = |i: usize| (i * 37 % 101) as f32 / 4.0 - 12.0;
    (0..len).map(number).collect()
}

fn is_near(got: &[f32], want: &[f64]) -> Result<()> {
    ensure!(got.len() == want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(*got) - want).abs();
        ensure!(
            error <= 1e-5 * want.abs().max(1.0),
            "[{i}] is {got}, not {want}"
        );
    }
    Ok(())
}

#[test]
fn a_vector_add_adds_as_its_unsafe_twin_does() -> Result<()> {
    let on = Emulated::new()?;
    let len = 1000;
    let [a, b] = [numbers(len), numbers(len).into_iter().rev().collect()];
    let [a, b] = [on.tensor(&[len], &a)?, on.tensor(&[len], &b)?];
    let (mut c, mut twin) = (on.empty(&[len])?, on.empty(&[len])?);
    let config = LaunchConfig::for_elements(len as u64, 128);
    on.kernels
        .safe_vector_add(&on.stream, config, &a, &b, &mut c)?;
    // SAFETY: tensors of `len` elements that do not overlap.
    unsafe {
        on.kernels
            .vector_add(&on.stream, config, &a, &b, &mut twin, len)?;
    }
    assert_eq!(c.to_vec()?, twin.to_vec()?);
    Ok(())
}

#[test]
fn a_grid_stride_loop_reaches_every_element() -> Result<()> {
    let on = Emulated::new()?;
    let len = 777;
    let x = numbers(len);
    let (x_device, mut y) = (on.tensor(&[len], &x)?, on.tensor(&[len], &x)?);
    let config = LaunchConfig::linear(2, 64);
    on.kernels
        .safe_axpy(&on.stream, config, 3.0, &x_device, &mut y)?;
    let want: Vec<f64> = x.iter().map(|x| 4.0 * f64::from(*x)).collect();
    is_near(&y.to_vec()?, &want)
}

#[test]
fn a_stencil_has_zeros_around_its_input() -> Result<()> {
    let on = Emulated::new()?;
    let len = 700;
    let x = numbers(len);
    let (x_device, mut y) = (on.tensor(&[len], &x)?, on.empty(&[len])?);
    let config = LaunchConfig::for_elements(len as u64, 256);
    on.kernels
        .safe_stencil(&on.stream, config, &x_device, &mut y)?;
    let at = |i: usize| (2..len + 2).contains(&i).then(|| f64::from(x[i - 2]));
    let mean = |i: usize| (i..i + 5).filter_map(at).sum::<f64>() / 5.0;
    is_near(&y.to_vec()?, &(0..len).map(mean).collect::<Vec<_>>())
}

#[test]
fn a_transposition_takes_views_and_shapes_that_no_tile_divides() -> Result<()> {
    let on = Emulated::new()?;
    let (rows, columns) = (70, 45);
    let x = numbers(rows * columns);
    let x_device = on.tensor(&[rows, columns], &x)?;
    // Into the middle columns of a wider tensor.
    let wide = Tensor::<f32>::zeros(&on.stream, &[columns, rows + 6])?;
    let mut y = wide.slice(1, 3..rows + 3)?;
    let config = LaunchConfig {
        grid: [rows.div_ceil(32) as u32, columns.div_ceil(32) as u32, 1],
        block: [32, 8, 1],
        ..LaunchConfig::linear(1, 1)
    };
    on.kernels
        .safe_transpose(&on.stream, config, &x_device, &mut y)?;
    let (got, want) = (y.to_vec()?, x_device.t().to_vec()?);
    assert_eq!(got, want);
    let around = wide.slice(1, 0..3)?.to_vec()?;
    assert!(around.iter().all(|x| *x == 0.0));
    Ok(())
}

#[test]
fn softmax_sums_to_one_in_each_row() -> Result<()> {
    let on = Emulated::new()?;
    let (rows, columns) = (5, 300);
    let x = numbers(rows * columns);
    let (x_device, mut y) = (
        on.tensor(&[rows, columns], &x)?,
        on.empty(&[rows, columns])?,
    );
    // Fewer blocks than rows.
    let config = LaunchConfig::linear(3, 128);
    on.kernels
        .safe_softmax(&on.stream, config, &x_device, &mut y)?;
    let mut want = Vec::new();
    for row in x.chunks(columns) {
        let powers: Vec<f64> = row.iter().map(|x| f64::from(*x).exp()).collect();
        let sum: f64 = powers.iter().sum();
        want.extend(powers.iter().map(|power| power / sum));
    }
    is_near(&y.to_vec()?, &want)
}

#[test]
fn a_histogram_counts_by_atomics() -> Result<()> {
    let on = Emulated::new()?;
    let values: Vec<u32> = (0..900).map(|i| i * 7 % 23).collect();
    let values_device = on.tensor(&[values.len()], &values)?;
    let counts = Tensor::<u32>::zeros(&on.stream, &[20])?;
    let config = LaunchConfig::linear(3, 96);
    on.kernels
        .safe_histogram(&on.stream, config, &values_device, &counts)?;
    let mut want = [0_u32; 20];
    for value in values {
        want[value.min(19) as usize] += 1;
    }
    assert_eq!(counts.to_vec()?, want);
    Ok(())
}

#[test]
fn segments_are_summed_also_empty_ones() -> Result<()> {
    let on = Emulated::new()?;
    let x = numbers(500);
    let starts: [u32; 6] = [0, 3, 3, 200, 499, 500];
    let (x_device, starts_device) = (on.tensor(&[500], &x)?, on.tensor(&[6], &starts)?);
    let mut sums = on.empty(&[5])?;
    let config = LaunchConfig::linear(4, 128);
    on.kernels
        .safe_segmented_sum(&on.stream, config, &x_device, &starts_device, &mut sums)?;
    let sum = |ends: &[u32]| {
        x[ends[0] as usize..ends[1] as usize]
            .iter()
            .copied()
            .map(f64::from)
            .sum()
    };
    is_near(
        &sums.to_vec()?,
        &starts.windows(2).map(sum).collect::<Vec<f64>>(),
    )
}

#[test]
fn an_index_out_of_bounds_is_a_trap() -> Result<()> {
    let on = Emulated::new()?;
    let x = on.tensor(&[10], &numbers(10))?;
    let starts = on.tensor(&[2], &[0_u32, 11])?;
    let mut sums = on.empty(&[1])?;
    let config = LaunchConfig::linear(1, 128);
    let launched = on
        .kernels
        .safe_segmented_sum(&on.stream, config, &x, &starts, &mut sums);
    let error = launched.err().context("it traps")?.to_string();
    ensure!(error.contains("trap"), "{error}");
    Ok(())
}

#[test]
fn more_dimensions_than_the_indices_have_are_refused() -> Result<()> {
    let on = Emulated::new()?;
    let x = on.tensor(&[10], &numbers(10))?;
    let mut y = on.empty(&[10])?;
    // Two threads would share an element.
    let flat = LaunchConfig {
        block: [4, 2, 1],
        ..LaunchConfig::linear(1, 1)
    };
    assert_refused(
        on.kernels.safe_vector_add(&on.stream, flat, &x, &x, &mut y),
        "requires a grid and a block of one dimension, \
         but grid.y = 1, grid.z = 1, block.y = 2, block.z = 1",
    );
    let (x, mut y) = (x.reshape(&[2, 5])?, on.empty(&[2, 5])?);
    let of_rows = LaunchConfig {
        grid: [1, 2, 1],
        ..LaunchConfig::linear(1, 128)
    };
    assert_refused(
        on.kernels.safe_softmax(&on.stream, of_rows, &x, &mut y),
        "requires a grid of one dimension, but grid.y = 2, grid.z = 1",
    );
    // No output depends on the index of a histogram, whose launch does not check it: the kernel does.
    let (values, counts) = (
        on.tensor(&[10], &[0_u32; 10])?,
        on.tensor(&[4], &[0_u32; 4])?,
    );
    let counted = on
        .kernels
        .safe_histogram(&on.stream, flat, &values, &counts);
    let error = counted.err().context("it traps")?.to_string();
    ensure!(error.contains("trap"), "{error}");
    Ok(())
}

#[test]
fn strides_that_a_kernel_requires_are_checked() -> Result<()> {
    let on = Emulated::new()?;
    let x = on.tensor(&[5, 2], &numbers(10))?.t();
    let mut y = on.empty(&[2, 5])?;
    assert_refused(
        on.kernels
            .safe_softmax(&on.stream, LaunchConfig::linear(2, 128), &x, &mut y),
        "requires x.column_stride() == 1, but x.column_stride() = 2",
    );
    Ok(())
}

#[track_caller]
fn assert_refused(refused: warpsmith::Result<()>, want: &str) {
    let error = refused.expect_err(want);
    assert!(
        matches!(error, Error::Kernel(_) | Error::Argument(_)),
        "{error}"
    );
    assert!(error.to_string().contains(want), "{error}, want {want}");
}

#[test]
fn what_a_kernel_writes_is_memory_of_its_own() -> Result<()> {
    let on = Emulated::new()?;
    let config = LaunchConfig::linear(1, 32);
    let both = on.tensor(&[20], &numbers(20))?;
    let (x, mut y) = (both.slice(0, 0..10)?, both.slice(0, 9..19)?);
    let refused = on.kernels.safe_axpy(&on.stream, config, 1.0, &x, &mut y);
    assert!(
        matches!(refused, Err(Error::Kernel(KernelError::Overlap { .. }))),
        "{refused:?}"
    );
    assert_refused(
        refused,
        "`safe_axpy`: the memory of `y: *mut f32` overlaps that of `x: *const f32`",
    );
    let mut beside = both.slice(0, 10..20)?;
    on.kernels
        .safe_axpy(&on.stream, config, 1.0, &x, &mut beside)?;
    // Two inputs may be the same.
    on.kernels
        .safe_vector_add(&on.stream, config, &x, &x, &mut beside)?;
    let counts = Tensor::<u32>::zeros(&on.stream, &[20])?;
    assert_refused(
        on.kernels
            .safe_histogram(&on.stream, config, &counts, &counts),
        "`counts: *const AtomicU32` overlaps that of `values: *const u32`",
    );
    Ok(())
}

#[test]
fn memory_that_the_kernel_cannot_take_is_refused_with_the_parameters_name() -> Result<()> {
    let on = Emulated::new()?;
    let config = LaunchConfig::linear(1, 32);
    let a = on.tensor(&[10], &numbers(10))?;
    let mut c = on.empty(&[10])?;
    let even = a.slice_step(0, .., 2)?;
    assert_refused(
        on.kernels
            .safe_vector_add(&on.stream, config, &even, &a, &mut c),
        "`a: *const f32` does not take a view of f32 that is not contiguous, with shape [5]",
    );
    assert_refused(
        on.kernels
            .safe_vector_add(&on.stream, config, &a, a.device_ptr(), &mut c),
        "`b: *const f32` does not take an address alone",
    );
    assert_refused(
        on.kernels
            .safe_vector_add(&on.stream, config, &a, None::<&Tensor<f32>>, &mut c),
        "`b: *const f32` does not take the null pointer",
    );
    let of_rows = LaunchConfig::linear(1, 128);
    assert_refused(
        on.kernels.safe_softmax(&on.stream, of_rows, &a, &mut c),
        "`x: *const f32` does not take a tensor of shape [10]",
    );
    let mut same_rows = on.empty(&[1, 5])?.broadcast_to(&[2, 5])?;
    let x = a.reshape(&[2, 5])?;
    assert_refused(
        on.kernels
            .safe_softmax(&on.stream, of_rows, &x, &mut same_rows),
        "indices share elements",
    );
    let odd = a.device_ptr().as_raw() + 2;
    // SAFETY: 8 elements of `a`, but for their alignment, which the launch refuses.
    let odd = unsafe { DeviceBuffer::<f32>::borrowed(&on.device, odd, 8) };
    assert_refused(
        on.kernels
            .safe_vector_add(&on.stream, config, &a, &odd, &mut c),
        "it takes multiples of 4",
    );
    Ok(())
}

#[test]
fn a_launch_that_the_kernel_cannot_have_is_refused() -> Result<()> {
    let on = Emulated::new()?;
    let x = on.tensor(&[10], &numbers(10))?;
    let mut y = on.empty(&[10])?;
    let mut axpy = |config| on.kernels.safe_axpy(&on.stream, config, 1.0, &x, &mut y);
    assert_refused(
        axpy(LaunchConfig::linear(1, 1025)),
        "is 1025, the limit is 1024",
    );
    assert_refused(axpy(LaunchConfig::linear(0, 32)), "grid is [0, 1, 1]");
    let high = LaunchConfig {
        grid: [1, 65_536, 1],
        ..LaunchConfig::linear(1, 32)
    };
    assert_refused(axpy(high), "grid is 65536, the limit is 65535");
    assert_refused(
        axpy(LaunchConfig::linear(1, 32).shared_bytes(1 << 20)),
        "dynamic shared memory in bytes is 1048576",
    );
    // `#[kernel(block = 256)]`
    let mut y = on.empty(&[10])?;
    assert_refused(
        on.kernels
            .safe_stencil(&on.stream, LaunchConfig::linear(1, 128), &x, &mut y),
        "block is [128, 1, 1], want [256, 1, 1]",
    );
    Ok(())
}
