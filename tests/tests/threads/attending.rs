//! Attention and its gradients: by a kernel of each kind that is offered.

use super::calls::{Calls, bits, kinds};
use half::{bf16, f16};
use warpsmith::{Attention, AttentionGrad, AttentionMerge, AttentionOutput, Float, Rotary, Tensor};
use warpsmith_tests::element::TestElement;

pub(crate) fn add(calls: &mut Calls) {
    forward::<f32>(calls, [1, 40, 50, 2]);
    forward::<f16>(calls, [1, 40, 50, 2]);
    forward::<bf16>(calls, [2, 1, 300, 2]);
    by_lengths(calls);
    in_pages(calls);
    split(calls);
    merged(calls);
    backward::<f32>(calls);
    backward::<bf16>(calls);
    rotated(calls);
}

/// q, k and v.
fn operands<T: TestElement>(
    calls: &mut Calls,
    [batch, queries, keys, heads]: [usize; 4],
) -> [Tensor<T>; 3] {
    const HEAD_DIM: usize = 32;
    [(queries, heads), (keys, 1), (keys, 1)]
        .map(|(positions, heads)| calls.numbers(&[batch, positions, heads, HEAD_DIM]))
}

/// Causal, so that tiles are not alike.
fn forward<T: TestElement + Float>(calls: &mut Calls, extents: [usize; 4]) {
    let [q, k, v] = operands::<T>(calls, extents);
    let plan = Attention::new(&q, &k, &v).causal().plan(&calls.stream);
    let plan = plan.expect("a plan");
    let names = plan.candidates().iter().map(|each| each.name.clone());
    for name in kinds(names) {
        let [q, k, v] = [&q, &k, &v].map(Tensor::clone);
        let title = format!("Attention of {extents:?} by {name}");
        calls.add(title, move |stream| {
            let call = Attention::new(&q, &k, &v).causal().with_kernel(&name);
            let AttentionOutput { o, lse } = call.lse().run(stream)?;
            Ok([bits(&o)?, bits(&lse)?].concat())
        });
    }
}

fn by_lengths(calls: &mut Calls) {
    let [q, k, v] = operands::<bf16>(calls, [2, 40, 90, 2]);
    let used = calls.below::<i32>(90, &[2]);
    let sink = calls.numbers::<f32>(&[2]);
    calls.add("Attention to used keys, with a sink", move |stream| {
        let call = Attention::new(&q, &k, &v).seqused_k(&used).sink(&sink);
        bits(&call.run(stream)?)
    });
    let [q, k, v] = operands::<f16>(calls, [1, 60, 60, 2]).map(|x| x.index_axis(0, 0));
    let [q, k, v] = [q, k, v].map(|x| x.expect("a view"));
    calls.add("Attention of packed sequences", move |stream| {
        let ends = &[0, 20, 60];
        bits(
            &Attention::new(&q, &k, &v)
                .cu_seqlens(ends, ends)
                .causal()
                .run(stream)?,
        )
    });
}

fn in_pages(calls: &mut Calls) {
    let q = calls.numbers::<bf16>(&[2, 1, 4, 32]);
    let [k, v] = [(); 2].map(|()| calls.numbers::<bf16>(&[4, 64, 1, 32]));
    let table = calls.below::<i32>(4, &[2, 2]);
    let used = calls.below::<i32>(128, &[2]);
    calls.add("Attention to pages", move |stream| {
        let call = Attention::new(&q, &k, &v).pages(&table).seqused_k(&used);
        bits(&call.run(stream)?)
    });
}

fn split(calls: &mut Calls) {
    for packs in [false, true] {
        let [q, k, v] = operands::<bf16>(calls, [1, 1, 512, 4]);
        calls.add(
            format!("Attention in four splits, {packs}"),
            move |stream| {
                let call = Attention::new(&q, &k, &v).key_splits(4).pack_heads(packs);
                bits(&call.run(stream)?)
            },
        );
    }
}

fn merged(calls: &mut Calls) {
    let [a, b] = [(); 2].map(|()| AttentionOutput {
        o: calls.numbers::<f32>(&[1, 40, 2, 32]),
        lse: calls.numbers(&[1, 2, 40]),
    });
    calls.add("AttentionMerge", move |stream| {
        let AttentionOutput { o, lse } = AttentionMerge::new(&a, &b).run(stream)?;
        Ok([bits(&o)?, bits(&lse)?].concat())
    });
}

fn backward<T: TestElement + Float>(calls: &mut Calls) {
    let [q, k, v] = operands::<T>(calls, [1, 40, 50, 2]);
    let AttentionOutput { o, lse } = Attention::new(&q, &k, &v)
        .causal()
        .lse()
        .run(&calls.stream)
        .expect("runs");
    let d_o = calls.numbers::<T>(o.shape());
    let plan = AttentionGrad::new(&q, &k, &v, &o, &lse, &d_o)
        .causal()
        .plan(&calls.stream);
    let plan = plan.expect("a plan");
    let names = plan.candidates().iter().map(|each| each.name.clone());
    for name in kinds(names) {
        let [q, k, v, o, d_o] = [&q, &k, &v, &o, &d_o].map(Tensor::clone);
        let lse = lse.clone();
        calls.add(format!("AttentionGrad by {name}"), move |stream| {
            let call = AttentionGrad::new(&q, &k, &v, &o, &lse, &d_o).causal();
            let grads = call.with_kernel(&name).run(stream)?;
            Ok([bits(&grads.dq)?, bits(&grads.dk)?, bits(&grads.dv)?].concat())
        });
    }
}

fn rotated(calls: &mut Calls) {
    let x = calls.numbers::<bf16>(&[2, 20, 2, 32]);
    let [cos, sin] = [(); 2].map(|()| calls.numbers::<f32>(&[64, 16]));
    let offsets = calls.below::<i32>(40, &[2]);
    calls.add("Rotary", move |stream| {
        bits(&Rotary::new(&x, &cos, &sin).offsets(&offsets).run(stream)?)
    });
}
