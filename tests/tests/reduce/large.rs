//! More elements than 32 bits can count: on a GPU, and as a plan only.

use half::bf16;
use warpsmith::{Reduce, ReduceOp, Tensor};

#[test]
fn more_than_two_to_the_31_elements_are_counted_by_64_bits() {
    let gpus = warpsmith::testing::devices()
        .into_iter()
        .filter(|device| !device.is_emulator());
    for device in gpus {
        let stream = device.stream().expect("a stream");
        let n = (1_usize << 32) + 12_345;
        let x = Tensor::full(&stream, &[n], bf16::ONE).expect("8 GiB");
        let last = x.slice(0, n - 3..n - 2).expect("a view");
        last.fill(bf16::from_f32(2.0), &stream).expect("a fill");
        let index = Reduce::new(ReduceOp::Argmax, &x)
            .output::<i64>()
            .run(&stream)
            .expect("an index");
        assert_eq!(index.item().expect("one"), n as i64 - 3);
        let count = Reduce::new(ReduceOp::CountNonzero, &x)
            .output::<i64>()
            .run(&stream)
            .expect("a count");
        assert_eq!(count.item().expect("one"), n as i64);
        let sum = Reduce::new(ReduceOp::Sum, &x)
            .output::<f64>()
            .run(&stream)
            .expect("a sum");
        assert_eq!(sum.item().expect("one"), n as f64 + 1.0);
        let sum = Reduce::new(ReduceOp::Sum, &x).run(&stream).expect("a sum");
        assert_eq!(sum.item().expect("one"), (n as f64 + 1.0) as f32);
    }
}

#[test]
fn repeated_elements_whose_bytes_64_bits_do_not_count_have_a_plan() {
    for device in warpsmith::testing::devices() {
        let two = Tensor::from_slice(&device, &[2, 1], &[1.0_f64, 2.0]).expect("a tensor");
        let x = two
            .broadcast_to(&[2, 1 << 61])
            .expect("no memory of its own");
        let stream = device.stream().expect("a stream");
        let plan = Reduce::new(ReduceOp::Sum, &x)
            .plan(&stream)
            .expect("a plan");
        let chosen = plan.chosen().expect("a reduction");
        assert_eq!(chosen.entry, "reduce_value_f64", "{plan}");
        assert!(chosen.split > 500, "{plan}");
    }
}
