//! GEMM: every candidate for every number of rows.

use half::{bf16, f16};
use ndarray::{Array2, ArrayD, Axis};
use rand::RngExt;
use warpsmith::{Activation, Device, E4m3, Gemm, GemmInput, GemmOutput, Precision, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::values::Values;

use super::{Filled, ROWS, Seen, batch, generations, random};

/// Rows whose bits are compared.
const KEPT: usize = 5;

/// How the tensors of one check lie.
#[derive(Clone, Copy, Debug)]
struct Case {
    n: usize,
    k: usize,
    view_of_b: View,
    has_epilogue: bool,
    fast_accumulation: bool,
    precision: Precision,
    split_k: Option<u32>,
}

const PLAIN: Case = Case {
    n: 136,
    k: 200,
    view_of_b: View::Transposed,
    has_epilogue: false,
    fast_accumulation: false,
    precision: Precision::Full,
    split_k: None,
};

/// The bits of the rows of `d`.
fn rows<T: TestElement>(d: &Tensor<T>, m: usize) -> Vec<Vec<u64>> {
    let values = d.to_vec().expect("d");
    let n = values.len() / m;
    values
        .chunks(n)
        .map(|row| row.iter().map(|&x| x.bits()).collect())
        .collect()
}

fn check<A, Out>(device: &Device, case: Case)
where
    A: GemmInput<A> + TestElement,
    Out: GemmOutput + TestElement,
{
    let stream = device.stream().expect("a stream");
    let Case { n, k, .. } = case;
    let kept = Values::Normal.draw(&[KEPT, k], 1);
    let b = Values::Normal.draw(&[k, n], 2);
    let b = Operand::<A>::lay_out(device, b, case.view_of_b).expect("b");
    let bias = Operand::<Out>::draw(device, &[n], Values::Normal, View::Contiguous, 3);
    let bias = bias.expect("a bias").tensor;
    let mut seen = Seen::default();
    let mut rng = random(4);
    for (idx, m) in ROWS.into_iter().enumerate() {
        let filled = batch(m, KEPT, &mut rng);
        let a = Array2::from_shape_fn((m, k), |(row, column)| match filled[row] {
            Filled::Row(row) => kept[[row, column]],
            Filled::Nan => f64::NAN,
            Filled::Other => rng.random_range(-8.0..8.0),
        });
        let views = [View::Contiguous, View::Padded, View::Aligned, View::Behind1];
        let a = Operand::<A>::lay_out(device, a.into_dyn(), views[idx % 4]).expect("a");
        let gemm = Gemm::new(&a.tensor, &b.tensor).output::<Out>();
        let mut gemm = gemm
            .batch_invariant(true)
            .fast_accumulation(case.fast_accumulation)
            .precision(case.precision);
        if case.has_epilogue {
            gemm = gemm.column_bias(&bias).activation(Activation::Gelu);
        }
        if let Some(splits) = case.split_k {
            gemm = gemm.split_k(splits);
        }
        let plan = gemm.plan(&stream).expect("a plan");
        assert!(!plan.candidates().is_empty());
        let mut compare = |bits: &[Vec<u64>], of: &str| {
            for (filled, bits) in filled.iter().zip(bits) {
                if let Filled::Row(row) = filled {
                    seen.check(*row, bits, of);
                }
            }
        };
        for candidate in plan.candidates() {
            let of = format!("{} of {m} rows, {case:?}", candidate.name);
            let gemm = gemm.with_kernel(&candidate.name);
            let d = gemm
                .run(&stream)
                .unwrap_or_else(|error| panic!("{of}: {error}"));
            compare(&rows(&d, m), &of);
        }
        let d = Tensor::<Out>::zeros(&stream, &[n, m]).expect("d").t();
        gemm.run_into(&d, &stream).expect("by columns");
        compare(&rows(&d, m), "a column-major d");
    }
    let drawn: ArrayD<f64> = kept.insert_axis(Axis(1));
    let a = Operand::<A>::lay_out(device, drawn, View::Contiguous).expect("a");
    let mut gemm = Gemm::new(&a.tensor, &b.tensor).output::<Out>();
    gemm = gemm.batch_invariant(true).precision(case.precision);
    gemm = gemm.fast_accumulation(case.fast_accumulation);
    if case.has_epilogue || case.split_k.is_some() {
        return;
    }
    let d = gemm.run(&stream).expect("a batch of single rows");
    for (row, bits) in rows(&d, KEPT).iter().enumerate() {
        seen.check(row, bits, "a batch of single rows");
    }
}

#[test]
fn rows_of_16_bits_have_the_same_bits_in_every_batch() {
    for device in generations() {
        check::<bf16, bf16>(&device, PLAIN);
        check::<f16, f16>(
            &device,
            Case {
                n: 77,
                k: 203,
                view_of_b: View::Contiguous,
                ..PLAIN
            },
        );
        check::<bf16, f32>(
            &device,
            Case {
                has_epilogue: true,
                ..PLAIN
            },
        );
        check::<f16, f16>(&device, Case { n: 1, ..PLAIN });
    }
}

#[test]
fn rows_of_other_types_have_the_same_bits_in_every_batch() {
    for device in generations() {
        check::<f32, f32>(&device, PLAIN);
        check::<f32, f32>(
            &device,
            Case {
                precision: Precision::Tf32,
                ..PLAIN
            },
        );
        for fast_accumulation in [false, true] {
            check::<E4m3, bf16>(
                &device,
                Case {
                    k: 400,
                    fast_accumulation,
                    ..PLAIN
                },
            );
        }
        check::<f64, f64>(&device, Case { k: 40, ..PLAIN });
        check::<i8, i32>(&device, Case { k: 64, ..PLAIN });
    }
}

#[test]
fn requested_parts_of_k_are_those_of_every_batch() {
    for device in generations() {
        check::<bf16, bf16>(
            &device,
            Case {
                split_k: Some(3),
                ..PLAIN
            },
        );
    }
}

#[test]
fn kernels_whose_bits_depend_on_the_batch_are_not_there() {
    for device in generations() {
        let stream = device.stream().expect("a stream");
        let a = Tensor::<bf16>::zeros(&stream, &[4, 4096]).expect("a");
        let b = Tensor::<bf16>::zeros(&stream, &[256, 4096]).expect("b").t();
        let gemm = Gemm::new(&a, &b).batch_invariant(true);
        let plan = gemm.plan(&stream).expect("a plan");
        for candidate in plan.candidates() {
            assert_eq!(candidate.split, 1, "{plan}");
            assert!(!candidate.name.contains("streamk"), "{plan}");
            assert!(!candidate.name.contains("decode_sm80"), "{plan}");
        }
        assert!(plan.to_string().contains(" batch_invariant"), "{plan}");
    }
}
