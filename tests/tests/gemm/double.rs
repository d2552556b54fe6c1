//! Products in f64 against their reference. Every kernel that the device runs is run, and all give
//! the same bits: on tensor cores as by multiply-adds, whatever the layout.

use ndarray::ArrayD;
use proptest::prelude::*;
use warpsmith::reference::Expected;
use warpsmith::reference::gemm::{DoubleOptions, double};
use warpsmith::testing::devices;
use warpsmith::{Activation, DType, Device, Gemm, Tensor};
use warpsmith_tests::operation::{agrees, agrees_exactly};
use warpsmith_tests::property::{Effort, holds};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say};

use super::case::{Case, every_layout, nothing, products};
use super::check::by_each_kernel;
use super::inputs::Inputs;

/// Any product in f64. Alpha and beta are not f32 numbers, and operands have exponents with which
/// products are subnormal in some cases.
fn cases(largest: usize) -> impl Strategy<Value = Case> {
    let scalar = || prop::sample::select(vec![0.0, 1.0, -0.1, 1.0 / 3.0, 1e-200]);
    let activation = prop::sample::select(vec![Activation::Identity, Activation::Relu]);
    let exponent = prop_oneof![4 => Just(0), 1 => Just(-530), 1 => Just(300)];
    (products(largest), scalar(), scalar(), activation, exponent).prop_map(
        |(case, alpha, beta, activation, exponent)| Case {
            dtype: DType::F64,
            dtype_b: None,
            dtype_d: None,
            split_k: None,
            alpha,
            beta,
            activation,
            exponent,
            ..case
        },
    )
}

/// The bits, but for those of NaN: which of two NaN an operation passes on is up to ptxas.
fn bits(got: &ArrayD<f64>) -> ArrayD<u64> {
    got.mapv(|x| if x.is_nan() { f64::NAN } else { x }.to_bits())
}

fn check(case: &Case, device: &Device) -> Checked {
    let inputs = Inputs::<f64, f64, f64>::draw(case, device)?;
    let options = DoubleOptions {
        alpha: case.alpha,
        scales: inputs.scales(case),
        beta: case.beta,
        c: Some(inputs.c.values.view()),
        bias: inputs.bias(case),
        has_relu: case.activation == Activation::Relu,
        residual: inputs.residual(case),
    };
    let want = double(&inputs.a.values.view(), &inputs.b.values.view(), &options).map_err(say)?;
    let mut first: Option<ArrayD<u64>> = None;
    by_each_kernel(case, &inputs, device, |_, got| {
        agrees(got, &want)?;
        let got = bits(got);
        match first.get_or_insert_with(|| got.clone()) {
            first if *first == got => Ok(()),
            _ => Err("its bits are not those of the plan's kernel".into()),
        }
    })
}

#[test]
fn products_in_f64_match_their_reference_and_all_kernels_give_the_same_bits() {
    holds(
        Effort {
            cases: [40, 500],
            largest: [140, 400],
        },
        cases,
        check,
    );
}

fn plain([m, n, k]: [usize; 3]) -> Case {
    Case {
        m,
        n,
        k,
        dtype: DType::F64,
        ..nothing()
    }
}

#[test]
fn extents_around_tiles_and_none_at_all() {
    for device in devices() {
        for extents in [
            [1, 1, 1],
            [64, 64, 8],
            [65, 63, 9],
            [129, 66, 31],
            [127, 130, 33],
            [5, 7, 0],
            [0, 7, 5],
            [5, 0, 7],
        ] {
            let case = plain(extents);
            let with_c = Case {
                beta: 0.1,
                ..case.clone()
            };
            for case in [case, with_c] {
                check(&case, &device).unwrap_or_else(|error| panic!("{case:?}: {error}"));
            }
        }
    }
}

#[test]
fn every_layout_and_alignment_gives_the_same_bits() {
    for device in devices() {
        for views in every_layout() {
            let case = Case {
                views,
                ..plain([70, 67, 29])
            };
            check(&case, &device).unwrap_or_else(|error| panic!("{case:?}: {error}"));
        }
    }
}

#[test]
fn rows_backwards_are_read_in_place() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let drawn = [1, 2].map(|seed| Values::Uniform.draw(&[70, 70], seed));
        let [a, b] = [&drawn[0], &drawn[1]].map(|array| {
            let tensor = Tensor::from_ndarray(&device, array).expect("memory");
            tensor.slice_step(0, .., -1).expect("a view")
        });
        let [x, y] = [&a, &b].map(|view| view.contiguous(&stream).expect("a copy"));
        let product = |a: &Tensor<f64>, b: &Tensor<f64>| {
            let gemm = Gemm::new(a, b);
            let plan = gemm.plan(&stream).expect("a plan");
            let run = |name: &str| {
                let d = gemm.with_kernel(name).run(&stream).expect("a product");
                d.to_vec().expect("values")
            };
            let names = plan.candidates().iter();
            names.map(|other| run(&other.name)).collect::<Vec<_>>()
        };
        assert_eq!(product(&a, &b), product(&x, &y));
        assert_eq!(product(&a, &b.t()), product(&x, &y.t()));
        assert_eq!(product(&a.t(), &b), product(&x.t(), &y));
    }
}

#[test]
fn integers_that_f32_does_not_hold_are_exact() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let (m, n, k) = (66, 65, 40);
        let entry = |i: usize| (1u64 << 24) as f64 + (i % 7) as f64;
        let a = ArrayD::from_shape_fn(vec![m, k], |at| entry(at[0] + 3 * at[1]));
        let b = ArrayD::from_shape_fn(vec![k, n], |at| (at[0] as f64) - (at[1] % 5) as f64);
        let [x, y] = [&a, &b].map(|array| Tensor::from_ndarray(&device, array).expect("memory"));
        let d = Gemm::new(&x, &y).run(&stream).expect("a product");
        let got = d.to_ndarray().expect("values");
        let want = ArrayD::from_shape_fn(vec![m, n], |at| {
            (0..k).map(|l| a[[at[0], l]] * b[[l, at[1]]]).sum()
        });
        agrees_exactly(&got, &want).expect("exact");
        let halves = Gemm::new(&x, &y).alpha(1.0 + f64::EPSILON);
        let got = halves
            .run(&stream)
            .expect("a product")
            .to_ndarray()
            .expect("values");
        let want = want.mapv(|x: f64| x * (1.0 + f64::EPSILON));
        let want = Expected::exact(want, DType::F64);
        agrees(&got, &want).expect("alpha is in f64");
    }
}

#[test]
fn tensor_cores_are_planned_where_they_are() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let a = Tensor::<f64>::zeros(&stream, &[512, 512]).expect("memory");
        let plan = Gemm::new(&a, &a).plan(&stream).expect("a plan");
        let chosen = plan.chosen().expect("something to compute");
        let has_16_rows = chosen.name.ends_with("_m16");
        assert_eq!(has_16_rows, device.arch() == (9, 0), "{plan}");
        if matches!(device.arch(), (8, 0) | (9, 0) | (10, _)) {
            assert!(chosen.name.starts_with("gemm_mma_f64_"), "{plan}");
        }
        let names = plan.candidates().iter().map(|other| other.name.as_str());
        assert!(
            names
                .into_iter()
                .any(|name| name == "gemm_simt_f64_64x64x8")
        );
    }
}
