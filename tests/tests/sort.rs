//! Rows in order, against the reference: every bit of values and indices.

use std::cmp::Ordering;

use half::f16;
use ndarray::{ArrayD, Dimension};
use proptest::prelude::*;
use warpsmith::reference::sort::sort;
use warpsmith::{Argsort, DType, Device, Error, ShapeError, Sort, SortedElements, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::output::{Output, same_bits};
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::rows::signed;
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, profiled, say, with_element};

#[derive(Clone, Debug)]
struct Case {
    shape: Vec<usize>,
    axis: usize,
    is_descending: bool,
    /// Whether each row is sorted digit by digit, however short it is.
    by_passes: bool,
    dtype: DType,
    views: [View; 3],
    values: Values,
    seed: u64,
}

fn check(case: &Case, device: &Device) -> Checked {
    with_element!(case.dtype, check_of(case, device))
}

fn check_of<T: TestElement>(case: &Case, device: &Device) -> Checked {
    let [view, view_values, view_indices] = case.views;
    let values = case.values.of_moved(T::DTYPE);
    let x = Operand::<T>::draw(device, &case.shape, values, view, case.seed)?;
    let passes = format!("sort_u{}_pass", 8 * T::DTYPE.size_bytes());
    let axis = signed(case.axis, case.shape.len());
    let (mut elements, mut order) = (
        Sort::new(&x.tensor).axis(axis),
        Argsort::new(&x.tensor).axis(axis),
    );
    if case.is_descending {
        (elements, order) = (elements.descending(), order.descending());
    }
    if case.by_passes && !x.tensor.is_empty() {
        (elements, order) = (elements.with_kernel(&passes), order.with_kernel(&passes));
    }
    let stream = device.stream().map_err(say)?;
    let outputs = || {
        let values = Output::<T>::new(device, &case.shape, view_values)?;
        let indices = Output::<i64>::new(device, &case.shape, view_indices)?;
        Ok::<_, String>((values, indices))
    };
    let (values, indices) = outputs()?;
    let out = SortedElements {
        values: values.tensor.clone(),
        indices: indices.tensor.clone(),
    };
    elements.indices().run_into(&out, &stream).map_err(say)?;
    let (values_alone, indices_alone) = outputs()?;
    elements
        .run_into(&values_alone.tensor, &stream)
        .map_err(say)?;
    order
        .run_into(&indices_alone.tensor, &stream)
        .map_err(say)?;
    x.expect_unchanged()?;
    let (_, want) = sort(&x.values.view(), case.axis, case.is_descending).map_err(say)?;
    let want_values = taken::<T>(&x, &want, case.axis);
    same_bits(&indices.read()?, &want)?;
    same_bits(&values.read()?, &want_values)?;
    same_bits(&indices_alone.read()?, &want)?;
    same_bits(&values_alone.read()?, &want_values)
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
        3 => (extent(largest), extent(300)).prop_map(|(a, b)| vec![a, b]),
        1 => (0..5_usize, 0..6_usize, 0..7_usize).prop_map(|s| vec![s.0, s.1, s.2]),
    ];
    let dtype = prop::sample::select(DType::ALL.to_vec());
    let views = (View::any(), View::writable(), View::writable());
    let rest = (any::<prop::sample::Index>(), any::<u32>());
    let flags = (any::<bool>(), prop::bool::weighted(0.2));
    (shape, flags, dtype, views, Values::any(), rest).prop_map(
        |(shape, (is_descending, by_passes), dtype, views, values, (axis, seed))| Case {
            axis: axis.index(shape.len()),
            // Many short rows have no passes, and a tile for each row is slow to emulate.
            by_passes: by_passes
                && shape.iter().product::<usize>() < 100 * shape[axis.index(shape.len())],
            shape,
            is_descending,
            dtype,
            views: views.into(),
            values,
            seed: u64::from(seed),
        },
    )
}

#[test]
fn sort_matches_its_reference_for_every_axis_and_dtype() {
    let effort = Effort {
        cases: [100, 1000],
        largest: [150, 20_000],
    };
    holds(effort, case, check);
}

/// Sorts the rows of a matrix by every candidate, and compares with a stable sort of the host.
fn expect_sorted<T: TestElement>(
    device: &Device,
    rows: usize,
    row: &[T],
    compare: impl Fn(&T, &T) -> Ordering,
) {
    let stream = device.stream().expect("a stream");
    let xs: Vec<T> = (0..rows).flat_map(|_| row.iter().copied()).collect();
    let x = Tensor::from_slice(device, &[rows, row.len()], &xs).expect("a tensor");
    for is_descending in [false, true] {
        let mut want: Vec<usize> = (0..row.len()).collect();
        want.sort_by(|&a, &b| match is_descending {
            false => compare(&row[a], &row[b]),
            true => compare(&row[b], &row[a]),
        });
        let sort = match is_descending {
            false => Sort::new(&x),
            true => Sort::new(&x).descending(),
        };
        let plan = sort.plan(&stream).expect("a plan");
        for candidate in plan.candidates() {
            let sort = sort.with_kernel(&candidate.name).indices();
            let out = sort.run(&stream).expect("launches");
            let (values, indices) = (out.values.to_vec(), out.indices.to_vec());
            let all = values
                .expect("values")
                .into_iter()
                .zip(indices.expect("indices"));
            for (at, (value, index)) in all.enumerate() {
                let what = format!("{rows} x {}, {}: {at}", row.len(), candidate.name);
                assert_eq!(index as usize, want[at % row.len()], "{what}");
                assert_eq!(value.bits(), row[index as usize].bits(), "{what}");
            }
        }
    }
}

/// NaN of both signs and all payloads, zeros of both signs, denormals, infinities.
#[test]
fn special_values_are_in_their_places() {
    fn ascending(a: f64, b: f64) -> Ordering {
        let of_nan = a.is_nan().cmp(&b.is_nan());
        a.partial_cmp(&b).unwrap_or(of_nan)
    }
    for device in warpsmith::testing::devices() {
        for n in [29, 500, 5000] {
            let bits = [
                0x7e01_u16, 0xfe55, 0x8000, 0, 0x7c00, 0xfc00, 1, 0x8001, 0x3ff, 0xffff, 0x7fff,
            ];
            let halves: Vec<f16> = (0..n).map(|i| f16::from_bits(bits[i * 5 % 11])).collect();
            expect_sorted(&device, 2, &halves, |a, b| {
                ascending(a.to_f64(), b.to_f64())
            });
            let bits = bits.map(|bits| u32::from(bits) << 16 | 1);
            let words: Vec<f32> = (0..n).map(|i| f32::from_bits(bits[i * 7 % 11])).collect();
            expect_sorted(&device, 1, &words, |a, b| ascending(a.wide(), b.wide()));
            let bits = bits.map(|bits| u64::from(bits) << 32 | 1);
            let wide: Vec<f64> = (0..n).map(|i| f64::from_bits(bits[i * 3 % 11])).collect();
            expect_sorted(&device, 1, &wide, |&a, &b| ascending(a, b));
        }
    }
}

/// Integers that f64 does not have, and the least and the largest of each type.
#[test]
fn integers_of_all_bits_are_sorted() {
    for device in warpsmith::testing::devices() {
        for n in [100, 4097] {
            let bits: Vec<u64> = (0..n as u64)
                .map(|i| match i % 50 {
                    0 => 1 << 63,
                    1 => u64::MAX >> 1,
                    2 => u64::MAX,
                    _ => (i % 1000).wrapping_mul(0x9e37_79b9_7f4a_7c15),
                })
                .collect();
            let signed: Vec<i64> = bits.iter().map(|&bits| bits as i64).collect();
            let words: Vec<i32> = bits.iter().map(|&bits| (bits >> 32) as i32).collect();
            let narrow: Vec<u16> = bits.iter().map(|&bits| (bits >> 48) as u16).collect();
            let bytes: Vec<i8> = bits.iter().map(|&bits| (bits >> 56) as i8).collect();
            expect_sorted(&device, 1, &bits, u64::cmp);
            expect_sorted(&device, 1, &signed, i64::cmp);
            expect_sorted(&device, 1, &words, i32::cmp);
            expect_sorted(&device, 1, &narrow, u16::cmp);
            expect_sorted(&device, 1, &bytes, i8::cmp);
        }
    }
}

/// Many rows in a block, with row numbers of no, one and two digits. Tiles that are full, and one more
/// element. Several rows of several tiles. Orders that put all elements into one digit.
#[test]
fn rows_and_tiles_of_all_sizes_are_sorted() {
    for device in warpsmith::testing::devices() {
        for (rows, n) in [
            (1, 1),
            (700, 3),
            (300, 7),
            (3, 1365),
            (2, 4095),
            (2, 4096),
            (1, 4097),
            (3, 9000),
            (1, 50_000),
        ] {
            let mixed: Vec<i32> = (0..n)
                .map(|i: i32| (i % 997).wrapping_mul(0x9e37_79b9_u32 as i32))
                .collect();
            expect_sorted(&device, rows, &mixed, i32::cmp);
        }
        let equal = vec![7_u8; 10_000];
        expect_sorted(&device, 1, &equal, u8::cmp);
        let rising: Vec<u16> = (0..20_000).collect();
        expect_sorted(&device, 1, &rising, u16::cmp);
        let falling: Vec<u16> = rising.into_iter().rev().collect();
        expect_sorted(&device, 1, &falling, u16::cmp);
    }
}

#[test]
fn what_is_wrong_is_refused() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let x = Tensor::<f32>::zeros(&stream, &[3, 4]).expect("a tensor");
        let refused = Sort::new(&x).axis(2).run(&stream).expect_err("no axis 2");
        assert!(
            matches!(
                refused.root(),
                Error::Shape(ShapeError::Axis { axis: 2, rank: 2 })
            ),
            "{refused}"
        );
        assert!(refused.to_string().starts_with("sort: "), "{refused}");
        let refused = Argsort::new(&x).axis(-3).run(&stream).expect_err("no axis");
        assert!(refused.to_string().starts_with("argsort: "), "{refused}");
        let scalar = Tensor::<f32>::zeros(&stream, &[]).expect("a tensor");
        let refused = Sort::new(&scalar).run(&stream).expect_err("no axis");
        let is_axis = matches!(refused.root(), Error::Shape(ShapeError::Axis { .. }));
        assert!(is_axis, "{refused}");
        let other = Tensor::<f32>::zeros(&stream, &[3, 3]).expect("a tensor");
        let refused = Sort::new(&x)
            .run_into(&other, &stream)
            .expect_err("a shape");
        let is_shape = matches!(refused.root(), Error::Shape(ShapeError::Mismatch { .. }));
        assert!(is_shape, "{refused}");
        let refused = Sort::new(&x).run_into(&x, &stream).expect_err("x itself");
        let is_overlap = matches!(refused.root(), Error::Shape(ShapeError::Overlap { .. }));
        assert!(is_overlap, "{refused}");
        let refused = Sort::new(&x).with_kernel("wrong").run(&stream);
        let refused = refused.expect_err("no kernel");
        assert!(refused.to_string().contains("sort_u32_pass"), "{refused}");
        // A view of one element, as long as no row may be.
        let one = Tensor::<i8>::zeros(&stream, &[1]).expect("a tensor");
        let long = one.broadcast_to(&[1 << 31]).expect("a view");
        let refused = Sort::new(&long).run(&stream).expect_err("too long");
        assert!(
            matches!(refused.root(), Error::Shape(ShapeError::OutOfBounds { what: "the extent of the axis", got, .. }) if *got == 1 << 31),
            "{refused}"
        );
    }
}

#[test]
fn nothing_is_sorted_to_nothing() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        for shape in [vec![0], vec![0, 4], vec![3, 0], vec![2, 0, 5]] {
            let x = Tensor::<i64>::zeros(&stream, &shape).expect("a tensor");
            let plan = Sort::new(&x).plan(&stream).expect("a plan");
            assert!(plan.chosen().is_none());
            let out = Sort::new(&x).indices().run(&stream).expect("nothing");
            assert_eq!(out.values.shape(), shape);
            assert_eq!(out.indices.shape(), shape);
        }
    }
}

#[test]
fn functions_sort_along_the_last_axis() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let x = Tensor::from_slice(&device, &[2, 2], &[2.0_f32, 1.0, 3.0, 4.0]).expect("a tensor");
        let values = warpsmith::ops::sort(&x, &stream).expect("a launch");
        assert_eq!(values.to_vec().expect("values"), [1.0, 2.0, 3.0, 4.0]);
        let indices = warpsmith::ops::argsort(&x, &stream).expect("a launch");
        assert_eq!(indices.to_vec().expect("indices"), [1, 0, 0, 1]);
    }
}

/// The emulator's counters: rows of a block are read once and written once, and rows by passes once
/// for each byte. Bytes that all elements have cost a block nothing.
#[test]
fn elements_are_moved_as_often_as_they_must() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    let x = |n: usize, bits: u32| {
        let xs: Vec<u32> = (0..n as u32)
            .map(|i| i.wrapping_mul(0x9e37_79b9) >> (32 - bits))
            .collect();
        Tensor::from_slice(&device, &[n], &xs).expect("a tensor")
    };
    let counters = |x: &Tensor<u32>| {
        drop(Sort::new(x).run(&stream).expect("launches"));
        let launch = device.last_launch().expect("a launch");
        let counters = launch.counters();
        (
            counters.global.loads.sectors,
            counters.global.stores.sectors,
            counters.warp_instructions(),
        )
    };
    let (loads, stores, of_all) = counters(&x(4096, 32));
    assert_eq!([loads, stores], [4096 * 4 / 32; 2]);
    let (.., of_one) = counters(&x(4096, 8));
    assert!(2 * of_one < of_all, "{of_one} of {of_all}");
    let (loads, _, _) = counters(&x(16_384, 32));
    let least = 16_384 * 4 / 32;
    assert!((least..2 * least).contains(&loads), "{loads} of {least}");
}

/// Long rows, some of which share some of their bytes, or all: a row takes passes for the others alone.
#[test]
fn long_rows_take_no_pass_for_bytes_that_all_elements_share() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    let n = 9000;
    let row = |from: &dyn Fn(u32) -> u32| {
        let mixed = |i: u32| i.wrapping_mul(0x9e37_79b9) ^ i << 7;
        (0..n).map(|i| from(mixed(i))).collect::<Vec<u32>>()
    };
    let rows = [
        row(&|x| x),
        row(&|_| 0xa5a5_a5a5),
        row(&|x| 0x1200_0034 | (x & 0xff) << 8),
        row(&|x| (x & 0xff) << 24 | 0x56_0000 | x & 0xff00),
        row(&|x| x % 7),
    ];
    let sorted = |rows: &[Vec<u32>]| {
        let all = rows.concat();
        let shape = [rows.len(), n as usize];
        let x = Tensor::from_slice(&device, &shape, &all).expect("a tensor");
        let out = Sort::new(&x).indices().run(&stream).expect("launches");
        let alone = Sort::new(&x).run(&stream).expect("launches");
        let values = out.values.to_vec().expect("values");
        assert_eq!(values, alone.to_vec().expect("values"));
        let indices = out.indices.to_vec().expect("indices");
        for (row, own) in rows.iter().enumerate() {
            let mut want: Vec<usize> = (0..own.len()).collect();
            want.sort_by_key(|&i| own[i]);
            let own_part = row * own.len()..(row + 1) * own.len();
            let got = indices[own_part.clone()].iter().map(|&i| i as usize);
            assert!(got.eq(want.iter().copied()), "indices of row {row}");
            let got = values[own_part].iter().copied();
            assert!(got.eq(want.iter().map(|&i| own[i])), "values of row {row}");
        }
        let launch = device.last_launch().expect("a launch");
        launch.counters().global.stores.sectors
    };
    sorted(&rows);
    // The last pass is that of the highest byte, which these rows share.
    assert_eq!(sorted(&rows[2..3]), 0);
    assert_eq!(sorted(&rows[4..]), 0);
    assert_ne!(sorted(&rows[1..2]), 0);
    let elements = |bytes: [u8; 4]| u32::from_be_bytes(bytes);
    assert_ne!(sorted(&[row(&|x| elements([x as u8, 1, 2, 3]))]), 0);
}
