//! Attention and its gradients: every kernel that a plan offers.

use half::{bf16, f16};
use warpsmith::{Attention, AttentionGrad, AttentionMerge, AttentionOutput, Float, Result};

use super::{Case, Inputs, Seen, read};
use crate::element::TestElement;

/// Elements of a head of q and k, and of v.
const HEADS: [[usize; 2]; 4] = [[64, 64], [128, 128], [192, 128], [256, 256]];

pub(super) fn add(cases: &mut Vec<Case>) {
    forward::<f32>(cases, (7, 5), "");
    forward::<f16>(cases, (7, 5), "");
    forward::<f16>(cases, (8, 0), "sm80");
    forward::<bf16>(cases, (8, 0), "");
    forward::<f16>(cases, (9, 0), "sm90");
    forward::<bf16>(cases, (9, 0), "sm90");
    cases.push(Case::new("merged attention", (9, 0), merged).approximate());
}

/// By the kernels whose names contain `part`: the others have the case of an older architecture.
fn forward<T: Float + TestElement>(cases: &mut Vec<Case>, arch: (u32, u32), part: &'static str) {
    for dims in HEADS {
        let [d, _] = dims;
        let dtype = T::DTYPE;
        let run = move |inputs: &mut Inputs| attend::<T>(dims, part, inputs);
        cases.push(Case::new(format!("attention of {dtype}, {d}"), arch, run).approximate());
        if dims[0] == dims[1] {
            let run = move |inputs: &mut Inputs| gradients::<T>(d, part, inputs);
            let name = format!("gradients of attention of {dtype}, {d}");
            cases.push(Case::new(name, arch, run).approximate());
        }
    }
}

/// Prompts, and single tokens of which several heads share keys.
fn attend<T: Float + TestElement>(
    [d, d_v]: [usize; 2],
    part: &str,
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
        let attention = Attention::new(&q, &k, &v).causal();
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

fn gradients<T: Float + TestElement>(d: usize, part: &str, inputs: &mut Inputs) -> Result<()> {
    let [seqlen, heads_q, heads_kv] = [150, 2, 1];
    let shape = [1, seqlen, heads_q, d];
    let q = inputs.tensor::<T>(&shape)?;
    let k = inputs.tensor::<T>(&[1, seqlen, heads_kv, d])?;
    let v = inputs.tensor::<T>(&[1, seqlen, heads_kv, d])?;
    let d_o = inputs.tensor::<T>(&shape)?;
    let sink = inputs.tensor::<f32>(&[heads_q])?;
    let forward = Attention::new(&q, &k, &v).causal().sink(&sink);
    let AttentionOutput { o, lse } = forward.lse().run(&inputs.stream)?;
    let gradients = AttentionGrad::new(&q, &k, &v, &o, &lse, &d_o)
        .causal()
        .sink(&sink);
    let plan = gradients.plan(&inputs.stream)?;
    let mut seen = Seen::default();
    let names = plan.candidates().iter().map(|other| &*other.name);
    for name in seen.new_of(names.filter(|name| name.contains(part))) {
        let all = gradients.clone().with_kernel(name).run(&inputs.stream)?;
        read(&all.dq)?;
        read(&all.dk)?;
        read(&all.dv)?;
        if let Some(d_sink) = &all.d_sink {
            read(d_sink)?;
        }
    }
    Ok(())
}
