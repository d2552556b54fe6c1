//! Reductions by the kernels that any device has, beside which others must have the same bits.

use abi::reduce::{ReduceEntry, ReduceView, Variant};
use warpsmith::{Reduce, ReduceOp, Reducible, Stream, Tensor};
use warpsmith_tests::element::TestElement;

/// The form of the plan for a contiguous `view` of `x`, and the bits of the results.
pub(crate) fn portable<T>(
    op: ReduceOp,
    x: &Tensor<T>,
    view: ReduceView,
    stream: &Stream,
) -> (Variant, Vec<u64>)
where
    T: Reducible<Value: TestElement> + TestElement,
{
    let extents = [view.outer, view.n, view.inner].map(|extent| extent as usize);
    let x = x.reshape(&extents).expect("the view's elements");
    let reduce = Reduce::new(op, &x).axis(1);
    let plan = reduce.plan(stream).expect("a plan");
    let chosen = &plan.chosen().expect("a reduction").name;
    // The kernels that have the same parts without clusters, and take single elements.
    let name = chosen
        .replace("_cluster", "_long")
        .replace("extreme", "value");
    let results = reduce.with_kernel(&name).run(stream).expect("a reduction");
    let values = results.to_vec().expect("the results");
    let bits = values.into_iter().map(TestElement::bits).collect();
    (variant(&name), bits)
}

/// The variant of an entry.
pub(crate) fn variant(name: &str) -> Variant {
    let entry = ReduceEntry::find(|entry| entry.name() == name);
    entry.expect("an entry").variant
}
