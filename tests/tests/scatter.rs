//! `ScatterAdd` against its reference: every dtype, any axis of any layout, indices of any shape and
//! layout, in range and out of it, once and many times.

use half::{bf16, f16};
use ndarray::{ArrayD, Axis};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spec::scatter::{GROUP, PART, TILE, additions};
use warpsmith::reference::scatter::{integers, scatter_add};
use warpsmith::{DType, Device, Error, IndexElement, Reducible, ScatterAdd, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::agrees;
use warpsmith_tests::output::{Output, same_bits};
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, on_every_device, profiled, say};

/// Which rows indices name.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Names {
    /// Any.
    Any,
    /// One, but for some.
    One,
    /// Each once, in some order, as far as they go.
    Each,
    /// None: all are out of range.
    None,
}

#[derive(Clone, Debug)]
struct Case {
    y: Vec<usize>,
    axis: usize,
    of_indices: Vec<usize>,
    names: Names,
    /// How many indices of ten are out of range.
    bad: u32,
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
        let count = self.y[self.axis] as i64;
        let far = [-1, count, count + 7, i64::MAX, i64::MIN, 1 << 32];
        let (hot, mut next) = (rng.random_range(0..count.max(1)), 0);
        let mut indices = ArrayD::from_shape_simple_fn(self.of_indices.clone(), || {
            next += 1;
            let is_bad = rng.random_ratio(self.bad, 10) || count == 0;
            let index = match self.names {
                _ if is_bad => far[rng.random_range(0..far.len())],
                Names::None => far[rng.random_range(0..far.len())],
                Names::One if !rng.random_ratio(1, 50) => hot,
                Names::Each => (next * 7) % count,
                Names::Any | Names::One => rng.random_range(0..count),
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

fn check(case: &Case, device: &Device) -> Checked {
    match case.dtype {
        DType::F64 => check_of::<f64>(case, device),
        DType::F32 => check_of::<f32>(case, device),
        DType::F16 => check_of::<f16>(case, device),
        DType::Bf16 => check_of::<bf16>(case, device),
        DType::I32 => check_of::<i32>(case, device),
        _ => check_of::<i64>(case, device),
    }
}

fn check_of<T: TestElement + Reducible>(case: &Case, device: &Device) -> Checked {
    match case.are_indices_wide {
        true => check_by::<T, i64>(case, device),
        false => check_by::<T, i32>(case, device),
    }
}

fn check_by<T: TestElement + Reducible, I: IndexElement + TestElement>(
    case: &Case,
    device: &Device,
) -> Checked {
    let is_integer = matches!(T::DTYPE, DType::I32 | DType::I64);
    let values = if is_integer {
        Values::Integers
    } else {
        case.values
    };
    let (before, behind) = case.y.split_at(case.axis);
    let of_src = [before, &case.of_indices, &behind[1..]].concat();
    let src = Operand::<T>::draw(device, &of_src, values, case.views[0], case.seed)?;
    let indices = Operand::<I>::lay_out(device, case.indices::<I>(), case.views[1])?;
    let old = values.draw(&case.y, case.seed ^ 1).mapv(T::nearest);
    let operation = ScatterAdd::new(&indices.tensor, &src.tensor).axis(case.axis);
    let stream = device.stream().map_err(say)?;
    let mut results = Vec::new();
    for _ in 0..2 {
        let output = Output::<T>::with(device, &old, case.views[2])?;
        operation.run_into(&output.tensor, &stream).map_err(say)?;
        results.push(output.read()?);
    }
    same_bits(&results[0], &results[1]).map_err(|error| format!("not deterministic: {error}"))?;
    src.expect_unchanged()?;
    indices.expect_unchanged()?;
    let exact = indices.values.mapv(|index| index as i64);
    let (axis, got) = (case.axis, &results[0]);
    if is_integer {
        let wide = |x: &ArrayD<f64>| x.mapv(|x| x as i64);
        let (old, src) = (wide(&old.mapv(T::wide)), wide(&src.values));
        let want = integers(&old.view(), axis, &exact.view(), &src.view()).map_err(say)?;
        let got = got.mapv(|x| x.wide() as i64);
        return match got == want {
            true => Ok(()),
            false => Err(format!("{got:?} instead of {want:?}")),
        };
    }
    let old = old.mapv(T::wide);
    let src = src.values.view();
    let want = scatter_add(&old.view(), axis, &exact.view(), &src, T::DTYPE, additions);
    agrees(got, &want.map_err(say)?)
}

fn case(largest: usize) -> impl Strategy<Value = Case> {
    let y = prop_oneof![
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
        1 => (120..300_usize).prop_map(|n| vec![n]),
        2 => (0..7_usize, 1..9_usize).prop_map(|s| vec![s.0, s.1]),
        1 => (1..4_usize, 1..4_usize, 1..4_usize).prop_map(|s| vec![s.0, s.1, s.2]),
    ];
    let names = prop::sample::select(vec![
        Names::Any,
        Names::Any,
        Names::One,
        Names::Each,
        Names::None,
    ]);
    let dtype = prop::sample::select(spec::scatter::DTYPES.to_vec());
    let views = (View::any(), View::any(), View::writable());
    let bad = prop::sample::select(vec![0, 0, 3, 10]);
    let rest = (any::<prop::sample::Index>(), any::<u32>(), any::<bool>());
    (y, of_indices, names, dtype, views, Values::any(), bad, rest).prop_map(
        |(y, of_indices, names, dtype, views, values, bad, (axis, seed, are_indices_wide))| Case {
            axis: axis.index(y.len()),
            y,
            of_indices,
            names,
            bad,
            dtype,
            are_indices_wide,
            views: [views.0, views.1, views.2],
            values,
            seed: u64::from(seed),
        },
    )
}

#[test]
fn sums_match_their_reference_for_every_axis_dtype_and_layout() {
    let effort = Effort {
        cases: 300,
        largest: [48, 4000],
    };
    holds(effort, case, check);
}
