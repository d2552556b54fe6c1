//! Products of i8 against their references: in i32 bit for bit, in floats within the bound of one
//! rounding and the epilogue. Every kernel that the device runs is run, and all give the same bits.

use half::{bf16, f16};
use ndarray::ArrayD;
use proptest::prelude::*;
use warpsmith::reference::Expected;
use warpsmith::reference::gemm::{Arithmetic, FusedOptions, IntegerOptions, fused, integer};
use warpsmith::testing::devices;
use warpsmith::{Activation, DType, Device, Gemm, Tensor};
use warpsmith_tests::operation::agrees;
use warpsmith_tests::property::{Effort, holds};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say};

use super::case::{Case, Scale, every_layout, nothing, products};
use super::check::by_each_kernel;
use super::inputs::{Inputs, TestOutput};

/// Any product of i8. Uniform values fill the type; scales of results in floats are such that not all
/// of f16 overflow.
fn cases(largest: usize) -> impl Strategy<Value = Case> {
    let outputs = vec![DType::I32, DType::F32, DType::F16, DType::Bf16];
    let outputs = prop::sample::select(outputs);
    let alpha = prop::sample::select(vec![1.0, 1.0 / 16_384.0, -1.0 / 3000.0]);
    let integers = prop::sample::select(vec![-3.0, 0.0, 1.0, 2.0, 65_537.0]);
    let of_i32 = (integers.clone(), integers, any::<bool>());
    (products(largest), outputs, alpha, of_i32, any::<bool>()).prop_map(
        |(case, output, alpha, (factor, beta, has_relu), is_full)| {
            let case = Case {
                dtype: DType::I8,
                dtype_b: None,
                dtype_d: Some(output),
                alpha,
                values: if is_full {
                    Values::Uniform
                } else {
                    Values::Integers
                },
                exponent: if is_full { 7 } else { 0 },
                ..case
            };
            match output {
                DType::I32 => Case {
                    alpha: factor,
                    beta: if case.beta == 0.0 { 0.0 } else { beta },
                    scales: [Scale::None; 2],
                    activation: if has_relu {
                        Activation::Relu
                    } else {
                        Activation::Identity
                    },
                    ..case
                },
                _ => case,
            }
        },
    )
}

fn check(case: &Case, device: &Device) -> Checked {
    match case.dtypes().2 {
        DType::I32 => by_type::<i32>(case, device, |inputs| {
            let options = IntegerOptions {
                alpha: case.alpha as i32,
                beta: case.beta as i32,
                c: Some(inputs.c.values.view()),
                bias: inputs.bias(case),
                has_relu: case.activation == Activation::Relu,
                residual: inputs.residual(case),
            };
            integer(&inputs.a.values.view(), &inputs.b.values.view(), &options).map_err(say)
        }),
        DType::F32 => by_type::<f32>(case, device, |inputs| in_floats(case, inputs)),
        DType::F16 => by_type::<f16>(case, device, |inputs| in_floats(case, inputs)),
        _ => by_type::<bf16>(case, device, |inputs| in_floats(case, inputs)),
    }
}

fn in_floats<Out: TestOutput>(
    case: &Case,
    inputs: &Inputs<i8, i8, Out>,
) -> Result<Expected, String> {
    let options = FusedOptions {
        alpha: case.alpha as f32,
        scales: inputs.scales(case),
        beta: case.beta as f32,
        c: Some(inputs.c.values.view()),
        bias: inputs.bias(case),
        activation: case.activation,
        residual: inputs.residual(case),
        arithmetic: Arithmetic::Integer,
        dtype: Out::DTYPE,
    };
    fused(&inputs.a.values.view(), &inputs.b.values.view(), &options).map_err(say)
}

fn by_type<Out: TestOutput>(
    case: &Case,
    device: &Device,
    reference: impl Fn(&Inputs<i8, i8, Out>) -> Result<Expected, String>,
) -> Checked {
    let inputs = Inputs::<i8, i8, Out>::draw(case, device)?;
    let want = reference(&inputs)?;
    let mut first: Option<ArrayD<u64>> = None;
    by_each_kernel(case, &inputs, device, |_, got| {
        agrees(got, &want)?;
        // Activations are approximated by different instructions of the hardware.
        let is_linear = matches!(case.activation, Activation::Identity | Activation::Relu);
        let got = got.mapv(|x| x.bits());
        match first.get_or_insert_with(|| got.clone()) {
            first if *first == got || !is_linear => Ok(()),
            _ => Err("its bits are not those of the plan's kernel".into()),
        }
    })
}

#[test]
fn products_of_i8_match_their_references_and_all_kernels_give_the_same_bits() {
    holds(
        Effort {
            cases: [60, 750],
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
        dtype: DType::I8,
        dtype_d: Some(DType::I32),
        exponent: 7,
        ..nothing()
    }
}

#[test]
fn extents_around_tiles_and_none_at_all() {
    for device in devices() {
        for extents in [
            [1, 1, 1],
            [64, 64, 32],
            [65, 63, 33],
            [129, 66, 131],
            [127, 260, 129],
            [16, 16, 256],
            [5, 7, 0],
            [0, 7, 5],
            [5, 0, 7],
        ] {
            let case = plain(extents);
            let with_c = Case {
                beta: 3.0,
                ..case.clone()
            };
            let half = Case {
                dtype_d: Some(DType::Bf16),
                scales: [Scale::Each; 2],
                ..case.clone()
            };
            for case in [case, with_c, half] {
                check(&case, &device).unwrap_or_else(|error| panic!("{case:?}: {error}"));
            }
        }
    }
}

#[test]
fn every_layout_and_alignment_gives_the_same_bits() {
    for device in devices() {
        for views in every_layout() {
            for (dtype_d, alpha) in [(DType::I32, 1.0), (DType::F16, 1e-3)] {
                let case = Case {
                    views,
                    dtype_d: Some(dtype_d),
                    alpha,
                    ..plain([70, 67, 45])
                };
                check(&case, &device).unwrap_or_else(|error| panic!("{case:?}: {error}"));
            }
        }
    }
}

/// What the named kernel makes of two rows by four columns of `k` times the lowest number.
fn of_lowest<Out: TestOutput>(device: &Device, k: usize, name: Option<&str>) -> Out {
    let stream = device.stream().expect("a stream");
    let a = Tensor::full(&stream, &[2, k], -128_i8).expect("memory");
    let b = Tensor::full(&stream, &[4, k], -128_i8).expect("memory");
    let b = b.t();
    let mut gemm = Gemm::new(&a, &b).output::<Out>();
    if let Some(name) = name {
        gemm = gemm.with_kernel(name);
    }
    let d = gemm.run(&stream).expect("a product");
    let values = d.to_vec().expect("values");
    assert!(values.iter().all(|x| x.bits() == values[0].bits()));
    values[0]
}

#[test]
fn sums_are_exact_up_to_131071_products_and_wrap_beyond() {
    const PORTABLE: &str = "gemm_simt_i8_64x64x32";
    for device in devices() {
        let mut names = vec![None, Some(PORTABLE)];
        if device.arch() >= (8, 0) {
            names.push(Some("gemm_mma_i8_nt_128x128x64_s4_fused"));
        }
        if device.arch() == (9, 0) {
            names.push(Some("gemm_sm90_i8_i32_nt_128x256_s4_plain"));
        }
        for name in names {
            assert_eq!(of_lowest::<i32>(&device, 131_072, name), i32::MIN);
        }
        let exact = 2_147_467_264;
        let portable = Some(PORTABLE);
        assert_eq!(of_lowest::<i32>(&device, 131_071, portable), exact);
        assert_eq!(of_lowest::<f32>(&device, 131_071, portable), exact as f32);
        let wrapped = i32::MIN as f32;
        assert_eq!(of_lowest::<f32>(&device, 131_072, portable), wrapped);
    }
}

#[test]
fn sums_are_rounded_to_f32_once_and_to_nearest() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        // 2^24 + 1 and 2^24 + 3: halfway between two f32.
        for (last, want) in [(1, 16_777_216.0), (3, 16_777_220.0)] {
            let mut row = vec![-128_i8; 1024];
            row.extend([last, 0, 0]);
            let mut column = vec![-128_i8; 1024];
            column.extend([1, 0, 0]);
            let a = Tensor::from_slice(&device, &[1, 1027], &row).expect("memory");
            let b = Tensor::from_slice(&device, &[1027, 1], &column).expect("memory");
            let exact = Gemm::new(&a, &b).run(&stream).expect("a product");
            let sum = (1 << 24) + i32::from(last);
            assert_eq!(exact.to_vec().expect("values"), [sum]);
            let d = Gemm::new(&a, &b).output::<f32>().run(&stream);
            let got = d.expect("a product").to_vec().expect("values");
            assert_eq!(got, [want]);
        }
    }
}

#[test]
fn factors_in_i32_wrap_and_come_from_the_device_too() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let a = Tensor::full(&stream, &[3, 8], 100_i8).expect("memory");
        let b = Tensor::full(&stream, &[8, 4], 100_i8).expect("memory");
        let c = Tensor::full(&stream, &[3, 4], 3_i32).expect("memory");
        for (alpha, beta) in [(i32::MIN, 1), (65_537, i32::MAX), (1, i32::MIN), (-1, 0)] {
            let want = alpha
                .wrapping_mul(80_000)
                .wrapping_add(beta.wrapping_mul(3));
            let gemm = Gemm::new(&a, &b).alpha(alpha).beta(beta, &c);
            let d = gemm.run(&stream).expect("a product");
            assert_eq!(d.to_vec().expect("values"), [want; 12], "{alpha} {beta}");
            let [x, y] = [alpha, beta].map(|x| Tensor::from_slice(&device, &[1], &[x]));
            let (x, y) = (x.expect("memory"), y.expect("memory"));
            let gemm = Gemm::new(&a, &b).alpha_from(&x).beta_from(&y, &c);
            let d = gemm.run(&stream).expect("a product");
            assert_eq!(d.to_vec().expect("values"), [want; 12], "{alpha} {beta}");
        }
    }
}

#[test]
fn tensor_cores_are_planned_where_they_are() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let a = Tensor::<i8>::zeros(&stream, &[512, 512]).expect("memory");
        let plan = Gemm::new(&a, &a.t()).plan(&stream).expect("a plan");
        let offers = |start: &str| {
            let names = plan.candidates().iter().map(|other| &other.name);
            names.into_iter().any(|name| name.starts_with(start))
        };
        assert!(offers("gemm_simt_i8_64x64x32"), "{plan}");
        assert_eq!(offers("gemm_mma_i8_nt"), device.arch() >= (8, 0), "{plan}");
        assert_eq!(
            offers("gemm_sm90_i8_i32_nt"),
            device.arch() == (9, 0),
            "{plan}"
        );
    }
}
