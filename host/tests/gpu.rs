//! What only a GPU can show: foreign streams, the pool, the cost of a launch. Without a GPU
//! these tests have nothing to run on and pass; `WARPSMITH_TEST_DEVICE=gpu` makes that an error.

use std::time::Instant;
use warpsmith::testing::devices;
use warpsmith::{Device, DeviceBuffer, LaunchConfig, Stream};

const BASIC: &str = include_str!("kernels/basic.ptx");

fn gpus() -> impl Iterator<Item = Device> {
    devices().into_iter().filter(|device| !device.is_emulator())
}

#[test]
fn work_on_a_stream_of_someone_else_is_ordered_and_its_memory_safe() {
    for device in gpus() {
        let owner = device.stream().expect("a stream");
        let module = device.load_ptx(BASIC).expect("loads");
        let kernel = module.kernel("count_slowly").expect("the kernel is there");
        for _ in 0..4 {
            // SAFETY: a live stream of the primary context, and `owner` outlives it.
            let foreign = unsafe { Stream::from_raw(&device, owner.as_raw()) };
            let mut counter = DeviceBuffer::<u32>::zeros(&foreign, 1).expect("allocates");
            // SAFETY: one u32 to count in.
            unsafe {
                kernel.launch(
                    &foreign,
                    LaunchConfig::linear(1, 1),
                    (&mut counter, 20_000_u32),
                )
            }
            .expect("launches");
            drop(foreign);
            assert_eq!(counter.to_vec().expect("reads"), [20_000]);
        }
        // The legacy default stream, as the null handle.
        // SAFETY: null names the context's default stream, which always lives.
        let legacy = unsafe { Stream::from_raw(&device, std::ptr::null_mut()) };
        let mut values = DeviceBuffer::<u32>::zeros(&legacy, 100).expect("allocates");
        values.fill(3, &legacy).expect("fills");
        legacy.synchronize().expect("no fault");
        assert_eq!(values.to_vec().expect("reads"), [3; 100]);
    }
}

#[test]
fn a_loop_that_allocates_and_frees_takes_no_new_memory_after_the_first_round() {
    for device in gpus() {
        let stream = device.stream().expect("a stream");
        let round = || {
            let mut a = DeviceBuffer::<f32>::uninit(&stream, 1 << 20).expect("allocates");
            let b = DeviceBuffer::<f32>::zeros(&stream, 1 << 20).expect("allocates");
            a.copy_from_buffer(&b, &stream).expect("copies");
        };
        round();
        stream.synchronize().expect("no fault");
        let before = device.memory().expect("memory").free_bytes;
        for _ in 0..1000 {
            round();
        }
        stream.synchronize().expect("no fault");
        // Other tests of this process allocate little at the same time.
        let after = device.memory().expect("memory").free_bytes;
        assert!(
            before.saturating_sub(after) < 256 << 20,
            "{before} free, then {after}"
        );
    }
}

#[test]
fn a_launch_costs_little_more_than_the_drivers() {
    for device in gpus() {
        let stream = device.stream().expect("a stream");
        let module = device.load_ptx(BASIC).expect("loads");
        let kernel = module.kernel("axpy").expect("the kernel is there");
        let x = DeviceBuffer::<f32>::zeros(&stream, 32).expect("allocates");
        let mut y = DeviceBuffer::<f32>::zeros(&stream, 32).expect("allocates");
        let config = LaunchConfig::linear(1, 32);
        let mut best_ns = u128::MAX;
        for _ in 0..20 {
            let start = Instant::now();
            for _ in 0..200 {
                // SAFETY: both have 32 elements; params are { n, a } as their bits.
                unsafe { kernel.launch(&stream, config, (&x, &mut y, 32_u64)) }.expect("launches");
            }
            best_ns = best_ns.min(start.elapsed().as_nanos() / 200);
            stream.synchronize().expect("no fault");
        }
        println!("launch through the public API: {best_ns} ns of host time");
        // The driver's own call takes 1.5 to 3 microseconds; ours may add up to 5.
        assert!(best_ns < 8_000, "{best_ns} ns a launch");
    }
}
