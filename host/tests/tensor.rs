//! Tensors on every device that there is: ndarray in and out, views, and what is refused.

use ndarray::{Array, Array2, ArrayD, Axis, IxDyn, ShapeBuilder, Slice, array, s};
use proptest::prelude::*;
use warpsmith::testing::devices;
use warpsmith::{
    CrossEntropy, Device, DeviceBuffer, DeviceError, DevicePtr, Error, Gemm, MAX_RANK, Reduce,
    ReduceOp, ShapeError, Softmax, Tensor,
};

/// An array in one of many memory layouts: axes permuted, some reversed, some with gaps.
fn arrays() -> impl Strategy<Value = (ArrayD<i32>, Vec<usize>, Vec<i64>)> {
    prop::collection::vec(
        (
            0..5_usize,
            prop_oneof![Just(1_i64), Just(-1), Just(2), Just(-3)],
        ),
        0..5,
    )
    .prop_flat_map(|axes| {
        let order: Vec<usize> = (0..axes.len()).collect();
        (Just(axes), Just(order).prop_shuffle())
    })
    .prop_map(|(axes, order)| {
        let extents: Vec<usize> = axes.iter().map(|&(extent, _)| extent).collect();
        let steps = axes.iter().map(|&(_, step)| step).collect();
        let len: usize = extents.iter().product();
        let array = Array::from_iter(0..len as i32);
        let array = array.into_shape_with_order(IxDyn(&extents)).expect("fits");
        (array, order, steps)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_array_comes_back_as_it_went_in((array, order, steps) in arrays()) {
        let mut view = array.view();
        for (axis, &step) in steps.iter().enumerate() {
            view.slice_axis_inplace(Axis(axis), Slice::new(0, None, step as isize));
        }
        let view = view.permuted_axes(IxDyn(&order));
        for device in devices() {
            let tensor = Tensor::from_ndarray(&device, &view).expect("a small array");
            prop_assert_eq!(tensor.shape(), view.shape());
            prop_assert_eq!(tensor.to_ndarray().expect("reads"), view.to_owned());
            let row_major: Vec<i32> = view.iter().copied().collect();
            prop_assert_eq!(tensor.to_vec().expect("reads"), row_major);
        }
    }

    #[test]
    fn views_of_a_tensor_read_as_views_of_the_array((array, order, steps) in arrays()) {
        for device in devices() {
            let mut tensor = Tensor::from_ndarray(&device, &array).expect("a small array");
            let mut view = array.view();
            for (axis, &step) in steps.iter().enumerate() {
                tensor = tensor.slice_step(axis as isize, .., step).expect("inside");
                view.slice_axis_inplace(Axis(axis), Slice::new(0, None, step as isize));
            }
            let signed: Vec<isize> = order.iter().map(|&axis| axis as isize).collect();
            let tensor = tensor.permute(&signed).expect("a permutation");
            let view = view.permuted_axes(IxDyn(&order));
            prop_assert_eq!(tensor.to_ndarray().expect("reads"), view.to_owned());
            let broadcast: Vec<usize> = [&[3], view.shape()].concat();
            let tensor = tensor.broadcast_to(&broadcast).expect("a leading dimension");
            let view = view.broadcast(IxDyn(&broadcast)).expect("a leading dimension");
            prop_assert_eq!(tensor.to_ndarray().expect("reads"), view.to_owned());
        }
    }
}

#[test]
fn fortran_order_and_reversed_axes_keep_their_strides() {
    for device in devices() {
        let array = Array2::from_shape_vec((2, 3).f(), vec![1, 2, 3, 4, 5, 6]).expect("six");
        let tensor = Tensor::from_ndarray(&device, &array).expect("fits");
        assert_eq!(tensor.strides(), [1, 2]);
        assert!(!tensor.is_contiguous() && tensor.t().is_contiguous());
        let reversed = array.slice(s![..;-1, ..]);
        let tensor = Tensor::from_ndarray(&device, &reversed).expect("fits");
        assert_eq!(tensor.strides(), [-1, 2]);
        assert_eq!(tensor.offset(), 1);
        assert_eq!(
            tensor.to_ndarray().expect("reads"),
            reversed.to_owned().into_dyn()
        );
        let gaps = array.slice(s![.., ..;2]);
        let tensor = Tensor::from_ndarray(&device, &gaps).expect("fits");
        assert_eq!(tensor.strides(), [2, 1]);
    }
}

#[test]
fn constructors_fill_and_items() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let ones = Tensor::full(&stream, &[2, 3], 1.5_f64).expect("fits");
        assert_eq!(
            ones.to_ndarray().expect("reads"),
            ArrayD::from_elem(IxDyn(&[2, 3]), 1.5)
        );
        let scalar = Tensor::full(&stream, &[], 7_i64).expect("fits");
        assert_eq!(scalar.item().expect("one element"), 7);
        assert_eq!(
            ones.index_axis(0, 1)
                .and_then(|row| row.slice(0, 2..))
                .expect("inside")
                .item()
                .expect("one"),
            1.5
        );
        assert!(matches!(
            ones.item(),
            Err(Error::Shape(ShapeError::Mismatch { .. }))
        ));
        let nothing = Tensor::<f32>::zeros(&stream, &[3, 0, 2]).expect("nothing to allocate");
        assert!(nothing.is_empty() && nothing.is_contiguous());
        assert_eq!(
            nothing.to_ndarray().expect("reads nothing").shape(),
            [3, 0, 2]
        );

        // Filling a view leaves the rest alone.
        let row = ones.index_axis(0, 0).expect("inside");
        row.fill(-2.0, &stream).expect("contiguous");
        let want = array![[-2.0, -2.0, -2.0], [1.5, 1.5, 1.5]].into_dyn();
        assert_eq!(ones.to_ndarray().expect("reads"), want);
        let every_second = ones.slice_step(1, .., -2).expect("inside");
        every_second.fill(3.0, &stream).expect("any strides");
        let want = array![[3.0, -2.0, 3.0], [3.0, 1.5, 3.0]].into_dyn();
        assert_eq!(ones.to_ndarray().expect("reads"), want);
        let repeated = row.broadcast_to(&[2, 3]).expect("a view");
        assert!(matches!(
            repeated.fill(0.0, &stream),
            Err(Error::Shape(ShapeError::Strides { .. }))
        ));
    }
}

#[test]
fn a_view_keeps_its_storage_alive() {
    for device in devices() {
        let tensor = Tensor::from_slice(&device, &[4], &[1_u16, 2, 3, 4]).expect("fits");
        let tail = tensor.slice(0, 2..).expect("inside");
        drop(tensor);
        assert_eq!(tail.to_vec().expect("reads"), [3, 4]);
    }
}

#[test]
fn overlap_is_seen_across_views_and_not_across_tensors() {
    for device in devices() {
        let a = Tensor::from_slice(&device, &[2, 4], &[0_f32; 8]).expect("fits");
        let b = Tensor::from_slice(&device, &[2, 4], &[0_f32; 8]).expect("fits");
        assert!(!a.overlaps(&b));
        assert!(a.overlaps(&a.t()));
        let (left, right) = (
            a.slice(1, ..2).expect("inside"),
            a.slice(1, 2..).expect("inside"),
        );
        assert!(!left.overlaps(&right) && left.overlaps(&a));
        assert!(a.is_injective() && a.t().is_injective());
        assert!(
            !left
                .broadcast_to(&[3, 2, 2])
                .expect("a leading dimension")
                .is_injective()
        );
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let too_long = Tensor::from_slice(&device, &[2, 2], &[1_u8; 5]);
        assert!(matches!(
            too_long,
            Err(Error::Shape(ShapeError::Length {
                got: 5,
                want: 4,
                ..
            }))
        ));
        let deep = Tensor::<u8>::zeros(&stream, &[1; MAX_RANK + 1]);
        assert!(matches!(
            deep,
            Err(Error::Shape(ShapeError::OutOfBounds { .. }))
        ));
        let huge = Tensor::<f64>::empty(&stream, &[1 << 31, 1 << 31]);
        assert!(matches!(
            huge,
            Err(Error::Shape(ShapeError::Overflow { .. }))
        ));

        let buffer = || DeviceBuffer::from_slice(&device, &[1_u32; 6]).expect("fits");
        assert!(matches!(
            Tensor::from_buffer(buffer(), &[7]),
            Err(Error::Shape(ShapeError::Length {
                got: 6,
                want: 7,
                ..
            }))
        ));
        let strided = |shape: &[usize], strides: &[i64], offset| {
            Tensor::from_buffer_strided(buffer(), shape, strides, offset)
        };
        assert_eq!(strided(&[2, 2], &[-3, 2], 3).expect("inside").len(), 4);
        let outside = strided(&[2, 2], &[-3, 2], 2).expect_err("one before the start");
        assert!(
            matches!(
                outside,
                Error::Shape(ShapeError::ViewOutOfBounds {
                    first: -1,
                    last: 4,
                    len: 6
                })
            ),
            "{outside}"
        );
        assert!(matches!(
            strided(&[2], &[1, 1], 0),
            Err(Error::Shape(ShapeError::Length { .. }))
        ));
        let tensor = strided(&[6], &[1], 0).expect("inside");
        assert!(matches!(
            tensor.as_strided(&[2, 4], &[3, 1], 0),
            Err(Error::Shape(ShapeError::ViewOutOfBounds { .. }))
        ));
        assert_eq!(
            tensor
                .as_strided(&[4, 3], &[1, 1], 0)
                .expect("a sliding window")
                .len(),
            12
        );
        misaligned_parts_are_refused(&device);
    }
}

fn misaligned_parts_are_refused(device: &Device) {
    let address = DevicePtr::<f32>::from_raw(0x1002);
    // SAFETY: refused, so the memory that is not there is never used.
    let refused = unsafe { Tensor::from_raw_parts(device, address, 1, &[1], &[1], 0) };
    assert!(matches!(
        refused,
        Err(Error::Shape(ShapeError::Misaligned {
            got_bytes: 2,
            want_bytes: 4,
            ..
        }))
    ));
    let address = DevicePtr::<f32>::from_raw(0x1000);
    // SAFETY: as above.
    let refused =
        unsafe { Tensor::from_raw_parts(device, address, usize::MAX, &[1], &[1], 1 << 63) };
    assert!(matches!(
        refused,
        Err(Error::Shape(ShapeError::Overflow { .. }))
    ));
}

#[test]
fn empty_shapes_whose_other_extents_overflow_are_refused_in_every_order() {
    for device in devices() {
        let tensor = Tensor::from_ndarray(&device, &array![1_i32]).expect("a tensor");
        let huge = 1_usize << 40;
        for shape in [[0, huge, huge], [huge, 0, huge], [huge, huge, 0]] {
            let view = tensor.as_strided(&shape, &[1, 1, 1], 0);
            assert!(
                matches!(view, Err(Error::Shape(ShapeError::Overflow { .. }))),
                "{shape:?}"
            );
        }
        let empty = tensor
            .as_strided(&[0, huge], &[1, 1], 0)
            .expect("no element");
        let turned = empty.permute(&[1, 0]).expect("a permutation");
        assert_eq!((turned.len(), turned.to_vec().expect("empty")), (0, vec![]));
    }
}

#[test]
fn a_view_too_large_for_the_host_is_an_error_when_it_is_read() {
    for device in devices() {
        let one = Tensor::from_ndarray(&device, &array![1_i64]).expect("a tensor");
        let many = one.broadcast_to(&[1 << 59]).expect("no memory of its own");
        let read = many.to_ndarray();
        assert!(
            matches!(read, Err(Error::Device(DeviceError::OutOfHostMemory { requested_bytes })) if requested_bytes == 1 << 62),
            "{read:?}"
        );
    }
}

#[test]
fn arrays_and_buffers_too_large_for_the_host_are_errors() {
    for device in devices() {
        let one = array![1_i64];
        let repeated = one.broadcast(1_usize << 59).expect("no memory of its own");
        // SAFETY: the host's memory is asked for before any of the device's is read.
        let buffer = unsafe { DeviceBuffer::<i64>::borrowed(&device, 0x1000, 1 << 59) };
        for refused in [
            Tensor::from_ndarray(&device, &repeated).map(drop),
            buffer.to_vec().map(drop),
        ] {
            assert!(
                matches!(refused, Err(Error::Device(DeviceError::OutOfHostMemory { requested_bytes })) if requested_bytes == 1 << 62),
                "{refused:?}"
            );
        }
    }
}

#[test]
fn operations_take_tensors_without_elements_whatever_their_strides() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let one = Tensor::full(&stream, &[1], 1.0_f32).expect("a tensor");
        for stride in [i64::MIN, i64::MIN + 1, 1 << 62, i64::MAX] {
            let none = one.as_strided(&[0, 2], &[1, stride], 0);
            let none = none.expect("no element is outside");
            let sum = Reduce::new(ReduceOp::Sum, &none).run(&stream);
            assert_eq!(sum.expect("it runs").item().expect("a number"), 0.0);
            // Four rows of no class.
            let logits = one.as_strided(&[4, 0], &[stride, 1], 0);
            let logits = logits.expect("no element is outside");
            let targets = Tensor::full(&stream, &[4], 0_i64).expect("a tensor");
            let loss = CrossEntropy::new(&logits, &targets).run(&stream);
            assert!(loss.expect("it runs").item().expect("a number").is_nan());
            assert!(none.to_vec().expect("it is read").is_empty());
            let softmax = Softmax::new(&logits).run(&stream).expect("it runs");
            assert_eq!(softmax.shape(), [4, 0]);
            let b = one.as_strided(&[0, 3], &[stride, stride], 0);
            let product = Gemm::new(&logits, &b.expect("no element is outside")).run(&stream);
            let product = product.expect("it runs").to_vec();
            assert_eq!(product.expect("sums of nothing"), [0.0; 12]);
            let turned = none.slice_step(1, .., -1).expect("inside");
            assert!(turned.contiguous(&stream).expect("it is copied").is_empty());
        }
    }
}
