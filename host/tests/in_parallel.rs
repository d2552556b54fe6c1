//! Calls from many threads at once.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rayon::prelude::*;
use warpsmith::testing::devices;
use warpsmith::{Tensor, Unary, UnaryOp};

/// Far longer than the work takes.
const LIMIT: Duration = Duration::from_secs(120);

/// A worker of rayon that waits takes up other items of its iterator meanwhile. If it waited for the
/// emulator so, holding its stream, an item that needs the stream would never end.
#[test]
fn items_of_a_parallel_iterator_share_a_stream() {
    for device in devices() {
        let (done, wait) = mpsc::channel();
        let of_thread = device.clone();
        thread::spawn(move || {
            let stream = of_thread.stream().expect("a stream");
            let run = |item: u32| {
                let x = Tensor::full(&stream, &[1 << 14], item as f32).expect("a tensor");
                let y = Unary::new(UnaryOp::Neg, &x).run(&stream).expect("a result");
                y.to_ndarray().expect("its elements")[[(1 << 14) - 1]]
            };
            let results: Vec<f32> = (0..64).into_par_iter().map(run).collect();
            done.send(results)
        });
        let results = wait.recv_timeout(LIMIT).expect("an end of all items");
        let want: Vec<f32> = (0..64u8).map(|item| -f32::from(item)).collect();
        assert_eq!(results, want, "on {device}");
    }
}
