//! Launches captured into a CUDA graph, which the emulator does not have: without a GPU there is
//! nothing to run on; `WARPSMITH_TEST_DEVICE=gpu` makes that an error.

use cudarc::driver::sys;
use std::ptr;
use warpsmith::testing::devices;
use warpsmith::{Binary, BinaryOp, Device, Reduce, ReduceOp, Stream, Tensor};

fn gpus() -> impl Iterator<Item = Device> {
    devices().into_iter().filter(|device| !device.is_emulator())
}

/// What `enqueue` enqueues on `stream`, as a graph that lives as long as the process.
fn captured(stream: &Stream, enqueue: impl FnOnce()) -> sys::CUgraphExec {
    let raw = stream.as_raw().cast();
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    let (mut graph, mut executable) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: a live stream, whose capture ends; the places are valid.
    let codes = unsafe {
        let begun = sys::cuStreamBeginCapture_v2(raw, mode);
        enqueue();
        [
            begun,
            sys::cuStreamEndCapture(raw, &raw mut graph),
            sys::cuGraphInstantiateWithFlags(&raw mut executable, graph, 0),
        ]
    };
    assert_eq!(codes, [sys::CUresult::CUDA_SUCCESS; 3]);
    executable
}

fn replay(graph: sys::CUgraphExec, stream: &Stream) {
    // SAFETY: a live graph and stream.
    let code = unsafe { sys::cuGraphLaunch(graph, stream.as_raw().cast()) };
    assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
}

/// Elements of rows that a block, a cluster, and blocks with tickets sum up.
const ELEMENTS: [usize; 3] = [4_096, 262_144, 1 << 22];

#[test]
fn a_graph_computes_from_what_its_inputs_hold_when_it_is_replayed() {
    for device in gpus() {
        for elements in ELEMENTS {
            let stream = device.stream().expect("a stream");
            let x = Tensor::<f32>::full(&stream, &[elements], 1.0).expect("memory");
            let twice = Tensor::<f32>::zeros(&stream, &[elements]).expect("memory");
            let sum = Tensor::<f32>::zeros(&stream, &[]).expect("memory");
            // In a row: each reads what the one before wrote.
            let enqueue = || {
                Binary::new(BinaryOp::Add, &x, &x)
                    .run_into(&twice, &stream)
                    .expect("runs");
                Reduce::new(ReduceOp::Sum, &twice)
                    .run_into(&sum, &stream)
                    .expect("runs");
            };
            enqueue();
            stream.synchronize().expect("no fault");
            let graph = captured(&stream, enqueue);
            for value in [1.0, 3.0, 2.0] {
                x.fill(value, &stream).expect("fills");
                replay(graph, &stream);
                replay(graph, &stream);
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
    for device in gpus() {
        for elements in ELEMENTS {
            let [own, other] = [(); 2].map(|()| device.stream().expect("a stream"));
            let of = |value: f32| {
                let x = Tensor::<f32>::full(&own, &[elements], value).expect("memory");
                (x, Tensor::<f32>::zeros(&own, &[]).expect("memory"))
            };
            let ((x, x_sum), (y, y_sum)) = (of(1.0), of(2.0));
            let sum = |x, y| {
                Reduce::new(ReduceOp::Sum, x)
                    .run_into(y, &own)
                    .expect("runs")
            };
            sum(&x, &x_sum);
            let graph = captured(&own, || sum(&x, &x_sum));
            own.synchronize().expect("no fault");
            for _ in 0..50 {
                replay(graph, &other);
                sum(&y, &y_sum);
            }
            other.synchronize().expect("no fault");
            let sums = [&x_sum, &y_sum].map(|sum| sum.to_vec().expect("reads")[0]);
            assert_eq!(sums, [elements as f32, 2.0 * elements as f32]);
        }
    }
}
