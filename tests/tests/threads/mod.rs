//! Calls from several threads on streams that they share: each gives the bits that it gives alone.
//!
//! Launches of two threads on one stream come in any order. So the launches of one call pass
//! nothing through memory that another call on the stream writes. Each thread has tensors of its
//! own, and all begin each call together.

mod attending;
mod calls;
mod moving;
mod products;
mod rows;

use calls::Calls;
use std::sync::Barrier;
use std::thread;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::{Device, Stream};

/// Threads that make calls.
const THREADS: usize = 4;
/// More queues than a device has: further streams share them.
const QUEUES: usize = 64;

/// An emulator whose threads also stand for multiprocessors: so many that long rows are cut.
fn emulator() -> Device {
    let config = EmulatorConfig {
        threads: Some(16),
        ..EmulatorConfig::default()
    };
    Device::emulator_with(config).expect("an emulator")
}

/// The calls of each thread, with tensors of its own.
fn calls_of_threads(device: &Device) -> Vec<Calls> {
    let of_thread = |thread| {
        let mut calls = Calls::new(device, thread);
        products::add(&mut calls);
        attending::add(&mut calls);
        rows::add(&mut calls);
        moving::add(&mut calls);
        calls
    };
    (0..THREADS as u64).map(of_thread).collect()
}

/// Makes each call `times` times from all threads at once, thread `i` on `streams[i]`.
fn race(calls: &[Calls], streams: &[Stream], times: usize) {
    let barrier = Barrier::new(calls.len());
    let wrong: Vec<String> = thread::scope(|scope| {
        let started: Vec<_> = (calls.iter().zip(streams))
            .map(|(calls, stream)| {
                let barrier = &barrier;
                scope.spawn(move || calls.wrong(stream, times, barrier))
            })
            .collect();
        let ended = started.into_iter().map(|thread| thread.join());
        ended.flat_map(|wrong| wrong.expect("no panic")).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn threads_that_share_a_queue_get_the_bits_of_calls_made_alone() {
    let device = emulator();
    let calls = calls_of_threads(&device);
    let stream = device.stream().expect("a stream");
    race(&calls, &[(); THREADS].map(|()| stream.clone()), 2);
    // So many streams that each thread has another one of the same queue.
    let streams: Vec<Stream> = (0..THREADS * QUEUES)
        .map(|_| device.stream().expect("a stream"))
        .collect();
    let shared = streams.iter().filter(|stream| **stream == streams[0]);
    let shared: Vec<Stream> = shared.take(THREADS).cloned().collect();
    assert_eq!(shared.len(), THREADS);
    race(&calls, &shared, 1);
}
