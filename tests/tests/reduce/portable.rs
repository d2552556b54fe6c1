//! Direct launches of the entries that any device has, beside which others must have the same bits.

use abi::reduce::{ReduceEntry, ReduceParams, ReducePlan, ReduceView, Variant};
use warpsmith::testing::launch;
use warpsmith::{LaunchConfig, ReduceOp, Reducible, Stream, Tensor};
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
    assert_eq!(x.len() as u64, view.outer * view.n * view.inner);
    let entry = ReduceEntry::of(op.family(), T::DTYPE, false).expect("an entry");
    let plan = ReducePlan::of(entry, &view, true);
    let params = ReduceParams::new(op, view, &plan, T::DTYPE);
    let words = plan.partials() as usize * entry.partial_words();
    let partials = Tensor::<f32>::zeros(stream, &[words]).expect("a tensor");
    let tickets = Tensor::<i32>::zeros(stream, &[plan.tickets() as usize]).expect("a tensor");
    let outputs = (view.outer * view.inner) as usize;
    let out = Tensor::<T::Value>::zeros(stream, &[outputs]).expect("a tensor");
    let entry = entry.for_plan(&plan).expect("an entry");
    let config = LaunchConfig::linear(plan.blocks, plan.threads());
    // SAFETY: x has the view's elements; there are as many partial results, of as many words, tickets
    // of 0, and outputs as the plan has.
    let memory = (x, &partials, &tickets, &out);
    unsafe { launch(stream, entry, config, memory, &params) }.expect("a launch");
    let values = out.to_vec().expect("the results");
    let bits = values.into_iter().map(TestElement::bits).collect();
    (plan.variant, bits)
}
