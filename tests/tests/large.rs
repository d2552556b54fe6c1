//! More elements than 31 and 32 bits count, in operations on rows, axes and elements: on a GPU with
//! enough memory. The emulator runs the same with few elements.

use std::sync::{Mutex, PoisonError};

use half::bf16;
use warpsmith::{
    Binary, BinaryOp, Chain, Device, LayerNorm, Reduce, ReduceOp, Softmax, Stream, Tensor,
};

/// One test has the memory at a time.
static MEMORY: Mutex<()> = Mutex::new(());

/// Runs the test on every device: with large tensors on GPUs that have `gigabytes` free, with small
/// ones on the emulator.
fn on_devices(gigabytes: u64, test: impl Fn(&Stream, bool)) {
    let _alone = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        if !device.is_emulator() && !has_free(&device, gigabytes) {
            continue;
        }
        test(&stream, !device.is_emulator());
    }
}

fn has_free(device: &Device, gigabytes: u64) -> bool {
    device.synchronize().expect("nothing runs");
    let free = device.memory().expect("memory").free_bytes;
    let is_enough = free >= gigabytes << 30;
    if !is_enough {
        println!("skipped on {device}: {free} bytes are free, want {gigabytes} GiB");
    }
    is_enough
}

fn number(stream: &Stream, x: f32) -> Tensor<bf16> {
    Tensor::full(stream, &[1], bf16::from_f32(x)).expect("a number")
}

/// The number of elements that differ; both broadcast.
fn differing<T: warpsmith::ChainElement>(a: &Tensor<T>, b: &Tensor<T>, stream: &Stream) -> i64 {
    let differs = Binary::new(BinaryOp::Ne, a, b).output::<u8>().run(stream);
    let differs = differs.expect("a comparison");
    let count = Reduce::new(ReduceOp::CountNonzero, &differs)
        .output::<i64>()
        .run(stream);
    count.and_then(|count| count.item()).expect("a count")
}

#[test]
fn chains_and_casts_of_more_elements_than_a_launch_covers() {
    on_devices(28, |stream, is_large| {
        let n = if is_large {
            3 * (1_usize << 30) + 4321
        } else {
            4321
        };
        let x = Tensor::full(stream, &[n], 1_u8).expect("a tensor");
        // In every launch, and on both sides of where one ends.
        let places = [0, n / 3 - 1, n / 3, n / 2, 2 * (n / 3), n - 1];
        let places = match is_large {
            true => [0, (1 << 30) - 1, 1 << 30, (1 << 31) + 5, 3 << 30, n - 1],
            false => places,
        };
        for place in places {
            let one = x.slice(0, place..place + 1).expect("a view");
            one.fill(2, stream).expect("a fill");
        }
        let chain = Chain::new(&x)
            .scalar(BinaryOp::Mul, 3.0)
            .scalar(BinaryOp::Add, 1.0);
        let of_chain = chain.output::<bf16>().run(stream).expect("a chain");
        let of_cast = x.cast::<bf16>(stream).expect("a cast");
        for (y, [one, two]) in [(of_chain, [4.0, 7.0]), (of_cast, [1.0, 2.0])] {
            assert_eq!(differing(&y, &number(stream, one), stream), 6);
            for place in places {
                let one = y.slice(0, place..place + 1).expect("a view");
                assert_eq!(one.item().expect("one").to_f32(), two, "at {place}");
            }
        }
    });
}

/// A matrix that has more elements than 32 bits count, none of them a power of two.
fn extents(is_large: bool) -> [usize; 2] {
    match is_large {
        true => [(1 << 16) + 1, (1 << 16) + 16],
        false => [65, 80],
    }
}

#[test]
fn axes_of_more_elements_than_32_bits_count_are_reduced() {
    on_devices(10, |stream, is_large| {
        let shape @ [rows, columns] = extents(is_large);
        let x = Tensor::full(stream, &shape, bf16::ONE).expect("a tensor");
        let last = [rows - 1, columns - 2];
        let one = x.slice(0, last[0]..rows).expect("a view");
        let one = one.slice(1, last[1]..last[1] + 1).expect("a view");
        one.fill(bf16::from_f32(3.0), stream).expect("a fill");
        for axis in [0, 1] {
            let place = last[1 - axis];
            let sums = Reduce::new(ReduceOp::Sum, &x)
                .axis(axis as isize)
                .run(stream);
            let sums = sums.and_then(|y| y.to_vec()).expect("sums");
            assert_eq!(sums.len(), shape[1 - axis]);
            for (at, sum) in sums.into_iter().enumerate() {
                let more = if at == place { 2.0 } else { 0.0 };
                assert_eq!(sum, shape[axis] as f32 + more, "axis {axis} at {at}");
            }
            let best = Reduce::new(ReduceOp::Argmax, &x)
                .axis(axis as isize)
                .output::<i64>()
                .run(stream);
            let best = best.and_then(|y| y.to_vec()).expect("indices");
            assert_eq!(best[place], last[axis] as i64, "axis {axis}");
            assert!(best[..place].iter().all(|&index| index == 0), "axis {axis}");
        }
    });
}

/// Rows whose elements together are more than 32 bits count.
fn rows_of_4096(is_large: bool) -> [usize; 2] {
    [if is_large { (1 << 20) + 3 } else { 19 }, 4096]
}

#[test]
fn softmax_of_more_elements_than_32_bits_count() {
    on_devices(36, |stream, is_large| {
        let shape @ [rows, n] = rows_of_4096(is_large);
        let x = Tensor::full(stream, &shape, bf16::ONE).expect("a tensor");
        let last = x.slice(0, rows - 1..).expect("a view");
        let one = last.slice(1, 77..78).expect("a view");
        one.fill(bf16::from_f32(200.0), stream).expect("a fill");
        let y = Softmax::new(&x).run(stream).expect("a softmax");
        let others = y.slice(0, ..rows - 1).expect("a view");
        let even = number(stream, 1.0 / n as f32);
        assert_eq!(differing(&others, &even, stream), 0);
        let last = y.slice(0, rows - 1..).and_then(|y| y.to_vec());
        for (at, y) in last.expect("the last row").into_iter().enumerate() {
            let want = if at == 77 { 1.0 } else { 0.0 };
            assert_eq!(y.to_f32(), want, "at {at}");
        }
    });
}

#[test]
fn layer_norm_of_more_elements_than_32_bits_count() {
    on_devices(36, |stream, is_large| {
        let shape @ [rows, n] = rows_of_4096(is_large);
        let x = Tensor::full(stream, &shape, bf16::ONE).expect("a tensor");
        let half = x.slice(1, n / 2..).expect("a view");
        half.fill(bf16::from_f32(-1.0), stream).expect("a fill");
        let last = x.slice(0, rows - 1..).expect("a view");
        last.fill(bf16::from_f32(5.0), stream).expect("a fill");
        // Without an epsilon, rows of 1 and -1 are themselves.
        let y = LayerNorm::new(&x).epsilon(0.0).run(stream).expect("a norm");
        let [of_x, of_y] = [&x, &y].map(|of| of.slice(0, ..rows - 1).expect("a view"));
        assert_eq!(differing(&of_y, &of_x, stream), 0);
        let y = LayerNorm::new(&x)
            .epsilon(1e-5)
            .run(stream)
            .expect("a norm");
        let last = y.slice(0, rows - 1..).and_then(|y| y.to_vec());
        let last = last.expect("the last row");
        assert!(last.iter().all(|&y| y == bf16::ZERO));
    });
}

#[test]
fn a_transpose_of_more_elements_than_32_bits_count() {
    on_devices(32, |stream, is_large| {
        let [rows, columns] = extents(is_large);
        let bytes = |n: usize, period: usize| -> Vec<u8> {
            (0..n).map(|i| (i * 7 % period) as u8).collect()
        };
        let device = stream.device();
        let (of_row, of_column) = (bytes(rows, 101), bytes(columns, 97));
        let of_row = Tensor::from_slice(device, &[rows, 1], &of_row).expect("a tensor");
        let of_column = Tensor::from_slice(device, &[1, columns], &of_column).expect("a tensor");
        let x = Binary::new(BinaryOp::Add, &of_row, &of_column).run(stream);
        let y = x.expect("a sum").t().contiguous(stream).expect("a copy");
        let want = Binary::new(BinaryOp::Add, &of_column.t(), &of_row.t()).run(stream);
        assert_eq!(differing(&y, &want.expect("a sum"), stream), 0);
    });
}
