//! Reductions.

use half::{bf16, f16};
use spec::reduce::{
    FinalEntry, ReduceEntry, ReduceOp, ReduceParams, ReducePlan, Strategy, THREADS,
};
use warpsmith::testing::devices;
use warpsmith::{DeviceBuffer, Element, Module};

use super::{Value, launch, module, noise, upload};

const REDUCE: &str = include_str!("../../../ptx/sm_75/reduce.ptx");

/// A tensor `[outer, n, inner]` inside of a buffer.
struct Case {
    outer: u64,
    n: u64,
    inner: u64,
    /// Elements before the first.
    offset: usize,
    strides: [i64; 3],
    len: usize,
}

impl Case {
    /// Contiguous, `offset` elements into the buffer.
    fn contiguous(outer: u64, n: u64, inner: u64, offset: usize) -> Self {
        let strides = [(n * inner) as i64, inner as i64, 1];
        let len = offset + (outer * n * inner) as usize;
        Self {
            outer,
            n,
            inner,
            offset,
            strides,
            len,
        }
    }

    /// The axis runs backwards through every second element.
    fn reversed(outer: u64, n: u64) -> Self {
        let row = 2 * n as i64;
        let len = (outer as usize) * row as usize;
        Self {
            outer,
            n,
            inner: 1,
            offset: row as usize - 2,
            strides: [row, -2, 1],
            len,
        }
    }

    fn at(&self, o: u64, j: u64, i: u64) -> usize {
        let [outer, axis, inner] = self.strides;
        let offset = o as i64 * outer + j as i64 * axis + i as i64 * inner;
        (self.offset as i64 + offset) as usize
    }

    fn plan(&self) -> ReducePlan {
        ReducePlan::new(
            self.outer,
            self.n,
            self.inner,
            self.strides[1],
            self.strides[2],
        )
    }

    fn params(&self, plan: &ReducePlan) -> ReduceParams {
        ReduceParams {
            outer: self.outer,
            n: self.n,
            inner: self.inner,
            outer_stride: self.strides[0],
            axis_stride: self.strides[1],
            inner_stride: self.strides[2],
            chunks: plan.chunks,
            chunk_len: plan.chunk_len,
        }
    }

    fn outputs(&self) -> usize {
        (self.outer * self.inner) as usize
    }
}

/// Runs both passes.
fn run_reduce<T: Value, Out: Element>(
    module: &Module,
    op: ReduceOp,
    case: &Case,
    x: &[T],
) -> Vec<Out> {
    let device = module.device();
    let plan = case.plan();
    let params = case.params(&plan);
    let stream = device.stream().expect("a stream");
    let bytes = case.outputs() * plan.chunks as usize * op.partial_bytes();
    let mut partials = DeviceBuffer::<u64>::uninit(&stream, bytes.div_ceil(8)).expect("memory");
    let mut out = DeviceBuffer::<Out>::uninit(&stream, case.outputs()).expect("memory");
    let x = upload(device, x);
    let at = x.device_ptr().as_raw() + (case.offset * size_of::<T>()) as u64;
    let entry = ReduceEntry {
        op,
        dtype: T::DTYPE,
        strategy: plan.strategy,
    };
    let kernel = module
        .kernel(&entry.to_string())
        .expect("every entry is there");
    launch(
        &kernel,
        plan.blocks,
        THREADS,
        (at, &mut partials, &mut out, params),
    );
    if plan.chunks > 1 {
        let entry = FinalEntry { op }.to_string();
        let kernel = module.kernel(&entry).expect("every entry is there");
        launch(
            &kernel,
            plan.final_blocks,
            THREADS,
            (&partials, &mut out, params),
        );
    }
    out.to_vec().expect("the result can be read")
}

/// The result and its greatest error, by one loop.
fn expected(op: ReduceOp, row: &[f64], additions: u64) -> (f64, f64) {
    let n = row.len() as f64;
    let unit = f64::from(f32::EPSILON) / 2.0;
    let sum: f64 = row.iter().sum();
    let size: f64 = row.iter().map(|x| x.abs()).sum();
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let growth = unit * (additions as f64 + 2.0);
    match op {
        ReduceOp::Sum => (sum, growth * size),
        ReduceOp::Mean => (sum / n, (growth + 3.0 * unit) * size / n),
        ReduceOp::Max => (max, 0.0),
        ReduceOp::Min => (row.iter().copied().fold(f64::INFINITY, f64::min), 0.0),
        ReduceOp::Logsumexp => {
            let lse = max + row.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
            // Each addition also rescales by an exponential of about an ulp.
            (lse, 8.0 * growth + 4.0 * unit * (lse.abs() + max.abs()))
        }
        ReduceOp::Argmax | ReduceOp::Argmin => unreachable!("indices are compared exactly"),
    }
}

fn check_reduce<T: Value>(module: &Module, op: ReduceOp, case: &Case) {
    let x: Vec<T> = (0..case.len).map(|i| T::new(noise(i))).collect();
    let plan = case.plan();
    let rows: Vec<Vec<f64>> = (0..case.outer)
        .flat_map(|o| (0..case.inner).map(move |i| (o, i)))
        .map(|(o, i)| (0..case.n).map(|j| x[case.at(o, j, i)].get()).collect())
        .collect();
    let what = format!("{} of {:?} by {plan:?}", op.name(), T::DTYPE);
    if op.is_index() {
        let better = |a: f64, b: f64| if op == ReduceOp::Argmax { a > b } else { a < b };
        let index = |row: &[f64]| {
            (1..row.len()).fold(
                0,
                |best, j| if better(row[j], row[best]) { j } else { best },
            ) as i64
        };
        let want: Vec<i64> = rows.iter().map(|row| index(row)).collect();
        assert_eq!(run_reduce::<T, i64>(module, op, case, &x), want, "{what}");
        return;
    }
    for (got, row) in run_reduce::<T, f32>(module, op, case, &x)
        .into_iter()
        .zip(&rows)
    {
        let (want, error) = expected(op, row, plan.additions(case.n));
        let difference = (f64::from(got) - want).abs();
        assert!(
            difference <= error,
            "{what}: got {got}, want {want} within {error:e}"
        );
    }
}

#[test]
fn reductions_match_plain_loops_in_every_layout() {
    let cases = [
        Case::contiguous(3, 7, 1, 0),
        Case::contiguous(9, 64, 1, 0),
        Case::contiguous(2, 1500, 1, 1),
        Case::contiguous(1, 2050, 1, 0),
        Case::contiguous(1, 40_001, 1, 0),
        Case::contiguous(2, 300, 40, 0),
        Case::contiguous(1, 700, 33, 3),
        Case::contiguous(3, 20, 5, 0),
        Case::reversed(3, 1100),
        Case::contiguous(2, 1, 50, 0),
    ];
    for device in devices() {
        let module = module(&device, REDUCE);
        let strategies: Vec<Strategy> = cases.iter().map(|case| case.plan().strategy).collect();
        assert!(strategies.contains(&Strategy::Row) && strategies.contains(&Strategy::Col));
        for case in &cases {
            for op in ReduceOp::ALL {
                check_reduce::<f32>(&module, op, case);
            }
            for op in [ReduceOp::Sum, ReduceOp::Argmin, ReduceOp::Logsumexp] {
                check_reduce::<f16>(&module, op, case);
                check_reduce::<bf16>(&module, op, case);
            }
        }
    }
}

#[test]
fn reductions_treat_special_values_as_spec_says() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    for device in devices() {
        let module = module(&device, REDUCE);
        let value = |op, x: &[f32]| {
            let case = Case::contiguous(1, x.len() as u64, 1, 0);
            run_reduce::<f32, f32>(&module, op, &case, x)[0]
        };
        let index = |op, x: &[f32]| {
            let case = Case::contiguous(1, x.len() as u64, 1, 0);
            run_reduce::<f32, i64>(&module, op, &case, x)[0]
        };
        for op in [
            ReduceOp::Sum,
            ReduceOp::Mean,
            ReduceOp::Max,
            ReduceOp::Min,
            ReduceOp::Logsumexp,
        ] {
            assert!(value(op, &[1.0, nan, 9.0, inf]).is_nan(), "{op:?}");
        }
        assert_eq!(value(ReduceOp::Max, &[-inf, -inf]), -inf);
        assert_eq!(value(ReduceOp::Min, &[inf, inf]), inf);
        assert_eq!(value(ReduceOp::Logsumexp, &[0.0, inf]), inf);
        assert_eq!(value(ReduceOp::Logsumexp, &[-inf, -inf]), -inf);
        assert_eq!(value(ReduceOp::Logsumexp, &[-inf, 3.0]), 3.0);
        assert_eq!(index(ReduceOp::Argmax, &[1.0, nan, 9.0, nan]), 1);
        assert_eq!(index(ReduceOp::Argmin, &[1.0, nan, -9.0, nan]), 1);
        assert_eq!(index(ReduceOp::Argmax, &[-0.0, 0.0, -1.0]), 0);
        assert_eq!(index(ReduceOp::Argmin, &[0.0, -0.0, 1.0]), 0);
        assert_eq!(index(ReduceOp::Argmax, &[-inf, -inf]), 0);
    }
}
