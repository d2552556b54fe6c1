//! Few indices take one launch, without a sort; its bits are those of the sorted path.

use abi::scatter_add::FEW;
use half::{bf16, f16};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use warpsmith::{ArgumentError, Device, Error, Reducible, ScatterAdd, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::{on_every_device, profiled};

/// The bytes of y when rows of `columns` columns are added to `count` by these indices, and by as many
/// more behind them as are out of range.
fn bits<T: TestElement + Reducible>(
    device: &Device,
    (indices, more): (&[i64], usize),
    count: usize,
    columns: usize,
) -> Vec<u64> {
    let stream = device.stream().expect("a stream");
    let mut rng = ChaCha8Rng::seed_from_u64(indices.len() as u64);
    let mut draw = |n: usize| -> Vec<T> {
        let mut one = |_| rng.random_range(-1.0..1.0) * 2_f64.powi(rng.random_range(-6..6));
        (0..n).map(|j| T::nearest(one(j))).collect()
    };
    let y = draw(count * columns);
    let src = draw((indices.len() + more) * columns);
    let y = Tensor::from_slice(device, &[count, columns], &y).expect("a tensor");
    let src = Tensor::from_slice(device, &[indices.len() + more, columns], &src).expect("rows");
    let indices = [indices, &vec![-1; more]].concat();
    let indices = Tensor::from_slice(device, &[indices.len()], &indices).expect("indices");
    ScatterAdd::new(&indices, &src)
        .run_into(&y, &stream)
        .expect("launches");
    let y = y.to_vec().expect("rows");
    y.into_iter().map(|x| x.wide().to_bits()).collect()
}

fn check<T: TestElement + Reducible>(device: &Device, indices: &[i64], count: usize) {
    let columns = 16 / size_of::<T>() * 3;
    let few = bits::<T>(device, (indices, 0), count, columns);
    let more = FEW as usize + 1 - indices.len();
    let many = bits::<T>(device, (indices, more), count, columns);
    assert!(few == many, "{} indices of {}", indices.len(), T::DTYPE);
}

#[test]
fn few_indices_and_many_have_the_same_bits() {
    on_every_device(|device, _| {
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        for len in [
            1, 31, 64, 65, 127, 128, 129, 255, 256, 257, 511, 513, 1023, 1024,
        ] {
            for count in [1, 5, 700] {
                let draw = |_| rng.random_range(-1..=count as i64);
                let uniform: Vec<i64> = (0..len).map(draw).collect();
                check::<f32>(device, &uniform, count);
                check::<f16>(device, &uniform, count);
                check::<bf16>(device, &uniform, count);
            }
            check::<f32>(device, &vec![2; len], 3);
            check::<bf16>(device, &vec![2; len], 3);
        }
    });
}

#[test]
fn long_rows_of_few_indices_are_added_in_the_order_of_short_ones() {
    on_every_device(|device, stream| {
        // So many columns that each block reading all indices would cost more than a sort.
        let (len, columns) = (700, 4 * 32 * 94);
        let indices: Vec<i32> = (0..len).map(|j| j * j % 5).collect();
        let indices = Tensor::from_slice(device, &[len as usize], &indices).expect("indices");
        let one: Vec<f32> = (0..len).map(|j| (j as f32).sin()).collect();
        let one = Tensor::from_slice(device, &[len as usize, 1], &one).expect("rows");
        let add = |columns: usize| {
            let src = one.broadcast_to(&[len as usize, columns]).expect("a view");
            let src = src.contiguous(stream).expect("rows");
            let y = ScatterAdd::new(&indices, &src).extent(5).run(stream);
            y.and_then(|y| y.to_vec()).expect("rows")
        };
        let (long, short) = (add(columns), add(4));
        for (row, want) in long.chunks(columns).zip(short.chunks(4)) {
            assert!(row.iter().all(|x| x.to_bits() == want[0].to_bits()));
        }
    });
}

/// Rows are read once (those of few indices also by who finds that they are another's), and 16 bytes
/// at a time.
#[test]
fn rows_are_read_once_and_sixteen_bytes_at_a_time() {
    fn check<T: Reducible>(device: &Device, columns: usize, one: T) {
        let stream = device.stream().expect("a stream");
        let src = Tensor::full(&stream, &[64, columns], one).expect("rows");
        let indices: Vec<i32> = (0..64).map(|j| j * 7 % 32).collect();
        let indices = Tensor::from_slice(device, &[64], &indices).expect("indices");
        let y = Tensor::full(&stream, &[32, columns], one).expect("a tensor");
        ScatterAdd::new(&indices, &src)
            .run_into(&y, &stream)
            .expect("launches");
        let launch = device.last_launch().expect("a launch");
        let global = &launch.counters().global;
        let bytes = (32 * columns * size_of::<T>()) as u64;
        let what = format!("rows of {columns} {}", T::DTYPE);
        assert_eq!(global.stores.bytes, bytes, "{what}");
        assert_eq!(global.stores.requests, bytes / 512, "{what}");
        assert_eq!(global.stores.sectors * 32, bytes, "{what}");
        let of_order = match columns * size_of::<T>() <= 16 * 32 * 1024 {
            true => 64 * 4,
            // Sorted pairs, the two behind the last, and bits of parts.
            false => 66 * 8 + 2 * 4,
        };
        assert_eq!(global.distinct_read, 3 * bytes + of_order, "{what}");
    }
    let device = profiled();
    check(&device, 256, 1.0_f32);
    check(&device, 256, bf16::ONE);
    // These are sorted.
    check(&device, 4 * 32 * 1025, 1.0_f32);
}

#[test]
fn every_candidate_of_a_plan_adds_to_the_same_bits() {
    on_every_device(|device, stream| {
        for (count, columns, want) in [
            (300, 8, &["scatter_add_few", "scatter_add_f32"][..]),
            (300, 7, &["scatter_add_any"]),
            (1500, 8, &["scatter_add_f32"]),
            // So long rows that sorting pays.
            (1000, 9000, &["scatter_add_f32", "scatter_add_few"]),
        ] {
            let places: Vec<i64> = (0..count).map(|j| j * 7 % 31 - 1).collect();
            let n = count as usize;
            let indices = Tensor::from_slice(device, &[n], &places).expect("indices");
            let row: Vec<f32> = (0..columns).map(|i| 1.0 / (i + 1) as f32).collect();
            let row = Tensor::from_slice(device, &[1, columns], &row).expect("a row");
            let src = row.broadcast_to(&[n, columns]).expect("rows");
            let add = ScatterAdd::new(&indices, &src).extent(29);
            let plan = add.plan(stream).expect("a plan");
            let names: Vec<_> = plan.candidates().iter().map(|other| &*other.name).collect();
            assert_eq!(names, want, "{count} by {columns}");
            assert_eq!(plan.chosen(), plan.candidates().first());
            if columns > 1000 {
                continue; // takes long on the emulator
            }
            let sums = add.run(stream).expect("sums").to_vec().expect("sums");
            for candidate in plan.candidates() {
                let by = add.with_kernel(&candidate.name);
                let forced = by.plan(stream).expect("a plan");
                assert_eq!(forced.chosen(), Some(candidate));
                let got = by.run(stream).expect("sums").to_vec().expect("sums");
                assert!(got == sums, "{candidate}");
            }
        }
        let indices = Tensor::from_slice(device, &[2], &[0_i32, 1]).expect("indices");
        let src = Tensor::<f32>::zeros(stream, &[2, 4]).expect("rows");
        let add = ScatterAdd::new(&indices, &src)
            .extent(4)
            .with_kernel("scatter_add_any");
        let error = add.run(stream).expect_err("vectors");
        let is_kind = matches!(
            error.root(),
            Error::Argument(ArgumentError::Unsupported { .. })
        );
        assert!(is_kind, "{error}");
        let message = error.to_string();
        assert!(
            message.starts_with("scatter_add: kernel `scatter_add_any`"),
            "{message}"
        );
        assert!(
            message.ends_with("scatter_add_few, scatter_add_f32"),
            "{message}"
        );
        let nothing = Tensor::<f32>::zeros(stream, &[2, 0]).expect("rows");
        let plan = ScatterAdd::new(&indices, &nothing).extent(4).plan(stream);
        assert_eq!(plan.expect("a plan").chosen(), None);
    });
}
