//! The emulator's counters of the row kernels: each byte is read once and written once, without
//! bank conflicts in shared memory.

use half::bf16;
use warpsmith::{Device, LayerNorm, RmsNorm, Softmax, SoftmaxGrad, Stream, Tensor};
use warpsmith_tests::profiled;

fn tensor(stream: &Stream, shape: [usize; 2]) -> Tensor<bf16> {
    Tensor::full(stream, &shape, bf16::ONE).expect("a tensor")
}

/// Shapes whose rows are held by lanes, by a warp, by a block, and by a cluster.
const SHAPES: [[usize; 2]; 4] = [[64, 256], [16, 1024], [4, 8192], [2, 80_000]];

#[track_caller]
fn moved(device: &Device, [read, written]: [usize; 2], [_, n]: [usize; 2], what: &str) {
    let is_shared = n > 32_768;
    let launch = device.last_launch().expect("a launch");
    let counters = launch.counters();
    let loaded = counters.global.loads.bytes + counters.global.copies_in.bytes;
    assert_eq!(loaded, read as u64, "{what}: read");
    assert_eq!(
        counters.global.stores.bytes, written as u64,
        "{what}: written"
    );
    // In a cluster, lanes write to one place in each block, which the counters take for one
    // block's.
    if !is_shared {
        assert_eq!(counters.shared.bank_conflicts, 0, "{what}: conflicts");
    }
}

#[test]
fn softmax_reads_each_byte_once_and_meets_no_bank_twice() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    for shape in SHAPES {
        let (x, y) = (tensor(&stream, shape), tensor(&stream, shape));
        let bytes = 2 * shape[0] * shape[1];
        Softmax::new(&x).run_into(&y, &stream).expect("softmax");
        moved(
            &device,
            [bytes, bytes],
            shape,
            &format!("softmax {shape:?}"),
        );
        SoftmaxGrad::new(&x, &y)
            .run_into(&y, &stream)
            .expect("its gradient");
        moved(
            &device,
            [2 * bytes, bytes],
            shape,
            &format!("gradient {shape:?}"),
        );
    }
}

#[test]
fn norms_read_rows_once_and_weights_once_a_row_or_a_pair() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    for shape in SHAPES {
        let (x, y) = (tensor(&stream, shape), tensor(&stream, shape));
        let weight = Tensor::full(&stream, &shape[1..], bf16::ONE).expect("a tensor");
        let bytes = 2 * shape[0] * shape[1];
        // Weight and bias are read once per row, or per pair of rows.
        let pairs = if shape[1] > 2048 { 2 } else { 1 };
        let of_weights = 2 * bytes / pairs;
        LayerNorm::new(&x)
            .weight(&weight)
            .bias(&weight)
            .run_into(&y, &stream)
            .expect("a norm");
        moved(
            &device,
            [bytes + of_weights, bytes],
            shape,
            &format!("layer norm {shape:?}"),
        );
        RmsNorm::new(&x).run_into(&y, &stream).expect("a norm");
        moved(
            &device,
            [bytes, bytes],
            shape,
            &format!("RMS norm {shape:?}"),
        );
    }
}
