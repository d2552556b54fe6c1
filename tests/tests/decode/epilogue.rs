//! The fused epilogue: each of its parts, at every place, for every type of D.

use abi::gemm::{Activation, EpilogueParams, GemmParams};
use half::{bf16, f16};
use warpsmith::testing::devices;
use warpsmith::{Device, DeviceBuffer};

use super::launch::{Case, Extras, Value, launch};
use super::{POISON, integer, tiles, upload};

const M: u32 = 6;
const N: u32 = 71;
const K: u32 = 96;

/// The bias, one for each column or one for each row of D.
#[derive(Clone, Copy, Debug)]
enum Bias {
    OfColumn,
    OfRow,
}

#[test]
fn the_whole_epilogue_comes_after_all_of_k() {
    for device in devices() {
        for tile in tiles() {
            let case = Case {
                m: M,
                n: N,
                k: K,
                ..tile
            };
            check_all::<f16, f32>(&device, &case.split(2), Bias::OfColumn);
            check_all::<bf16, f32>(&device, &case, Bias::OfRow);
            check_all::<f16, f16>(&device, &case, Bias::OfColumn);
            check_all::<bf16, bf16>(&device, &case.split(2), Bias::OfRow);
        }
    }
}

/// Runs a case with every part of the epilogue. All numbers are halves of integers, so that nothing
/// but the result is rounded.
fn check_all<In: Value, Out: Value>(device: &Device, case: &Case, bias_of: Bias) {
    let place = |i: usize| [0, i as u32 / N, i as u32 % N];
    let matrix = |seed| -> Vec<f64> {
        let all = 0..(M * N) as usize;
        all.map(|i| integer(seed, place(i))).collect()
    };
    let vector =
        |seed, len: u32| -> Vec<f64> { (0..len).map(|i| integer(seed, [0, i, 0]) + 0.5).collect() };
    let (c, residual) = (matrix(7), matrix(8));
    let bias = match bias_of {
        Bias::OfColumn => vector(9, N),
        Bias::OfRow => vector(9, M),
    };
    let (row_scale, column_scale) = (vector(10, M), vector(11, N));
    let a = upload(device, &case.a::<In>(|p| integer(1, p)));
    let b = upload(device, &case.b::<In>(|p| integer(2, p)));
    let [c_there, bias_there, residual_there] =
        [&c, &bias, &residual].map(|values| convert::<Out>(device, values));
    let factors = [&row_scale, &column_scale, &vec![2.0], &vec![-1.5]];
    let factors = factors.map(|values| convert::<f32>(device, values));
    let extras = Extras {
        c: Some(&c_there),
        bias: Some(&bias_there),
        residual: Some(&residual_there),
        row_scale: Some(&factors[0]),
        column_scale: Some(&factors[1]),
        alpha: Some(&factors[2]),
        beta: Some(&factors[3]),
        epilogue: EpilogueParams {
            ld_residual: i64::from(N),
            bias_stride_m: i64::from(matches!(bias_of, Bias::OfRow)),
            bias_stride_n: i64::from(matches!(bias_of, Bias::OfColumn)),
            row_scale_stride: 1,
            column_scale_stride: 1,
            activation: Activation::Relu.code(),
            ..EpilogueParams::default()
        },
    };
    let mut d = upload(device, &vec![Out::new(POISON); (M * N) as usize]);
    let params = GemmParams {
        alpha: 99.0,
        beta: 0.0,
        ..case.params()
    };
    launch(device, case, params, (&a, &b), &mut d, &extras).expect("a launch");
    for (i, got) in d.to_vec().expect("a result").into_iter().enumerate() {
        let [_, row, column] = place(i);
        let product: f64 = (0..K)
            .map(|p| integer(1, [0, row, p]) * integer(2, [0, p, column]))
            .sum();
        let (row, column) = (row as usize, column as usize);
        let bias = match bias_of {
            Bias::OfColumn => bias[column],
            Bias::OfRow => bias[row],
        };
        let scales = row_scale[row] * column_scale[column];
        let x = 2.0 * scales * product - 1.5 * c[i] + bias;
        let want = Out::new(x.max(0.0) + residual[i]);
        assert_eq!(
            got, want,
            "{case:?}, bias {bias_of:?}: row {row}, column {column}"
        );
    }
}

/// Values in memory as `T`.
fn convert<T: Value>(device: &Device, values: &[f64]) -> DeviceBuffer<T> {
    let values: Vec<T> = values.iter().copied().map(T::new).collect();
    upload(device, &values)
}

#[test]
fn c_is_not_read_where_beta_is_0() {
    for device in devices() {
        for tile in tiles() {
            let case = Case {
                m: M,
                n: N,
                k: K,
                ..tile
            };
            let a = upload(&device, &case.a::<bf16>(|p| integer(1, p)));
            let b = upload(&device, &case.b::<bf16>(|p| integer(2, p)));
            let c = upload(&device, &vec![f32::NAN; (M * N) as usize]);
            let mut d = upload(&device, &vec![f32::NAN; (M * N) as usize]);
            let extras = Extras {
                c: Some(&c),
                ..Extras::default()
            };
            launch(&device, &case, case.params(), (&a, &b), &mut d, &extras).expect("a launch");
            let d = d.to_vec().expect("a result");
            assert!(d.iter().all(|x| !x.is_nan()), "{case:?}");
        }
    }
}
