//! `Take` against its reference: every dtype, any axis of any layout, indices of any shape and
//! layout, in range and out of it.

use half::bf16;
use ndarray::{ArrayD, Axis};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::reference::take::{take, take_each};
use warpsmith::testing::Recording;
use warpsmith::{DType, Device, Element, Error, IndexElement, ShapeError, Take, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::run_repeatedly;
use warpsmith_tests::output::Output;
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::rows::{signed, wrapped};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, on_every_device, profiled, say, with_element};

#[derive(Clone, Debug)]
struct Case {
    shape: Vec<usize>,
    axis: usize,
    of_indices: Vec<usize>,
    /// Whether each element has an index of its own.
    is_each: bool,
    /// How many indices of ten are out of range.
    bad: u32,
    is_filled: bool,
    dtype: DType,
    are_indices_wide: bool,
    views: [View; 3],
    values: Values,
    seed: u64,
}

impl Case {
    /// Indices that a tensor of type `I` in this view can have.
    fn indices<I: TestElement>(&self) -> ArrayD<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let count = self.shape[self.axis] as i64;
        let far = [-1, count, count + 7, i64::MAX, i64::MIN, 1 << 32];
        let mut indices = ArrayD::from_shape_simple_fn(self.of_indices.clone(), || {
            let index = match rng.random_ratio(self.bad, 10) || count == 0 {
                true => far[rng.random_range(0..far.len())],
                false => rng.random_range(0..count),
            };
            I::nearest(index as f64).wide()
        });
        if self.views[1] == View::Repeated && !self.of_indices.is_empty() && !indices.is_empty() {
            let first = indices.index_axis(Axis(0), 0).to_owned();
            for mut row in indices.axis_iter_mut(Axis(0)) {
                row.assign(&first);
            }
        }
        indices
    }
}

/// What an index out of range selects by default.
fn nothing(dtype: DType) -> u64 {
    match dtype {
        DType::F64 => 0x7fff_ffff_ffff_ffff,
        DType::F32 => 0x7fff_ffff,
        DType::F16 | DType::Bf16 => 0x7fff,
        DType::E4m3 | DType::E5m2 => 0x7f,
        DType::I8 => 1 << 7,
        DType::I16 => 1 << 15,
        DType::I32 => 1 << 31,
        DType::I64 => 1 << 63,
        DType::U8 => u8::MAX.into(),
        DType::U16 => u16::MAX.into(),
        DType::U32 => u32::MAX.into(),
        DType::U64 => u64::MAX,
    }
}

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
    let values = case.values.of_moved(T::DTYPE);
    let x = Operand::<T>::draw(device, &case.shape, values, case.views[0], case.seed)?;
    let indices = Operand::<I>::lay_out(device, case.indices::<I>(), case.views[1])?;
    let operation = match case.is_each {
        true => Take::each(&x.tensor, &indices.tensor),
        false => Take::new(&x.tensor, &indices.tensor),
    };
    let mut operation = operation.axis(signed(case.axis, case.shape.len()));
    let mut fill = nothing(T::DTYPE);
    if case.is_filled {
        let value = T::nearest(3.0);
        operation = operation.fill(value);
        fill = value.bits();
    }
    let bits = x.values.mapv(|x| T::nearest(x).bits());
    let mut exact = indices.values.mapv(|index| index as i64);
    if case.seed.is_multiple_of(4) {
        operation = operation.wrap_negative();
        exact = wrapped(exact, case.shape[case.axis]);
    }
    let reference = if case.is_each { take_each } else { take };
    let want = reference(&bits.view(), case.axis, &exact.view(), &fill).map_err(say)?;
    let stream = device.stream().map_err(say)?;
    let output = || Output::<T>::new(device, want.shape(), case.views[2]);
    let got = run_repeatedly(output, |y| operation.run_into(&y.tensor, &stream))?;
    x.expect_unchanged()?;
    indices.expect_unchanged()?;
    let got = got.mapv(T::bits);
    match got == want {
        true => Ok(()),
        false => Err(format!("{got:x?} instead of {want:x?}")),
    }
}

fn case(largest: usize) -> impl Strategy<Value = Case> {
    let shape = prop_oneof![
        2 => extent(largest * 4).prop_map(|n| vec![n]),
        4 => (extent(largest), extent(largest)).prop_map(|(a, b)| vec![a, b]),
        // Rows of whole vectors.
        3 => (1..=largest, 1..=largest / 4).prop_map(|(a, b)| vec![a, 16 * b]),
        2 => (0..6_usize, extent(largest / 4), 0..9_usize).prop_map(|s| vec![s.0, s.1, s.2]),
        1 => (1..4_usize, 1..5_usize, 1..4_usize, 1..3_usize)
            .prop_map(|s| vec![s.0, s.1, s.2, 16 * s.3]),
    ];
    let of_indices = prop_oneof![
        1 => Just(vec![]),
        4 => extent(largest / 2).prop_map(|n| vec![n]),
        2 => (0..7_usize, 1..9_usize).prop_map(|s| vec![s.0, s.1]),
        1 => (1..4_usize, 1..4_usize, 1..4_usize).prop_map(|s| vec![s.0, s.1, s.2]),
    ];
    let dtype = prop::sample::select(DType::ALL.to_vec());
    let views = (View::any(), View::any(), View::writable());
    let options = (
        any::<bool>(),
        any::<bool>(),
        prop::sample::select(vec![0, 0, 3, 10]),
    );
    let rest = (any::<prop::sample::Index>(), any::<u32>());
    (
        shape,
        of_indices,
        dtype,
        views,
        Values::any(),
        options,
        rest,
    )
        .prop_map(
            |(
                shape,
                of_indices,
                dtype,
                views,
                values,
                (is_filled, are_indices_wide, bad),
                (axis, seed),
            )| {
                let axis = axis.index(shape.len());
                let is_each = seed % 3 == 0;
                let of_indices = match is_each {
                    true => {
                        let len = of_indices.iter().product();
                        let extents = shape.iter().enumerate();
                        extents
                            .map(|(at, &extent)| if at == axis { len } else { extent })
                            .collect()
                    }
                    false => of_indices,
                };
                Case {
                    axis,
                    shape,
                    of_indices,
                    is_each,
                    bad,
                    is_filled,
                    dtype,
                    are_indices_wide,
                    views: [views.0, views.1, views.2],
                    values,
                    seed: u64::from(seed),
                }
            },
        )
}

#[test]
fn take_matches_its_reference_for_every_axis_dtype_and_layout() {
    let effort = Effort {
        cases: [300, 1500],
        largest: [48, 4000],
    };
    holds(effort, case, check);
}

/// The emulator reports any access outside of an allocation: here the table has one of its own,
/// without a guard.
#[test]
fn an_index_out_of_range_reads_nothing_and_is_nan_or_what_is_set() {
    on_every_device(|device, stream| {
        let rows: Vec<f32> = (0..4 * 8).map(|i| i as f32).collect();
        let table = Tensor::from_slice(device, &[4, 8], &rows).expect("a table");
        let far = [0_i64, 4, -1, 3, i64::MAX, i64::MIN, 1 << 59, -(1 << 59)];
        let indices = Tensor::from_slice(device, &[8], &far).expect("indices");
        let got = Take::new(&table, &indices).run(stream).expect("a launch");
        let got = got.to_vec().expect("rows");
        for (row, index) in got.chunks_exact(8).zip(far) {
            match usize::try_from(index).ok().filter(|&index| index < 4) {
                Some(index) => assert_eq!(row, &rows[8 * index..8 * index + 8]),
                None => assert!(row.iter().all(|x| x.is_nan()), "{index}: {row:?}"),
            }
        }
        let got = Take::new(&table, &indices).fill(-2.0).run(stream);
        let got = got.and_then(|y| y.to_vec()).expect("rows");
        assert_eq!(got[8..24], [-2.0; 16]);
        assert_eq!(got[24..32], rows[24..]);
    });
}

#[test]
fn an_axis_without_elements_selects_nothing() {
    on_every_device(|device, stream| {
        let table = Tensor::<i32>::empty(stream, &[0, 8]).expect("a table");
        let indices = Tensor::from_slice(device, &[2], &[0_i32, 1]).expect("indices");
        let got = Take::new(&table, &indices).run(stream).expect("a launch");
        assert_eq!(got.to_vec().expect("rows"), [i32::MIN; 16]);
        let none = Tensor::<i32>::empty(stream, &[3, 0]).expect("indices");
        let got = Take::new(&table, &none).run(stream).expect("no launch");
        assert_eq!(got.shape(), [3, 0, 8]);
    });
}

/// Launches that tell L2 what they read and those that do not, with a table of more than six times
/// what the emulator says that L2 holds.
#[test]
fn large_tables_have_the_same_rows_as_small_ones() {
    on_every_device(|device, stream| {
        let rows: Vec<u16> = (0..300 * 64).map(|i| i as u16).collect();
        let table = Tensor::from_slice(device, &[300, 64], &rows).expect("a table");
        for len in [1, 7, 2000] {
            let of: Vec<i32> = (0..len).map(|i| i * 37 % 300).collect();
            let indices = Tensor::from_slice(device, &[of.len()], &of).expect("indices");
            let got = Take::new(&table, &indices).run(stream).expect("a launch");
            let want = of
                .iter()
                .flat_map(|&i| &rows[64 * i as usize..64 * i as usize + 64]);
            assert!(got.to_vec().expect("rows").iter().eq(want), "{len} rows");
        }
    });
}

#[test]
fn rows_are_moved_sixteen_bytes_at_a_time_and_once() {
    fn check<T: Element>(device: &Device, columns: usize, one: T) {
        let stream = device.stream().expect("a stream");
        let table = Tensor::full(&stream, &[1000, columns], one).expect("a table");
        let indices: Vec<i64> = (0..512).map(|i| i * 7 % 1000).collect();
        let indices = Tensor::from_slice(device, &[512], &indices).expect("indices");
        Take::new(&table, &indices).run(&stream).expect("a launch");
        let launch = device.last_launch().expect("a launch");
        let global = &launch.counters().global;
        let bytes = (512 * columns * size_of::<T>()) as u64;
        let what = format!("rows of {columns} {}", T::DTYPE);
        assert_eq!(global.stores.bytes, bytes, "{what}");
        assert_eq!(global.stores.requests, bytes / 512, "{what}");
        assert_eq!(global.stores.sectors * 32, bytes, "{what}");
        assert_eq!(global.distinct_read, bytes + 512 * 8, "{what}");
    }
    let device = profiled();
    check(&device, 256, 1.0_f32);
    check(&device, 64, bf16::ONE);
    check(&device, 16, 1_u8);
    check(&device, 2, 1_i64);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    on_every_device(|_, stream| {
        let x = Tensor::<f32>::zeros(stream, &[3, 4]).expect("a tensor");
        let indices = Tensor::<i32>::zeros(stream, &[5]).expect("indices");
        let text = |error: Error| error.to_string();
        let refused = Take::new(&x, &indices).axis(2).run(stream);
        let refused = refused.expect_err("no axis 2");
        assert!(matches!(
            refused.root(),
            Error::Shape(ShapeError::Axis { axis: 2, rank: 2 })
        ));
        let scalar = Tensor::<f32>::zeros(stream, &[]).expect("a scalar");
        assert!(Take::new(&scalar, &indices).run(stream).is_err());
        let many = Tensor::<i32>::zeros(stream, &[1; 8]).expect("indices");
        let refused = Take::new(&x, &many)
            .run(stream)
            .expect_err("nine dimensions");
        assert!(text(refused).contains("number of dimensions is 9"));
        let refused = text(Take::each(&x, &indices).run(stream).expect_err("rank 1"));
        assert!(
            refused.contains("`indices`") && refused.contains("[3, 4]"),
            "{refused}"
        );
        let wrong = Tensor::<i32>::zeros(stream, &[5, 3]).expect("indices");
        let refused = text(Take::each(&x, &wrong).run(stream).expect_err("3 columns"));
        assert!(
            refused.contains("`indices`") && refused.contains("[5, 4]"),
            "{refused}"
        );
        let y = Tensor::<f32>::zeros(stream, &[5, 3]).expect("a tensor");
        let refused = Take::new(&x, &indices).run_into(&y, stream);
        let refused = text(refused.expect_err("four columns"));
        assert!(
            refused.contains("`y`") && refused.contains("[5, 4]"),
            "{refused}"
        );
        let one = Tensor::<f32>::zeros(stream, &[1, 4]).expect("a tensor");
        let repeated = one.broadcast_to(&[5, 4]).expect("a view");
        let refused = Take::new(&x, &indices).run_into(&repeated, stream);
        assert!(matches!(
            refused.as_ref().map_err(Error::root),
            Err(Error::Shape(ShapeError::Strides { operand: "y", .. }))
        ));
    });
}

#[test]
fn a_result_that_overlaps_what_is_read_is_refused() {
    on_every_device(|_, stream| {
        let x = Tensor::<i32>::zeros(stream, &[4, 4]).expect("a tensor");
        let indices = x.index_axis(0, 3).expect("a view");
        let refused = Take::new(&x, &indices).run_into(&x, stream);
        assert!(matches!(
            refused.as_ref().map_err(Error::root),
            Err(Error::Shape(ShapeError::Overlap {
                output: "y",
                other: "x"
            }))
        ));
        let table = Tensor::<i32>::zeros(stream, &[4, 4]).expect("a tensor");
        let refused = Take::new(&table, &indices).run_into(&x, stream);
        assert!(matches!(
            refused.as_ref().map_err(Error::root),
            Err(Error::Shape(ShapeError::Overlap {
                output: "y",
                other: "indices"
            }))
        ));
    });
}

/// A result of more than 2^30 wide elements, and a table of more than 4 GiB.
#[test]
fn results_and_tables_beyond_32_bits_are_addressed_by_64() {
    let gpus = warpsmith::testing::devices()
        .into_iter()
        .filter(|device| !device.is_emulator());
    for device in gpus {
        let stream = device.stream().expect("a stream");
        let (rows, columns) = (5 << 20, 1024);
        let table = Tensor::<u8>::full(&stream, &[rows, columns], 3).expect("a table");
        let last = table.slice(0, rows - 1..).expect("a row");
        last.fill(9, &stream).expect("a fill");
        let indices = Tensor::from_slice(&device, &[2], &[rows as i64 - 1, 0]).expect("indices");
        let got = Take::new(&table, &indices).run(&stream).expect("a launch");
        let got = got.to_vec().expect("rows");
        assert!(got[..columns].iter().all(|&x| x == 9));
        assert!(got[columns..].iter().all(|&x| x == 3));
        // Single bytes: more than one launch has.
        let column = table.slice(1, 5..6).expect("a view");
        let of: Vec<i32> = vec![rows as i32 - 1, 0];
        let of = Tensor::from_slice(&device, &[2, 1], &of).expect("indices");
        let of = of.broadcast_to(&[2, (1 << 29) + 3]).expect("a view");
        let got = Take::new(&column, &of).run(&stream).expect("launches");
        let got = got.reshape(&[2, (1 << 29) + 3]).expect("a view");
        for (row, want) in [(0, 9), (1, 3)] {
            let row = got
                .index_axis(0, row)
                .expect("a row")
                .to_vec()
                .expect("bytes");
            assert!(row.iter().all(|&x| x == want));
        }
    }
}

#[test]
fn a_plan_names_the_widest_kernel_that_fits() {
    on_every_device(|device, stream| {
        let indices = Tensor::from_slice(device, &[3], &[0_i32, 2, 1]).expect("indices");
        for (columns, want) in [(8, "take_b128"), (6, "take_b64"), (5, "take_b32")] {
            let x = Tensor::<f32>::zeros(stream, &[4, columns]).expect("a tensor");
            let plan = Take::new(&x, &indices).plan(stream).expect("a plan");
            let chosen = plan.chosen().expect("a selection");
            assert_eq!((&*chosen.name, plan.candidates().len()), (want, 1));
            let plan = Take::new(&x, &indices.slice(0, 0..0).expect("none")).plan(stream);
            assert_eq!(plan.expect("a plan").chosen(), None);
        }
    });
    let recording = Recording::emulator(EmulatorConfig::default(), |_| ()).expect("an emulator");
    let stream = recording.device().stream().expect("a stream");
    let indices = Tensor::from_slice(recording.device(), &[300], &[1_i64; 300]).expect("indices");
    let x = Tensor::<f32>::zeros(&stream, &[4, 64]).expect("a tensor");
    let take = Take::new(&x, &indices);
    let plan = take.plan(&stream).expect("a plan");
    take.run(&stream).expect("a selection");
    let capture = recording.capture().expect("a capture");
    let launch = capture.launches().last().expect("a launch");
    let chosen = plan.chosen().expect("a selection");
    assert_eq!(
        (&launch.entry, launch.config.grid),
        (&chosen.entry, chosen.grid)
    );
}
