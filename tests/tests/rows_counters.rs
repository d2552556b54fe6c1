//! The emulator's counters of the row kernels: each byte is read once and written once, without
//! bank conflicts in shared memory.

use half::bf16;
use warpsmith::{
    CrossEntropy, Device, LayerNorm, LayerNormGrad, LogSoftmax, LogSoftmaxGrad, LossAndGradient,
    NormGradients, Reduction, RmsNorm, RmsNormGrad, Softmax, SoftmaxGrad, Stream, Tensor,
};
use warpsmith_tests::profiled;

fn tensor(stream: &Stream, shape: [usize; 2]) -> Tensor<bf16> {
    Tensor::full(stream, &shape, bf16::ONE).expect("a tensor")
}

/// Shapes whose rows are held by lanes, by a warp, by a block, and by a cluster.
const SHAPES: [[usize; 2]; 4] = [[64, 256], [16, 1024], [4, 8192], [2, 80_000]];

#[track_caller]
fn moved(device: &Device, [read, written]: [usize; 2], shape: [usize; 2], what: &str) {
    moved_with(device, [read, 0, written], shape, what);
}

/// As [`moved`], with at most `more` bytes beside those that have to be read: numbers of a row, which
/// every thread of the row asks for.
#[track_caller]
fn moved_with(device: &Device, [read, more, written]: [usize; 3], [_, n]: [usize; 2], what: &str) {
    let is_shared = n > 32_768;
    let launch = device.last_launch().expect("a launch");
    let counters = launch.counters();
    let loaded = counters.global.loads.bytes + counters.global.copies_in.bytes;
    let allowed = read as u64..=(read + more) as u64;
    assert!(
        allowed.contains(&loaded),
        "{what}: read {loaded} of {allowed:?}"
    );
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

#[test]
fn log_softmax_reads_each_byte_once_and_meets_no_bank_twice() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    for shape in SHAPES {
        let (x, y) = (tensor(&stream, shape), tensor(&stream, shape));
        let bytes = 2 * shape[0] * shape[1];
        LogSoftmax::new(&x).run_into(&y, &stream).expect("softmax");
        moved(&device, [bytes, bytes], shape, &format!("{shape:?}"));
        let gradient = LogSoftmaxGrad::new(&x, &y).run_into(&y, &stream);
        gradient.expect("its gradient");
        let what = format!("gradient {shape:?}");
        moved(&device, [2 * bytes, bytes], shape, &what);
    }
}

#[test]
fn cross_entropy_reads_each_logit_once_and_meets_no_bank_twice() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    for shape in SHAPES {
        let [rows, _] = shape;
        let (logits, dlogits) = (tensor(&stream, shape), tensor(&stream, shape));
        let targets = Tensor::full(&stream, &[rows], 3_i64).expect("targets");
        let losses = Tensor::<f32>::zeros(&stream, &[rows]).expect("losses");
        let bytes = 2 * shape[0] * shape[1];
        let loss = CrossEntropy::new(&logits, &targets).reduction(Reduction::None);
        let out = LossAndGradient {
            loss: losses.clone(),
            dlogits,
        };
        for has_gradient in [false, true] {
            let what = format!("{shape:?}, gradient {has_gradient}");
            match has_gradient {
                false => loss.run_into(&losses, &stream).expect("a loss"),
                true => loss.gradient().run_into(&out, &stream).expect("both"),
            }
            let written = if has_gradient { bytes } else { 0 } + 4 * rows;
            // A thread reads the target, of 8 bytes, for at least 32 logits of 2; one of them reads
            // the logit of the target again.
            let more = bytes / 8 + 2 * rows;
            moved_with(&device, [bytes, more, written], shape, &what);
        }
    }
}

#[test]
fn gradients_of_norms_read_rows_once_and_meet_no_bank_twice() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    for shape in SHAPES {
        let [rows, _] = shape;
        let (x, dy) = (tensor(&stream, shape), tensor(&stream, shape));
        let kept = Tensor::full(&stream, &[rows], 1.0_f32).expect("kept");
        let out = NormGradients {
            dx: tensor(&stream, shape),
            dweight: None,
            dbias: None,
        };
        let bytes = 2 * shape[0] * shape[1];
        // Two numbers of 4 bytes for a thread, which has at least 8 elements of 2 of both tensors.
        let move_all = [2 * bytes, bytes / 2, bytes];
        let gradient = LayerNormGrad::new(&x, &kept, &kept, &dy).run_into(&out, &stream);
        gradient.expect("a gradient");
        let what = format!("layer norm {shape:?}");
        moved_with(&device, move_all, shape, &what);
        let gradient = RmsNormGrad::new(&x, &kept, &dy).run_into(&out, &stream);
        gradient.expect("a gradient");
        moved_with(&device, move_all, shape, &format!("RMS norm {shape:?}"));
    }
}
