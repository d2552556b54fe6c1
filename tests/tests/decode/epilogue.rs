//! The fused epilogue: each of its parts, at every place.

use spec::gemm::{Activation, EpilogueParams, GemmParams};
use warpsmith::DType;
use warpsmith::testing::devices;

use super::launch::{Case, Extras, launch};
use super::{POISON, integer, tiles, upload};

const M: u32 = 6;
const N: u32 = 71;
const K: u32 = 96;

/// Whether the tile has results in f32, which these tests look at: with 128 rows it has none. Its
/// epilogue is the same code, and the host's GEMM tests run it.
fn has_f32(tile: &Case) -> bool {
    tile.exists(DType::F16, DType::F32)
}

#[test]
fn the_whole_epilogue_comes_after_all_of_k() {
    for device in devices() {
        for tile in tiles().filter(has_f32) {
            let case = Case {
                m: M,
                n: N,
                k: K,
                ..tile
            }
            .split(2);
            let place = |i: usize| [0, i as u32 / N, i as u32 % N];
            let matrix = |seed| -> Vec<f32> {
                (0..(M * N) as usize)
                    .map(|i| integer(seed, place(i)) as f32)
                    .collect()
            };
            let vector = |seed, len: u32| -> Vec<f32> {
                (0..len)
                    .map(|i| integer(seed, [0, i, 0]) as f32 + 0.5)
                    .collect()
            };
            let (c, residual, bias) = (matrix(7), matrix(8), vector(9, N));
            let (row_scale, column_scale) = (vector(10, M), vector(11, N));
            let a = upload(&device, &case.a::<half::f16>(|p| integer(1, p)));
            let b = upload(&device, &case.b::<half::f16>(|p| integer(2, p)));
            let buffers = [
                &c,
                &bias,
                &residual,
                &row_scale,
                &column_scale,
                &vec![2.0],
                &vec![-1.5],
            ]
            .map(|values| upload(&device, values));
            let extras = Extras {
                c: Some(&buffers[0]),
                bias: Some(&buffers[1]),
                residual: Some(&buffers[2]),
                row_scale: Some(&buffers[3]),
                column_scale: Some(&buffers[4]),
                alpha: Some(&buffers[5]),
                beta: Some(&buffers[6]),
                epilogue: EpilogueParams {
                    ld_residual: i64::from(N),
                    bias_stride_n: 1,
                    row_scale_stride: 1,
                    column_scale_stride: 1,
                    activation: Activation::Relu.code(),
                    ..EpilogueParams::default()
                },
            };
            let mut d = upload(&device, &vec![POISON as f32; (M * N) as usize]);
            let params = GemmParams {
                alpha: 99.0,
                beta: 0.0,
                ..case.params()
            };
            launch(&device, &case, params, (&a, &b), &mut d, &extras).expect("a launch");
            for (i, got) in d.to_vec().expect("a result").into_iter().enumerate() {
                let [_, row, column] = place(i);
                let product: f64 = (0..K)
                    .map(|p| integer(1, [0, row, p]) * integer(2, [0, p, column]))
                    .sum();
                let (row, column) = (row as usize, column as usize);
                let scales = row_scale[row] * column_scale[column];
                let x = 2.0 * scales * product as f32 - 1.5 * c[i] + bias[column];
                assert_eq!(
                    got,
                    x.max(0.0) + residual[i],
                    "{case:?}: row {row}, column {column}"
                );
            }
        }
    }
}

#[test]
fn c_is_not_read_where_beta_is_0() {
    for device in devices() {
        for tile in tiles().filter(has_f32) {
            let case = Case {
                m: M,
                n: N,
                k: K,
                ..tile
            };
            let a = upload(&device, &case.a::<half::bf16>(|p| integer(1, p)));
            let b = upload(&device, &case.b::<half::bf16>(|p| integer(2, p)));
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
