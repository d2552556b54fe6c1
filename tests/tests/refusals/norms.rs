//! What norms and their gradients refuse.

use super::ones;
use warpsmith::{
    Device, Error, LayerNorm, LayerNormGrad, NormGradients, Normalized, RmsNorm, RmsNormGrad,
    Tensor,
};

#[test]
fn norms_refuse_what_does_not_fit() {
    let device = Device::emulator().expect("an emulator");
    let stream = device.stream().expect("a stream");
    let zeros = |shape: &[usize]| Tensor::<half::bf16>::zeros(&stream, shape).expect("a tensor");
    let (x, y, weight) = (zeros(&[3, 8]), zeros(&[3, 8]), zeros(&[8]));
    let f32 = |shape: &[usize]| Tensor::<f32>::zeros(&stream, shape).expect("a tensor");
    let refused = LayerNorm::new(&x).weight(&zeros(&[7])).run(&stream);
    assert!(matches!(
        refused,
        Err(Error::ShapeMismatch {
            operand: "weight",
            ..
        })
    ));
    let refused = LayerNorm::new(&x).last_axes(2).weight(&weight).run(&stream);
    assert!(matches!(
        refused,
        Err(Error::ShapeMismatch {
            operand: "weight",
            ..
        })
    ));
    for axes in [&[1, 2][..], &[9]] {
        let refused = RmsNorm::new(&x).axes(axes).run_kept(&stream);
        assert!(matches!(
            refused,
            Err(Error::OutOfBounds {
                what: "axis",
                limit: 2,
                ..
            })
        ));
    }
    for norm in [
        LayerNorm::new(&x).axes(&[]),
        LayerNorm::new(&x).last_axes(0),
    ] {
        let refused = norm.run(&stream);
        assert!(matches!(
            refused,
            Err(Error::InvalidValue { what: "axes", .. })
        ));
    }
    let refused = LayerNorm::new(&x).last_axes(3).run(&stream);
    assert!(matches!(
        refused,
        Err(Error::OutOfBounds {
            what: "number of axes",
            got: 3,
            limit: 3
        })
    ));
    let refused = LayerNorm::new(&zeros(&[])).run(&stream);
    assert!(matches!(refused, Err(Error::OutOfBounds { .. })));
    for epsilon in [-1.0, f32::NAN, f32::INFINITY] {
        let refused = RmsNorm::new(&x).epsilon(epsilon).run(&stream);
        assert!(matches!(
            refused,
            Err(Error::InvalidValue {
                what: "epsilon",
                ..
            })
        ));
    }
    let mixed = LayerNorm::new(&x).weight(&weight).bias_f32(&f32(&[8]));
    let refused = mixed.run(&stream);
    assert!(matches!(
        refused,
        Err(Error::InvalidValue {
            what: "dtype of bias",
            ..
        })
    ));
    let out = |sum, rstd| Normalized {
        y: y.clone(),
        sum,
        mean: None,
        rstd,
    };
    let refused = RmsNorm::new(&x).run_kept_into(&out(Some(zeros(&[3, 8])), None), &stream);
    assert!(matches!(
        refused,
        Err(Error::InvalidValue { what: "sum", .. })
    ));
    let with_mean = Normalized {
        mean: Some(f32(&[3])),
        ..out(None, None)
    };
    let refused = RmsNorm::new(&x).run_kept_into(&with_mean, &stream);
    assert!(matches!(
        refused,
        Err(Error::InvalidValue { what: "mean", .. })
    ));
    let with_residual = RmsNorm::new(&x).residual(&x);
    let refused = with_residual.run_kept_into(&out(Some(y.clone()), None), &stream);
    assert!(matches!(refused, Err(Error::Overlap { output: "sum", .. })));
    let refused = RmsNorm::new(&x).run_kept_into(&out(None, Some(f32(&[4]))), &stream);
    assert!(matches!(
        refused,
        Err(Error::ShapeMismatch {
            operand: "rstd",
            ..
        })
    ));
    let refused = RmsNormGrad::new(&x, &y, &f32(&[2])).run(&stream);
    assert!(matches!(
        refused,
        Err(Error::ShapeMismatch {
            operand: "rstd",
            ..
        })
    ));
    let overlapping = NormGradients {
        dx: x.clone(),
        dweight: Some(f32(&[9])),
        dbias: None,
    };
    let refused = RmsNormGrad::new(&x, &y, &f32(&[3])).run_into(&overlapping, &stream);
    assert!(matches!(
        refused,
        Err(Error::ShapeMismatch {
            operand: "dweight",
            ..
        })
    ));
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
            refused!(norm.run_kept_into(&kept, stream), Overlap, "`mean`", other);
            let kept = out(outside(&[4, 4]), outside(&[4]), part(start, &[4]));
            refused!(norm.run_kept_into(&kept, stream), Overlap, "`rstd`", other);
        }
        let sum = outside(&[4, 4]);
        let row = sum.index_axis(0, 1).expect("a row");
        let kept = out(sum.clone(), row, outside(&[4]));
        refused!(
            norm.run_kept_into(&kept, stream),
            Overlap,
            "`mean`",
            "`sum`"
        );
        let mean = outside(&[4]);
        let kept = out(sum, mean.clone(), mean);
        refused!(
            norm.run_kept_into(&kept, stream),
            Overlap,
            "`mean`",
            "`rstd`"
        );

        let (mean, rstd) = (outside(&[4]), outside(&[4]));
        let gradients = NormGradients {
            dx: part(20, &[4, 4]),
            dweight: None,
            dbias: None,
        };
        let dy = outside(&[4, 4]);
        let gradient = LayerNormGrad::new(&x, &dy, &mean, &rstd).weight(&weight);
        let into = gradient.run_into(&gradients, stream);
        refused!(into, Overlap, "`dx`", "`weight`");
    });
}

#[test]
fn gradients_of_weights_that_32_bits_do_not_count_are_refused() {
    super::on_every_device(|_, stream| {
        let one = ones(stream, &[1, 1]);
        let x = one.broadcast_to(&[1, (1 << 32) + 1]).expect("a view");
        let kept = ones(stream, &[1]);
        let gradient = LayerNormGrad::new(&x, &x, &kept, &kept);
        let limit = "4294967297";
        refused!(gradient.clone().with_bias().run(stream), OutOfBounds, limit);
        refused!(
            gradient.clone().weight(&kept).run(stream),
            OutOfBounds,
            limit
        );
        let some = || Some(kept.clone());
        for (dweight, dbias) in [(some(), None), (None, some())] {
            let out = NormGradients {
                dx: one.clone(),
                dweight,
                dbias,
            };
            refused!(gradient.run_into(&out, stream), OutOfBounds, limit);
        }
        let out = NormGradients {
            dx: one.clone(),
            dweight: None,
            dbias: some(),
        };
        let gradient = RmsNormGrad::new(&x, &x, &kept);
        refused!(
            gradient.run_into(&out, stream),
            InvalidValue,
            "dbias",
            "no bias"
        );
    });
}

#[test]
fn what_is_refused_launches_nothing() {
    let device = Device::emulator().expect("the emulator");
    let stream = device.stream().expect("a stream");
    let x = ones(&stream, &[2, 4]);
    // A copy of it would be made, as its elements are apart.
    let weight = ones(&stream, &[8])
        .slice_step(0, .., 2)
        .expect("every second element");
    let bias = ones(&stream, &[3]);
    let before = device.lane_instructions();
    let norm = LayerNorm::new(&x).weight(&weight).bias(&bias);
    refused!(norm.run(&stream), ShapeMismatch, "bias");
    assert_eq!(device.lane_instructions(), before);
}
