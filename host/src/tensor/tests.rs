//! Views against ndarray's, without a device: both address the same numbers 0, 1, 2, ..

use super::layout::{Layout, axis_of};
use super::overlap::may_overlap;
use crate::error::{ArgumentError, Error, ShapeError};
use ndarray::{ArrayD, ArrayViewD, Axis, IxDyn, Slice};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// One step from a view to the next. Numbers are taken modulo what makes sense.
#[derive(Clone, Debug)]
enum Step {
    Slice {
        axis: usize,
        from: usize,
        len: usize,
        step: i64,
    },
    Index {
        axis: usize,
        index: usize,
    },
    Insert {
        axis: usize,
    },
    Swap {
        first: usize,
        second: usize,
    },
    Transpose,
    Broadcast {
        axis: usize,
        extent: usize,
    },
    Reshape {
        merge: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let n = 0..8_usize;
    prop_oneof![
        (
            n.clone(),
            n.clone(),
            n.clone(),
            prop_oneof![-3..0_i64, 1..4_i64]
        )
            .prop_map(|(axis, from, len, step)| Step::Slice {
                axis,
                from,
                len,
                step
            }),
        (n.clone(), n.clone()).prop_map(|(axis, index)| Step::Index { axis, index }),
        n.clone().prop_map(|axis| Step::Insert { axis }),
        (n.clone(), n.clone()).prop_map(|(first, second)| Step::Swap { first, second }),
        Just(Step::Transpose),
        (n.clone(), 1..4_usize).prop_map(|(axis, extent)| Step::Broadcast { axis, extent }),
        n.prop_map(|merge| Step::Reshape { merge }),
    ]
}

/// Takes one step on both sides; `None` where the step makes no sense here.
fn take(layout: &Layout, array: &ArrayViewD<'_, usize>, step: &Step) -> Option<Layout> {
    let rank = array.ndim();
    let shape = array.shape();
    let taken = match *step {
        Step::Slice {
            axis,
            from,
            len,
            step,
        } if rank > 0 => {
            let axis = axis % rank;
            let from = from % (shape[axis] + 1);
            let len = len % (shape[axis] - from + 1);
            layout.slice(axis, from, from + len, step)
        }
        Step::Index { axis, index } if rank > 0 && shape[axis % rank] > 0 => {
            layout.index_axis(axis % rank, index % shape[axis % rank])
        }
        Step::Insert { axis } if rank < 6 => layout.insert_axis(axis % (rank + 1)),
        Step::Swap { first, second } if rank > 0 => {
            let mut axes: Vec<usize> = (0..rank).collect();
            axes.swap(first % rank, second % rank);
            layout.permute(&axes)
        }
        Step::Transpose => Ok(layout.transposed()),
        Step::Broadcast { axis, extent } if rank > 0 && shape[axis % rank] == 1 => {
            let mut want = shape.to_vec();
            want[axis % rank] = extent;
            layout.broadcast_to(&want)
        }
        Step::Reshape { merge } if rank > 1 => {
            let first = merge % (rank - 1);
            let mut want = shape.to_vec();
            let merged = want.remove(first + 1);
            want[first] *= merged;
            match layout.reshape(&want) {
                Err(Error::Shape(ShapeError::ReshapeNeedsCopy { .. })) => return None,
                other => other,
            }
        }
        _ => return None,
    };
    Some(taken.expect("a step within bounds"))
}

/// ndarray's side of the same step, copied so that it owns its elements.
fn take_ndarray(array: &ArrayD<usize>, step: &Step) -> ArrayD<usize> {
    let rank = array.ndim();
    let shape = array.shape().to_vec();
    match *step {
        Step::Slice {
            axis,
            from,
            len,
            step,
        } => {
            let axis = axis % rank;
            let from = from % (shape[axis] + 1);
            let len = len % (shape[axis] - from + 1);
            let slice = Slice::new(from as isize, Some((from + len) as isize), step as isize);
            array.slice_axis(Axis(axis), slice).to_owned()
        }
        Step::Index { axis, index } => {
            let axis = axis % rank;
            array.index_axis(Axis(axis), index % shape[axis]).to_owned()
        }
        Step::Insert { axis } => array.clone().insert_axis(Axis(axis % (rank + 1))),
        Step::Swap { first, second } => {
            let mut view = array.view();
            view.swap_axes(first % rank, second % rank);
            view.to_owned()
        }
        Step::Transpose => {
            let mut view = array.view();
            if rank > 1 {
                view.swap_axes(rank - 2, rank - 1);
            }
            view.to_owned()
        }
        Step::Broadcast { axis, extent } => {
            let mut want = shape;
            want[axis % rank] = extent;
            array
                .broadcast(IxDyn(&want))
                .expect("an extent of 1")
                .to_owned()
        }
        Step::Reshape { merge } => {
            let first = merge % (rank - 1);
            let mut want = shape;
            let merged = want.remove(first + 1);
            want[first] *= merged;
            let flat: Vec<usize> = array.iter().copied().collect();
            ArrayD::from_shape_vec(IxDyn(&want), flat).expect("as many elements")
        }
    }
}

/// The storage index of every element, in row-major order.
fn elements(layout: &Layout) -> Vec<usize> {
    let mut indices = vec![layout.offset as i64];
    for (&extent, &stride) in layout.shape.iter().zip(&*layout.strides) {
        indices = indices
            .iter()
            .flat_map(|&start| (0..extent as i64).map(move |index| start + index * stride))
            .collect();
    }
    indices
        .into_iter()
        .map(|index| usize::try_from(index).expect("inside"))
        .collect()
}

proptest! {
    #[test]
    fn views_name_the_same_elements_as_those_of_ndarray(
        shape in prop::collection::vec(0..5_usize, 0..5),
        steps in prop::collection::vec(step(), 0..8),
    ) {
        let len: usize = shape.iter().product();
        let mut array = ArrayD::from_shape_vec(IxDyn(&shape), (0..len).collect()).expect("fits");
        let mut layout = Layout::contiguous(&shape).expect("small");
        for step in &steps {
            let Some(next) = take(&layout, &array.view(), step) else {
                continue;
            };
            array = take_ndarray(&array, step);
            layout = next;
            prop_assert_eq!(&*layout.shape, array.shape());
            let want: Vec<usize> = array.iter().copied().collect();
            let got = elements(&layout);
            prop_assert_eq!(&got, &want, "after {:?}", step);
            if let Some((first, last)) = layout.bounds() {
                prop_assert_eq!(first, *got.iter().min().expect("not empty") as i128);
                prop_assert_eq!(last, *got.iter().max().expect("not empty") as i128);
            }
            let in_order = got.windows(2).all(|pair| pair[1] == pair[0] + 1);
            prop_assert_eq!(layout.is_contiguous(), in_order, "{:?}", &layout);
            let distinct = got.iter().collect::<BTreeSet<_>>().len() == got.len();
            if layout.is_injective() {
                prop_assert!(distinct, "{:?} names an element twice", &layout);
            }
        }
    }

    #[test]
    fn tensors_that_share_an_element_are_said_to_overlap(
        shape in prop::collection::vec(1..6_usize, 1..4),
        a_steps in prop::collection::vec(step(), 0..5),
        b_steps in prop::collection::vec(step(), 0..5),
    ) {
        let whole = Layout::contiguous(&shape).expect("small");
        let len: usize = shape.iter().product();
        let walk = |steps: &[Step]| {
            let mut array = ArrayD::from_shape_vec(IxDyn(&shape), (0..len).collect()).expect("fits");
            let mut layout = whole;
            for step in steps {
                if let Some(next) = take(&layout, &array.view(), step) {
                    array = take_ndarray(&array, step);
                    layout = next;
                }
            }
            layout
        };
        let (a, b) = (walk(&a_steps), walk(&b_steps));
        let of_a: BTreeSet<usize> = elements(&a).into_iter().collect();
        let shared = elements(&b).iter().any(|element| of_a.contains(element));
        prop_assert!(!shared || may_overlap(&a, &b), "{:?} and {:?}", a, b);
        prop_assert_eq!(may_overlap(&a, &b), may_overlap(&b, &a));
    }

    #[test]
    fn a_layout_is_accepted_exactly_when_all_its_elements_lie_inside(
        dims in prop::collection::vec((0..4_usize, -5..6_i64), 0..4),
        offset in 0..40_usize,
        len in 0..40_usize,
    ) {
        let (shape, strides): (Vec<usize>, Vec<i64>) = dims.into_iter().unzip();
        let is_empty = shape.contains(&0);
        let reach = |pick: fn(i64) -> bool| -> i64 {
            shape.iter().zip(&strides).filter(|&(_, &s)| pick(s)).map(|(&n, &s)| (n as i64 - 1) * s).sum()
        };
        let inside = if is_empty {
            offset <= len
        } else {
            let (low, high) = (reach(|s| s < 0), reach(|s| s > 0));
            offset as i64 + low >= 0 && offset as i64 + high < len as i64
        };
        prop_assert_eq!(Layout::new(&shape, &strides, offset, len).is_ok(), inside);
    }
}

#[test]
fn bad_views_are_errors_with_the_values() {
    let x = Layout::contiguous(&[2, 3]).expect("small");
    let text = |result: Result<Layout, Error>| result.expect_err("a bad view").to_string();
    let axis = |axis, rank| axis_of(rank, axis).map_err(|error| error.to_string());
    assert_eq!(
        [axis(1, 2), axis(-1, 2), axis(-2, 2)],
        [Ok(1), Ok(1), Ok(0)]
    );
    for bad in [2, -3, isize::MIN, isize::MAX] {
        assert_eq!(axis(bad, 2), Err(format!("axis is {bad}, want -2 to 1")));
    }
    let none = "axis is -1, but a tensor without dimensions has none";
    assert_eq!(axis(-1, 0), Err(none.into()));
    assert_eq!(
        text(x.slice(1, 0, 4, 1)),
        "bound of a slice is 4, want at most 3"
    );
    assert_eq!(
        text(x.slice(1, 2, 1, 1)),
        "bound of a slice is 2, want at most 1"
    );
    assert!(matches!(
        x.slice(1, 0, 1, 0),
        Err(Error::Argument(ArgumentError::Value { .. }))
    ));
    assert_eq!(text(x.index_axis(0, 2)), "index is 2, want at most 1");
    assert!(matches!(
        x.permute(&[0, 0]),
        Err(Error::Argument(ArgumentError::Value { .. }))
    ));
    assert!(matches!(
        x.permute(&[0]),
        Err(Error::Argument(ArgumentError::Value { .. }))
    ));
    assert!(matches!(
        x.permute(&[0, 2]),
        Err(Error::Argument(ArgumentError::Value { .. }))
    ));
    assert!(matches!(
        x.reshape(&[5]),
        Err(Error::Shape(ShapeError::Mismatch { .. }))
    ));
    let empty = Layout::contiguous(&[0]).expect("a layout");
    assert!(empty.reshape(&[3, 0]).is_ok());
    assert!(matches!(
        empty.reshape(&[usize::MAX, 0]),
        Err(Error::Shape(ShapeError::Overflow { .. }))
    ));
    assert!(matches!(
        x.transposed().reshape(&[6]),
        Err(Error::Shape(ShapeError::ReshapeNeedsCopy { .. }))
    ));
    assert!(matches!(
        x.broadcast_to(&[2, 2]),
        Err(Error::Shape(ShapeError::Mismatch { .. }))
    ));
    assert!(matches!(
        x.broadcast_to(&[3]),
        Err(Error::Shape(ShapeError::Mismatch { .. }))
    ));
    assert!(matches!(
        Layout::contiguous(&[1; 9]),
        Err(Error::Shape(ShapeError::OutOfBounds { .. }))
    ));
    let huge = [1 << 40, 1 << 40];
    assert!(matches!(
        Layout::contiguous(&huge),
        Err(Error::Shape(ShapeError::Overflow { .. }))
    ));
    assert!(matches!(
        Layout::new(&[2], &[1, 1], 0, 9),
        Err(Error::Shape(ShapeError::Length { .. }))
    ));
    assert!(matches!(
        Layout::new(&[2], &[-1], 0, 9),
        Err(Error::Shape(ShapeError::ViewOutOfBounds { .. }))
    ));
    assert!(matches!(
        Layout::new(&[2], &[9], 0, 9),
        Err(Error::Shape(ShapeError::ViewOutOfBounds { .. }))
    ));
    let far = Layout::new(&[2, 2], &[i64::MAX, i64::MAX], 0, 9);
    assert!(matches!(
        far,
        Err(Error::Shape(ShapeError::ViewOutOfBounds { .. }))
    ));
}
