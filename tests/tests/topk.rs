//! The k largest and smallest elements, against the reference: every bit of values and indices.

use std::cmp::Ordering;

use abi::topk::DTYPES;
use half::{bf16, f16};
use ndarray::{ArrayD, Dimension};
use proptest::prelude::*;
use warpsmith::reference::topk::topk;
use warpsmith::{DType, Device, Error, Reducible, ShapeError, Tensor, TopElements, TopK};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::output::{Output, same_bits};
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::rows::signed;
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, profiled, say};

#[derive(Clone, Debug)]
struct Case {
    shape: Vec<usize>,
    axis: usize,
    k: usize,
    is_smallest: bool,
    dtype: DType,
    views: [View; 3],
    values: Values,
    seed: u64,
}

fn check(case: &Case, device: &Device) -> Checked {
    match case.dtype {
        DType::F32 => check_of::<f32>(case, device),
        DType::F16 => check_of::<f16>(case, device),
        DType::Bf16 => check_of::<bf16>(case, device),
        DType::F64 => check_of::<f64>(case, device),
        DType::I32 => check_of::<i32>(case, device),
        DType::I64 => check_of::<i64>(case, device),
        other => Err(format!("no top-k reads {other}")),
    }
}

fn check_of<T: Reducible + TestElement>(case: &Case, device: &Device) -> Checked {
    let [view, view_values, view_indices] = case.views;
    let drawn = case.values.of_moved(T::DTYPE);
    let x = Operand::<T>::draw(device, &case.shape, drawn, view, case.seed)?;
    let mut operation = TopK::new(&x.tensor, case.k).axis(signed(case.axis, case.shape.len()));
    if case.is_smallest {
        operation = operation.smallest();
    }
    let stream = device.stream().map_err(say)?;
    let mut shape = case.shape.clone();
    shape[case.axis] = case.k;
    let mut results = Vec::new();
    for _ in 0..2 {
        let values = Output::<T>::new(device, &shape, view_values)?;
        let indices = Output::<i64>::new(device, &shape, view_indices)?;
        let out = TopElements {
            values: values.tensor.clone(),
            indices: indices.tensor.clone(),
        };
        operation.run_into(&out, &stream).map_err(say)?;
        results.push((values.read()?, indices.read()?));
    }
    x.expect_unchanged()?;
    let (values, indices) = &results[0];
    same_bits(values, &results[1].0)?;
    same_bits(indices, &results[1].1)?;
    let (_, want) = topk(&x.values.view(), case.axis, case.k, case.is_smallest).map_err(say)?;
    same_bits(indices, &want)?;
    same_bits(values, &taken(&x, &want, case.axis))
}

/// The elements of these indices.
fn taken<T: TestElement>(x: &Operand<T>, indices: &ArrayD<i64>, axis: usize) -> ArrayD<T> {
    ArrayD::from_shape_fn(indices.raw_dim(), |at| {
        let mut from = at.slice().to_vec();
        from[axis] = indices[at.slice()] as usize;
        T::nearest(x.values[&from[..]])
    })
}

fn case(largest: usize) -> impl Strategy<Value = Case> {
    let shape = prop_oneof![
        3 => extent(largest * 60).prop_map(|n| vec![n]),
        3 => (extent(5), extent(largest * 20)).prop_map(|(a, b)| vec![a, b]),
        3 => (extent(largest), extent(600)).prop_map(|(a, b)| vec![a, b]),
        1 => (0..5_usize, 0..6_usize, 0..7_usize).prop_map(|s| vec![s.0, s.1, s.2]),
    ];
    // Few elements, up to half of them, or any number.
    let k = (0..3_usize, any::<prop::sample::Index>());
    let dtype = prop::sample::select(DTYPES.to_vec());
    let views = (View::any(), View::writable(), View::writable());
    let rest = (any::<prop::sample::Index>(), any::<bool>(), any::<u32>());
    (shape, k, dtype, views, Values::any(), rest).prop_map(
        |(shape, (few, k), dtype, views, values, (axis, is_smallest, seed))| {
            let axis = axis.index(shape.len());
            let n = shape[axis];
            let most = [n.min(20), n / 2, n][few].min(2048);
            Case {
                k: k.index(most + 1),
                axis,
                shape,
                is_smallest,
                dtype,
                views: views.into(),
                values,
                seed: u64::from(seed),
            }
        },
    )
}

#[test]
fn topk_matches_its_reference_for_every_k_axis_and_dtype() {
    let effort = Effort {
        cases: [200, 1000],
        largest: [150, 20_000],
    };
    holds(effort, case, check);
}

/// Runs over the rows of a matrix and compares with a sort of each row.
fn expect_sorted<T: Reducible + TestElement>(device: &Device, rows: usize, row: &[T], k: usize) {
    let stream = device.stream().expect("a stream");
    let xs: Vec<T> = (0..rows).flat_map(|_| row.iter().copied()).collect();
    let x = Tensor::from_slice(device, &[rows, row.len()], &xs).expect("a tensor");
    let wide = ndarray::Array1::from_iter(row.iter().map(|x| x.wide())).into_dyn();
    for is_smallest in [false, true] {
        let operation = TopK::new(&x, k);
        let operation = match is_smallest {
            true => operation.smallest(),
            false => operation,
        };
        let out = operation.run(&stream).expect("a launch");
        let (_, want) = topk(&wide.view(), 0, k, is_smallest).expect("k elements");
        let (values, indices) = (out.values.to_vec(), out.indices.to_vec());
        let (values, indices) = (values.expect("values"), indices.expect("indices"));
        for (at, (value, index)) in values.into_iter().zip(indices).enumerate() {
            let what = format!("{rows} x {}, k {k}, {is_smallest}: {at}", row.len());
            assert_eq!(index, want[at % k], "{what}");
            assert_eq!(value.bits(), row[index as usize].bits(), "{what}");
        }
    }
}

/// All elements equal, in ascending and descending order, in runs of equal ones, or all large ones
/// in the vectors of one thread. Then bounds by groups let through too many, or only just enough.
#[test]
fn rows_that_defeat_a_bound_by_groups_are_sorted_too() {
    for device in warpsmith::testing::devices() {
        for (n, k) in [
            (5000, 64),
            (20_000, 10),
            (20_000, 600),
            (9000, 2048),
            (700, 700),
        ] {
            let ascending: Vec<f32> = (0..n).map(|i| i as f32 * 1e-3).collect();
            let descending: Vec<f32> = ascending.iter().rev().copied().collect();
            let equal = vec![bf16::from_f32(-2.0); n];
            let runs: Vec<f16> = (0..n)
                .map(|i| f16::from_f32((i / 100 % 7) as f32))
                .collect();
            let one_thread: Vec<f32> = (0..n)
                .map(|i| if i / 4 % 64 == 3 { i as f32 } else { -1.0 })
                .collect();
            expect_sorted(&device, 1, &ascending, k);
            expect_sorted(&device, 2, &descending, k);
            expect_sorted(&device, 1, &equal, k);
            expect_sorted(&device, 2, &runs, k);
            expect_sorted(&device, 1, &one_thread, k);
        }
    }
}

/// Rows of NaN alone, of NaN but for a few elements, of infinities, of masked elements (-inf) but for
/// a few; zeros of both signs; denormals.
#[test]
fn special_values_are_in_their_places() {
    for device in warpsmith::testing::devices() {
        for (n, k) in [(37, 5), (512, 32), (6000, 40), (6000, 1500)] {
            let but_for_a_few = |fill: f32| -> Vec<f32> {
                (0..n)
                    .map(|i| if i % 1009 == 17 { i as f32 } else { fill })
                    .collect()
            };
            for fill in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0] {
                let row = but_for_a_few(fill);
                expect_sorted(&device, 2, &row, k);
                let row: Vec<bf16> = row.into_iter().map(bf16::from_f32).collect();
                expect_sorted(&device, 2, &row, k);
            }
            // Payloads, both signs, zeros and denormals of both signs.
            let bits = [
                0x7e01_u16, 0xfe55, 0x8000, 0, 0x7c00, 0xfc00, 1, 0x8001, 0x3ff,
            ];
            let row: Vec<f16> = (0..n).map(|i| f16::from_bits(bits[i * 5 % 9])).collect();
            expect_sorted(&device, 2, &row, k);
            let bits = bits.map(|bits| f32::from_bits(u32::from(bits) << 16 | 1));
            let row: Vec<f32> = (0..n).map(|i| bits[i * 7 % 9]).collect();
            expect_sorted(&device, 1, &row, k);
        }
    }
}

/// Rows by a whole block, in parts and by lanes; integers that f64 does not have, the least and the
/// largest; payloads of NaN.
#[test]
fn elements_of_64_bits_and_integers_are_compared_by_all_bits() {
    /// Expects the indices that a stable sort of the host gives.
    fn expect<T: Reducible + TestElement>(
        device: &Device,
        row: &[T],
        ks: &[usize],
        compare: impl Fn(&T, &T) -> Ordering,
    ) {
        let stream = device.stream().expect("a stream");
        let x = Tensor::from_slice(device, &[1, row.len()], row).expect("a tensor");
        for is_smallest in [false, true] {
            let mut order: Vec<usize> = (0..row.len()).collect();
            order.sort_by(|&a, &b| match is_smallest {
                true => compare(&row[a], &row[b]),
                false => compare(&row[b], &row[a]),
            });
            for &k in ks {
                let topk = TopK::new(&x, k);
                let topk = if is_smallest { topk.smallest() } else { topk };
                for candidate in topk.plan(&stream).expect("a plan").candidates() {
                    let out = topk.with_kernel(&candidate.name).run(&stream);
                    let out = out.expect("a launch");
                    let indices = out.indices.to_vec().expect("indices");
                    let values = out.values.to_vec().expect("values");
                    for (rank, (value, index)) in values.into_iter().zip(indices).enumerate() {
                        let what = format!("{} of {}, k {k}: {rank}", candidate.name, row.len());
                        assert_eq!(index as usize, order[rank], "{what}");
                        assert_eq!(value.bits(), row[order[rank]].bits(), "{what}");
                    }
                }
            }
        }
    }
    for device in warpsmith::testing::devices() {
        for (n, ks) in [
            (300, [1, 20, 300]),
            (3000, [7, 500, 2048]),
            (20_000, [1, 60, 2048]),
        ] {
            let bits: Vec<u64> = (0..n as u64)
                .map(|i| match i % 50 {
                    0 => 1 << 63,
                    1 => u64::MAX >> 1,
                    2 => u64::MAX - i % 3,
                    _ => (i % 1000).wrapping_mul(0x9e37_79b9_7f4a_7c15),
                })
                .collect();
            let signed: Vec<i64> = bits.iter().map(|&bits| bits as i64).collect();
            let words: Vec<i32> = bits.iter().map(|&bits| (bits >> 32) as i32).collect();
            let floats: Vec<f64> = bits.iter().map(|&bits| f64::from_bits(bits)).collect();
            expect(&device, &signed, &ks, i64::cmp);
            expect(&device, &words, &ks, i32::cmp);
            expect(&device, &floats, &ks, |a, b| {
                a.partial_cmp(b).unwrap_or(a.is_nan().cmp(&b.is_nan()))
            });
        }
    }
}

/// Short rows, rows that have a block each, and few that are cut into parts: the same bits.
#[test]
fn every_candidate_gives_the_same() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        for (rows, n, ks) in [(1, 50_001, vec![1, 50, 1000]), (4, 300, vec![5])] {
            let xs: Vec<f32> = (0..rows * n)
                .map(|i| ((i as u32).wrapping_mul(0x9e37_79b9) >> 12) as f32)
                .collect();
            let x = Tensor::from_slice(&device, &[rows, n], &xs).expect("a tensor");
            for k in ks {
                let topk = TopK::new(&x, k);
                let plan = topk.plan(&stream).expect("a plan");
                assert_eq!(plan.candidates().len(), 2, "{plan}");
                let [first, second] = [0, 1].map(|idx| {
                    let name = &plan.candidates()[idx].name;
                    let out = topk.with_kernel(name).run(&stream).expect("a launch");
                    out.indices.to_vec().expect("the indices")
                });
                assert_eq!(first, second, "k {k}: {plan}");
            }
        }
    }
}

/// The emulator's counters: where k is small, what is read beyond each byte once is a few groups.
#[test]
fn rows_are_read_once_where_k_is_small() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    let (rows, n, k) = (80, 16_384, 16);
    let xs: Vec<f32> = (0..rows * n)
        .map(|i| ((i as u32).wrapping_mul(0x9e37_79b9) >> 8) as f32)
        .collect();
    let x = Tensor::from_slice(&device, &[rows, n], &xs).expect("a tensor");
    let x = x.cast::<bf16>(&stream).expect("a cast");
    let results = TopK::new(&x, k).run(&stream);
    results.expect("a launch");
    let launch = device.last_launch().expect("a launch");
    let sectors = launch.counters().global.loads.sectors;
    let least = (rows * n * 2 / 32) as u64;
    assert!(
        sectors < least + least / 10,
        "{sectors} sectors, {least} have all"
    );
}

#[test]
fn what_is_too_large_is_refused_with_its_limit() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let x = Tensor::<f32>::zeros(&stream, &[3, 4]).expect("a tensor");
        let long = Tensor::<f32>::zeros(&stream, &[5000]).expect("a tensor");
        for (x, k, limit) in [(&x, 5, 5), (&long, 2049, 2049)] {
            let refused = TopK::new(x, k).run(&stream).expect_err("too many");
            assert!(
                matches!(refused.root(), Error::Shape(ShapeError::OutOfBounds { what: "k", got, limit: l }) if *got == k as u64 && *l == limit),
                "{refused}"
            );
        }
        let refused = TopK::new(&x, 1)
            .axis(2)
            .run(&stream)
            .expect_err("no axis 2");
        assert!(
            matches!(
                refused.root(),
                Error::Shape(ShapeError::Axis { axis: 2, rank: 2 })
            ),
            "{refused}"
        );
        let TopElements { values, indices } = TopK::new(&x, 2).run(&stream).expect("results");
        let run = |values: &Tensor<f32>, indices: &Tensor<i64>| {
            let (values, indices) = (values.clone(), indices.clone());
            TopK::new(&x, 2).run_into(&TopElements { values, indices }, &stream)
        };
        let other = Tensor::<f32>::zeros(&stream, &[3, 3]).expect("a tensor");
        let refused = run(&other, &indices).expect_err("another shape");
        assert!(
            matches!(refused.root(), Error::Shape(ShapeError::Mismatch { .. })),
            "{refused}"
        );
        let own = x.slice(1, ..2).expect("a view");
        let refused = run(&own, &indices).expect_err("x itself");
        assert!(
            matches!(refused.root(), Error::Shape(ShapeError::Overlap { .. })),
            "{refused}"
        );
        let again = indices.broadcast_to(&[3, 2]).expect("itself");
        run(&values, &again).expect("it fits");
    }
}

#[test]
fn nothing_of_something_is_nothing() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        for (shape, axis, k, want) in [
            (vec![3, 4], 1, 0, vec![3, 0]),
            (vec![0, 4], 1, 2, vec![0, 2]),
            (vec![3, 0], 1, 0, vec![3, 0]),
            (vec![2, 0, 5], 2, 5, vec![2, 0, 5]),
        ] {
            let x = Tensor::<bf16>::zeros(&stream, &shape).expect("a tensor");
            let out = TopK::new(&x, k).axis(axis).run(&stream).expect("nothing");
            assert_eq!(out.values.shape(), want);
            assert_eq!(out.indices.shape(), want);
        }
    }
}
