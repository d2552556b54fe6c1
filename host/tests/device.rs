//! Devices, streams, events and memory, on every device that there is
//! (`WARPSMITH_TEST_DEVICE` chooses).

use half::{bf16, f16};
use std::sync::Barrier;
use warpsmith::testing::devices;
use warpsmith::{
    Device, DeviceBuffer, DeviceError, DeviceKind, E4m3, E5m2, Element, Error, Event, LaunchConfig,
    Module, PinnedBuffer, ShapeError, Stream,
};

const BASIC: &str = include_str!("kernels/basic.ptx");

fn basic(device: &Device) -> Module {
    device.load_ptx(BASIC).expect("the test's PTX loads")
}

/// Enough rounds of `count_slowly` to keep a GPU busy for tens of milliseconds.
fn rounds(device: &Device) -> u32 {
    if device.is_emulator() { 500 } else { 50_000 }
}

fn count_slowly(module: &Module, stream: &Stream, out: &mut DeviceBuffer<u32>, rounds: u32) {
    let kernel = module.kernel("count_slowly").expect("the kernel is there");
    // SAFETY: `out` has the one u32 that the kernel counts in.
    unsafe { kernel.launch(stream, LaunchConfig::linear(1, 1), (out, rounds)) }.expect("launches");
}

#[test]
fn a_device_says_what_it_is_and_is_found_by_its_name() {
    for device in devices() {
        let info = device.info();
        assert!(info.arch >= (7, 5), "{info:?}");
        assert!(info.max_threads_per_block >= 1024, "{info:?}");
        assert!(info.max_shared_bytes_per_block >= 48 << 10, "{info:?}");
        assert!(info.memory_bytes > 0 && !info.name.is_empty(), "{info:?}");
        let again = Device::from_name(&device.kind().to_string()).expect("its own name");
        assert_eq!(again, device);
        let memory = device.memory().expect("memory");
        assert!(memory.free_bytes <= memory.total_bytes && memory.total_bytes > 0);
        assert!(warpsmith::devices().expect("a list").contains(info));
    }
}

#[test]
fn unknown_names_and_missing_gpus_are_errors_and_never_another_device() {
    for name in ["", "cpu", "gpu:", "gpu:x", "gpu:-1", "emulator:0", "GPU"] {
        assert!(
            matches!(
                Device::from_name(name),
                Err(Error::Device(DeviceError::Unknown { .. }))
            ),
            "{name}"
        );
    }
    let missing = Device::gpu(4096).expect_err("nobody has that many");
    assert!(
        matches!(
            missing,
            Error::Device(DeviceError::NoDriver { .. })
                | Error::Device(DeviceError::NoDevice { .. })
        ),
        "{missing}"
    );
    match (Device::gpu(0), Device::auto()) {
        (Ok(gpu), auto) => assert_eq!(auto.expect("the GPU"), gpu),
        (Err(_), Ok(auto)) => assert_eq!(auto.kind(), DeviceKind::Emulator),
        (Err(absent), Err(error)) => {
            // Only a build without the emulator has nothing to fall back on.
            assert_eq!(absent.to_string(), error.to_string());
            assert!(Device::emulator().is_err());
        }
    }
}

fn copies_of<T: Element + PartialEq + std::fmt::Debug>(device: &Device, values: &[T]) {
    let stream = device.stream().expect("a stream");
    let mut buffer = DeviceBuffer::from_slice(device, values).expect("allocates");
    assert_eq!(buffer.to_vec().expect("reads"), values);
    let twice = [values, values].concat();
    assert!(matches!(
        buffer.copy_from_slice(&twice),
        Err(Error::Shape(ShapeError::Length { .. }))
    ));

    buffer.fill(values[0], &stream).expect("fills");
    assert_eq!(
        buffer.to_vec().expect("reads"),
        vec![values[0]; values.len()]
    );

    let mut other = DeviceBuffer::zeros(&stream, values.len()).expect("allocates");
    assert_eq!(
        other.to_vec().expect("reads"),
        vec![T::default(); values.len()]
    );
    buffer.copy_from_slice(values).expect("writes");
    other.copy_from_buffer(&buffer, &stream).expect("copies");
    assert_eq!(other.to_vec().expect("reads"), values);
}

#[test]
fn copies_and_fills_keep_every_bit_of_every_element_type() {
    for device in devices() {
        copies_of(&device, &[1.0_f64, -0.0, f64::MIN_POSITIVE / 4.0, f64::MAX]);
        copies_of(
            &device,
            &[1.5_f32, -0.0, f32::MIN_POSITIVE / 4.0, f32::INFINITY, 7.0],
        );
        copies_of(&device, &[f16::from_f32(-1.5), f16::MAX, f16::MIN_POSITIVE]);
        copies_of(
            &device,
            &[bf16::from_f32(-1.5), bf16::MAX, bf16::MIN_POSITIVE],
        );
        copies_of(&device, &[E4m3(0x38), E4m3(0xff), E4m3(1)]);
        copies_of(&device, &[E5m2(0x3c), E5m2(0x7f)]);
        copies_of(&device, &[-1_i8, i8::MIN, 5]);
        copies_of(&device, &[-1_i16, i16::MIN, 5]);
        copies_of(&device, &[-1_i32, i32::MIN, 5]);
        copies_of(&device, &[0x0123_4567_89ab_cdef_i64, i64::MIN, -1, 5, 6]);
        copies_of(&device, &[1_u8, 255]);
        copies_of(&device, &[1_u16, u16::MAX, 3]);
        copies_of(&device, &[0xdead_beef_u32, 0]);
        copies_of(&device, &[0xdead_beef_0000_0001_u64, u64::MAX, 0]);
    }
}

#[test]
fn nothing_can_be_copied_filled_and_read_too() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let mut empty = DeviceBuffer::<f32>::zeros(&stream, 0).expect("allocates nothing");
        empty.fill(1.0, &stream).expect("fills nothing");
        empty.copy_from_slice(&[]).expect("writes nothing");
        let mut pinned = PinnedBuffer::<f32>::zeros(&device, 0).expect("allocates nothing");
        empty
            .copy_from_pinned(&pinned, &stream)
            .expect("copies nothing");
        empty
            .copy_to_pinned(&mut pinned, &stream)
            .expect("copies nothing");
        assert!(empty.to_vec().expect("reads nothing").is_empty());
        assert!(
            pinned
                .as_mut_slice()
                .expect("nothing to wait for")
                .is_empty()
        );
    }
}

#[test]
fn pinned_copies_are_ordered_with_every_look_at_the_elements() {
    for device in devices() {
        let (first, second) = (
            device.stream().expect("one"),
            device.stream().expect("another"),
        );
        let module = basic(&device);
        let len = 1 << 16;
        let values: Vec<u32> = (0..len).collect();
        let mut host = PinnedBuffer::from_slice(&device, &values).expect("pinned");
        let mut a = DeviceBuffer::zeros(&first, len as usize).expect("a");
        let mut busy = DeviceBuffer::zeros(&first, 1).expect("busy");
        for _ in 0..3 {
            // The copy waits behind the kernel; changing the elements must wait for the copy.
            count_slowly(&module, &first, &mut busy, rounds(&device));
            host.as_mut_slice().expect("idle").copy_from_slice(&values);
            a.copy_from_pinned(&host, &first).expect("in");
            host.as_mut_slice().expect("after the copy").fill(7);
            assert_eq!(a.to_vec().expect("reads"), values);

            // Out on one stream, in again on another: ordered through the pinned buffer.
            count_slowly(&module, &first, &mut busy, rounds(&device));
            a.copy_to_pinned(&mut host, &first).expect("out");
            let mut b = DeviceBuffer::zeros(&second, len as usize).expect("b");
            b.copy_from_pinned(&host, &second).expect("in");
            assert_eq!(host.as_slice().expect("after the copies"), values);
            assert_eq!(b.to_vec().expect("reads"), values);
        }
        a.copy_to_pinned(&mut host, &first).expect("out");
        drop(host); // with the copy in flight
        assert_eq!(a.to_vec().expect("reads"), values);
    }
}

#[test]
fn memory_dropped_with_work_in_flight_is_not_reused_before_the_work_is_done() {
    for device in devices() {
        let (first, second) = (
            device.stream().expect("one"),
            device.stream().expect("another"),
        );
        let module = basic(&device);
        for round in 0..8_u32 {
            // Allocated on the first stream, used last on the second, dropped with that in flight.
            let mut counter = DeviceBuffer::<u32>::zeros(&first, 1 << 18).expect("allocates");
            count_slowly(&module, &second, &mut counter, rounds(&device) / 8);
            drop(counter);
            // May get the same memory; the kernel must not count in it any more.
            let mut fresh = DeviceBuffer::<u32>::uninit(&first, 1 << 18).expect("allocates");
            fresh.fill(round, &first).expect("fills");
            second.synchronize().expect("no fault");
            assert!(
                fresh
                    .to_vec()
                    .expect("reads")
                    .iter()
                    .all(|&value| value == round)
            );
        }
    }
}

#[test]
fn a_read_waits_for_the_streams_that_used_the_memory() {
    for device in devices() {
        let module = basic(&device);
        let mut counter = DeviceBuffer::<u32>::from_slice(&device, &[0]).expect("allocates");
        let rounds = rounds(&device);
        let streams: Vec<Stream> = (0..3).map(|_| device.stream().expect("a stream")).collect();
        for (index, stream) in streams.iter().enumerate() {
            if index > 0 {
                stream
                    .wait(&streams[index - 1].record().expect("records"))
                    .expect("waits");
            }
            count_slowly(&module, stream, &mut counter, rounds);
        }
        assert_eq!(counter.to_vec().expect("reads"), [3 * rounds]);
    }
}

#[test]
fn events_tell_when_work_is_done_and_how_long_it_took() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let module = basic(&device);
        let mut counter = DeviceBuffer::zeros(&stream, 1).expect("allocates");
        count_slowly(&module, &stream, &mut counter, 1);
        let start = stream.record().expect("records");
        count_slowly(&module, &stream, &mut counter, rounds(&device));
        let mut end = Event::new(&device).expect("an event");
        assert!(matches!(
            end.synchronize(),
            Err(Error::Device(DeviceError::EventNotReady(_)))
        ));
        assert!(matches!(
            start.elapsed_ms(&end),
            Err(Error::Device(DeviceError::EventNotReady(_)))
        ));
        assert!(matches!(
            stream.wait(&end),
            Err(Error::Device(DeviceError::EventNotReady(_)))
        ));
        end.record(&stream).expect("records");
        end.synchronize().expect("no fault");
        assert!(end.is_done().expect("no fault") && start.is_done().expect("no fault"));
        let ms = start.elapsed_ms(&end).expect("both are done");
        assert!(ms > 0.0 && ms < 60_000.0, "{ms} ms");
        stream.synchronize().expect("no fault");
        assert!(stream.is_done().expect("no fault"));
    }
}

#[test]
fn too_large_an_allocation_is_an_error_and_the_device_goes_on() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let total = device.memory().expect("memory").total_bytes;
        let len = usize::try_from(total).expect("64 bits") + (1 << 30);
        let error = DeviceBuffer::<u8>::uninit(&stream, len).expect_err("too large");
        match error {
            Error::Device(DeviceError::OutOfMemory {
                requested_bytes,
                free_bytes,
                ..
            }) => {
                assert_eq!(requested_bytes, len as u64);
                assert!(free_bytes <= total);
            }
            other => panic!("want OutOfMemory, got {other}"),
        }
        let error = DeviceBuffer::<u64>::uninit(&stream, usize::MAX).expect_err("too large");
        assert!(
            matches!(error, Error::Shape(ShapeError::Overflow { .. })),
            "{error}"
        );
        assert_eq!(
            DeviceBuffer::from_slice(&device, &[5])
                .expect("fits")
                .to_vec()
                .expect("reads"),
            [5]
        );
    }
}

#[test]
fn trimming_gives_back_what_nobody_uses_and_nothing_else() {
    for device in devices() {
        let kept = DeviceBuffer::from_slice(&device, &[7_u32; 1000]).expect("allocates");
        drop(DeviceBuffer::<u8>::zeros(&device.default_stream(), 64 << 20).expect("allocates"));
        device.trim_memory().expect("no fault");
        assert_eq!(kept.to_vec().expect("reads"), [7; 1000]);
    }
}

#[test]
fn host_memory_that_is_not_there_is_an_error() {
    for device in devices() {
        let error = PinnedBuffer::<u8>::zeros(&device, 1 << 50).expect_err("a pebibyte");
        assert!(
            matches!(
                error,
                Error::Device(DeviceError::OutOfHostMemory {
                    requested_bytes: 0x4_0000_0000_0000
                })
            ),
            "{error}"
        );
        let error = PinnedBuffer::<u64>::zeros(&device, usize::MAX).expect_err("more than that");
        assert!(
            matches!(error, Error::Shape(ShapeError::Overflow { .. })),
            "{error}"
        );
    }
}

#[test]
fn many_threads_share_a_device() {
    for device in devices() {
        let module = basic(&device);
        let threads = 8;
        let start = Barrier::new(threads);
        std::thread::scope(|scope| {
            for thread in 0..threads as u32 {
                let (device, module, start) = (&device, &module, &start);
                scope.spawn(move || {
                    start.wait();
                    let stream = device.stream().expect("a stream");
                    for round in 0..10 {
                        let mut counter =
                            DeviceBuffer::from_slice(device, &[thread]).expect("allocates");
                        count_slowly(module, &stream, &mut counter, 10 + round);
                        let want = thread + 10 + round;
                        assert_eq!(counter.to_vec().expect("reads"), [want]);
                    }
                });
            }
        });
    }
}

#[test]
fn more_streams_than_queues_still_work() {
    for device in devices() {
        let module = basic(&device);
        let streams: Vec<Stream> = (0..100)
            .map(|_| device.stream().expect("a stream"))
            .collect();
        let mut counters: Vec<DeviceBuffer<u32>> = streams
            .iter()
            .map(|stream| DeviceBuffer::zeros(stream, 1).expect("allocates"))
            .collect();
        for (stream, counter) in streams.iter().zip(&mut counters) {
            count_slowly(&module, stream, counter, 20);
        }
        for counter in &counters {
            assert_eq!(counter.to_vec().expect("reads"), [20]);
        }
    }
}

#[test]
fn what_lives_on_another_device_is_refused() {
    let devices = devices();
    let [first, second] = &devices[..] else {
        // One device only: the emulator's own test of this makes a second emulator.
        return;
    };
    let stream = first.stream().expect("a stream");
    let mut here = DeviceBuffer::<u32>::zeros(&stream, 1).expect("allocates");
    let there = DeviceBuffer::<u32>::from_slice(second, &[1]).expect("allocates");
    let refused = here.copy_from_buffer(&there, &stream);
    assert!(matches!(
        refused,
        Err(Error::Device(DeviceError::Mismatch { .. }))
    ));
    let kernel = basic(second)
        .kernel("at_most_64_threads")
        .expect("the kernel is there");
    // SAFETY: refused before anything runs.
    let refused = unsafe { kernel.launch(&stream, LaunchConfig::linear(1, 1), ()) };
    assert!(matches!(
        refused,
        Err(Error::Device(DeviceError::Mismatch { .. }))
    ));
}
