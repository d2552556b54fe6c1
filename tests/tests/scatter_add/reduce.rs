//! `ScatterReduce` against its reference, and negative indices that count from the end.

use super::{Case, Drawn, case};
use abi::scatter_add::{DTYPES, PART};
use half::{bf16, f16};
use proptest::prelude::*;
use warpsmith::reference::scatter::{integers, scatter_reduce};
use warpsmith::{
    DType, Device, IndexElement, Reducible, ScatterAdd, ScatterOp, ScatterReduce, Stream, Tensor,
};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operation::agrees;
use warpsmith_tests::output::wide;
use warpsmith_tests::property::{Effort, holds};
use warpsmith_tests::rows::signed;
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, on_every_device, say};

#[derive(Clone, Debug)]
struct Reduction {
    op: ScatterOp,
    case: Case,
}

fn check(reduction: &Reduction, device: &Device) -> Checked {
    match reduction.case.dtype {
        DType::F64 => check_of::<f64>(reduction, device),
        DType::F32 => check_of::<f32>(reduction, device),
        DType::F16 => check_of::<f16>(reduction, device),
        DType::Bf16 => check_of::<bf16>(reduction, device),
        DType::I32 => check_of::<i32>(reduction, device),
        _ => check_of::<i64>(reduction, device),
    }
}

fn check_of<T: TestElement + Reducible>(reduction: &Reduction, device: &Device) -> Checked {
    match reduction.case.are_indices_wide {
        true => check_by::<T, i64>(reduction, device),
        false => check_by::<T, i32>(reduction, device),
    }
}

fn check_by<T: TestElement + Reducible, I: IndexElement + TestElement>(
    Reduction { op, case }: &Reduction,
    device: &Device,
) -> Checked {
    let is_integer = matches!(T::DTYPE, DType::I32 | DType::I64);
    let values = if is_integer {
        Values::Integers
    } else {
        case.values
    };
    let drawn = Drawn::<T, I>::new(case, device, values)?;
    let Drawn { src, indices, old } = &drawn;
    let axis = signed(case.axis, case.y.len());
    let mut operation = ScatterReduce::new(*op, &indices.tensor, &src.tensor).axis(axis);
    if case.wraps {
        operation = operation.wrap_negative();
    }
    let got = &drawn.result(case, device, |y, stream| operation.run_into(y, stream))?;
    let (axis, exact) = (case.axis, drawn.exact(case));
    if is_integer {
        let old = old.mapv(|x| T::wide(x) as i64);
        let src = src.values.mapv(|x| x as i64);
        let want = integers(*op, &old.view(), axis, &exact.view(), &src.view()).map_err(say)?;
        // Products of i32 keep their low bits.
        let bits = |x: i64| match T::DTYPE {
            DType::I32 => i64::from(x as i32),
            _ => x,
        };
        let want = want.mapv(bits);
        return match got.mapv(|x| T::bits(x) as i64).mapv(bits) == want {
            true => Ok(()),
            false => Err(format!("{got:?} instead of {want:?}")),
        };
    }
    let old = old.mapv(T::wide);
    let src = src.values.view();
    let want = scatter_reduce(*op, &old.view(), axis, &exact.view(), &src, T::DTYPE);
    let want = want.map_err(say)?;
    match op {
        // Long products leave the range; nothing is said of those.
        ScatterOp::Prod => want.compare(&wide(got).view()).map(drop).map_err(say),
        _ => agrees(got, &want),
    }
}

#[test]
fn products_and_extremes_match_their_reference_for_every_axis_dtype_and_layout() {
    let effort = Effort {
        cases: [300, 1500],
        largest: [48, 4000],
    };
    let others = [ScatterOp::Prod, ScatterOp::Max, ScatterOp::Min];
    let reduction = move |largest| {
        let op = prop::sample::select(others.to_vec());
        (op, case(largest, &DTYPES)).prop_map(|(op, case)| Reduction { op, case })
    };
    holds(effort, reduction, check);
}

#[test]
fn parts_of_long_segments_are_combined_as_short_ones_are() {
    on_every_device(|device, stream| {
        let n = 20 * PART as usize + 3;
        let mut values: Vec<i64> = (0..n as i64).map(|j| j * 7919 % 10_007 - 5000).collect();
        values[n / 2] = i64::MIN;
        values[n - 1] = i64::MAX;
        let src = Tensor::from_slice(device, &[n], &values).expect("rows");
        let indices = Tensor::from_slice(device, &[n], &vec![1_i32; n]).expect("indices");
        for (op, want) in [
            (ScatterOp::Max, [i64::MIN, i64::MAX]),
            (ScatterOp::Min, [i64::MAX, i64::MIN]),
            (
                ScatterOp::Prod,
                [1, values.iter().fold(1, |a: i64, &b| a.wrapping_mul(b))],
            ),
            (
                ScatterOp::Sum,
                [0, values.iter().fold(0, |a: i64, &b| a.wrapping_add(b))],
            ),
        ] {
            let got = ScatterReduce::new(op, &indices, &src).extent(2).run(stream);
            let got = got.and_then(|y| y.to_vec());
            assert_eq!(got.expect("a result"), want, "{op:?}");
        }
    });
}

#[test]
fn a_sum_has_the_bits_of_an_addition() {
    on_every_device(|device, stream| {
        let xs: Vec<f32> = (0..3000).map(|i| (i as f32).sin()).collect();
        let src = Tensor::from_slice(device, &[750, 4], &xs).expect("rows");
        let indices: Vec<i32> = (0..750).map(|j| j * j % 11 - 3).collect();
        let indices = Tensor::from_slice(device, &[750], &indices).expect("indices");
        let sums = ScatterAdd::new(&indices, &src).extent(8).wrap_negative();
        let same = ScatterReduce::new(ScatterOp::Sum, &indices, &src);
        let same = same.extent(8).wrap_negative().run(stream).expect("sums");
        let sums = sums.run(stream).expect("sums");
        assert_eq!(same.to_vec().expect("sums"), sums.to_vec().expect("sums"));
    });
}

#[test]
fn refusals_name_the_operation() {
    on_every_device(|device, stream| {
        let indices = Tensor::from_slice(device, &[2], &[0_i32, 1]).expect("indices");
        let src = Tensor::<f32>::zeros(stream, &[3]).expect("rows");
        let max = ScatterReduce::new(ScatterOp::Max, &indices, &src);
        let y = Tensor::<f32>::zeros(stream, &[4]).expect("a tensor");
        for error in [
            max.run(stream).map(drop),
            max.extent(4).run(stream).map(drop),
            max.run_into(&y, stream),
            max.plan_into(&y, stream).map(drop),
            max.axis(3).run_into(&y, stream),
        ] {
            let message = error.expect_err("wrong shapes").to_string();
            assert!(message.starts_with("scatter_reduce: "), "{message}");
        }
        let src = src.slice(0, ..2).expect("rows");
        let plan = ScatterReduce::new(ScatterOp::Max, &indices, &src).plan_into(&y, stream);
        let plan = plan.expect("a plan");
        let names: Vec<_> = plan.candidates().iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["scatter_reduce_any"]);
    });
}

/// Aligned rows of 16 and 32 bits are moved by vectors, with the bits that elements give.
#[test]
fn vectors_give_the_bits_of_elements() {
    fn of<T: TestElement + Reducible>(device: &Device, stream: &Stream) {
        let (n, columns) = (200, 32);
        let values: Vec<T> = (0..n * columns + 1)
            .map(|i| T::nearest((i as f64 * 0.37).sin() + 0.01))
            .collect();
        let all = Tensor::from_slice(device, &[n * columns + 1], &values).expect("elements");
        let behind = all.slice(0, 1..).expect("a view");
        let src = behind.reshape(&[n, columns]).expect("rows");
        let aligned = src.contiguous(stream).expect("rows");
        let aligned = match aligned.device_ptr() == src.device_ptr() {
            true => Tensor::from_slice(device, &[n, columns], &values[1..]).expect("rows"),
            false => aligned,
        };
        // The first index has several parts.
        let indices: Vec<i32> = (0..n as i32)
            .map(|j| if j < 100 { 0 } else { j % 7 })
            .collect();
        let indices = Tensor::from_slice(device, &[n], &indices).expect("indices");
        for op in [ScatterOp::Prod, ScatterOp::Max, ScatterOp::Min] {
            let by_vectors = ScatterReduce::new(op, &indices, &aligned).extent(7);
            let name = "scatter_reduce_any_vector";
            let plan = by_vectors.plan(stream).expect("a plan");
            assert_eq!(plan.chosen().expect("a kernel").name, name);
            let text = plan.to_string();
            let title = format!("scatter_reduce {} {}", op.name(), T::DTYPE);
            assert!(text.starts_with(&title), "{text}");
            let by_elements = ScatterReduce::new(op, &indices, &src).extent(7);
            let by_elements = by_elements.with_kernel("scatter_reduce_any");
            let bits = |y: warpsmith::Result<Tensor<T>>| {
                let y = y.and_then(|y| y.to_vec()).expect("a result");
                y.into_iter().map(T::bits).collect::<Vec<u64>>()
            };
            let want = bits(by_elements.run(stream));
            assert_eq!(bits(by_vectors.with_kernel(name).run(stream)), want);
            let y = by_vectors.run(stream).expect("a result");
            let tuning = by_vectors.autotune_into(&y, stream).expect("measured");
            assert!(tuning.to_string().starts_with(&title), "{tuning}");
            assert_eq!(bits(Ok(y)), want);
        }
    }
    on_every_device(|device, stream| {
        of::<f32>(device, stream);
        of::<f16>(device, stream);
        of::<bf16>(device, stream);
    });
}
