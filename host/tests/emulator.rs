//! What the emulator adds: devices of one's own, and reports of what a kernel does wrong.
#![cfg(feature = "emulator")]

use std::time::{Duration, Instant};
use warpsmith::emulator::{EmulatorConfig, FaultKind, LaunchError};
use warpsmith::{
    ArgumentError, Device, DeviceBuffer, DeviceError, EmulatorError, Error, LaunchConfig,
    PinnedBuffer, Tensor,
};

const BASIC: &str = include_str!("kernels/basic.ptx");
const FAULT: &str = include_str!("kernels/fault.ptx");

fn own_emulator() -> Device {
    Device::emulator_with(EmulatorConfig::default()).expect("an emulator")
}

fn fault(error: Error) -> FaultKind {
    match error {
        Error::Emulator(EmulatorError::Launch(error)) => match *error {
            LaunchError::Fault(report) => report.kind,
            other => panic!("want a fault, got {other}"),
        },
        other => panic!("want a fault, got {other}"),
    }
}

#[test]
fn the_shared_emulator_is_one_device_and_others_are_not() {
    let shared = Device::emulator().expect("the emulator");
    assert_eq!(shared, Device::from_name("emulator").expect("the emulator"));
    assert_ne!(shared, own_emulator());
    assert!(shared.is_emulator());
}

#[test]
fn what_belongs_to_two_devices_does_not_mix() {
    let (here, there) = (own_emulator(), own_emulator());
    let (stream, foreign) = (
        here.stream().expect("one"),
        there.stream().expect("another"),
    );
    let mut buffer = DeviceBuffer::<u32>::zeros(&stream, 1).expect("allocates");
    let mut elsewhere = DeviceBuffer::<u32>::zeros(&foreign, 1).expect("allocates");
    let pinned = PinnedBuffer::<u32>::zeros(&there, 1).expect("allocates");
    let event = foreign.record().expect("records");
    let kernel = here
        .load_ptx(BASIC)
        .expect("loads")
        .kernel("count_slowly")
        .expect("is there");
    let one = LaunchConfig::linear(1, 1);
    // SAFETY: refused before anything runs.
    let (foreign_stream, foreign_buffer) = unsafe {
        (
            kernel.launch(&foreign, one, (&mut elsewhere, 1_u32)),
            kernel.launch(&stream, one, (&mut elsewhere, 1_u32)),
        )
    };
    for refused in [
        foreign_stream,
        foreign_buffer,
        buffer.fill(1, &foreign),
        buffer.copy_from_buffer(&elsewhere, &stream),
        buffer.copy_from_pinned(&pinned, &stream),
        stream.wait(&event),
        event
            .elapsed_ms(&stream.record().expect("records"))
            .map(drop),
    ] {
        let error = refused.expect_err("two devices");
        assert!(
            matches!(error, Error::Device(DeviceError::Mismatch { .. })),
            "{error}"
        );
        assert!(
            error.to_string().contains("lives on another emulator"),
            "{error}"
        );
    }
    let tensor = Tensor::<f32>::zeros(&stream, &[2]).expect("allocates");
    assert!(!tensor.overlaps(&Tensor::<f32>::zeros(&foreign, &[2]).expect("allocates")));
    assert_eq!(elsewhere.to_vec().expect("reads"), [0]);
}

#[test]
fn a_kernel_that_reads_what_nobody_wrote_is_reported() {
    let device = own_emulator();
    let stream = device.stream().expect("a stream");
    let mut counter = DeviceBuffer::<u32>::uninit(&stream, 1).expect("allocates");
    let kernel = device
        .load_ptx(BASIC)
        .expect("loads")
        .kernel("count_slowly")
        .expect("is there");
    // SAFETY: the kernel reads the element first, which is the mistake to be found.
    let launched =
        unsafe { kernel.launch(&stream, LaunchConfig::linear(1, 1), (&mut counter, 1_u32)) };
    assert_eq!(
        fault(launched.expect_err("a report")),
        FaultKind::Uninitialized
    );
}

#[test]
fn a_kernel_that_leaves_its_buffer_is_reported_and_the_neighbour_untouched() {
    let device = own_emulator();
    let stream = device.stream().expect("a stream");
    let x = DeviceBuffer::<f32>::zeros(&stream, 100).expect("allocates");
    let mut y = DeviceBuffer::<f32>::zeros(&stream, 100).expect("allocates");
    let neighbour = DeviceBuffer::<f32>::zeros(&stream, 100).expect("allocates");
    let kernel = device
        .load_ptx(BASIC)
        .expect("loads")
        .kernel("axpy")
        .expect("is there");
    let params = 128_u64 | u64::from(1.0_f32.to_bits()) << 32; // { n, a }: n is too large
    // SAFETY: the emulator stops the access outside of the buffers.
    let launched =
        unsafe { kernel.launch(&stream, LaunchConfig::linear(4, 32), (&x, &mut y, params)) };
    let error = launched.expect_err("a report");
    assert!(error.to_string().contains("axpy"), "{error}");
    assert_eq!(fault(error), FaultKind::OutOfBounds);
    assert_eq!(neighbour.to_vec().expect("reads"), [0.0; 100]);
    // The device goes on.
    drop((x, y));
    assert_eq!(
        DeviceBuffer::from_slice(&device, &[1])
            .expect("fits")
            .to_vec()
            .expect("reads"),
        [1]
    );
}

#[test]
fn memory_is_given_back_when_its_last_owner_goes() {
    let device = own_emulator();
    let stream = device.stream().expect("a stream");
    let free = || device.memory().expect("memory").free_bytes;
    let before = free();
    let tensor = Tensor::<f32>::zeros(&stream, &[1024]).expect("allocates");
    let view = tensor.slice(0, 10..20).expect("inside");
    assert_eq!(before - free(), 4096);
    drop(tensor);
    assert_eq!(before - free(), 4096);
    drop(view);
    assert_eq!(free(), before);
}

#[test]
fn instructions_are_counted() {
    let device = own_emulator();
    let stream = device.stream().expect("a stream");
    assert_eq!(device.lane_instructions(), Some(0));
    let kernel = device
        .load_ptx(BASIC)
        .expect("loads")
        .kernel("at_most_64_threads");
    let kernel = kernel.expect("is there");
    // SAFETY: the kernel touches nothing.
    unsafe { kernel.launch(&stream, LaunchConfig::linear(3, 40), ()) }.expect("launches");
    // One `ret` in each thread.
    assert_eq!(device.lane_instructions(), Some(120));
}

#[test]
fn a_grid_that_does_not_divide_into_clusters_is_refused() {
    let device = own_emulator();
    let stream = device.stream().expect("a stream");
    let ptx = FAULT
        .replace(".version 7.0", ".version 7.8")
        .replace("sm_75", "sm_90")
        .replace(
            "writes_nowhere()",
            "writes_nowhere() .reqnctapercluster 2, 1, 1",
        );
    let module = device.load_ptx(&ptx).expect("loads");
    let kernel = module.kernel("writes_nowhere").expect("is there");
    // SAFETY: refused before anything runs.
    let refused = unsafe { kernel.launch(&stream, LaunchConfig::linear(3, 1), ()) };
    assert!(matches!(
        refused,
        Err(Error::Argument(ArgumentError::Value { what: "grid", .. }))
    ));
}

#[test]
fn an_endless_loop_ends_within_seconds_with_a_report_that_names_its_line() {
    const SPIN: &str = r#".version 8.0
.target sm_75
.address_size 64
.file 1 "src/lib.rs"
.visible .entry spin() {
    .reg .b32 %r<2>;
    mov.u32 %r1, 0;
again:
    .loc 1 7 9
    add.u32 %r1, %r1, 1;
    bra again;
}
"#;
    let device = Device::emulator().expect("a device");
    let kernel = device
        .load_ptx(SPIN)
        .expect("loads")
        .kernel("spin")
        .expect("it is there");
    let started = Instant::now();
    let config = LaunchConfig::linear(4, 1024);
    // SAFETY: it touches no memory.
    let ran = unsafe { kernel.launch(&device.default_stream(), config, ()) };
    let elapsed = started.elapsed();
    let report = ran.expect_err("it does not end").to_string();
    for part in [
        "instruction budget exhausted: the warps of a block ran 268435456 instructions",
        "source: src/lib.rs:7",
        "warps 0-31, lanes 0xffffffff: PTX line 1",
        "(src/lib.rs:7), running",
        "WARPSMITH_INSTRUCTION_BUDGET=N",
    ] {
        assert!(report.contains(part), "{report} lacks {part}");
    }
    // Half a minute leaves room for a machine that does other work as well.
    assert!(elapsed < Duration::from_secs(30), "{elapsed:?}");
}
