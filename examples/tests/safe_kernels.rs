//! The kernels without `unsafe` of `examples/kernels/src/safe.rs`, on the emulator with all its checks.

use anyhow::{Context, Result, ensure};
use warpsmith::{Device, Kernel, LaunchConfig, Stream, Tensor};

const PTX: &str = include_str!("../kernels/ptx/sm_75/safe.ptx");
const UNSAFE: &str = include_str!("../kernels/ptx/sm_75/vector_add.ptx");
const MANIFEST: &str = include_str!("../kernels/ptx/manifest.json");

/// A kernel on the emulator.
struct Emulated {
    device: Device,
    stream: Stream,
    kernel: Kernel,
}

impl Emulated {
    fn new(name: &str) -> Result<Self> {
        let device = Device::emulator()?;
        let kernel = device.load_built(PTX, MANIFEST)?.kernel(name)?;
        let stream = device.stream()?;
        Ok(Self {
            device,
            stream,
            kernel,
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
    let on = Emulated::new("safe_vector_add")?;
    let len = 1000;
    let [a, b] = [numbers(len), numbers(len).into_iter().rev().collect()];
    let [a, b] = [on.tensor(&[len], &a)?, on.tensor(&[len], &b)?];
    let (mut c, mut twin) = (on.empty(&[len])?, on.empty(&[len])?);
    let config = LaunchConfig::for_elements(len as u64, 128);
    let of_twin = on.device.load_ptx(UNSAFE)?.kernel("vector_add")?;
    // SAFETY: tensors of `len` elements that do not overlap.
    unsafe {
        on.kernel.launch(&on.stream, config, (&a, &b, &mut c))?;
        of_twin.launch(&on.stream, config, (&a, &b, &mut twin, len))?;
    }
    assert_eq!(c.to_vec()?, twin.to_vec()?);
    Ok(())
}

#[test]
fn a_grid_stride_loop_reaches_every_element() -> Result<()> {
    let on = Emulated::new("safe_axpy")?;
    let len = 777;
    let x = numbers(len);
    let (x_device, mut y) = (on.tensor(&[len], &x)?, on.tensor(&[len], &x)?);
    // SAFETY: tensors of `len` elements that do not overlap.
    unsafe {
        on.kernel.launch(
            &on.stream,
            LaunchConfig::linear(2, 64),
            (3.0_f32, &x_device, &mut y),
        )?;
    }
    let want: Vec<f64> = x.iter().map(|x| 4.0 * f64::from(*x)).collect();
    is_near(&y.to_vec()?, &want)
}

#[test]
fn a_stencil_has_zeros_around_its_input() -> Result<()> {
    let on = Emulated::new("safe_stencil")?;
    let len = 700;
    let x = numbers(len);
    let (x_device, mut y) = (on.tensor(&[len], &x)?, on.empty(&[len])?);
    let config = LaunchConfig::for_elements(len as u64, 256);
    // SAFETY: tensors of `len` elements that do not overlap.
    unsafe { on.kernel.launch(&on.stream, config, (&x_device, &mut y))? };
    let at = |i: usize| (2..len + 2).contains(&i).then(|| f64::from(x[i - 2]));
    let mean = |i: usize| (i..i + 5).filter_map(at).sum::<f64>() / 5.0;
    is_near(&y.to_vec()?, &(0..len).map(mean).collect::<Vec<_>>())
}

#[test]
fn a_transposition_takes_views_and_shapes_that_no_tile_divides() -> Result<()> {
    let on = Emulated::new("safe_transpose")?;
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
    // SAFETY: y has the shape of x^T, and overlaps nothing.
    unsafe { on.kernel.launch(&on.stream, config, (&x_device, &mut y))? };
    let (got, want) = (y.to_vec()?, x_device.t().to_vec()?);
    assert_eq!(got, want);
    let around = wide.slice(1, 0..3)?.to_vec()?;
    assert!(around.iter().all(|x| *x == 0.0));
    Ok(())
}

#[test]
fn softmax_sums_to_one_in_each_row() -> Result<()> {
    let on = Emulated::new("safe_softmax")?;
    let (rows, columns) = (5, 300);
    let x = numbers(rows * columns);
    let (x_device, mut y) = (
        on.tensor(&[rows, columns], &x)?,
        on.empty(&[rows, columns])?,
    );
    // Fewer blocks than rows.
    let config = LaunchConfig::linear(3, 128);
    // SAFETY: y has the shape of x, and does not overlap it.
    unsafe { on.kernel.launch(&on.stream, config, (&x_device, &mut y))? };
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
    let on = Emulated::new("safe_histogram")?;
    let values: Vec<u32> = (0..900).map(|i| i * 7 % 23).collect();
    let values_device = on.tensor(&[values.len()], &values)?;
    let counts = Tensor::<u32>::zeros(&on.stream, &[20])?;
    // SAFETY: both are of u32, and do not overlap.
    unsafe {
        on.kernel.launch(
            &on.stream,
            LaunchConfig::linear(3, 96),
            (&values_device, &counts),
        )?;
    }
    let mut want = [0_u32; 20];
    for value in values {
        want[value.min(19) as usize] += 1;
    }
    assert_eq!(counts.to_vec()?, want);
    Ok(())
}

#[test]
fn segments_are_summed_also_empty_ones() -> Result<()> {
    let on = Emulated::new("safe_segmented_sum")?;
    let x = numbers(500);
    let starts: [u32; 6] = [0, 3, 3, 200, 499, 500];
    let (x_device, starts_device) = (on.tensor(&[500], &x)?, on.tensor(&[6], &starts)?);
    let mut sums = on.empty(&[5])?;
    // SAFETY: none of them overlap.
    unsafe {
        let config = LaunchConfig::linear(4, 128);
        on.kernel
            .launch(&on.stream, config, (&x_device, &starts_device, &mut sums))?;
    }
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
    let on = Emulated::new("safe_vector_add")?;
    let [a, b] = [
        on.tensor(&[10], &numbers(10))?,
        on.tensor(&[9], &numbers(9))?,
    ];
    let mut c = on.empty(&[10])?;
    // SAFETY: tensors that do not overlap.
    let launched = unsafe {
        on.kernel
            .launch(&on.stream, LaunchConfig::linear(1, 32), (&a, &b, &mut c))
    };
    let error = launched.err().context("b has no element 9")?.to_string();
    ensure!(error.contains("trap"), "{error}");
    // More dimensions than the index has: two threads would share an element.
    let flat = LaunchConfig {
        block: [4, 2, 1],
        ..LaunchConfig::linear(1, 1)
    };
    let b = on.tensor(&[10], &numbers(10))?;
    // SAFETY: tensors that do not overlap.
    let launched = unsafe { on.kernel.launch(&on.stream, flat, (&a, &b, &mut c)) };
    let error = launched.err().context("two dimensions")?.to_string();
    ensure!(error.contains("trap"), "{error}");
    Ok(())
}

#[test]
fn arguments_that_do_not_fit_are_refused_with_the_parameters_name() -> Result<()> {
    let on = Emulated::new("safe_vector_add")?;
    let a = on.tensor(&[10], &numbers(10))?;
    let wrong = on.tensor(&[10], &[1_u32; 10])?;
    let even = a.slice_step(0, .., 2)?;
    let mut c = on.empty(&[10])?;
    let config = LaunchConfig::linear(1, 32);
    // SAFETY: each is refused, which is what this test shows.
    let refused = unsafe {
        [
            on.kernel.launch(&on.stream, config, (&a, &wrong, &mut c)),
            on.kernel.launch(&on.stream, config, (&even, &a, &mut c)),
            on.kernel.launch(&on.stream, config, (7_u64, &a, &mut c)),
            on.kernel.launch(&on.stream, config, (&a, &mut c)),
        ]
    };
    let wants = [
        "`b: *const f32` does not take memory of u32",
        "`a: *const f32` does not take a view of f32 that is not contiguous, with shape [5]",
        "`a: *const f32` does not take a number of type u64",
        "takes 3 arguments (a, b, c), got 2",
    ];
    for (refused, want) in refused.into_iter().zip(wants) {
        let error = refused.err().context(want)?.to_string();
        ensure!(error.contains(want), "{error}");
    }
    Ok(())
}
