use super::*;
use crate::error::{ArgumentError, Error};
use crate::{Gemm, Softmax, Tensor};
use half::bf16;
use warpsmith_emulator::EmulatorConfig;

/// A product through tensor maps, and a softmax of it.
fn capture() -> Capture {
    let recording = Recording::emulator(EmulatorConfig::default(), |info| {
        info.multiprocessors = 2;
    });
    let recording = recording.expect("an emulator");
    let device = recording.device();
    let stream = device.stream().expect("a stream");
    let values: Vec<bf16> = (0..64 * 64)
        .map(|i| bf16::from_f32((i % 7) as f32))
        .collect();
    let x = Tensor::from_slice(device, &[64, 64], &values).expect("a tensor");
    let plan = Gemm::new(&x, &x.t()).plan(&stream).expect("a plan");
    let hopper = |name: &&str| name.starts_with("gemm_sm90");
    let mut names = plan.candidates().iter().map(|candidate| &*candidate.name);
    let name = names.find(hopper).expect("a kernel with tensor maps");
    let product: Tensor<bf16> = Gemm::new(&x, &x.t())
        .with_kernel(name)
        .run(&stream)
        .expect("it runs");
    let y = Softmax::new(&product).run(&stream).expect("it runs");
    y.to_vec().expect("it is read");
    recording.capture().expect("all memory is its own")
}

#[test]
fn a_capture_gives_the_same_on_another_device_and_when_it_was_written_and_read() {
    let capture = capture();
    let entries: Vec<&str> = capture.launches().map(|l| l.entry.as_str()).collect();
    assert!(entries.len() >= 2, "{entries:?}");
    let links = |launch: &Launch| launch.params.iter().map(|p| p.links.len()).sum::<usize>();
    assert!(capture.launches().all(|launch| links(launch) >= 2));
    let mut maps = capture.launches().flat_map(|launch| &launch.params);
    assert!(maps.any(|param| param.links.iter().any(|link| link.map.is_some())));

    let text = serde_json::to_string(&capture).expect("plain data");
    let read: Capture = serde_json::from_str(&text).expect("it was just written");
    assert_eq!(read, capture);

    let config = EmulatorConfig {
        seed: 5,
        ..EmulatorConfig::default()
    };
    let other = Device::emulator_with(config).expect("an emulator");
    // What is allocated before moves the replay's buffers.
    let ahead = Tensor::from_slice(&other, &[1000], &[1.0_f32; 1000]).expect("a tensor");
    // SAFETY: the emulator checks every access.
    let got = unsafe { read.replay(&other) }.expect("it runs");
    let want: Vec<&[u8]> = capture.reads().collect();
    assert_eq!(got, want);
    drop(ahead);
}

#[test]
fn another_text_in_place_of_a_kernels_changes_the_result() {
    let mut capture = capture();
    let entry = capture.launches().last().expect("a launch").entry.clone();
    let text = capture.text_of(&entry).expect("it was launched");
    let body = text.rfind("ret;").expect("it returns");
    let first = text.find('{').expect("it has a body");
    assert!(first < body);
    // A kernel that ends at once does not write its result.
    let open = text.find("griddepcontrol.wait;").expect("it waits") + 20;
    text.insert_str(open, " ret;");
    let other = Device::emulator_with(EmulatorConfig::default()).expect("an emulator");
    // SAFETY: the emulator checks every access.
    let got = unsafe { capture.replay(&other) }.expect("it runs");
    let want: Vec<&[u8]> = capture.reads().collect();
    assert_ne!(got, want);
}

#[test]
fn a_capture_that_names_no_buffer_is_refused() {
    let mut capture = capture();
    capture.buffers.clear();
    let other = Device::emulator_with(EmulatorConfig::default()).expect("an emulator");
    // SAFETY: the emulator checks every access.
    let refused = unsafe { capture.replay(&other) }.expect_err("no buffers");
    assert!(
        matches!(refused, Error::Argument(ArgumentError::Unsupported { .. })),
        "{refused}"
    );
}
