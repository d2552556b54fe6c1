//! Launches captured into a graph, on every device.

use warpsmith::testing::devices;
use warpsmith::{Binary, BinaryOp, Device, Reduce, ReduceOp, Stream, Tensor};

/// Elements of rows that a block, a cluster, and blocks with tickets sum up.
const ELEMENTS: [usize; 3] = [4_096, 262_144, 1 << 22];

/// Those that a device sums up within a test.
fn elements(device: &Device) -> &'static [usize] {
    match device.is_emulator() {
        true => &ELEMENTS[..2],
        false => &ELEMENTS,
    }
}

#[test]
fn a_graph_computes_from_what_its_inputs_hold_when_it_is_replayed() {
    for device in devices() {
        for &elements in elements(&device) {
            let stream = device.stream().expect("a stream");
            let x = Tensor::<f32>::full(&stream, &[elements], 1.0).expect("memory");
            let twice = Tensor::<f32>::zeros(&stream, &[elements]).expect("memory");
            let sum = Tensor::<f32>::zeros(&stream, &[]).expect("memory");
            // In a row: each reads what the one before wrote.
            let enqueue = |stream: &Stream| {
                Binary::new(BinaryOp::Add, &x, &x).run_into(&twice, stream)?;
                Reduce::new(ReduceOp::Sum, &twice).run_into(&sum, stream)
            };
            enqueue(&stream).expect("runs");
            let graph = stream.capture(enqueue).expect("a graph");
            for value in [1.0, 3.0, 2.0] {
                x.fill(value, &stream).expect("fills");
                graph.launch(&stream).expect("runs");
                graph.launch(&stream).expect("runs");
                let want = 2.0 * value * elements as f32;
                assert_eq!(
                    sum.to_vec().expect("reads"),
                    [want],
                    "{elements} of {value}"
                );
            }
        }
    }
}

#[test]
fn a_graph_runs_beside_launches_of_the_stream_it_was_captured_from() {
    for device in devices() {
        for &elements in elements(&device) {
            let [own, other] = [(); 2].map(|()| device.stream().expect("a stream"));
            let of = |value: f32| {
                let x = Tensor::<f32>::full(&own, &[elements], value).expect("memory");
                (x, Tensor::<f32>::zeros(&own, &[]).expect("memory"))
            };
            let ((x, x_sum), (y, y_sum)) = (of(1.0), of(2.0));
            let sum = |x, y, on: &Stream| Reduce::new(ReduceOp::Sum, x).run_into(y, on);
            sum(&x, &x_sum, &own).expect("runs");
            let graph = own
                .capture(|stream| sum(&x, &x_sum, stream))
                .expect("a graph");
            let launches = if device.is_emulator() { 2 } else { 50 };
            for _ in 0..launches {
                graph.launch(&other).expect("runs");
                sum(&y, &y_sum, &own).expect("runs");
            }
            other.synchronize().expect("no fault");
            let sums = [&x_sum, &y_sum].map(|sum| sum.to_vec().expect("reads")[0]);
            assert_eq!(sums, [elements as f32, 2.0 * elements as f32]);
        }
    }
}
