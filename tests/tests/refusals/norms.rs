//! What norms and their gradients refuse.

use super::ones;
use half::bf16;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::{
    Device, LayerNorm, LayerNormGrad, NormGradients, Normalized, RmsNorm, RmsNormGrad, Stream,
    Tensor,
};
use warpsmith_tests::refused;

fn zeros(stream: &Stream, shape: &[usize]) -> Tensor<bf16> {
    Tensor::zeros(stream, shape).expect("a tensor")
}

#[test]
fn norms_refuse_axes_and_numbers_that_make_no_sense() {
    super::on_every_device(|_, stream| {
        let x = zeros(stream, &[3, 8]);
        for axes in [&[1, 2][..], &[9]] {
            let refused = RmsNorm::new(&x).axes(axes).stats().run(stream);
            refused!(refused => Shape::Axis, "want -2 to 1");
        }
        let none = LayerNorm::new(&x).axes(&[]).run(stream);
        refused!(none => Argument::Value, "axes");
        let before = LayerNorm::new(&x).axes(&[-3, -2, -1]).run(stream);
        refused!(before => Shape::Axis, "axis is -3");
        let scalar = zeros(stream, &[]);
        refused!(LayerNorm::new(&scalar).run(stream) => Shape::Axis, "axis");
        for epsilon in [-1.0, f32::NAN, f32::INFINITY] {
            let refused = RmsNorm::new(&x).epsilon(epsilon).run(stream);
            refused!(refused => Argument::Value, "epsilon");
        }
    });
}

#[test]
fn norms_refuse_operands_that_do_not_fit() {
    super::on_every_device(|_, stream| {
        let (x, y, weight) = (
            zeros(stream, &[3, 8]),
            zeros(stream, &[3, 8]),
            zeros(stream, &[8]),
        );
        let short = zeros(stream, &[7]);
        let refused = LayerNorm::new(&x).weight(&short).run(stream);
        refused!(refused => Shape::Mismatch, "`weight`", "[7]", "[8]");
        let refused = LayerNorm::new(&x)
            .axes(&[-2, -1])
            .weight(&weight)
            .run(stream);
        refused!(refused => Shape::Mismatch, "`weight`", "[8]", "[3, 8]");
        let bias = ones(stream, &[8]);
        let mixed = LayerNorm::new(&x).weight(&weight).bias(&bias);
        refused!(mixed.run(stream) => Argument::Value, "dtype of bias");
        let refused = RmsNormGrad::new(&x, &ones(stream, &[2]), &y).run(stream);
        refused!(refused => Shape::Mismatch, "`rstd`", "[2]", "[3]");
        let long = NormGradients {
            dx: x.clone(),
            dweight: Some(ones(stream, &[9])),
            dbias: None,
        };
        let rstd = ones(stream, &[3]);
        let refused = RmsNormGrad::new(&x, &rstd, &y).run_into(&long, stream);
        refused!(refused => Shape::Mismatch, "`dweight`", "[9]", "[8]");
    });
}

#[test]
fn norms_refuse_to_keep_what_there_is_not() {
    super::on_every_device(|_, stream| {
        let (x, y) = (zeros(stream, &[3, 8]), zeros(stream, &[3, 8]));
        let out = |sum, rstd| Normalized {
            y: y.clone(),
            sum,
            mean: None,
            rstd,
        };
        let norm = RmsNorm::new(&x);
        let with_sum = out(Some(zeros(stream, &[3, 8])), None);
        refused!(norm.clone().stats().run_into(&with_sum, stream) => Argument::Value, "sum");
        let with_mean = Normalized {
            mean: Some(ones(stream, &[3])),
            ..out(None, None)
        };
        refused!(norm.clone().stats().run_into(&with_mean, stream) => Argument::Value, "mean");
        let long = out(None, Some(ones(stream, &[4])));
        refused!(norm.clone().stats().run_into(&long, stream) => Shape::Mismatch, "`rstd`");
        let with_residual = RmsNorm::new(&x).residual(&x);
        let onto_y = with_residual
            .stats()
            .run_into(&out(Some(y.clone()), None), stream);
        refused!(onto_y => Shape::Overlap, "`sum`");
    });
}

#[test]
fn what_norms_keep_of_rows_overlaps_nothing_else() {
    super::on_every_device(|_, stream| {
        let all = ones(stream, &[64]);
        let part = |start: usize, shape: &[usize]| {
            let len: usize = shape.iter().product();
            all.slice(0, start..start + len)?.reshape(shape)
        };
        let part = |start, shape: &[usize]| part(start, shape).expect("a view");
        // x, residual, weight, bias; y, sum, mean, rstd, each apart from the others.
        let (x, residual) = (part(0, &[4, 4]), part(16, &[4, 4]));
        let (weight, bias) = (part(32, &[4]), part(36, &[4]));
        let outside = |shape: &[usize]| ones(stream, shape);
        let norm = LayerNorm::new(&x)
            .residual(&residual)
            .weight(&weight)
            .bias(&bias);
        let out = |sum: Tensor<f32>, mean: Tensor<f32>, rstd: Tensor<f32>| Normalized {
            y: part(44, &[4, 4]),
            sum: Some(sum),
            mean: Some(mean),
            rstd: Some(rstd),
        };
        for (start, other) in [
            (2, "`x`"),
            (20, "`residual`"),
            (33, "`weight`"),
            (37, "`bias`"),
            (50, "`y`"),
        ] {
            let kept = out(outside(&[4, 4]), part(start, &[4]), outside(&[4]));
            refused!(
                norm.clone().stats().run_into(&kept, stream)
                => Shape::Overlap, "`mean`", other
            );
            let kept = out(outside(&[4, 4]), outside(&[4]), part(start, &[4]));
            refused!(
                norm.clone().stats().run_into(&kept, stream)
                => Shape::Overlap, "`rstd`", other
            );
        }
        let sum = outside(&[4, 4]);
        let row = sum.index_axis(0, 1).expect("a row");
        let kept = out(sum.clone(), row, outside(&[4]));
        refused!(norm.clone().stats().run_into(&kept, stream) => Shape::Overlap, "`mean`", "`sum`");
        let mean = outside(&[4]);
        let kept = out(sum, mean.clone(), mean);
        refused!(
            norm.clone().stats().run_into(&kept, stream)
            => Shape::Overlap, "`mean`", "`rstd`"
        );

        let (mean, rstd) = (outside(&[4]), outside(&[4]));
        let gradients = NormGradients {
            dx: part(20, &[4, 4]),
            dweight: None,
            dbias: None,
        };
        let dy = outside(&[4, 4]);
        let gradient = LayerNormGrad::new(&x, &mean, &rstd, &dy).weight(&weight);
        let into = gradient.run_into(&gradients, stream);
        refused!(into => Shape::Overlap, "`dx`", "`weight`");
    });
}

#[test]
fn gradients_of_weights_that_32_bits_do_not_count_are_refused() {
    super::on_every_device(|_, stream| {
        let one = ones(stream, &[1, 1]);
        let x = one.broadcast_to(&[1, (1 << 32) + 1]).expect("a view");
        let kept = ones(stream, &[1]);
        let gradient = LayerNormGrad::new(&x, &kept, &kept, &x);
        let weight = one.broadcast_to(&[1, (1 << 32) + 1]).expect("a view");
        let weight = weight.index_axis(0, 0).expect("its row");
        let limit = "4294967297";
        refused!(gradient.clone().bias_gradient().run(stream) => Shape::OutOfBounds, limit);
        refused!(gradient.clone().weight(&weight).run(stream) => Shape::OutOfBounds, limit);
        let some = || Some(kept.clone());
        for (dweight, dbias) in [(some(), None), (None, some())] {
            let out = NormGradients {
                dx: one.clone(),
                dweight,
                dbias,
            };
            refused!(gradient.run_into(&out, stream) => Shape::OutOfBounds, limit);
        }
        let out = NormGradients {
            dx: one.clone(),
            dweight: None,
            dbias: some(),
        };
        let gradient = RmsNormGrad::new(&x, &kept, &x);
        refused!(gradient.run_into(&out, stream) => Argument::Value, "dbias", "no bias");
    });
}

#[test]
fn what_is_refused_launches_nothing() {
    // Tests share an emulator; on a separate one, only this test launches.
    let device = Device::emulator_with(EmulatorConfig::default()).expect("an emulator");
    let stream = device.stream().expect("a stream");
    let x = ones(&stream, &[2, 4]);
    // A copy of it would be made, as its elements are apart.
    let weight = ones(&stream, &[8])
        .slice_step(0, .., 2)
        .expect("every second element");
    let bias = ones(&stream, &[3]);
    let before = device.lane_instructions();
    let norm = LayerNorm::new(&x).weight(&weight).bias(&bias);
    refused!(norm.run(&stream) => Shape::Mismatch, "bias");
    assert_eq!(device.lane_instructions(), before);
}
