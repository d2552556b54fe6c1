//! `ScatterAdd` against its reference: every dtype, any axis of any layout, indices of any shape and
//! layout, in range and out of it, once and many times.

mod few;
mod reduce;
mod refusals;

use abi::scatter_add::{GROUP, PART, TILE, additions};
use half::{bf16, f16};
use ndarray::{ArrayD, Axis};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use warpsmith::reference::scatter::{integers, scatter_add};
use warpsmith::{DType, Device, IndexElement, Reducible, ScatterAdd, ScatterOp, Stream, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{agrees, run_repeatedly};
use warpsmith_tests::output::Output;
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::rows::{signed, wrapped};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, on_every_device, say};

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
pub(super) struct Case {
    pub(super) y: Vec<usize>,
    pub(super) axis: usize,
    of_indices: Vec<usize>,
    names: Names,
    /// How many indices of ten are out of range.
    bad: u32,
    /// Whether negative indices count from the end.
    pub(super) wraps: bool,
    pub(super) dtype: DType,
    pub(super) are_indices_wide: bool,
    views: [View; 3],
    pub(super) values: Values,
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

/// What a case is run on.
pub(super) struct Drawn<T: TestElement, I: TestElement> {
    pub(super) src: Operand<T>,
    pub(super) indices: Operand<I>,
    /// What y holds before.
    pub(super) old: ArrayD<T>,
}

impl<T: TestElement, I: TestElement> Drawn<T, I> {
    pub(super) fn new(case: &Case, device: &Device, values: Values) -> Result<Self, String> {
        let (before, behind) = case.y.split_at(case.axis);
        let of_src = [before, &case.of_indices, &behind[1..]].concat();
        Ok(Self {
            src: Operand::draw(device, &of_src, values, case.views[0], case.seed)?,
            indices: Operand::lay_out(device, case.indices::<I>(), case.views[1])?,
            old: values.draw(&case.y, case.seed ^ 1).mapv(T::nearest),
        })
    }

    /// y after `run`, twice with the same bits; the operands are unchanged.
    pub(super) fn result(
        &self,
        case: &Case,
        device: &Device,
        run: impl Fn(&Tensor<T>, &Stream) -> warpsmith::Result<()>,
    ) -> Result<ArrayD<T>, String> {
        let stream = device.stream().map_err(say)?;
        let output = || Output::with(device, &self.old, case.views[2]);
        let got = run_repeatedly(output, |y| run(&y.tensor, &stream))?;
        self.src.expect_unchanged()?;
        self.indices.expect_unchanged()?;
        Ok(got)
    }

    /// The indices, without those that count from the end.
    pub(super) fn exact(&self, case: &Case) -> ArrayD<i64> {
        let indices = self.indices.values.mapv(|index| index as i64);
        match case.wraps {
            true => wrapped(indices, case.y[case.axis]),
            false => indices,
        }
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
    let drawn = Drawn::<T, I>::new(case, device, values)?;
    let Drawn { src, indices, old } = &drawn;
    let axis = signed(case.axis, case.y.len());
    let mut operation = ScatterAdd::new(&indices.tensor, &src.tensor).axis(axis);
    if case.wraps {
        operation = operation.wrap_negative();
    }
    let got = &drawn.result(case, device, |y, stream| operation.run_into(y, stream))?;
    let (axis, exact) = (case.axis, drawn.exact(case));
    if is_integer {
        let wide = |x: &ArrayD<f64>| x.mapv(|x| x as i64);
        let (old, src) = (wide(&old.mapv(T::wide)), wide(&src.values));
        let want = integers(
            ScatterOp::Sum,
            &old.view(),
            axis,
            &exact.view(),
            &src.view(),
        )
        .map_err(say)?;
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

pub(super) fn case(largest: usize, dtypes: &[DType]) -> impl Strategy<Value = Case> {
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
        // Too many for one launch.
        1 => (1025..1100_usize).prop_map(|n| vec![n]),
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
    let dtype = prop::sample::select(dtypes.to_vec());
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
            wraps: seed % 4 == 0,
            views: [views.0, views.1, views.2],
            values,
            seed: u64::from(seed),
        },
    )
}

#[test]
fn sums_match_their_reference_for_every_axis_dtype_and_layout() {
    let effort = Effort {
        cases: [300, 1500],
        largest: [48, 4000],
    };
    let case = |largest| case(largest, &abi::scatter_add::DTYPES);
    holds(effort, case, check);
}

/// The sum of the rows of one index, in the order that `abi::scatter_add` states.
fn in_order(rows: &[f32]) -> f32 {
    let sum = |xs: &[f32]| xs.iter().fold(-0.0, |sum, x| sum + x);
    let parts: Vec<f32> = rows.chunks(PART as usize).map(sum).collect();
    let groups: Vec<f32> = parts.chunks(GROUP as usize).map(sum).collect();
    sum(&groups)
}

/// Adds `columns` columns of f32 to `count` rows, and compares all bits with [`in_order`].
fn check_order(device: &Device, indices: &[i64], count: usize, columns: usize) {
    let stream = device.stream().expect("a stream");
    let mut rng = ChaCha8Rng::seed_from_u64(indices.len() as u64);
    let mut draw = |n: usize| -> Vec<f32> {
        let one = |_| rng.random_range(-1.0_f32..1.0) * 2_f32.powi(rng.random_range(-12..12));
        (0..n).map(one).collect()
    };
    let (src, mut want) = (draw(indices.len() * columns), draw(count * columns));
    let y = Tensor::from_slice(device, &[count, columns], &want).expect("a tensor");
    let of = Tensor::from_slice(device, &[indices.len()], indices).expect("indices");
    let rows = Tensor::from_slice(device, &[indices.len(), columns], &src).expect("a tensor");
    ScatterAdd::new(&of, &rows)
        .run_into(&y, &stream)
        .expect("launches");
    let mut of_index = vec![Vec::new(); count];
    for (j, &index) in indices.iter().enumerate() {
        if let Some(of_index) = of_index.get_mut(index as usize) {
            of_index.push(j);
        }
    }
    for (index, positions) in of_index.iter().enumerate() {
        for column in 0..columns {
            let added: Vec<f32> = positions
                .iter()
                .map(|j| src[j * columns + column])
                .collect();
            let old = &mut want[index * columns + column];
            if !added.is_empty() {
                *old += in_order(&added);
            }
        }
    }
    let got = y.to_vec().expect("rows");
    let what = format!("{} indices of {count}, {columns} columns", indices.len());
    for (place, (got, want)) in got.iter().zip(&want).enumerate() {
        assert_eq!(got.to_bits(), want.to_bits(), "{what}, element {place}");
    }
}

#[test]
fn rows_are_added_in_parts_of_64_and_groups_of_16_whatever_the_other_indices_are() {
    on_every_device(|device, _| {
        for len in [1, 2, 63, 64, 65, 128, 129, 700, 1023, 1024, 1025, 4096] {
            for columns in [1, 4, 132] {
                if len * columns <= 4096 * 4 {
                    check_order(device, &vec![2; len], 3, columns);
                }
            }
        }
        // Segments of several parts that begin and end anywhere, and an end behind the last index.
        let mut runs = Vec::new();
        for (index, len) in [66, 1, 65, 64, 300, 32, 129, 5, 200]
            .into_iter()
            .enumerate()
        {
            runs.extend(std::iter::repeat_n(index as i64, len));
        }
        runs.extend([-1; 200]);
        check_order(device, &runs, 9, 5);
        runs.reverse();
        check_order(device, &runs, 9, 8);
    });
}

#[test]
fn more_indices_than_one_block_sorts_are_sorted_by_every_digit() {
    on_every_device(|device, _| {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let tile = TILE as usize;
        for (len, count) in [
            (tile + 1, 7),
            (2 * tile, 300),
            (2 * tile + 77, 70_000),
            (3 * tile - 1, 256),
        ] {
            let uniform: Vec<i64> = (0..len)
                .map(|_| rng.random_range(-1..=count as i64))
                .collect();
            check_order(device, &uniform, count, 1);
        }
        check_order(device, &vec![299; tile + 5], 300, 2);
        // More groups than a block adds at a time.
        let groups = (GROUP * GROUP * PART) as usize;
        check_order(device, &vec![1; groups + 100], 2, 1);
        let falling: Vec<i64> = (0..tile as i64 + 9).rev().collect();
        check_order(device, &falling, tile + 9, 1);
    });
}

#[test]
fn an_element_has_the_same_bits_whatever_else_is_added_elsewhere() {
    on_every_device(|device, stream| {
        let rows: Vec<f32> = (0..600 * 4).map(|i| (i as f32).sin()).collect();
        let src = Tensor::from_slice(device, &[600, 4], &rows).expect("rows");
        let own: Vec<i32> = (0..600).map(|j| i32::from(j % 3 == 1)).collect();
        let mut seen: Option<Vec<u32>> = None;
        for elsewhere in [0, 5, -1, 900] {
            let indices: Vec<i32> = own
                .iter()
                .enumerate()
                .map(|(j, &own)| {
                    if own == 1 {
                        7
                    } else {
                        elsewhere + j as i32 % 2
                    }
                })
                .collect();
            let indices = Tensor::from_slice(device, &[600], &indices).expect("indices");
            let y = ScatterAdd::new(&indices, &src).extent(1000).run(stream);
            let y = y.and_then(|y| y.index_axis(0, 7)).expect("a row");
            let y = y.contiguous(stream).and_then(|y| y.to_vec()).expect("bits");
            let bits: Vec<u32> = y.into_iter().map(f32::to_bits).collect();
            assert_eq!(*seen.get_or_insert(bits.clone()), bits, "{elsewhere}");
        }
    });
}

/// The emulator reports any access outside of an allocation: here y has one of its own, without a
/// guard.
#[test]
fn an_index_out_of_range_adds_nothing() {
    on_every_device(|device, stream| {
        let far = [4_i64, -1, 3, i64::MAX, i64::MIN, 1 << 32, (1 << 32) + 3, 3];
        let indices = Tensor::from_slice(device, &[8], &far).expect("indices");
        let src = Tensor::full(stream, &[8, 8], 1.0_f32).expect("rows");
        let y = ScatterAdd::new(&indices, &src).extent(4).run(stream);
        let y = y.and_then(|y| y.to_vec()).expect("rows");
        assert!(y[..24].iter().all(|&x| x == 0.0));
        assert_eq!(y[24..], [2.0; 8]);
    });
}

#[test]
fn what_nothing_is_added_to_keeps_its_bits() {
    on_every_device(|device, stream| {
        let odd = [0x7fc0_1234_u32, 0x8000_0000, 0xff80_0001, 7].map(f32::from_bits);
        let y = Tensor::from_slice(device, &[4], &odd).expect("a tensor");
        let indices = Tensor::from_slice(device, &[2], &[1_i32, 9]).expect("indices");
        let src = Tensor::from_slice(device, &[2], &[-0.0_f32, 1.0]).expect("a tensor");
        ScatterAdd::new(&indices, &src)
            .run_into(&y, stream)
            .expect("launches");
        let got = y.to_vec().expect("elements");
        let bits = |xs: &[f32]| xs.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&got), bits(&odd));
    });
}

#[test]
fn a_negative_zero_stays_one_and_large_sums_wrap_or_are_infinite() {
    fn sum<T: TestElement + Reducible>(device: &Device, old: T, rows: &[T]) -> T {
        let stream = device.stream().expect("a stream");
        let y = Tensor::from_slice(device, &[1], &[old]).expect("a tensor");
        let indices = Tensor::<i32>::zeros(&stream, &[rows.len()]).expect("indices");
        let src = Tensor::from_slice(device, &[rows.len()], rows).expect("rows");
        ScatterAdd::new(&indices, &src)
            .run_into(&y, &stream)
            .expect("launches");
        y.to_vec().expect("an element")[0]
    }
    on_every_device(|device, _| {
        for len in [1, 200] {
            let zero = sum(device, -0.0_f64, &vec![-0.0; len]);
            assert_eq!(zero.to_bits(), (-0.0_f64).to_bits(), "{len}");
            let zero = sum(device, -0.0_f32, &vec![-0.0; len]);
            assert_eq!(zero.to_bits(), (-0.0_f32).to_bits(), "{len}");
            assert_eq!(
                sum(device, i32::MAX, &vec![1; len]),
                i32::MIN + len as i32 - 1
            );
            let least = sum(device, i64::MIN, &vec![-1; len]);
            assert_eq!(least, i64::MAX - len as i64 + 1);
            let most = sum(device, f16::MAX, &vec![f16::MAX; len]);
            assert_eq!(most, f16::INFINITY);
            // Beyond f16 in between, and back.
            let ends = [vec![f16::MAX; len], vec![-f16::MAX; len]].concat();
            assert_eq!(sum(device, f16::ONE, &ends), f16::ONE);
        }
    });
}

#[test]
fn nothing_to_add_or_to_add_to_is_no_launch() {
    on_every_device(|_, stream| {
        let none = Tensor::<i64>::zeros(stream, &[0]).expect("indices");
        let src = Tensor::<bf16>::zeros(stream, &[0, 3]).expect("rows");
        let y = ScatterAdd::new(&none, &src)
            .extent(2)
            .run(stream)
            .expect("zeros");
        assert_eq!(y.to_vec().expect("zeros"), [bf16::ZERO; 6]);
        let two = Tensor::<i64>::zeros(stream, &[2]).expect("indices");
        let rows = Tensor::<bf16>::zeros(stream, &[2, 3]).expect("rows");
        let y = ScatterAdd::new(&two, &rows)
            .extent(0)
            .run(stream)
            .expect("nothing");
        assert_eq!(y.shape(), [0, 3]);
        let empty = Tensor::<bf16>::zeros(stream, &[2, 0]).expect("rows");
        let y = ScatterAdd::new(&two, &empty)
            .extent(5)
            .run(stream)
            .expect("nothing");
        assert_eq!(y.shape(), [5, 0]);
    });
}

/// A table of more than 4 GiB.
#[test]
fn tables_beyond_32_bits_are_addressed_by_64() {
    let gpus = warpsmith::testing::devices()
        .into_iter()
        .filter(|device| !device.is_emulator());
    for device in gpus {
        let stream = device.stream().expect("a stream");
        let (rows, columns) = (3 << 20, 1024);
        let y = Tensor::<bf16>::zeros(&stream, &[rows, columns]).expect("a table");
        let indices = [rows as i64 - 1, 0, rows as i64 - 1];
        let indices = Tensor::from_slice(&device, &[3], &indices).expect("indices");
        let src = Tensor::full(&stream, &[3, columns], bf16::ONE).expect("rows");
        ScatterAdd::new(&indices, &src)
            .run_into(&y, &stream)
            .expect("launches");
        for (row, want) in [(0, 1.0), (1, 0.0), (rows - 2, 0.0), (rows - 1, 2.0)] {
            let got = y.index_axis(0, row).expect("a row");
            let got = got.contiguous(&stream).and_then(|row| row.to_vec());
            let want = bf16::from_f32(want);
            assert!(got.expect("elements").iter().all(|&x| x == want), "{row}");
        }
    }
}
