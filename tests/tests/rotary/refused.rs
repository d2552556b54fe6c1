//! Operands that do not fit, and results that overlap what is read.

use warpsmith::{Layout, Rotary, Tensor};
use warpsmith_tests::{on_every_device, refused};

#[test]
fn what_does_not_fit_is_refused_by_name() {
    on_every_device(|_, stream| {
        let zeros = |shape: &[usize]| Tensor::<f32>::zeros(stream, shape).expect("a tensor");
        let positions = |shape: &[usize]| Tensor::<i32>::zeros(stream, shape).expect("a tensor");
        let (x, table) = (zeros(&[2, 6, 3, 8]), zeros(&[9, 4]));
        let of = Rotary::new(&x, &table, &table);
        refused!(of.offset(4).run(stream) => Shape::Mismatch, "`cos`", "[9, 4]", "10 rows");
        refused!(of.offset(usize::MAX).run(stream) => Shape::Mismatch, "`cos`", "rows");
        of.offset(3).run(stream).expect("nine rows are enough");
        let matrix = zeros(&[6, 8]);
        refused!(
            Rotary::new(&matrix, &table, &table).run(stream)
            => Shape::Mismatch, "`x`", "three dimensions"
        );
        let wide = zeros(&[9, 5]);
        refused!(
            Rotary::new(&x, &wide, &wide).run(stream)
            => Shape::Mismatch, "`cos`", "[9, 5]", "at most 4"
        );
        refused!(
            Rotary::new(&x, &table, &wide).run(stream)
            => Shape::Mismatch, "`sin`", "[9, 5]", "[9, 4]"
        );
        let row = zeros(&[4]);
        refused!(
            Rotary::new(&x, &row, &row).run(stream)
            => Shape::Mismatch, "`cos`", "two dimensions"
        );
        let few = positions(&[6]);
        refused!(of.positions(&few).run(stream) => Shape::Mismatch, "`positions`", "[6]", "[2, 6]");
        refused!(of.offsets(&few).run(stream) => Shape::Mismatch, "`offsets`", "[6]", "[2]");
        let y = zeros(&[2, 6, 8, 3]);
        refused!(of.run_into(&y, stream) => Shape::Mismatch, "`y`", "[2, 6, 8, 3]", "[2, 6, 3, 8]");
        let heads_first = of.layout(Layout::Bhsd).positions(&few);
        refused!(heads_first.run(stream) => Shape::Mismatch, "`positions`", "[2, 3]");
    });
}

#[test]
fn a_result_that_overlaps_what_is_read_is_refused_unless_it_is_x() {
    on_every_device(|_, stream| {
        let memory = Tensor::<f32>::zeros(stream, &[80]).expect("a tensor");
        let x = memory.slice(0, ..64).and_then(|x| x.reshape(&[2, 4, 8]));
        let x = x.expect("a view");
        let shifted = memory.slice(0, 8..72).and_then(|x| x.reshape(&[2, 4, 8]));
        let shifted = shifted.expect("a view");
        let table = memory.slice(0, 72..).and_then(|x| x.reshape(&[2, 4]));
        let table = table.expect("a view");
        let of = Rotary::new(&x, &table, &table);
        let refused = of.run_into(&shifted, stream);
        refused!(refused => Shape::Overlap, "`y` (written) overlaps `x`");
        of.run_into(&x, stream).expect("x itself");
        let on_table = memory.slice(0, 16..).and_then(|x| x.reshape(&[2, 4, 8]));
        let other = Tensor::<f32>::zeros(stream, &[2, 4, 8]).expect("a tensor");
        let refused =
            Rotary::new(&other, &table, &table).run_into(&on_table.expect("a view"), stream);
        refused!(refused => Shape::Overlap, "`y` (written) overlaps `cos`");
        let row = memory.slice(0, ..8).and_then(|x| x.reshape(&[1, 1, 8]));
        let repeated = row
            .and_then(|row| row.broadcast_to(&[2, 4, 8]))
            .expect("a view");
        let refused = Rotary::new(&repeated, &table, &table).run_into(&repeated, stream);
        refused!(refused => Shape::Strides, "rotary: strides of `y`");
    });
}
