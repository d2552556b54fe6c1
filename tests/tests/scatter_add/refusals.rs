//! What `ScatterAdd` does not take, and how it says so.

use warpsmith::{Error, ScatterAdd, ShapeError, Tensor};
use warpsmith_tests::on_every_device;

#[test]
fn what_does_not_fit_is_refused_by_name() {
    on_every_device(|_, stream| {
        let text = |error: Error| error.to_string();
        let y = Tensor::<f32>::zeros(stream, &[3, 4]).expect("a tensor");
        let indices = Tensor::<i32>::zeros(stream, &[5]).expect("indices");
        let src = Tensor::<f32>::zeros(stream, &[5, 4]).expect("rows");
        let add = ScatterAdd::new(&indices, &src);
        let refused = add.axis(2).run_into(&y, stream).expect_err("no axis 2");
        assert_eq!(text(refused), "scatter_add: axis is 2, want -2 to 1");
        let refused = add
            .axis(1)
            .run_into(&y, stream)
            .expect_err("rows of [3, 5]");
        assert_eq!(
            text(refused),
            "scatter_add: shape of `src` is [5, 4], want [3, 5]"
        );
        let refused = add
            .axis(2)
            .extent(3)
            .run(stream)
            .expect_err("no axis of indices");
        assert_eq!(text(refused), "scatter_add: axis is 2, want -2 to 1");
        let row = Tensor::<f32>::zeros(stream, &[]).expect("a number");
        let few = ScatterAdd::new(&indices, &row).extent(3).run(stream);
        let few = text(few.expect_err("no dimensions for the indices"));
        assert_eq!(
            few,
            "scatter_add: shape of `src` is [], want at least 1 dimensions, those of the indices"
        );
        let none = text(add.run(stream).expect_err("no extent"));
        assert!(none.contains("extent of the axis is missing"), "{none}");
        let refused = add
            .axis(1)
            .extent(3)
            .run(stream)
            .expect_err("rows of [5, 5]");
        assert_eq!(
            text(refused),
            "scatter_add: shape of `src` is [5, 4], want [5, 5]"
        );
        let one = Tensor::<f32>::zeros(stream, &[1, 4]).expect("a tensor");
        let repeated = one.broadcast_to(&[3, 4]).expect("a view");
        let refused = add.run_into(&repeated, stream).expect_err("one row");
        assert!(text(refused).contains("`y`"));
        let scalar = Tensor::<f32>::zeros(stream, &[]).expect("a scalar");
        let refused = add.run_into(&scalar, stream).expect_err("no axis");
        assert!(matches!(
            refused.root(),
            Error::Shape(ShapeError::Axis { axis: 0, rank: 0 })
        ));
        let index = Tensor::<i32>::zeros(stream, &[]).expect("an index");
        let element = Tensor::<f32>::zeros(stream, &[]).expect("an element");
        let wide = one.broadcast_to(&[1 << 33, 4]).expect("a view");
        let row = Tensor::<f32>::zeros(stream, &[4]).expect("a row");
        let refused = ScatterAdd::new(&index, &row).run_into(&wide, stream);
        assert!(matches!(
            refused.as_ref().map_err(Error::root),
            Err(Error::Shape(ShapeError::OutOfBounds { what: "extent of the axis", got, limit }))
                if *got == 1 << 33 && *limit == (1 << 32) - 1
        ));
        let many = index.broadcast_to(&[(1 << 30) + 1]).expect("a view");
        let elements = element.broadcast_to(&[(1 << 30) + 1]).expect("a view");
        let refused = ScatterAdd::new(&many, &elements).extent(1).run(stream);
        assert!(matches!(
            refused.as_ref().map_err(Error::root),
            Err(Error::Shape(ShapeError::OutOfBounds { what: "number of indices", got, limit }))
                if *got == (1 << 30) + 1 && limit == got
        ));
    });
}

#[test]
fn a_result_that_overlaps_what_is_read_is_refused() {
    on_every_device(|_, stream| {
        let y = Tensor::<i32>::zeros(stream, &[4, 4]).expect("a tensor");
        let indices = y.index_axis(0, 3).expect("a view");
        let other = Tensor::<i32>::zeros(stream, &[4, 4]).expect("a tensor");
        let refused = ScatterAdd::new(&indices, &y).run_into(&y, stream);
        assert!(matches!(
            refused.as_ref().map_err(Error::root),
            Err(Error::Shape(ShapeError::Overlap {
                output: "y",
                other: "src"
            }))
        ));
        let refused = ScatterAdd::new(&indices, &other).run_into(&y, stream);
        assert!(matches!(
            refused.as_ref().map_err(Error::root),
            Err(Error::Shape(ShapeError::Overlap {
                output: "y",
                other: "indices"
            }))
        ));
    });
}
