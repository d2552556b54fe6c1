//! Outputs that share memory with what a kernel reads or writes beside them are refused.

use warpsmith::testing::devices;
use warpsmith::{
    Error, LayerNorm, LayerNormGrad, NormGradients, Normalized, Result, ShapeError, Stream, Tensor,
};

fn ones(stream: &Stream, shape: &[usize]) -> Tensor<f32> {
    Tensor::full(stream, shape, 1.0).expect("a tensor")
}

#[track_caller]
fn assert_overlap(refused: Result<()>, names: [&str; 2]) {
    match refused.as_ref().map_err(Error::root) {
        Err(Error::Shape(ShapeError::Overlap { output, other })) => {
            assert_eq!([*output, *other], names)
        }
        other => panic!("{other:?}, want an overlap of {names:?}"),
    }
}

#[test]
fn norms_keep_mean_and_rstd_in_memory_of_their_own() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let (x, row) = (ones(&stream, &[4, 4]), ones(&stream, &[4]));
        let (residual, sum) = (ones(&stream, &[4, 4]), ones(&stream, &[4, 4]));
        let out = |mean: &Tensor<f32>, rstd: &Tensor<f32>| Normalized {
            y: ones(&stream, &[4, 4]),
            sum: Some(sum.clone()),
            mean: Some(mean.clone()),
            rstd: Some(rstd.clone()),
        };
        let first = |tensor: &Tensor<f32>| tensor.index_axis(0, 0).expect("a row");
        let norm = LayerNorm::new(&x).residual(&residual);
        let run = |out| norm.clone().stats().run_into(&out, &stream);
        assert_overlap(run(out(&row, &row)), ["mean", "rstd"]);
        assert_overlap(run(out(&first(&residual), &row)), ["mean", "residual"]);
        assert_overlap(run(out(&row, &first(&sum))), ["rstd", "sum"]);
        let weighted = norm.clone().weight(&row);
        let refused = weighted
            .stats()
            .run_into(&out(&ones(&stream, &[4]), &row), &stream);
        assert_overlap(refused, ["rstd", "weight"]);
        run(out(&row, &ones(&stream, &[4]))).expect("nothing overlaps");
    }
}

#[test]
fn gradients_of_norms_overlap_neither_weights_nor_what_the_forward_kept() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let (x, dy, dx) = (
            ones(&stream, &[4, 4]),
            ones(&stream, &[4, 4]),
            ones(&stream, &[4, 4]),
        );
        let [mean, rstd, weight, row] = [(); 4].map(|()| ones(&stream, &[4]));
        let dsum = ones(&stream, &[4, 4]);
        let gradient = LayerNormGrad::new(&x, &mean, &rstd, &dy);
        let gradient = gradient.weight(&weight).sum_gradient(&dsum);
        let run = |dx: &Tensor<f32>, dweight: &Tensor<f32>| {
            let out = NormGradients {
                dx: dx.clone(),
                dweight: Some(dweight.clone()),
                dbias: None,
            };
            gradient.run_into(&out, &stream)
        };
        for (dweight, name) in [(&mean, "mean"), (&rstd, "rstd"), (&weight, "weight")] {
            assert_overlap(run(&dx, dweight), ["dweight", name]);
        }
        let of_dsum = dsum.index_axis(0, 1).expect("a row");
        assert_overlap(run(&dx, &of_dsum), ["dweight", "sum_gradient"]);
        let weights = ones(&stream, &[4, 4]);
        let of_weights = weights.index_axis(0, 2).expect("a row");
        let weighted = LayerNormGrad::new(&x, &mean, &rstd, &dy).weight(&of_weights);
        let out = NormGradients {
            dx: weights.clone(),
            dweight: None,
            dbias: None,
        };
        assert_overlap(weighted.run_into(&out, &stream), ["dx", "weight"]);
        run(&dx, &row).expect("nothing overlaps");
    }
}
