//! The emulator's counters: each byte is read once and written once, in few accesses, without bank
//! conflicts in shared memory.

use half::bf16;
use warpsmith::{BinaryOp, Chain, Device, Element, Stream, Tensor, UnaryOp};
use warpsmith_tests::profiled;

fn ones<T: Element>(stream: &Stream, shape: &[usize], one: T) -> Tensor<T> {
    Tensor::full(stream, shape, one).expect("a tensor")
}

#[test]
fn a_chain_reads_every_byte_once() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    let (rows, columns) = (64, 256);
    let elements = (rows * columns) as u64;
    let x = ones(&stream, &[rows, columns], bf16::ONE);
    let other = ones(&stream, &[rows, columns], bf16::ONE);
    let y = Chain::new(&x)
        .with(BinaryOp::Add, &other)
        .with(BinaryOp::Mul, &x)
        .unary(UnaryOp::Relu)
        .output::<bf16>()
        .run(&stream);
    y.expect("a chain");
    let launch = device.last_launch().expect("a launch");
    let global = &launch.counters().global;
    assert_eq!(global.loads.bytes, 2 * 2 * elements);
    assert_eq!(global.stores.bytes, 2 * elements);
    // Whole 32-byte sectors: nothing is moved that was not requested.
    assert_eq!(global.loads.sectors * 32, 2 * 2 * elements);
    assert_eq!(global.stores.sectors * 32, 2 * elements);
}

#[test]
fn a_long_function_that_prefetches_reads_every_byte_once() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    // More chunks of four than a thread takes alone.
    let elements = (1 << 20) + 3;
    let x = ones(&stream, &[elements], 1.0_f32);
    let y = Chain::new(&x)
        .unary(UnaryOp::Gelu)
        .output::<f32>()
        .run(&stream);
    y.expect("a function");
    let launch = device.last_launch().expect("a launch");
    let global = &launch.counters().global;
    assert_eq!(global.loads.bytes, 4 * elements as u64);
    assert_eq!(global.stores.bytes, 4 * elements as u64);
}

#[test]
fn casts_of_large_tensors_read_every_byte_once() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    let elements = (1 << 20) + 1003;
    let x = ones(&stream, &[elements], bf16::ONE);
    let y = x.cast::<f32>(&stream).expect("a cast");
    let launch = device.last_launch().expect("a launch");
    let global = &launch.counters().global;
    assert_eq!(global.loads.bytes, 2 * elements as u64);
    assert_eq!(global.stores.bytes, 4 * elements as u64);
    let y = y.to_vec().expect("elements");
    assert!(y.iter().all(|&y| y == 1.0));
}

#[test]
fn transpositions_move_whole_sectors_and_meet_no_bank_twice() {
    fn check<T: Element>(device: &Device, one: T) {
        let stream = device.stream().expect("a stream");
        let x = ones(&stream, &[256, 384], one);
        x.t().contiguous(&stream).expect("a copy");
        let launch = device.last_launch().expect("a launch");
        let counters = launch.counters();
        let bytes = (256 * 384 * size_of::<T>()) as u64;
        let size = size_of::<T>();
        assert_eq!(
            counters.shared.bank_conflicts, 0,
            "elements of {size} bytes"
        );
        assert_eq!(
            counters.global.loads.sectors * 32,
            bytes,
            "elements of {size} bytes"
        );
        assert_eq!(
            counters.global.stores.sectors * 32,
            bytes,
            "elements of {size} bytes"
        );
    }
    let device = profiled();
    check(&device, 1_u8);
    check(&device, bf16::ONE);
    check(&device, 1_f32);
    check(&device, 1_i64);
}
