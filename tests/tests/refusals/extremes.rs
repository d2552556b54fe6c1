//! Extents and strides at the ends of their ranges: refused with their values, or without effect.

use warpsmith::{
    Attention, CrossEntropy, Layout, LogSoftmax, Reduce, ReduceOp, Reduction, Softmax, Tensor,
};
use warpsmith_tests::{on_every_device, refused};

#[test]
fn attention_of_more_than_can_be_addressed_is_refused_by_plan_too() {
    on_every_device(|_, stream| {
        let one = super::ones(stream, &[1, 1, 1, 1]);
        let repeated = |shape: [usize; 4]| one.broadcast_to(&shape).expect("a view");
        // o has 2^69 elements.
        for (layout, shape) in [
            (Layout::Bshd, [1, 1 << 30, 1 << 31, 1]),
            (Layout::Bhsd, [1, 1 << 31, 1 << 30, 1]),
        ] {
            let (q, k, v) = (
                repeated(shape),
                repeated([1, 1, 1, 1]),
                repeated([1, 1, 1, 256]),
            );
            let attention = Attention::new(&q, &k, &v).layout(layout);
            refused!(attention.plan(stream) => Shape::Overflow, "2147483648");
            refused!(attention.model(stream) => Shape::Overflow, "1073741824");
            refused!(attention.run(stream) => Shape::Overflow, "1073741824");
        }
    });
}

#[test]
fn strides_that_nothing_steps_over_may_be_any() {
    on_every_device(|_, stream| {
        let storage = super::ones(stream, &[64]);
        let strided = |shape: &[usize], strides: &[i64], offset| {
            storage.as_strided(shape, strides, offset).expect("a view")
        };
        for far in [i64::MIN, i64::MAX] {
            let x = strided(&[4, 1, 3], &[-3, far, 1], 9);
            assert_eq!(x.to_vec().expect("elements"), [1.0; 12]);
            let y = Softmax::new(&x).axis(0).run(stream).expect("a softmax");
            assert_eq!(y.to_vec().expect("elements"), [0.25; 12]);

            // Of nothing.
            let x = strided(&[2, 0, 5], &[far, far, 1], 0);
            assert!(x.to_vec().expect("nothing").is_empty());
            for axes in [&[0, 1, 2][..], &[1], &[0, 2], &[2]] {
                let sum = Reduce::new(ReduceOp::Sum, &x).axes(axes);
                let sum = sum.run(stream).expect("a sum of nothing");
                assert!(sum.to_vec().expect("zeros").iter().all(|&x| x == 0.0));
            }
            LogSoftmax::new(&x).run(stream).expect("nothing");
            let logits = strided(&[2, 0], &[far, far], 0);
            let targets = Tensor::full(stream, &[2], -100_i64).expect("targets");
            let loss = CrossEntropy::new(&logits, &targets).reduction(Reduction::Sum);
            let loss = loss.run(stream).expect("no row counts");
            assert_eq!(loss.item().expect("a loss"), 0.0);
        }
    });
}
