//! Copies between layouts, including permutations: the bits must be equal.

use ndarray::ArrayD;
use proptest::prelude::*;
use warpsmith::{Device, DeviceBuffer, Element, Float, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::Operand;
use warpsmith_tests::operation::agrees_exactly;
use warpsmith_tests::output::{Output, same_bits};
use warpsmith_tests::property::{Effort, holds};
use warpsmith_tests::rows::signed;
use warpsmith_tests::{Checked, say, with_float};

use super::{Case, case};

/// Casts to every dtype, copies and assignments: exact.
pub(crate) fn check_moves(case: &Case, device: &Device) -> Checked {
    fn typed<T: Float + TestElement>(case: &Case, device: &Device) -> Checked {
        fn cast<T: Float, U: Float + TestElement>(x: &Tensor<T>, values: &ArrayD<f64>) -> Checked {
            let stream = x.device().stream().map_err(say)?;
            let got = x
                .cast::<U>(&stream)
                .map_err(say)?
                .to_ndarray()
                .map_err(say)?;
            agrees_exactly(&got, values).map_err(|error| format!("to {}: {error}", U::DTYPE))
        }
        let x = Operand::<T>::draw(device, &case.shape, case.values, case.views[0], case.seed)?;
        cast::<T, f32>(&x.tensor, &x.values)?;
        cast::<T, half::f16>(&x.tensor, &x.values)?;
        cast::<T, half::bf16>(&x.tensor, &x.values)?;
        let stream = device.stream().map_err(say)?;
        let copy = x.tensor.contiguous(&stream).map_err(say)?;
        if !copy.is_contiguous() {
            return Err("the copy is not contiguous".into());
        }
        let want = x.values.mapv(|x| T::from_f64(x));
        same_bits(&want, &copy.to_ndarray().map_err(say)?)?;
        let y = Output::<T>::new(device, &case.shape, case.views[2])?;
        y.tensor.assign(&x.tensor, &stream).map_err(say)?;
        same_bits(&want, &y.read()?)
    }
    with_float!(case.dtype, typed(case, device))
}

#[test]
fn casts_and_copies_are_exact_for_every_layout_and_dtype() {
    let effort = Effort {
        cases: [200, 1000],
        largest: [100, 20_000],
    };
    holds(effort, case, check_moves);
}

/// All permutations of 0..rank.
fn permutations(rank: usize) -> Vec<Vec<usize>> {
    if rank == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for shorter in permutations(rank - 1) {
        for at in 0..rank {
            let mut longer = shorter.clone();
            longer.insert(at, rank - 1);
            all.push(longer);
        }
    }
    all
}

/// Makes a permuted tensor of consecutive numbers contiguous, and compares it with ndarray.
fn check_permutation<T: Element + PartialEq + std::fmt::Debug>(
    device: &Device,
    shape: &[usize],
    axes: &[usize],
    make: impl Fn(usize) -> T,
) -> Checked {
    let len: usize = shape.iter().product();
    let values: Vec<T> = (0..len).map(make).collect();
    let buffer = DeviceBuffer::from_slice(device, &values).map_err(say)?;
    let x = Tensor::from_buffer(buffer, shape).map_err(say)?;
    let stream = device.stream().map_err(say)?;
    let signed: Vec<isize> = axes.iter().map(|&axis| signed(axis, axes.len())).collect();
    let permuted = x.permute(&signed).map_err(say)?;
    let got = permuted
        .contiguous(&stream)
        .map_err(say)?
        .to_ndarray()
        .map_err(say)?;
    let want = ArrayD::from_shape_vec(shape, values)
        .map_err(say)?
        .permuted_axes(axes);
    if got == want {
        Ok(())
    } else {
        Err(format!(
            "{shape:?} by {axes:?} is wrong in elements of {} bytes",
            size_of::<T>()
        ))
    }
}

fn check_permutation_of_all_sizes(device: &Device, shape: &[usize], axes: &[usize]) -> Checked {
    check_permutation(device, shape, axes, |i| (i * 7 % 251) as u8)?;
    check_permutation(device, shape, axes, |i| i as u16)?;
    check_permutation(device, shape, axes, |i| i as f32)?;
    check_permutation(device, shape, axes, |i| i as i64 - (1 << 40))
}

#[test]
fn every_permutation_of_few_dimensions_moves_every_element() {
    let shapes: [&[usize]; 9] = [
        &[17, 40],
        &[64, 32],
        &[130, 129],
        &[5, 16, 24],
        &[9, 33, 8],
        &[16, 2, 20],
        &[128, 3, 128],
        &[3, 8, 16, 9],
        &[2, 12, 2, 3, 8],
    ];
    for device in warpsmith::testing::devices() {
        for shape in shapes {
            for axes in permutations(shape.len()) {
                check_permutation_of_all_sizes(&device, shape, &axes)
                    .unwrap_or_else(|error| panic!("on {device}: {error}"));
            }
        }
    }
}

#[test]
fn random_permutations_of_up_to_eight_dimensions_move_every_element() {
    let effort = Effort {
        cases: [60, 300],
        largest: [20, 300],
    };
    let shapes = |largest: usize| {
        let few = prop::collection::vec(1..=largest, 2..=3);
        let many = prop::collection::vec(1..=3_usize, 4..=8);
        prop_oneof![few, many].prop_flat_map(|shape| {
            let axes: Vec<usize> = (0..shape.len()).collect();
            (Just(shape), Just(axes).prop_shuffle())
        })
    };
    holds(effort, shapes, |(shape, axes), device| {
        check_permutation_of_all_sizes(device, shape, axes)
    });
}

/// The paths of transpositions that whole tensors do not take: rows that are not aligned, and views
/// of larger tensors on both sides.
#[test]
fn parts_of_matrices_are_transposed_in_place_of_others() {
    fn check<T: Element + PartialEq>(device: &Device, make: impl Fn(usize) -> T) {
        let stream = device.stream().expect("a stream");
        let values: Vec<T> = (0..90 * 101).map(make).collect();
        let x = Tensor::from_slice(device, &[90, 101], &values).expect("a tensor");
        let y = Tensor::full(&stream, &[110, 97], T::default());
        let y = y.expect("a tensor");
        let part = |t: &Tensor<T>, rows: [usize; 2], columns: [usize; 2]| {
            let t = t.slice(0, rows[0]..rows[1]).expect("rows");
            t.slice(1, columns[0]..columns[1]).expect("columns")
        };
        let from = part(&x, [3, 80], [5, 98]);
        let to = part(&y, [7, 100], [2, 79]);
        to.assign(&from.t(), &stream).expect("a copy");
        let got = y.to_ndarray().expect("an array");
        for ((j, i), got) in got.indexed_iter().map(|(at, got)| ((at[0], at[1]), got)) {
            let inside = (7..100).contains(&j) && (2..79).contains(&i);
            let want = if inside {
                values[(i - 2 + 3) * 101 + (j - 7 + 5)]
            } else {
                T::default()
            };
            assert!(
                *got == want,
                "({j}, {i}) in elements of {} bytes",
                size_of::<T>()
            );
        }
    }
    for device in warpsmith::testing::devices() {
        check(&device, |i| (i % 250) as u8 + 1);
        check(&device, |i| i as u16 + 1);
        check(&device, |i| i as f32 + 1.0);
        check(&device, |i| i as i64 + 1);
    }
}

#[test]
fn windows_over_a_vector_are_copied_wherever_they_begin() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let values: Vec<f32> = (0..64_u8).map(f32::from).collect();
        let x = Tensor::from_slice(&device, &[64], &values).expect("a tensor");
        // Each of 3 windows of 16, once for each of 8 columns: they step by 1 as their elements do.
        let windows = x.as_strided(&[3, 16, 8], &[1, 1, 0], 32).expect("a view");
        let copy = windows.contiguous(&stream).expect("a copy");
        let want = ArrayD::from_shape_fn(vec![3, 16, 8], |at| 32.0 + (at[0] + at[1]) as f32);
        assert_eq!(copy.to_ndarray().expect("elements"), want);
    }
}
