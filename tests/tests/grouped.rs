//! `GroupedGemm` against its reference: any ends, dtypes and layouts.

use half::{bf16, f16};
use ndarray::{ArrayD, Axis};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use warpsmith::reference::gemm::grouped;
use warpsmith::{DType, Device, Float, Gemm, GroupedGemm, Scan, ScanOp, Stream, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{agrees, agrees_exactly, run_repeatedly};
use warpsmith_tests::output::Output;
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, on_every_device, profiled, refused, say};

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
    let got = run_repeatedly(output, |d| operation.run_into(&d.tensor, &stream))?;
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
        cases: [80, 1000],
        largest: [100, 700],
    };
    holds(effort, case, check);
}

/// A tensor with an allocation of its own, so that the emulator reports any access outside of it.
fn drawn<T: TestElement>(device: &Device, shape: &[usize], seed: u64) -> Tensor<T> {
    let values = Values::Uniform.draw(shape, seed).mapv(T::nearest);
    Tensor::from_ndarray(device, &values).expect("a tensor")
}

fn ends_of(device: &Device, ends: &[i32]) -> Tensor<i32> {
    Tensor::from_slice(device, &[ends.len()], ends).expect("ends")
}

#[test]
fn ends_that_mean_nothing_lead_nowhere_else() {
    on_every_device(|device, stream| {
        let (m, k, n) = (130, 24, 70);
        let a = drawn::<f32>(device, &[m, k], 1);
        let b = drawn::<f32>(device, &[4, k, n], 2);
        for ends in [
            [i32::MIN, -1, 0, 130],
            [i32::MAX, 0, i32::MIN, 7],
            [131, 129, 64, -5],
            [65, 3, 65, 66],
            [-1, -1, -1, -1],
        ] {
            let wide: Vec<i64> = ends.iter().map(|&end| end.into()).collect();
            let [of_a, of_b] = [&a, &b].map(|x| x.to_ndarray().expect("values").mapv(f64::from));
            let want = grouped(&of_a.view(), &of_b.view(), &wide, 1.0, DType::F32);
            let got = GroupedGemm::new(&a, &b, &ends_of(device, &ends)).run(stream);
            let got = got.and_then(|d| d.to_ndarray()).expect("a launch");
            agrees(&got, &want.expect("shapes that fit"))
                .unwrap_or_else(|error| panic!("{ends:?}: {error}"));
        }
    });
}

#[test]
fn nan_and_infinity_stay_in_their_group_and_rows_of_none_are_zero() {
    on_every_device(|device, stream| {
        let (m, k, n) = (100, 40, 33);
        let mut a = Values::Uniform.draw(&[m, k], 1).mapv(|x| x as f32);
        let mut b = Values::Uniform.draw(&[3, k, n], 2).mapv(|x| x as f32);
        // Groups of rows 0..10, 10..50 and 50..80; the first two, and what is behind, are poisoned.
        a.slice_axis_mut(Axis(0), (80..).into()).fill(f32::NAN);
        a.slice_axis_mut(Axis(0), (..10).into()).fill(f32::INFINITY);
        b.index_axis_mut(Axis(0), 1).fill(f32::NAN);
        let [a, b] = [a, b].map(|x| Tensor::from_ndarray(device, &x).expect("a tensor"));
        let ends = ends_of(device, &[10, 50, 80]);
        for alpha in [1.0, f32::INFINITY, f32::NAN] {
            let d = GroupedGemm::new(&a, &b, &ends).alpha(alpha).run(stream);
            let d = d.and_then(|d| d.to_ndarray()).expect("a launch");
            for (row, of_row) in d.outer_iter().enumerate() {
                let is_right = |x: &f32| match row {
                    0..10 => !x.is_finite(),
                    10..50 => x.is_nan(),
                    50..80 => x.is_finite() == (alpha == 1.0),
                    _ => x.to_bits() == 0,
                };
                assert!(of_row.iter().all(is_right), "row {row}, alpha {alpha}");
            }
        }
    });
}

#[test]
fn each_group_has_the_bits_of_the_portable_gemm_in_every_layout() {
    on_every_device(|device, stream| {
        let (m, k, n) = (150, 77, 130);
        let a = drawn::<f32>(device, &[m, k], 1);
        let b = drawn::<f32>(device, &[3, k, n], 2);
        let ends = [67, 68, 149];
        let own = ends_of(device, &ends);
        let [a_by_m, b_by_k] = [&a, &b].map(|x| {
            let lines = x.t().contiguous(stream);
            lines.expect("a copy").t()
        });
        let want = GroupedGemm::new(&a, &b, &own).run(stream);
        let want = want.and_then(|d| d.to_vec()).expect("a launch");
        for (a, b) in [(&a, &b_by_k), (&a_by_m, &b), (&a_by_m, &b_by_k)] {
            let got = GroupedGemm::new(a, b, &own).run(stream);
            assert_eq!(got.and_then(|d| d.to_vec()).expect("a launch"), want);
        }
        let mut start = 0;
        for (group, end) in ends.into_iter().enumerate() {
            let rows = a.slice(0, start..end as usize).expect("rows");
            let matrix = b.index_axis(0, group).expect("a matrix");
            let alone = Gemm::new(&rows, &matrix).split_k(1).run(stream);
            let alone = alone.and_then(|d| d.to_vec()).expect("a launch");
            assert_eq!(want[start * n..end as usize * n], alone);
            start = end as usize;
        }
    });
}

/// As a router does it: the numbers of rows are summed up on the device.
#[test]
fn ends_may_be_computed_by_the_launch_before() {
    on_every_device(|device, stream| {
        let (a, b) = (
            drawn::<bf16>(device, &[90, 16], 1),
            drawn(device, &[3, 16, 8], 2),
        );
        let counts = Tensor::from_slice(device, &[3], &[70_i32, 0, 15]).expect("counts");
        let ends = Scan::new(ScanOp::Sum, &counts).run(stream).expect("a scan");
        let got = GroupedGemm::new(&a, &b, &ends)
            .run(stream)
            .expect("a launch");
        let want = GroupedGemm::new(&a, &b, &ends_of(device, &[70, 70, 85])).run(stream);
        let [got, want] = [got, want.expect("a launch")].map(|d| d.to_vec().expect("values"));
        assert_eq!(got, want);
    });
}

/// Many groups for each thread of a block.
#[test]
fn thousands_of_groups_find_their_rows() {
    on_every_device(|device, stream| {
        let groups = 5000;
        // Matrix g is [g].
        let numbers: Vec<f32> = (0..groups).map(|g| g as f32).collect();
        let b = Tensor::from_slice(device, &[groups, 1, 1], &numbers).expect("matrices");
        let a = Tensor::full(stream, &[300, 1], 1.0_f32).expect("rows");
        // Every 20th group has a row, the last one 50.
        let ends: Vec<i32> = (0..groups as i32).map(|g| (g + 1) / 20).collect();
        let d = GroupedGemm::new(&a, &b, &ends_of(device, &ends)).run(stream);
        let d = d.and_then(|d| d.to_vec()).expect("a launch");
        for (row, got) in d.into_iter().enumerate() {
            let want = if row < 250 {
                (20 * row + 19) as f32
            } else {
                0.0
            };
            assert_eq!(got, want, "row {row}");
        }
    });
}

/// Matrices further apart than 32 bits count.
#[test]
fn matrices_beyond_32_bits_are_found() {
    let gpus = warpsmith::testing::devices()
        .into_iter()
        .filter(|device| !device.is_emulator());
    for device in gpus {
        let stream = device.stream().expect("a stream");
        let k = 1 << 15;
        let b = Tensor::<f32>::zeros(&stream, &[5, k, k]).expect("matrices");
        for group in 0..5 {
            let matrix = b.index_axis(0, group).expect("a matrix");
            matrix.fill(group as f32, &stream).expect("a fill");
        }
        let a = Tensor::full(&stream, &[5, k], 1.0_f32).expect("rows");
        let d = GroupedGemm::new(&a, &b, &ends_of(&device, &[1, 2, 3, 4, 5])).run(&stream);
        let d = d.and_then(|d| d.to_vec()).expect("a launch");
        for (row, of_row) in d.chunks_exact(k).enumerate() {
            assert!(of_row.iter().all(|&x| x == (row * k) as f32), "row {row}");
        }
    }
}

#[test]
fn a_plan_names_the_kernel() {
    on_every_device(|device, stream| {
        let (a, b) = (
            drawn::<f32>(device, &[100, 8], 1),
            drawn(device, &[3, 8, 70], 2),
        );
        let ends = ends_of(device, &[0; 3]);
        let of = GroupedGemm::new(&a, &b, &ends);
        let plan = of.plan(stream).expect("a plan");
        let kernel = plan.chosen().expect("a kernel");
        assert_eq!(kernel.entry, "gemm_grouped_simt_f32_64x64x16");
        assert_eq!((kernel.tile, kernel.grid), ([64, 64, 16], [10, 1, 1]));
        let text = plan.to_string();
        assert!(text.contains("grid 10x1x1, 256 threads"), "{text}");
        let forced = of.with_kernel(&kernel.name).plan(stream).expect("a plan");
        assert_eq!(forced.chosen(), Some(kernel));
        assert!(of.with_kernel("gemm_wrong").run(stream).is_err());
        let none = drawn(device, &[0, 8], 1);
        let empty = GroupedGemm::new(&none, &b, &ends).plan(stream);
        assert_eq!(empty.expect("a plan").chosen(), None);
    });
}

fn zeros(stream: &Stream, shape: &[usize]) -> Tensor<f32> {
    Tensor::zeros(stream, shape).expect("a tensor")
}

#[test]
fn shapes_that_do_not_fit_are_refused_by_name() {
    on_every_device(|device, stream| {
        let (a, b) = (zeros(stream, &[6, 4]), zeros(stream, &[2, 4, 5]));
        let ends = ends_of(device, &[3, 6]);
        let run = |a: &Tensor<f32>, b: &Tensor<f32>, ends: &Tensor<i32>| {
            GroupedGemm::new(a, b, ends).run(stream)
        };
        refused!(run(&b, &b, &ends) => Shape::Mismatch, "`a`", "[2, 4, 5]", "[m, k]");
        refused!(run(&a, &a, &ends) => Shape::Mismatch, "`b`", "[6, 4]", "[groups, k, n]");
        let other = run(&a, &zeros(stream, &[2, 5, 4]), &ends);
        refused!(other => Shape::Mismatch, "`b`", "[2, 5, 4]", "[groups, 4, n]", "[6, 4]");
        let few = run(&a, &b, &ends_of(device, &[6]));
        refused!(few => Shape::Mismatch, "`ends`", "[1]", "[2]");
        let square = ends_of(device, &[6, 6, 6, 6]).reshape(&[2, 2]);
        let square = run(&a, &b, &square.expect("a view"));
        refused!(square => Shape::Mismatch, "`ends`", "[2, 2]", "[2]");
        let into = GroupedGemm::new(&a, &b, &ends).run_into(&zeros(stream, &[5, 6]), stream);
        refused!(into => Shape::Mismatch, "grouped_gemm: ", "`d`", "[5, 6]", "[6, 5]");
    });
}

#[test]
fn results_that_overlap_are_refused() {
    on_every_device(|device, stream| {
        let memory = zeros(stream, &[64]);
        let view = |from: usize, shape: &[usize]| {
            let len: usize = shape.iter().product();
            let part = memory.slice(0, from..from + len);
            part.and_then(|part| part.reshape(shape)).expect("a view")
        };
        let (a, b) = (view(0, &[4, 4]), view(16, &[2, 4, 4]));
        let ends = ends_of(device, &[2, 4]);
        let of = GroupedGemm::new(&a, &b, &ends);
        for (d, other) in [(view(8, &[4, 4]), "a"), (view(47, &[4, 4]), "b")] {
            let want = format!("`d` (written) overlaps `{other}`");
            refused!(of.run_into(&d, stream) => Shape::Overlap, &want);
        }
        of.run_into(&view(48, &[4, 4]), stream)
            .expect("it is apart");
        let row = zeros(stream, &[1, 4])
            .broadcast_to(&[4, 4])
            .expect("a view");
        refused!(of.run_into(&row, stream) => Shape::Strides, "`d`", "[0, 1]");
    });
}

#[test]
fn extents_beyond_what_a_launch_counts_are_refused() {
    on_every_device(|device, stream| {
        let ends = ends_of(device, &[1]);
        let tall = zeros(stream, &[1, 1])
            .broadcast_to(&[1 << 32, 1])
            .expect("a view");
        let b = zeros(stream, &[1, 1, 1]);
        let plan = GroupedGemm::new(&tall, &b, &ends).plan(stream);
        refused!(plan => Shape::OutOfBounds, "m", "4294967296", "4294966271");
        let tall = zeros(stream, &[1, 1])
            .broadcast_to(&[1 << 31, 1])
            .expect("a view");
        let wide = b.broadcast_to(&[1, 1, 1 << 13]).expect("a view");
        let plan = GroupedGemm::new(&tall, &wide, &ends).plan(stream);
        refused!(
            plan => Argument::Unsupported, "m2147483648", "n8192", "groups1", "2^31 tiles"
        );
    });
}

/// As many as 32 bits count with a sign, and more.
#[test]
fn any_number_of_groups_has_a_plan() {
    on_every_device(|_, stream| {
        let a = zeros(stream, &[2, 1]);
        let (b, end) = (zeros(stream, &[1, 1, 1]), Tensor::full(stream, &[1], 2_i32));
        let end = end.expect("an end");
        for groups in [1 << 31, (1 << 32) - 1025] {
            let b = b.broadcast_to(&[groups, 1, 1]).expect("a view");
            let ends = end.broadcast_to(&[groups]).expect("a view");
            let plan = GroupedGemm::new(&a, &b, &ends).plan(stream);
            let plan = plan.expect("a plan");
            assert_eq!(plan.chosen().map(|kernel| kernel.grid), Some([2, 1, 1]));
        }
    });
}

#[test]
fn tensors_of_another_device_are_refused() {
    let [one, other] = [(); 2].map(|()| profiled());
    let stream = one.stream().expect("a stream");
    let foreign = other.stream().expect("a stream");
    let (a, b) = (zeros(&stream, &[2, 2]), zeros(&stream, &[1, 2, 2]));
    let ends = ends_of(&one, &[2]);
    let far = (zeros(&foreign, &[2, 2]), zeros(&foreign, &[1, 2, 2]));
    let far_ends = ends_of(&other, &[2]);
    for (of, name) in [
        (GroupedGemm::new(&far.0, &b, &ends), "`a`"),
        (GroupedGemm::new(&a, &far.1, &ends), "`b`"),
        (GroupedGemm::new(&a, &b, &far_ends), "`ends`"),
    ] {
        refused!(of.run(&stream) => Device::Mismatch, name);
    }
    let into = GroupedGemm::new(&a, &b, &ends).run_into(&far.0, &stream);
    refused!(into => Device::Mismatch, "`d`");
}
