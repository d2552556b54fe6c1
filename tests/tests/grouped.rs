//! `GroupedGemm` against its reference: any ends, dtypes and layouts.

use half::{bf16, f16};
use ndarray::ArrayD;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use warpsmith::reference::gemm::grouped;
use warpsmith::{DType, Device, Float, GroupedGemm};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{agrees, agrees_exactly, run_twice};
use warpsmith_tests::output::Output;
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say};

/// How the rows are shared out.
#[derive(Clone, Copy, Debug)]
enum Ends {
    /// Sorted, anywhere in 0..=m.
    Sorted,
    /// All rows in one group.
    One,
    /// One row in each group, as far as there are rows.
    Single,
    /// Anything: negative, beyond m, not sorted.
    Wild,
}

#[derive(Clone, Debug)]
struct Case {
    m: usize,
    n: usize,
    k: usize,
    groups: usize,
    ends: Ends,
    alpha: f32,
    dtype: DType,
    /// Of a, b, ends and d.
    views: [View; 4],
    values: Values,
    seed: u64,
}

impl Case {
    fn draw_ends(&self) -> Vec<i64> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let m = self.m as i64;
        let mut ends: Vec<i64> = match self.ends {
            Ends::Sorted => (0..self.groups).map(|_| rng.random_range(0..=m)).collect(),
            Ends::One => {
                let own = rng.random_range(0..=self.groups);
                (0..self.groups)
                    .map(|g| if g < own { 0 } else { m })
                    .collect()
            }
            Ends::Single => (1..=self.groups as i64).map(|end| end.min(m)).collect(),
            Ends::Wild => {
                let far = [-1, m + 1, i64::from(i32::MIN), i64::from(i32::MAX)];
                let one = |_| match rng.random_ratio(1, 4) {
                    true => far[rng.random_range(0..far.len())],
                    false => rng.random_range(0..=m),
                };
                (0..self.groups).map(one).collect()
            }
        };
        if matches!(self.ends, Ends::Sorted) {
            ends.sort_unstable();
        }
        if self.views[2] == View::Repeated {
            ends = vec![ends.first().copied().unwrap_or(0); self.groups];
        }
        ends
    }
}

fn check(case: &Case, device: &Device) -> Checked {
    match case.dtype {
        DType::F32 => check_of::<f32>(case, device),
        DType::F16 => check_of::<f16>(case, device),
        DType::Bf16 => check_of::<bf16>(case, device),
        other => Err(format!("no product of {other}")),
    }
}

fn check_of<T: TestElement + Float>(case: &Case, device: &Device) -> Checked {
    let &Case {
        m,
        n,
        k,
        groups,
        views,
        values,
        seed,
        alpha,
        ..
    } = case;
    let a = Operand::<T>::draw(device, &[m, k], values, views[0], seed + 1)?;
    let b = Operand::<T>::draw(device, &[groups, k, n], values, views[1], seed + 2)?;
    let ends = case.draw_ends();
    let laid = ArrayD::from_shape_vec(vec![groups], ends.iter().map(|&end| end as f64).collect());
    let laid = Operand::<i32>::lay_out(device, laid.map_err(say)?, views[2])?;
    let want = grouped(&a.values.view(), &b.values.view(), &ends, alpha, T::DTYPE).map_err(say)?;
    let stream = device.stream().map_err(say)?;
    let operation = GroupedGemm::new(&a.tensor, &b.tensor, &laid.tensor).alpha(alpha);
    let output = || Output::<T>::new(device, &[m, n], views[3]);
    let got = run_twice(output, |d| operation.run_into(&d.tensor, &stream))?;
    a.expect_unchanged()?;
    b.expect_unchanged()?;
    laid.expect_unchanged()?;
    match values {
        Values::Integers => agrees_exactly(&got, &want.values),
        _ => agrees(&got, &want),
    }
}

fn case(largest: usize) -> impl Strategy<Value = Case> {
    let extents = (
        prop_oneof![1 => Just(0), 12 => extent(2 * largest)],
        prop_oneof![1 => Just(0), 12 => extent(largest)],
        prop_oneof![1 => Just(0), 12 => extent(largest)],
        prop_oneof![4 => 0..6_usize, 2 => 6..40_usize, 1 => 250..600_usize],
    );
    let ends = prop_oneof![
        3 => Just(Ends::Sorted),
        1 => Just(Ends::One),
        1 => Just(Ends::Single),
        2 => Just(Ends::Wild),
    ];
    let dtype = prop::sample::select(vec![DType::F32, DType::F16, DType::Bf16]);
    let views = (View::any(), View::any(), View::any(), View::writable());
    let alpha = prop::sample::select(vec![1.0_f32, 1.0, 0.5, -2.0, 0.0]);
    (
        extents,
        ends,
        dtype,
        views,
        Values::any(),
        alpha,
        any::<u32>(),
    )
        .prop_map(
            |((m, n, k, groups), ends, dtype, views, values, alpha, seed)| {
                // Matrices of many groups are small, so that they fit.
                let (n, k) = match groups {
                    0..40 => (n, k),
                    _ => (n.min(20), k.min(20)),
                };
                Case {
                    m,
                    n,
                    k,
                    groups,
                    ends,
                    alpha,
                    dtype,
                    views: [views.0, views.1, views.2, views.3],
                    values,
                    seed: u64::from(seed),
                }
            },
        )
}

#[test]
fn grouped_products_match_their_reference_for_any_ends_and_layouts() {
    let effort = Effort {
        cases: 200,
        largest: [100, 700],
    };
    holds(effort, case, check);
}
