//! Attention and its gradients: every kernel that a plan offers.

use half::{bf16, f16};
use warpsmith::{Attention, AttentionGrad, AttentionMerge, AttentionOutput, Float, Result};

use super::{Case, Inputs, Seen, read};
use crate::element::TestElement;

/// Elements of a head of q and k, and of v.
const HEADS: [[usize; 2]; 4] = [[64, 64], [128, 128], [192, 128], [256, 256]];

pub(super) fn add(cases: &mut Vec<Case>) {
    for scored in [false, true] {
        forward::<f32>(cases, (7, 5), "", scored);
        forward::<f16>(cases, (7, 5), "", scored);
        forward::<f16>(cases, (8, 0), "sm80", scored);
        forward::<bf16>(cases, (8, 0), "", scored);
        forward::<f16>(cases, (9, 0), "sm90", scored);
        forward::<bf16>(cases, (9, 0), "sm90", scored);
    }
    cases.push(Case::new("merged attention", (9, 0), merged).approximate());
}

/// By the kernels whose names contain `part`: the others have the case of an older architecture. A
/// bias and ALiBi change the scores if they are `scored`.
fn forward<T: Float + TestElement>(
    cases: &mut Vec<Case>,
    arch: (u32, u32),
    part: &'static str,
    scored: bool,
) {
    for dims in HEADS {
        let [d, _] = dims;
        let dtype = T::DTYPE;
        let of = if scored {
            "scored attention"
        } else {
            "attention"
        };
        let run = move |inputs: &mut Inputs| attend::<T>(dims, (part, scored), inputs);
        cases.push(Case::new(format!("{of} of {dtype}, {d}"), arch, run).approximate());
        if dims[0] == dims[1] {
            let run = move |inputs: &mut Inputs| gradients::<T>(d, (part, scored), inputs);
            let name = format!("gradients of {of} of {dtype}, {d}");
            cases.push(Case::new(name, arch, run).approximate());
        }
    }
}

/// Prompts, and single tokens of which several heads share keys.
fn attend<T: Float + TestElement>(
    [d, d_v]: [usize; 2],
    (part, scored): (&str, bool),
    inputs: &mut Inputs,
) -> Result<()> {
    let mut seen = Seen::default();
    for [seqlen_q, seqlen_k, heads_q, heads_kv] in [
        [130, 150, 2, 1],
        [1, 300, 8, 2],
        [1, 200, 32, 1],
        [5, 130, 16, 2],
    ] {
        let q = inputs.tensor::<T>(&[1, seqlen_q, heads_q, d])?;
        let k = inputs.tensor::<T>(&[1, seqlen_k, heads_kv, d])?;
        let v = inputs.tensor::<T>(&[1, seqlen_k, heads_kv, d_v])?;
        let bias = inputs.tensor::<bf16>(&[heads_q, seqlen_q, seqlen_k])?;
        let slopes = inputs.tensor::<f32>(&[heads_q])?;
        let mut attention = Attention::new(&q, &k, &v).causal();
        if scored {
            attention = attention.bias(&bias).alibi(&slopes);
        }
        let plan = attention.plan(&inputs.stream)?;
        let names = plan.candidates().iter().map(|candidate| &*candidate.name);
        for name in seen.new_of(names.filter(|name| name.contains(part))) {
            let attention = attention.clone().with_kernel(name);
            let AttentionOutput { o, lse } = attention.lse().run(&inputs.stream)?;
            read(&o)?;
            read(&lse)?;
        }
    }
    Ok(())
}

fn merged(inputs: &mut Inputs) -> Result<()> {
    let mut attended = || -> Result<_> {
        let o = inputs.tensor::<f32>(&[2, 9, 3, 40])?;
        let lse = inputs.tensor(&[2, 3, 9])?;
        Ok(AttentionOutput { o, lse })
    };
    let (a, b) = (attended()?, attended()?);
    let merged = AttentionMerge::new(&a, &b).run(&inputs.stream)?;
    read(&merged.o)?;
    read(&merged.lse)
}

fn gradients<T: Float + TestElement>(
    d: usize,
    (part, scored): (&str, bool),
    inputs: &mut Inputs,
) -> Result<()> {
    let [seqlen, heads_q, heads_kv] = [150, 2, 1];
    let shape = [1, seqlen, heads_q, d];
    let q = inputs.tensor::<T>(&shape)?;
    let k = inputs.tensor::<T>(&[1, seqlen, heads_kv, d])?;
    let v = inputs.tensor::<T>(&[1, seqlen, heads_kv, d])?;
    let d_o = inputs.tensor::<T>(&shape)?;
    let sink = inputs.tensor::<f32>(&[heads_q])?;
    let bias = inputs.tensor::<f32>(&[heads_q, seqlen, 1])?;
    let mut forward = Attention::new(&q, &k, &v).causal().sink(&sink);
    if scored {
        forward = forward.bias(&bias).alibi(&sink);
    }
    let AttentionOutput { o, lse } = forward.lse().run(&inputs.stream)?;
    let mut gradients = AttentionGrad::new(&q, &k, &v, &o, &lse, &d_o)
        .causal()
        .sink(&sink);
    if scored {
        gradients = gradients.bias(&bias).bias_gradient().alibi(&sink);
    }
    let plan = gradients.plan(&inputs.stream)?;
    let mut seen = Seen::default();
    let names = plan.candidates().iter().map(|other| &*other.name);
    for name in seen.new_of(names.filter(|name| name.contains(part))) {
        let all = gradients.clone().with_kernel(name).run(&inputs.stream)?;
        read(&all.dq)?;
        read(&all.dk)?;
        read(&all.dv)?;
        for sums in [&all.d_sink, &all.d_bias].into_iter().flatten() {
            read(sums)?;
        }
    }
    Ok(())
}
