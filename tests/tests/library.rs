//! What callers may write: errors that compare, operators, builders that are kept, memory that is given
//! back.

use warpsmith::{
    Attention, BinaryOp, Chain, CrossEntropy, Error, Gemm, Reduce, ReduceOp, Reduction, Result,
    Scan, ScanOp, ShapeError, Softmax, Sort, Tensor, TopK, Unary, UnaryOp,
};
use warpsmith_tests::on_every_device;

#[test]
fn errors_compare() {
    on_every_device(|device, stream| {
        let x = Tensor::<f32>::zeros(stream, &[2, 3]).expect("a tensor");
        let refused = |axis| Reduce::new(ReduceOp::Sum, &x).axes(&[axis]).run(stream);
        let error = refused(5).expect_err("no such axis");
        assert_eq!(error, refused(5).expect_err("no such axis"));
        assert_ne!(error, refused(6).expect_err("no such axis"));
        assert_eq!(
            error.root(),
            &Error::Shape(ShapeError::Axis { axis: 5, rank: 2 })
        );
        let wrong = Tensor::from_slice(device, &[4], &[1.0_f32, 2.0]).map(drop);
        assert_eq!(
            wrong,
            Tensor::from_slice(device, &[4], &[3.0_f32, 4.0]).map(drop)
        );
    });
}

#[test]
fn operators_and_chains_need_no_types() {
    on_every_device(|device, stream| {
        let run = || -> Result<()> {
            let a = Tensor::from_slice(device, &[2], &[1.0_f32, 2.0])?;
            let b = Tensor::from_slice(device, &[2], &[10.0_f32, 20.0])?;
            let sum = (&a + &b)?;
            assert_eq!((&(&sum * 2.0)? - &a)?.to_vec()?, [21.0, 42.0]);
            let negative = (-&a)?;
            assert_eq!((&negative / &b)?.to_vec()?, [-0.1, -0.1]);
            // The dtype of the first tensor.
            let y = Chain::new(&a).scalar(BinaryOp::Mul, 3.0).run(stream)?;
            assert_eq!(y.to_vec()?, [3.0, 6.0]);
            Ok(())
        };
        run().expect("launches");
    });
}

/// Builders take options by value, so that one can be kept in a variable, with all of its options.
#[test]
fn builders_are_kept_with_their_options() {
    on_every_device(|_, stream| {
        let run = || -> Result<()> {
            let x = Tensor::<f32>::full(stream, &[2, 8], 0.5)?;
            let heads = x.reshape(&[1, 2, 1, 8])?;
            let square = Tensor::<f32>::full(stream, &[8, 8], 0.25)?;
            let gemm = Gemm::new(&x, &square).alpha(2.0);
            let attention = Attention::new(&heads, &heads, &heads).causal().window(1, 0);
            let chain = Chain::new(&x)
                .unary(UnaryOp::Exp)
                .scalar(BinaryOp::Add, 1.0);
            let loss = CrossEntropy::new(&x, &x).label_smoothing(0.1);
            let loss = loss.reduction(Reduction::Sum);
            let [sorted, first] = [
                Sort::new(&x).descending().run(stream)?,
                TopK::new(&x, 2).run(stream)?.values,
            ];
            let scan = Scan::new(ScanOp::Max, &x).axis(0);
            let softmax = Softmax::new(&x).axes(&[0]);
            for _ in 0..2 {
                gemm.run(stream)?;
                attention.run(stream)?;
                chain.run(stream)?;
                loss.run(stream)?;
                scan.indices().run(stream)?;
                softmax.run(stream)?;
                Unary::new(UnaryOp::Neg, &sorted).run(stream)?;
                Unary::new(UnaryOp::Neg, &first).run(stream)?;
            }
            Ok(())
        };
        run().expect("launches");
    });
}

#[test]
fn trimmed_memory_leaves_tensors_and_calls_as_they_were() {
    on_every_device(|device, stream| {
        let x = Tensor::from_slice(device, &[1 << 16], &vec![1.0_f32; 1 << 16]).expect("a tensor");
        let largest = || {
            TopK::new(&x, 3)
                .run(stream)
                .and_then(|out| out.values.to_vec())
        };
        for _ in 0..2 {
            assert_eq!(largest().expect("launches"), [1.0; 3]);
            device.trim_memory().expect("trims");
        }
    });
}
