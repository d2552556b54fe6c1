//! `Scan` against its reference: every operation, any axis of any layout, tiles and their groups.

mod indices;

use abi::reduce::DTYPES;
use half::{bf16, f16};
use ndarray::ArrayD;
use proptest::prelude::*;
use warpsmith::reference::scan::{integers, scan};
use warpsmith::testing::devices;
use warpsmith::{
    ArgumentError, DType, Device, Error, PlanSource, Reducible, Scan, ScanOp, Stream, Tensor,
};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::run_repeatedly;
use warpsmith_tests::output::{Output, wide};
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::rows::signed;
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, profiled, say};

#[derive(Clone, Debug)]
struct Case {
    shape: Vec<usize>,
    axis: usize,
    op: ScanOp,
    is_exclusive: bool,
    dtype: DType,
    views: [View; 2],
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
        other => Err(format!("no scan reads {other}")),
    }
}

fn check_of<T: Reducible + TestElement>(case: &Case, device: &Device) -> Checked {
    let is_integer = matches!(T::DTYPE, DType::I32 | DType::I64);
    let values = match is_integer {
        true => Values::Integers,
        false => case.values,
    };
    let x = Operand::<T>::draw(device, &case.shape, values, case.views[0], case.seed)?;
    let mut operation = Scan::new(case.op, &x.tensor).axis(signed(case.axis, case.shape.len()));
    if case.is_exclusive {
        operation = operation.exclusive();
    }
    let stream = device.stream().map_err(say)?;
    let output = || Output::<T>::new(device, &case.shape, case.views[1]);
    let got = run_repeatedly(output, |y| operation.run_into(&y.tensor, &stream))?;
    if is_integer {
        let exact = x.values.mapv(|x| x as i64);
        let want = integers(case.op, &exact.view(), case.axis, case.is_exclusive).map_err(say)?;
        let want = match (T::DTYPE, case.op) {
            (DType::I32, ScanOp::Max) => want.mapv(|x| x.max(i64::from(i32::MIN))),
            (DType::I32, ScanOp::Min) => want.mapv(|x| x.min(i64::from(i32::MAX))),
            _ => want,
        };
        let bits = |x: i64| {
            if T::DTYPE == DType::I32 {
                x as u32 as u64
            } else {
                x as u64
            }
        };
        return match got.mapv(T::bits) == want.mapv(bits) {
            true => Ok(()),
            false => Err(format!("{:?} instead of {want:?}", wide(&got))),
        };
    }
    let model = operation.model().map_err(say)?;
    let view = x.values.view();
    let want = scan(
        case.op,
        &view,
        case.axis,
        case.is_exclusive,
        T::DTYPE,
        &model,
    );
    let want = want.map_err(say)?;
    let agreement = want.compare(&wide(&got).view()).map_err(say)?;
    match agreement.unbounded {
        count if count > 0 && case.op != ScanOp::Prod => {
            Err(format!("{count} elements have no bound"))
        }
        _ => Ok(()),
    }
}

fn case(largest: usize) -> impl Strategy<Value = Case> {
    let shape = prop_oneof![
        3 => extent(largest * 60).prop_map(|n| vec![n]),
        2 => (extent(5), extent(largest * 20)).prop_map(|(a, b)| vec![a, b]),
        2 => (extent(largest), extent(12)).prop_map(|(a, b)| vec![a, b]),
        1 => (0..5_usize, 0..6_usize, 0..7_usize).prop_map(|s| vec![s.0, s.1, s.2]),
    ];
    let pairs = ScanOp::ALL
        .map(|op| DTYPES.map(|dtype| (op, dtype)))
        .concat();
    let pairs: Vec<_> = pairs
        .into_iter()
        .filter(|(op, dtype)| op.takes(*dtype))
        .collect();
    let pair = prop::sample::select(pairs);
    let views = (View::any(), View::writable());
    let rest = (any::<prop::sample::Index>(), any::<bool>(), any::<u32>());
    (shape, pair, views, Values::any(), rest).prop_map(
        |(shape, (op, dtype), (view, view_y), values, (axis, is_exclusive, seed))| Case {
            axis: axis.index(shape.len()),
            shape,
            op,
            is_exclusive,
            dtype,
            views: [view, view_y],
            values,
            seed: u64::from(seed),
        },
    )
}

#[test]
fn scan_matches_its_reference_for_every_operation_axis_and_dtype() {
    let effort = Effort {
        cases: [200, 1000],
        largest: [300, 100_000],
    };
    holds(effort, case, check);
}

/// Blocks that take the next tile before they finish the current one, and blocks that do not,
/// because shared memory has no room for two tiles.
#[test]
fn tiles_have_the_same_bits_in_one_turn_or_two() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        // Rows of two groups; rows whose last tile has one element.
        for (rows, n) in [(1, 300_001), (3, 4 * 8192 + 1)] {
            let xs: Vec<f32> = (0..rows * n).map(|i| 1.0 / (i % 97 + 1) as f32).collect();
            let x = Tensor::from_slice(&device, &[rows, n], &xs).expect("a tensor");
            let [at_once, late] =
                ["scan_f32", "scan_f32+late"].map(|name| sums_of(&x, name, &stream));
            assert_eq!(at_once, late, "{rows} x {n}");
            assert_eq!(late[0], TestElement::bits(xs[0]), "{rows} x {n}");
        }
    }
}

/// The instruction that rounds two numbers to bf16, and the integer code for devices without it.
#[test]
fn bf16_has_the_same_bits_with_and_without_an_instruction_for_it() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        // Sums that end in infinity, in NaN, or in a number; rounding ties in both directions.
        for end in [1.0, f32::INFINITY, f32::NAN, f32::MAX] {
            let n = 40_003;
            let mut xs: Vec<_> = (0..n)
                .map(|i| bf16::from_f32(1.0 / (i % 97 + 1) as f32))
                .collect();
            xs[n - 5001] = bf16::from_f32(end);
            let x = Tensor::from_slice(&device, &[1, n], &xs).expect("a tensor");
            let [with, without] =
                ["scan_sm80_bf16+late", "scan_bf16+late"].map(|name| sums_of(&x, name, &stream));
            assert_eq!(with, without, "{end}");
        }
    }
}

/// Bits of the running sums by a candidate of the plan.
fn sums_of<T: Reducible + TestElement>(x: &Tensor<T>, name: &str, stream: &Stream) -> Vec<u64> {
    let sums = Scan::new(ScanOp::Sum, x).with_kernel(name).run(stream);
    let sums = sums.expect("a scan").to_vec().expect("the sums");
    sums.into_iter().map(T::bits).collect()
}

/// More groups than the warps of the look-back examine: the total of the groups before those is
/// available as one number. (On the emulator, so many waiting blocks would take minutes.)
#[test]
fn rows_of_more_groups_than_warps_have_exact_sums_of_integers() {
    let gpus = devices().into_iter().filter(|device| !device.is_emulator());
    for device in gpus {
        let stream = device.stream().expect("a stream");
        let n = 20 * 32 * 4096 + 77;
        let xs: Vec<i64> = (0..n).map(|i| i % 11 - 4).collect();
        let x = Tensor::from_slice(&device, &[n as usize], &xs).expect("a tensor");
        let sums = Scan::new(ScanOp::Sum, &x).run(&stream).expect("a scan");
        let mut sum = 0;
        for (i, (got, x)) in sums
            .to_vec()
            .expect("the result")
            .iter()
            .zip(xs)
            .enumerate()
        {
            sum += x;
            assert_eq!(*got, sum, "{i}");
        }
    }
}

/// For an exclusive maximum the first element is the least integer, and for a minimum the greatest,
/// wherever the row begins.
#[test]
fn exclusive_extremes_begin_with_the_last_integers() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let x =
            Tensor::from_slice(&device, &[6], &[-7_i32, i32::MIN, -9, 3, 1, 8]).expect("a tensor");
        for from in 0..2 {
            let x = x.slice(0, from..).expect("a view");
            for (op, want) in [(ScanOp::Max, i32::MIN), (ScanOp::Min, i32::MAX)] {
                let before = Scan::new(op, &x).exclusive().run(&stream);
                let before = before.expect("a scan").to_vec().expect("the result");
                assert_eq!(before[0], want, "{op:?} from {from}");
            }
        }
    }
}

/// More tiles than a group has, and more than one group: the look-back covers both.
#[test]
fn rows_of_many_groups_have_exact_sums_of_integers() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        for (rows, n) in [(1, 300_001), (2, 140_000), (3, 4097)] {
            let xs: Vec<f32> = (0..rows * n).map(|i| (i % 7) as f32 - 3.0).collect();
            let x = Tensor::from_slice(&device, &[rows, n], &xs).expect("a tensor");
            let sums = Scan::new(ScanOp::Sum, &x).run(&stream).expect("a scan");
            let sums = sums.to_vec().expect("the result");
            for row in 0..rows {
                let mut sum = 0.0;
                for i in row * n..(row + 1) * n {
                    sum += xs[i];
                    assert_eq!(sums[i], sum, "{rows} x {n}: {i}");
                }
            }
        }
    }
}

/// Logsumexps of equal elements are `x + ln i`, and those of -inf stay -inf.
#[test]
fn logsumexps_of_many_elements_grow_by_logarithms() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        for n in [1000_usize, 300_001] {
            let x = Tensor::full(&stream, &[n], -700.0_f32).expect("a tensor");
            let got = Scan::new(ScanOp::Logsumexp, &x)
                .run(&stream)
                .and_then(|y| y.to_vec());
            for (i, got) in got.expect("a scan").into_iter().enumerate() {
                let want = -700.0 + ((i + 1) as f64).ln();
                assert!((f64::from(got) - want).abs() < 1e-2, "{i}: {got}");
            }
        }
        let nothing = Tensor::full(&stream, &[7], f64::NEG_INFINITY).expect("a tensor");
        let got = Scan::new(ScanOp::Logsumexp, &nothing).run(&stream);
        let got = got.and_then(|y| y.to_vec());
        assert_eq!(got.expect("a scan"), [f64::NEG_INFINITY; 7]);
    }
}

#[test]
fn logsumexps_of_integers_are_refused() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let x = Tensor::<i32>::zeros(&stream, &[3]).expect("a tensor");
        let scan = Scan::new(ScanOp::Logsumexp, &x);
        let message = scan.run(&stream).expect_err("integers").to_string();
        assert!(message.starts_with("scan: logsumexp of i32"), "{message}");
    }
}

/// Integers wrap, by the bits of their own type, in every tile and across tiles.
#[test]
fn sums_and_products_of_integers_wrap() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let n = 9001_usize;
        let large = |i: usize| (i as i64).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) | 1;
        let wide: Vec<i64> = (0..n).map(large).collect();
        let short: Vec<i32> = wide.iter().map(|&x| (x >> 32) as i32 | 1).collect();
        let x_wide = Tensor::from_slice(&device, &[n], &wide).expect("a tensor");
        let x_short = Tensor::from_slice(&device, &[n], &short).expect("a tensor");
        for op in [ScanOp::Sum, ScanOp::Prod] {
            let got = Scan::new(op, &x_wide).run(&stream).and_then(|y| y.to_vec());
            let merge = |a: i64, b: i64| match op {
                ScanOp::Sum => a.wrapping_add(b),
                _ => a.wrapping_mul(b),
            };
            assert_eq!(got.expect("a scan"), running(&wide, merge), "{op:?} of i64");
            let got = Scan::new(op, &x_short)
                .run(&stream)
                .and_then(|y| y.to_vec());
            let merge = |a: i32, b: i32| match op {
                ScanOp::Sum => a.wrapping_add(b),
                _ => a.wrapping_mul(b),
            };
            assert_eq!(
                got.expect("a scan"),
                running(&short, merge),
                "{op:?} of i32"
            );
        }
    }
}

fn running<T: Copy>(xs: &[T], merge: impl Fn(T, T) -> T) -> Vec<T> {
    let mut value = None;
    let of = xs.iter().map(|&x| {
        let next = value.map_or(x, |before| merge(before, x));
        value = Some(next);
        next
    });
    of.collect()
}

/// The emulator's counters: each byte is read once and written once, beside the states of tiles that
/// blocks tell each other. No bank is met twice by elements of 32 bits and fewer. Of vectors
/// of two, one pass needs the first element alone: 8 bytes of every 16, which take as long as all.
#[test]
fn scans_read_every_byte_once_and_meet_no_bank_twice() {
    const STATES: u64 = 256;
    fn check<T: Reducible>(device: &Device, shape: [usize; 2], one: T) {
        let stream = device.stream().expect("a stream");
        let x = Tensor::full(&stream, &shape, one).expect("a tensor");
        let sums = Scan::new(ScanOp::Sum, &x).axis(1).run(&stream);
        sums.expect("a scan");
        let launch = device.last_launch().expect("a launch");
        let counters = launch.counters();
        let bytes = (shape[0] * shape[1] * size_of::<T>()) as u64;
        let what = format!("{shape:?} of {} bytes", size_of::<T>());
        let allowed = bytes..=bytes + STATES;
        let (loads, stores) = (&counters.global.loads, &counters.global.stores);
        assert!(
            allowed.contains(&loads.bytes),
            "{what}: read {}",
            loads.bytes
        );
        assert!(
            allowed.contains(&stores.bytes),
            "{what}: wrote {}",
            stores.bytes
        );
        let conflicts = match size_of::<T>() {
            8 => counters.shared.wavefronts / 5,
            _ => 0,
        };
        assert!(
            counters.shared.bank_conflicts <= conflicts,
            "{what}: {:?}",
            counters.shared
        );
    }
    let device = profiled();
    check(&device, [64, 1024], 1.0_f32);
    check(&device, [3, 20_000], bf16::ONE);
    check(&device, [2, 10_000], 1.0_f64);
    check(&device, [64, 512], 1_i64);
    check(&device, [5, 1001], 1_i32);
}

#[test]
fn an_axis_that_is_none_is_refused() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let x = Tensor::<f32>::zeros(&stream, &[3, 4]).expect("a tensor");
        let refused = Scan::new(ScanOp::Sum, &x)
            .axis(2)
            .run(&stream)
            .expect_err("no axis 2");
        assert!(refused.to_string().contains("axis"), "{refused}");
        let x = Tensor::from_ndarray(&device, &ArrayD::<f32>::zeros(vec![])).expect("a scalar");
        assert!(Scan::new(ScanOp::Sum, &x).run(&stream).is_err());
    }
}

#[test]
fn more_than_two_to_the_31_elements_are_counted_by_64_bits() {
    let gpus = devices().into_iter().filter(|device| !device.is_emulator());
    for device in gpus {
        let stream = device.stream().expect("a stream");
        let n = (1_usize << 31) + 4321;
        let x = Tensor::full(&stream, &[n], 1_i32).expect("8 GiB");
        let sums = Scan::new(ScanOp::Sum, &x).run(&stream).expect("a scan");
        let end = sums
            .slice(0, n - 5..)
            .expect("a view")
            .to_vec()
            .expect("the end");
        let want: Vec<i32> = (n - 4..=n).map(|sum| sum as u32 as i32).collect();
        assert_eq!(end, want);
    }
}

/// Rows of one tile and of several: of these, blocks look back late where shared memory has room for
/// two tiles.
#[test]
fn every_candidate_of_a_plan_gives_the_same_bits() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let entries = match device.arch().0 >= 8 {
            true => &["scan_sm80_bf16", "scan_bf16"][..],
            false => &["scan_bf16"],
        };
        let has_room = device.info().max_shared_bytes_per_block >= 65 << 10;
        for n in [300, 40_000] {
            let options = match n == 40_000 && has_room {
                true => &["+late", ""][..],
                false => &[""],
            };
            let of_entry = |entry| options.iter().map(move |option| format!("{entry}{option}"));
            let want: Vec<String> = entries.iter().flat_map(of_entry).collect();
            let xs: Vec<_> = (0..n).map(|i| bf16::from_f32((i % 7) as f32)).collect();
            let x = Tensor::from_slice(&device, &[n], &xs).expect("a tensor");
            let scan = Scan::new(ScanOp::Sum, &x);
            let plan = scan.plan(&stream).expect("a plan");
            let names = plan.candidates().iter().map(|other| other.name.clone());
            assert_eq!(names.collect::<Vec<_>>(), want);
            assert_eq!(plan.chosen(), plan.candidates().first());
            assert_eq!(plan.source(), Some(PlanSource::Model));
            let sums = sums_of(&x, &want[0], &stream);
            for candidate in plan.candidates() {
                let forced = scan.with_kernel(&candidate.name).plan(&stream);
                assert_eq!(forced.expect("a plan").chosen(), Some(candidate));
                assert_eq!(sums_of(&x, &candidate.name, &stream), sums, "{candidate}");
            }
        }
    }
}

#[test]
fn a_kernel_that_is_not_in_the_plan_is_refused_with_those_that_are() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let x = Tensor::full(&stream, &[3, 40], 1.0_f32).expect("a tensor");
        let error = Scan::new(ScanOp::Max, &x)
            .with_kernel("scan_f64")
            .run(&stream);
        let error = error.expect_err("another dtype's kernel");
        let is_kind = matches!(
            error.root(),
            Error::Argument(ArgumentError::Unsupported { .. })
        );
        assert!(is_kind, "{error}");
        let message = error.to_string();
        assert!(message.starts_with("scan: kernel `scan_f64`"), "{message}");
        assert!(message.ends_with("scan_f32"), "{message}");
        let nothing = Tensor::<f32>::zeros(&stream, &[0, 5]).expect("a tensor");
        let plan = Scan::new(ScanOp::Sum, &nothing)
            .plan(&stream)
            .expect("a plan");
        assert_eq!((plan.chosen(), plan.candidates().len()), (None, 0));
    }
}

#[test]
fn products_are_0_from_the_first_0_on_though_parts_overflow() {
    fn check<T: Reducible + TestElement>(device: &Device, large: f64) {
        let stream = device.stream().expect("a stream");
        for n in [4, 1000, 70_000] {
            for zero in [0, 3, n - 1] {
                let element = |i: usize| T::nearest(if i == zero { 0.0 } else { large });
                let mut values: Vec<T> = (0..n).map(element).collect();
                let products = |values: &[T]| -> Vec<f64> {
                    let x = Tensor::from_slice(device, &[n], values).expect("a tensor");
                    let y = Scan::new(ScanOp::Prod, &x).run(&stream);
                    let y = y.and_then(|y| y.to_vec()).expect("products");
                    y.into_iter().map(TestElement::wide).collect()
                };
                let got = products(&values);
                let (before, after) = got.split_at(zero);
                assert!(after.iter().all(|&y| y == 0.0), "{} {n} {zero}", T::DTYPE);
                assert!(before.iter().skip(2).all(|&y| y == f64::INFINITY));
                if zero > 0 {
                    values[0] = T::nearest(f64::NEG_INFINITY);
                    let got = products(&values);
                    let (before, after) = got.split_at(zero);
                    assert!(after.iter().all(|y| y.is_nan()), "{} {n} {zero}", T::DTYPE);
                    assert!(before.iter().all(|&y| y == f64::NEG_INFINITY));
                }
            }
        }
    }
    for device in devices() {
        check::<f32>(&device, 1e20);
        check::<bf16>(&device, 1e20);
        check::<f64>(&device, 1e200);
    }
}
