//! `Scatter`: rows that are put to where indices say, of which the last one stays.

use abi::scatter::FEW;
use half::bf16;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use warpsmith::reference::scatter::put;
use warpsmith::{
    ArgumentError, DType, Device, Element, Error, IndexElement, PlanSource, Scatter, ShapeError,
    Tensor,
};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::property::{Effort, holds};
use warpsmith_tests::rows::signed;
use warpsmith_tests::{Checked, on_every_device, profiled, say, with_element};

use crate::scatter_add::{Case, Drawn, case};

fn check(case: &Case, device: &Device) -> Checked {
    with_element!(case.dtype, check_of(case, device))
}

fn check_of<T: TestElement>(case: &Case, device: &Device) -> Checked {
    match case.are_indices_wide {
        true => check_by::<T, i64>(case, device),
        false => check_by::<T, i32>(case, device),
    }
}

fn check_by<T: TestElement, I: IndexElement + TestElement>(
    case: &Case,
    device: &Device,
) -> Checked {
    let drawn = Drawn::<T, I>::new(case, device, case.values.of_moved(T::DTYPE))?;
    let Drawn { src, indices, old } = &drawn;
    let operation =
        Scatter::new(&indices.tensor, &src.tensor).axis(signed(case.axis, case.y.len()));
    let operation = if case.wraps {
        operation.wrap_negative()
    } else {
        operation
    };
    let got = drawn.result(case, device, |y, stream| operation.run_into(y, stream))?;
    let exact = drawn.exact(case);
    let (old, src) = (old.mapv(T::bits), src.values.mapv(|x| T::nearest(x).bits()));
    let want = put(&old.view(), case.axis, &exact.view(), &src.view()).map_err(say)?;
    let got = got.mapv(T::bits);
    match got == want {
        true => Ok(()),
        false => Err(format!("{got:x?} instead of {want:x?}")),
    }
}

#[test]
fn rows_are_put_where_the_reference_has_them_for_every_axis_dtype_and_layout() {
    let effort = Effort {
        cases: [300, 1500],
        largest: [48, 4000],
    };
    holds(effort, |largest| case(largest, &DType::ALL), check);
}

/// Puts rows of `columns` numbers, which say their position, into `count` rows of -1; by these indices
/// and as many more behind them as are out of range.
fn put_rows(
    device: &Device,
    (indices, more): (&[i64], usize),
    count: usize,
    columns: usize,
) -> Vec<i32> {
    let stream = device.stream().expect("a stream");
    let indices = [indices, &vec![count as i64; more]].concat();
    let len = indices.len();
    let rows: Vec<i32> = (0..len * columns).map(|i| (i / columns) as i32).collect();
    let src = Tensor::from_slice(device, &[len, columns], &rows).expect("rows");
    let indices = Tensor::from_slice(device, &[len], &indices).expect("indices");
    let y = Tensor::full(&stream, &[count, columns], -1).expect("a tensor");
    Scatter::new(&indices, &src)
        .run_into(&y, &stream)
        .expect("launches");
    y.to_vec().expect("rows")
}

/// The last position of each index.
fn last(indices: &[i64], count: usize) -> Vec<i32> {
    let mut last = vec![-1; count];
    for (j, &index) in indices.iter().enumerate() {
        if let Some(last) = last.get_mut(index as usize) {
            *last = j as i32;
        }
    }
    last
}

#[test]
fn the_last_of_equal_indices_stays_whether_there_are_few_or_many() {
    on_every_device(|device, _| {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let few = FEW as usize;
        for len in [
            1,
            2,
            127,
            128,
            129,
            130,
            257,
            385,
            few - 1,
            few,
            few + 1,
            5000,
        ] {
            for (count, columns) in [(1, 3), (5, 8), (700, 1), (2000, 4)] {
                let draw = |_| rng.random_range(-1..=count as i64);
                let indices: Vec<i64> = (0..len).map(draw).collect();
                let got = put_rows(device, (&indices, 0), count, columns);
                let want = last(&indices, count);
                let rows = got.chunks_exact(columns).zip(&want);
                for (row, (got, want)) in rows.enumerate() {
                    let what = format!("row {row} of {count} by {len} indices");
                    assert!(got.iter().all(|x| x == want), "{what}: {got:?}, not {want}");
                }
                // The same by a table.
                if len <= few {
                    let by_table = put_rows(device, (&indices, few + 1 - len), count, columns);
                    assert!(got == by_table, "{len} indices of {count}");
                }
            }
        }
    });
}

#[test]
fn rows_of_more_columns_than_a_block_has_stay_whole() {
    on_every_device(|device, _| {
        for columns in [255, 256, 257, 1024, 1028, 2600] {
            for more in [0, FEW as usize] {
                let got = put_rows(device, (&[2, 0, 2, 7, -1], more), 4, columns);
                for (row, want) in got.chunks_exact(columns).zip([1, -1, 2, -1]) {
                    assert!(row.iter().all(|&x| x == want), "{columns} columns");
                }
            }
        }
    });
}

/// The emulator reports any access outside of an allocation: here y has one of its own, without a
/// guard.
#[test]
fn an_index_out_of_range_puts_nothing() {
    on_every_device(|_, stream| {
        let device = stream.device();
        for len in [8, FEW as usize + 8] {
            let mut far = vec![4_i64, -1, 3, i64::MAX, i64::MIN, 1 << 32, (1 << 32) + 3];
            far.resize(len, -5);
            let indices = Tensor::from_slice(device, &[len], &far).expect("indices");
            let src = Tensor::full(stream, &[len, 8], 1.0_f32).expect("rows");
            let y = Tensor::<f32>::zeros(stream, &[4, 8]).expect("a tensor");
            Scatter::new(&indices, &src)
                .run_into(&y, stream)
                .expect("launches");
            let y = y.to_vec().expect("rows");
            assert!(y[..24].iter().all(|&x| x == 0.0));
            assert_eq!(y[24..], [1.0; 8]);
        }
    });
}

#[test]
fn bits_are_moved_and_what_no_index_names_keeps_them() {
    on_every_device(|device, stream| {
        let odd = [0x7fc0_1234_u32, 0x8000_0000, 0xff80_0001, 7].map(f32::from_bits);
        let y = Tensor::from_slice(device, &[4], &odd).expect("a tensor");
        let src = Tensor::from_slice(device, &[2], &[odd[2], odd[1]]).expect("elements");
        let indices = Tensor::from_slice(device, &[2], &[3_i32, 9]).expect("indices");
        Scatter::new(&indices, &src)
            .run_into(&y, stream)
            .expect("launches");
        let got = y.to_vec().expect("elements");
        let bits = |xs: &[f32]| xs.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&got), bits(&[odd[0], odd[1], odd[2], odd[2]]));
    });
}

#[test]
fn nothing_to_put_or_to_put_it_to_is_no_launch() {
    on_every_device(|_, stream| {
        let none = Tensor::<i64>::zeros(stream, &[0]).expect("indices");
        let two = Tensor::<i64>::zeros(stream, &[2]).expect("indices");
        let rows = |shape: &[usize]| Tensor::<bf16>::zeros(stream, shape).expect("rows");
        for (indices, src, y) in [
            (&none, rows(&[0, 3]), rows(&[2, 3])),
            (&two, rows(&[2, 3]), rows(&[0, 3])),
            (&two, rows(&[2, 0]), rows(&[5, 0])),
        ] {
            Scatter::new(indices, &src)
                .run_into(&y, stream)
                .expect("nothing");
            assert!(y.to_vec().expect("zeros").iter().all(|x| x.to_bits() == 0));
        }
    });
}

#[test]
fn rows_are_moved_sixteen_bytes_at_a_time_and_once() {
    fn check<T: Element>(device: &Device, rows: usize, columns: usize, one: T) {
        let stream = device.stream().expect("a stream");
        let src = Tensor::full(&stream, &[rows, columns], one).expect("rows");
        let indices: Vec<i64> = (0..rows as i64).map(|i| i * 7 % 4096).collect();
        let indices = Tensor::from_slice(device, &[rows], &indices).expect("indices");
        let y = Tensor::full(&stream, &[4096, columns], one).expect("a tensor");
        Scatter::new(&indices, &src)
            .run_into(&y, &stream)
            .expect("launches");
        let launch = device.last_launch().expect("a launch");
        let global = &launch.counters().global;
        let bytes = (rows * columns * size_of::<T>()) as u64;
        let what = format!("{rows} rows of {columns} {}", T::DTYPE);
        assert_eq!(global.stores.bytes, bytes, "{what}");
        assert_eq!(global.stores.sectors * 32, bytes, "{what}");
        let row = (columns * size_of::<T>()) as u64;
        assert_eq!(global.stores.requests, bytes / row.min(512), "{what}");
        // Of many, a number of the table too.
        let of_index = if rows <= FEW as usize { 8 } else { 12 };
        let want = bytes + of_index * rows as u64;
        assert_eq!(global.distinct_read, want, "{what}");
    }
    let device = profiled();
    check(&device, 64, 256, 1.0_f32);
    check(&device, 100, 64, bf16::ONE);
    check(&device, 2048, 256, bf16::ONE);
    check(&device, 1500, 1024, 1_u8);
}

#[test]
fn a_new_result_is_zero_where_no_index_leads() {
    on_every_device(|device, stream| {
        let src = Tensor::from_slice(device, &[2, 2], &[1.0_f32, 2.0, 3.0, 4.0]).expect("rows");
        let indices = Tensor::from_slice(device, &[2], &[2_i64, 0]).expect("indices");
        let put = Scatter::new(&indices, &src).extent(3);
        let rows = put.run(stream).and_then(|y| y.to_vec()).expect("rows");
        assert_eq!(rows, [3.0, 4.0, 0.0, 0.0, 1.0, 2.0]);
        let columns = put.axis(-1).run(stream).expect("columns");
        assert_eq!(
            columns.to_vec().expect("values"),
            [2.0, 0.0, 1.0, 4.0, 0.0, 3.0]
        );
    });
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    on_every_device(|_, stream| {
        let text = |refused: warpsmith::Result<()>| refused.expect_err("refused").to_string();
        let y = Tensor::<f32>::zeros(stream, &[3, 4]).expect("a tensor");
        let indices = Tensor::<i32>::zeros(stream, &[5]).expect("indices");
        let src = Tensor::<f32>::zeros(stream, &[5, 4]).expect("rows");
        let put = Scatter::new(&indices, &src);
        let refused = text(put.axis(2).run_into(&y, stream));
        assert_eq!(refused, "scatter: axis is 2, want -2 to 1");
        let refused = text(put.axis(1).run_into(&y, stream));
        assert_eq!(refused, "scatter: shape of `src` is [5, 4], want [3, 5]");
        let scalar = Tensor::<f32>::zeros(stream, &[]).expect("a scalar");
        let refused = text(put.run_into(&scalar, stream));
        assert_eq!(
            refused,
            "scatter: axis is 0, but a tensor without dimensions has none"
        );
        let one = Tensor::<f32>::zeros(stream, &[1, 4]).expect("a tensor");
        let repeated = one.broadcast_to(&[3, 4]).expect("a view");
        assert!(matches!(
            put.run_into(&repeated, stream)
                .as_ref()
                .map_err(Error::root),
            Err(Error::Shape(ShapeError::Strides { operand: "y", .. }))
        ));
        let index = Tensor::<i32>::zeros(stream, &[]).expect("an index");
        let many = index.broadcast_to(&[1 << 32]).expect("a view");
        let elements = scalar.broadcast_to(&[1 << 32]).expect("a view");
        let row = Tensor::<f32>::zeros(stream, &[4]).expect("a row");
        assert!(matches!(
            Scatter::new(&many, &elements).run_into(&row, stream).as_ref().map_err(Error::root),
            Err(Error::Shape(ShapeError::OutOfBounds { what: "number of indices", got, limit }))
                if *got == 1 << 32 && limit == got
        ));
    });
}

#[test]
fn a_result_that_overlaps_what_is_read_is_refused() {
    on_every_device(|_, stream| {
        let y = Tensor::<i32>::zeros(stream, &[4, 4]).expect("a tensor");
        let indices = y.index_axis(0, 3).expect("a view");
        let other = Tensor::<i32>::zeros(stream, &[4, 4]).expect("a tensor");
        for (src, want) in [(&y, "src"), (&other, "indices")] {
            let refused = Scatter::new(&indices, src).run_into(&y, stream);
            assert!(matches!(
                refused.as_ref().map_err(Error::root),
                Err(Error::Shape(ShapeError::Overlap { output: "y", other })) if *other == want
            ));
        }
    });
}

/// Up to 1,024 indices have two candidates, others one.
#[test]
fn every_candidate_of_a_plan_puts_the_same_rows() {
    on_every_device(|device, stream| {
        for (count, want) in [
            (40, &["scatter_few_b128", "scatter_b128"][..]),
            (2000, &["scatter_b128"]),
        ] {
            let places: Vec<i64> = (0..count).map(|j| j * 7 % 31 - 1).collect();
            let values: Vec<f32> = (0..count * 8).map(|i| i as f32).collect();
            let indices = Tensor::from_slice(device, &[count as usize], &places).expect("indices");
            let src = Tensor::from_slice(device, &[count as usize, 8], &values).expect("rows");
            let put = Scatter::new(&indices, &src).extent(29);
            let plan = put.plan(stream).expect("a plan");
            let names: Vec<_> = plan.candidates().iter().map(|other| &*other.name).collect();
            assert_eq!(names, want);
            assert_eq!(plan.chosen(), plan.candidates().first());
            assert_eq!(plan.source(), Some(PlanSource::Model));
            let rows = put.run(stream).expect("rows").to_vec().expect("rows");
            for candidate in plan.candidates() {
                let by = put.with_kernel(&candidate.name);
                let forced = by.plan(stream).expect("a plan");
                assert_eq!(forced.chosen(), Some(candidate));
                assert_eq!(by.run(stream).expect("rows").to_vec().expect("rows"), rows);
                let y = Tensor::<f32>::zeros(stream, &[29, 8]).expect("a tensor");
                let forced = by.plan_into(&y, stream).expect("a plan");
                assert_eq!(forced.chosen(), Some(candidate));
            }
            // The rows that stay are those of the last indices.
            let last = places.iter().rposition(|&place| place == 3).expect("a row");
            assert_eq!(rows[3 * 8..4 * 8], values[last * 8..][..8]);
        }
        let indices = Tensor::from_slice(device, &[2], &[0_i32, 1]).expect("indices");
        let src = Tensor::<f32>::zeros(stream, &[2, 3]).expect("rows");
        let put = Scatter::new(&indices, &src)
            .extent(4)
            .with_kernel("scatter_b8");
        let error = put.run(stream).expect_err("wider elements");
        let is_kind = matches!(
            error.root(),
            Error::Argument(ArgumentError::Unsupported { .. })
        );
        assert!(is_kind, "{error}");
        let message = error.to_string();
        assert!(
            message.starts_with("scatter: kernel `scatter_b8`"),
            "{message}"
        );
        assert!(
            message.ends_with("scatter_few_b32, scatter_b32"),
            "{message}"
        );
        let nothing = Tensor::<f32>::zeros(stream, &[2, 0]).expect("rows");
        let plan = Scatter::new(&indices, &nothing).extent(4).plan(stream);
        assert_eq!(plan.expect("a plan").chosen(), None);
    });
}

/// A tensor of more than 4 GiB, and more positions and elements than one launch has.
#[test]
fn tensors_beyond_32_bits_are_addressed_by_64() {
    let gpus = warpsmith::testing::devices()
        .into_iter()
        .filter(|device| !device.is_emulator());
    for device in gpus {
        let stream = device.stream().expect("a stream");
        let (rows, columns) = (5 << 20, 1024);
        let y = Tensor::<u8>::zeros(&stream, &[rows, columns]).expect("a tensor");
        for len in [3, FEW as usize + 3] {
            let mut of = vec![rows as i64 - 1, 0, rows as i64 - 1];
            of.resize(len, -1);
            let of = Tensor::from_slice(&device, &[len], &of).expect("indices");
            let src = Tensor::full(&stream, &[len, columns], 3_u8).expect("rows");
            let first = src.slice(0, ..1).expect("a row");
            first.fill(9, &stream).expect("a fill");
            Scatter::new(&of, &src)
                .run_into(&y, &stream)
                .expect("launches");
            for (row, want) in [(0, 3), (1, 0), (rows - 2, 0), (rows - 1, 3)] {
                let got = y.index_axis(0, row).expect("a row").to_vec();
                assert!(got.expect("bytes").iter().all(|&x| x == want), "{row}");
            }
            y.fill(0, &stream).expect("a fill");
        }
        let len = (1 << 29) + 3;
        let of = Tensor::from_slice(&device, &[2, 1], &[1_i32, 0]).expect("indices");
        let of = of.broadcast_to(&[2, len]).expect("a view");
        let src = Tensor::full(&stream, &[2, len], 3_u8).expect("elements");
        let ends = src.slice(1, len - 1..).expect("the last of each");
        let last = Tensor::from_slice(&device, &[2, 1], &[8_u8, 9]).expect("elements");
        ends.assign(&last, &stream).expect("a copy");
        let y = Tensor::<u8>::zeros(&stream, &[3]).expect("a tensor");
        Scatter::new(&of, &src)
            .run_into(&y, &stream)
            .expect("launches");
        assert_eq!(y.to_vec().expect("elements"), [9, 8, 0]);
    }
}
