//! The kernels of `examples/kernels/src/contracts.rs`, on the emulator: what their launches require,
//! launches without dimensions, and graphs of them.

use anyhow::{Result, ensure};
use warpsmith::{
    ArgumentError, ByValue, Device, DeviceBuffer, Error, KernelError, LaunchConfig, Stream, Tensor,
};
use warpsmith_examples::kernels::{self, Kernels};

warpsmith::kernel_param! {
    /// The kernel's struct, as the host declares it.
    struct Line {
        slope: f32,
        offset: f32,
    }
}

warpsmith::kernel_param! {
    struct Point {
        x: f32,
        y: f32,
    }
}

const LINE: Line = Line {
    slope: 2.0,
    offset: 0.5,
};

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

    /// A tensor of 0, 1, 2, ..
    fn counting(&self, shape: &[usize]) -> Result<Tensor<f32>> {
        let values: Vec<f32> = (0..shape.iter().product()).map(|i| i as f32).collect();
        Ok(Tensor::from_slice(&self.device, shape, &values)?)
    }

    fn zeros(&self, shape: &[usize]) -> Result<Tensor<f32>> {
        Ok(Tensor::zeros(&self.stream, shape)?)
    }
}

#[test]
fn a_launch_has_the_grid_that_its_output_needs() -> Result<()> {
    let on = Emulated::new()?;
    // More than one block, the last one partly used; none at all.
    for len in [1000, 256, 1, 0] {
        let (x, mut y) = (on.counting(&[len])?, on.zeros(&[len])?);
        on.kernels.on_line(&on.stream, &LINE, &x, &mut y)?;
        let want: Vec<f32> = (0..len).map(|i| 2.0 * i as f32 + 0.5).collect();
        assert_eq!(y.to_vec()?, want);
    }
    Ok(())
}

#[test]
fn views_of_three_dimensions_follow_strides() -> Result<()> {
    let on = Emulated::new()?;
    let x = on.counting(&[3, 5, 40])?;
    let mut y = on.zeros(&[40, 5, 3])?;
    on.kernels.turn_around(&on.stream, &x, &mut y)?;
    assert_eq!(y.to_vec()?, x.permute(&[2, 1, 0])?.to_vec()?);
    // The input may itself be turned.
    let mut back = on.zeros(&[3, 5, 40])?;
    let turned = x.permute(&[2, 1, 0])?;
    on.kernels.turn_around(&on.stream, &turned, &mut back)?;
    assert_eq!(back.to_vec()?, x.to_vec()?);
    Ok(())
}

#[test]
fn a_block_sums_a_group() -> Result<()> {
    let on = Emulated::new()?;
    let (x, mut sums) = (on.counting(&[600])?, on.zeros(&[6])?);
    on.kernels.sums_of_groups(&on.stream, 100, &x, &mut sums)?;
    let want: Vec<f32> = (0..6).map(|g| (g * 10_000 + 4950) as f32).collect();
    assert_eq!(sums.to_vec()?, want);
    Ok(())
}

#[test]
fn vectors_are_loaded_whole() -> Result<()> {
    let on = Emulated::new()?;
    let (x, mut y) = (on.counting(&[2000])?, on.zeros(&[2000])?);
    on.kernels.scale_by_four(&on.stream, 3.0, &x, &mut y)?;
    let want: Vec<f32> = (0..2000).map(|i| 3.0 * i as f32).collect();
    assert_eq!(y.to_vec()?, want);
    let (odd, mut out) = (on.counting(&[6])?, on.zeros(&[6])?);
    let refused = on.kernels.scale_by_four(&on.stream, 3.0, &odd, &mut out);
    assert_refused(refused, "it takes vectors of 4 elements");
    let later = x.slice(0, 1..1997)?;
    let mut out = on.zeros(&[1996])?;
    let refused = on.kernels.scale_by_four(&on.stream, 3.0, &later, &mut out);
    assert_refused(refused, "it takes multiples of 16");
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
fn a_launch_that_does_not_meet_a_requirement_is_refused_with_its_values() -> Result<()> {
    let on = Emulated::new()?;
    let (x, mut y) = (on.counting(&[5])?, on.zeros(&[6])?);
    let refused = on.kernels.on_line(&on.stream, &LINE, &x, &mut y);
    assert!(
        matches!(refused, Err(Error::Kernel(KernelError::Requirement { .. }))),
        "{refused:?}"
    );
    assert_refused(
        refused,
        "kernel `on_line` requires x.len() >= y.len(), but x.len() = 5, y.len() = 6",
    );
    assert_eq!(y.to_vec()?, [0.0; 6]);
    let mut sums = on.zeros(&[2])?;
    let mut groups = |n| on.kernels.sums_of_groups(&on.stream, n, &x, &mut sums);
    assert_refused(groups(0), "requires n > 0, but n = 0");
    assert_refused(
        groups(2),
        "requires x.len() % n == 0, but x.len() = 5, n = 2",
    );
    assert_refused(
        groups(5),
        "requires sums.len() == x.len() / n, but sums.len() = 2, x.len() = 5, n = 5",
    );
    let (x, mut y) = (on.counting(&[1, 2, 3])?, on.zeros(&[3, 1, 1])?);
    assert_refused(
        on.kernels.turn_around(&on.stream, &x, &mut y),
        "requires x.rows() == y.rows(), but x.rows() = 2, y.rows() = 1",
    );
    Ok(())
}

#[test]
fn kernels_of_load_built_are_held_to_the_same() -> Result<()> {
    let on = Emulated::new()?;
    let ptx = include_str!("../kernels/ptx/sm_75/contracts.ptx");
    let module = on
        .device
        .load_built(ptx, include_str!("../kernels/ptx/manifest.json"))?;
    let kernel = module.kernel("on_line")?;
    let (x, mut y) = (on.counting(&[5])?, on.zeros(&[5])?);
    // SAFETY: a safe kernel, and its struct.
    let mut launch = |config: Option<LaunchConfig>, line: ByValue<'_>| unsafe {
        kernel.launch(&on.stream, config, (line, &x, &mut y))
    };
    launch(None, ByValue::of(&LINE))?;
    launch(Some(LaunchConfig::linear(2, 3)), ByValue::of(&LINE))?;
    assert_refused(
        launch(None, ByValue::of(&Point { x: 1.0, y: 2.0 })),
        "`line: Line` does not take a struct with other fields",
    );
    assert_eq!(y.to_vec()?, [0.5, 2.5, 4.5, 6.5, 8.5]);
    // A kernel that states no grid.
    let axpy = on
        .device
        .load_built(
            include_str!("../kernels/ptx/sm_75/safe.ptx"),
            include_str!("../kernels/ptx/manifest.json"),
        )?
        .kernel("safe_axpy")?;
    // SAFETY: a safe kernel.
    let refused = unsafe { axpy.launch(&on.stream, None, (1.0_f32, &x, &mut y)) };
    assert_refused(refused, "launch configuration is None");
    Ok(())
}

#[test]
fn a_graph_replays_its_launches() -> Result<()> {
    let on = Emulated::new()?;
    let counting: Vec<f32> = (0..8).map(|i| i as f32).collect();
    let mut x = DeviceBuffer::from_slice(&on.device, &counting)?;
    let (mut y, mut z) = (on.zeros(&[8])?, on.zeros(&[8])?);
    let graph = on.stream.capture(|stream| {
        on.kernels.on_line(stream, &LINE, &x, &mut y)?;
        on.kernels.scale_by_four(stream, 10.0, &y, &mut z)
    })?;
    // Captured, not done.
    assert_eq!((y.to_vec()?, z.to_vec()?), (vec![0.0; 8], vec![0.0; 8]));
    graph.launch(&on.stream)?;
    let want = |factor: f32| -> Vec<f32> {
        let value = |i: usize| 10.0 * (2.0 * factor * i as f32 + 0.5);
        (0..8).map(value).collect()
    };
    assert_eq!(z.to_vec()?, want(1.0));
    // Other contents, and another stream.
    let doubled: Vec<f32> = (0..8).map(|i| 2.0 * i as f32).collect();
    x.copy_from_slice(&doubled)?;
    let other = on.device.stream()?;
    graph.launch(&other)?;
    assert_eq!(z.to_vec()?, want(2.0));
    // The graph keeps what it uses.
    drop((x, y));
    graph.launch(&on.stream)?;
    assert_eq!(z.to_vec()?, want(2.0));
    Ok(())
}

#[test]
fn a_fault_of_a_captured_kernel_is_reported_where_it_is_launched() -> Result<()> {
    let on = Emulated::new()?;
    let (x, starts) = (
        on.counting(&[10])?,
        Tensor::from_slice(&on.device, &[2], &[0_u32, 11])?,
    );
    let mut sums = on.zeros(&[1])?;
    let config = LaunchConfig::linear(1, 128);
    let graph = on.stream.capture(|stream| {
        on.kernels
            .safe_segmented_sum(stream, config, &x, &starts, &mut sums)
    })?;
    let error = graph.launch(&on.stream).expect_err("it traps").to_string();
    ensure!(error.contains("trap"), "{error}");
    Ok(())
}

#[test]
fn memory_of_a_capture_belongs_to_its_graph() -> Result<()> {
    let on = Emulated::new()?;
    let x = on.counting(&[4])?;
    let mut kept = None;
    let graph = on.stream.capture(|stream| {
        let mut y = Tensor::<f32>::zeros(stream, &[4])?;
        on.kernels.on_line(stream, &LINE, &x, &mut y)?;
        kept = Some(y);
        Ok(())
    })?;
    graph.launch(&on.stream)?;
    assert_eq!(kept.expect("made").to_vec()?, [0.5, 2.5, 4.5, 6.5]);
    graph.launch(&on.stream)?;
    Ok(())
}

#[test]
fn a_clone_of_a_captured_stream_is_for_the_thread_that_captures_it() -> Result<()> {
    let on = Emulated::new()?;
    let x = on.counting(&[4])?;
    let mut y = Tensor::<f32>::zeros(&on.stream, &[4])?;
    let other = Tensor::<f32>::zeros(&on.stream, &[4])?;
    let mut clone = None;
    let graph = on.stream.capture(|stream| {
        let refused = std::thread::scope(|scope| {
            let (stream, kernels) = (stream.clone(), &on.kernels);
            let (x, mut other) = (&x, other.clone());
            let thread = scope.spawn(move || {
                let filled = other.fill(1.0, &stream);
                let launched = kernels.on_line(&stream, &LINE, x, &mut other);
                [filled, launched]
            });
            thread.join().expect("no panic")
        });
        for refused in refused {
            let error = refused.expect_err("refused").to_string();
            assert!(error.contains("work of another thread"), "{error}");
        }
        clone = Some(stream.clone());
        on.kernels.on_line(stream, &LINE, &x, &mut y)
    })?;
    // After the capture, a clone is a stream like any other.
    let clone = clone.expect("it was captured");
    let launched = std::thread::scope(|scope| {
        let thread = scope.spawn(|| other.fill(7.0, &clone));
        thread.join().expect("no panic")
    });
    launched?;
    assert_eq!(other.to_vec()?, [7.0; 4]);
    assert_eq!(y.to_vec()?, [0.0; 4]);
    graph.launch(&clone)?;
    assert_eq!(y.to_vec()?, [0.5, 2.5, 4.5, 6.5]);
    Ok(())
}

#[test]
fn what_waits_for_a_captured_stream_is_refused() -> Result<()> {
    let on = Emulated::new()?;
    let is_refused = |result: warpsmith::Result<()>| {
        let error = result.expect_err("refused");
        let is_it = matches!(error, Error::Argument(ArgumentError::Unsupported { .. }));
        assert!(
            is_it && error.to_string().contains("captured into a graph"),
            "{error}"
        );
    };
    let event = on.stream.record()?;
    let empty = on.stream.capture(|_| Ok(()))?;
    let mut pinned = warpsmith::PinnedBuffer::<f32>::zeros(&on.device, 4)?;
    let buffer = DeviceBuffer::<f32>::zeros(&on.stream, 4)?;
    let graph = on.stream.capture(|stream| {
        is_refused(stream.synchronize());
        is_refused(stream.is_done().map(|_| ()));
        is_refused(stream.record().map(|_| ()));
        is_refused(stream.wait(&event));
        is_refused(empty.launch(stream));
        is_refused(buffer.copy_to_pinned(&mut pinned, stream));
        Ok(())
    })?;
    graph.launch(&on.stream)?;
    // An error of the work ends the capture, and the stream is used again.
    let (x, mut y) = (on.counting(&[5])?, on.zeros(&[6])?);
    let work = |stream: &Stream| on.kernels.on_line(stream, &LINE, &x, &mut y);
    assert_refused(on.stream.capture(work).map(|_| ()), "requires x.len()");
    let graph = on.stream.capture(|_| Ok(()))?;
    Ok(graph.launch(&on.stream)?)
}

#[test]
fn a_contract_names_what_an_entry_of_a_generic_kernel_has() -> Result<()> {
    let device = Device::emulator()?;
    let (stream, kernels) = (device.stream()?, kernels::load(&device)?);
    let x = Tensor::from_slice(&device, &[6], &[1_u32, 2, 3, 10, 20, 30])?;
    let mut y = Tensor::<u32>::zeros(&stream, &[2])?;
    kernels.sums_of_three(&stream, &x, &mut y)?;
    assert_eq!(y.to_vec()?, [6, 60]);
    let x = Tensor::<f32>::zeros(&stream, &[6])?;
    let mut y = Tensor::<f32>::zeros(&stream, &[2])?;
    let refused = kernels.sums_of_four(&stream, &x, &mut y);
    let error = refused.expect_err("it is not a multiple").to_string();
    let want = "requires x.len() == 4 * y.len(), but x.len() = 6, y.len() = 2";
    assert!(error.contains(want), "{error}");
    Ok(())
}
