//! Indices, positions and lengths of i64 give the results of those of i32, also out of range.

use half::bf16;
use warpsmith::{
    Attention, CrossEntropy, Device, Float, GroupedGemm, Result, Rotary, Stream, Tensor,
};
use warpsmith_tests::on_every_device;

/// Numbers of one tensor in both types.
fn both(device: &Device, shape: &[usize], numbers: &[i32]) -> (Tensor<i32>, Tensor<i64>) {
    let narrow = Tensor::from_slice(device, shape, numbers).expect("numbers of i32");
    // What is out of range in 32 bits is further out of range in 64.
    let far = |&number: &i32| match number {
        i32::MAX => 1 << 40,
        i32::MIN => -(1 << 40) + 1,
        number => i64::from(number),
    };
    let wide: Vec<i64> = numbers.iter().map(far).collect();
    let wide = Tensor::from_slice(device, shape, &wide).expect("numbers of i64");
    (narrow, wide)
}

fn ramp<T: Float>(device: &Device, shape: &[usize]) -> Tensor<T> {
    let len: usize = shape.iter().product();
    let values: Vec<T> = (0..len)
        .map(|i| T::from_f64((i * 37 % 101) as f64 / 50.0 - 1.0))
        .collect();
    Tensor::from_slice(device, shape, &values).expect("a tensor")
}

/// Both results have the same bits, and there is something in them.
fn same<T: Float>(narrow: Result<Tensor<T>>, wide: Result<Tensor<T>>) {
    let bits = |result: Result<Tensor<T>>| -> Vec<u32> {
        let values = result.and_then(|y| y.to_vec()).expect("a result");
        let wide = values.into_iter().map(|x| x.to_f32().to_bits());
        wide.collect()
    };
    let (narrow, wide) = (bits(narrow), bits(wide));
    assert!(narrow.iter().any(|&x| f32::from_bits(x) != 0.0));
    assert_eq!(narrow, wide);
}

fn losses(device: &Device, stream: &Stream) {
    let logits = ramp::<f32>(device, &[6, 11]);
    let targets = [3, 0, -100, 10, 4, 7];
    let (narrow, wide) = both(device, &[6], &targets);
    let of_narrow = CrossEntropy::new(&logits, &narrow).gradient().run(stream);
    let of_wide = CrossEntropy::new(&logits, &wide).gradient().run(stream);
    let (of_narrow, of_wide) = (of_narrow.expect("a loss"), of_wide.expect("a loss"));
    same(Ok(of_narrow.loss), Ok(of_wide.loss));
    same(Ok(of_narrow.dlogits), Ok(of_wide.dlogits));
    // Not a class: the loss is NaN for both.
    let (narrow, wide) = both(device, &[6], &[3, 0, i32::MAX, 10, i32::MIN, 7]);
    let loss = |loss: Result<Tensor<f32>>| loss.and_then(|loss| loss.item()).expect("a loss");
    assert!(loss(CrossEntropy::new(&logits, &narrow).run(stream)).is_nan());
    assert!(loss(CrossEntropy::new(&logits, &wide).run(stream)).is_nan());
    // Targets that lie apart.
    let (narrow, wide) = both(device, &[6, 2], &[3, 9, 0, 9, 1, 9, 10, 9, 4, 9, 7, 9]);
    let column = narrow.index_axis(1, 0).expect("a view");
    let of_narrow = CrossEntropy::new(&logits, &column).run(stream);
    let column = wide.index_axis(1, 0).expect("a view");
    same(of_narrow, CrossEntropy::new(&logits, &column).run(stream));
}

fn rotations(device: &Device, stream: &Stream) {
    let x = ramp::<bf16>(device, &[2, 3, 4, 16]);
    let (cos, sin) = (ramp::<f32>(device, &[9, 8]), ramp::<f32>(device, &[9, 8]));
    let rotary = || Rotary::new(&x, &cos, &sin);
    let (narrow, wide) = both(device, &[2], &[5, 2]);
    same(
        rotary().offsets(&narrow).run(stream),
        rotary().offsets(&wide).run(stream),
    );
    let (narrow, wide) = both(device, &[1, 3], &[8, 0, 4]);
    let (narrow, wide) = (narrow.broadcast_to(&[2, 3]), wide.broadcast_to(&[2, 3]));
    let (narrow, wide) = (narrow.expect("a view"), wide.expect("a view"));
    same(
        rotary().positions(&narrow).run(stream),
        rotary().positions(&wide).run(stream),
    );
}

fn groups(device: &Device, stream: &Stream) {
    let (a, b) = (
        ramp::<bf16>(device, &[20, 16]),
        ramp::<bf16>(device, &[3, 16, 24]),
    );
    for ends in [[4, 9, 20], [9, i32::MIN, i32::MAX]] {
        let (narrow, wide) = both(device, &[3], &ends);
        same(
            GroupedGemm::new(&a, &b, &narrow).run(stream),
            GroupedGemm::new(&a, &b, &wide).run(stream),
        );
    }
}

fn sequences(device: &Device, stream: &Stream) {
    let q = ramp::<bf16>(device, &[2, 3, 2, 32]);
    let pool = ramp::<bf16>(device, &[4, 16, 2, 32]);
    // The last page of each row is one that no key is in.
    let table = [2, 0, i32::MAX, 3, 1, i32::MIN];
    let (narrow, wide) = both(device, &[2, 3], &table);
    let (lengths, wide_lengths) = both(device, &[2], &[32, 17]);
    let attention = || Attention::new(&q, &pool, &pool).causal();
    let of_narrow = attention().pages(&narrow).seqused_k(&lengths).run(stream);
    let of_wide = attention()
        .pages(&wide)
        .seqused_k(&wide_lengths)
        .run(stream);
    same(of_narrow, of_wide);
}

#[test]
fn both_types_give_the_same_bits_in_every_operation() {
    on_every_device(|device, stream| {
        losses(device, stream);
        rotations(device, stream);
        groups(device, stream);
        sequences(device, stream);
    });
}
