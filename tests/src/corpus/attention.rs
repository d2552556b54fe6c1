//! Attention and its gradients: every kernel that a plan offers.

use half::{bf16, f16};
use warpsmith::fuse::{Fragment, Scalar};
use warpsmith::{
    Attention, AttentionGrad, AttentionMerge, AttentionOutput, BlockMask, BlockMaskShape, E4m3,
    Float, Result, ScoreFunction,
};

use super::{Case, Inputs, Seen, read};
use crate::element::TestElement;

/// Elements of a head of q and k, and of v.
const HEADS: [[usize; 2]; 4] = [[64, 64], [128, 128], [192, 128], [256, 256]];

/// What there is beside a causal mask.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    /// A bias and ALiBi.
    Scored,
    /// A block mask, made of indices.
    Sparse,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "attention",
            Self::Scored => "scored attention",
            Self::Sparse => "block-sparse attention",
        }
    }

    /// Blocks of 64: of each block of queries, two of keys, and two that are not there.
    fn blocks(
        self,
        inputs: &Inputs,
        [seqlen_q, seqlen_k]: [usize; 2],
    ) -> Result<Option<BlockMask>> {
        if self != Self::Sparse {
            return Ok(None);
        }
        let shape = BlockMaskShape::new(seqlen_q, seqlen_k).blocks(64, 64);
        let (lines, columns) = (shape.q_blocks(), shape.k_blocks() as i32);
        let of_line = |line: usize| [line as i32 + 1, 0].map(|block| block % columns);
        let indices: Vec<i32> = (0..lines)
            .flat_map(|line| of_line(line).into_iter().chain([columns, -1]))
            .collect();
        let indices = inputs.of(&[1, 1, lines, 4], &indices)?;
        BlockMask::from_indices(&shape, &indices, &inputs.stream).map(Some)
    }
}

/// A mask that a function of the examples makes, and what it lets through.
fn shown_blocks(inputs: &mut Inputs) -> Result<()> {
    let text = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../examples/kernels/ptx/sm_75/scores.ptx"
    ));
    // SAFETY: cuda_builder made the text.
    let window =
        unsafe { Fragment::from_ptx(text, "sliding_window", &[Scalar::U32; 5], Scalar::U32) }?;
    let function = ScoreFunction::new().apply(&window, [70_u32.into()]);
    let shape = BlockMaskShape::new(150, 300).heads(2).blocks(64, 64);
    let mask = BlockMask::from_mask(&shape, &function, &inputs.stream)?;
    let q = inputs.tensor::<f32>(&[1, 150, 2, 8])?;
    let v = inputs.tensor::<f32>(&[1, 300, 2, 8])?;
    let o = Attention::new(&q, &v, &v).block_mask(&mask);
    read(&o.run(&inputs.stream)?)
}

pub(super) fn add(cases: &mut Vec<Case>) {
    for kind in [Kind::Plain, Kind::Scored, Kind::Sparse] {
        forward::<f32>(cases, (7, 5), "", kind);
        forward::<f16>(cases, (7, 5), "", kind);
        forward::<f16>(cases, (8, 0), "sm80", kind);
        forward::<bf16>(cases, (8, 0), "", kind);
        forward::<f16>(cases, (9, 0), "sm90", kind);
        forward::<bf16>(cases, (9, 0), "sm90", kind);
    }
    for arch in [(8, 0), (9, 0)] {
        narrow::<f16>(cases, arch);
        narrow::<bf16>(cases, arch);
    }
    cases.push(Case::new("wide heads of f16", (9, 0), wide::<f16>).approximate());
    cases.push(Case::new("wide heads of bf16", (9, 0), wide::<bf16>).approximate());
    cases.push(Case::new("block mask of a function", (7, 5), shown_blocks));
    cases.push(Case::new("merged attention", (9, 0), merged).approximate());
}

/// By the kernels whose names contain `part`: the others have the case of an older architecture.
fn forward<T: Float + TestElement>(
    cases: &mut Vec<Case>,
    arch: (u32, u32),
    part: &'static str,
    kind: Kind,
) {
    for dims in HEADS {
        let [d, _] = dims;
        let dtype = T::DTYPE;
        let of = kind.name();
        let run = move |inputs: &mut Inputs| attend::<T>(dims, (part, kind), inputs);
        cases.push(Case::new(format!("{of} of {dtype}, {d}"), arch, run).approximate());
        if dims[0] == dims[1] {
            let run = move |inputs: &mut Inputs| gradients::<T>(d, (part, kind), inputs);
            let name = format!("gradients of {of} of {dtype}, {d}");
            cases.push(Case::new(name, arch, run).approximate());
        }
    }
}

/// Prompts, and single tokens of which several heads share keys.
fn attend<T: Float + TestElement>(
    [d, d_v]: [usize; 2],
    (part, kind): (&str, Kind),
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
        if kind == Kind::Scored {
            attention = attention.bias(&bias).alibi(&slopes);
        }
        let mask = kind.blocks(inputs, [seqlen_q, seqlen_k])?;
        if let Some(mask) = &mask {
            attention = attention.block_mask(mask);
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

/// Keys and values in e4m3.
fn narrow<T: Float + TestElement>(cases: &mut Vec<Case>, arch: (u32, u32)) {
    let name = format!("attention of {} to e4m3", T::DTYPE);
    let run = |inputs: &mut Inputs| {
        for [d, seqlen_q, heads_q] in [[64, 1, 8], [128, 2, 6], [128, 9, 6]] {
            let q = inputs.tensor::<T>(&[1, seqlen_q, heads_q, d])?;
            let k = inputs.tensor::<E4m3>(&[1, 150, 2, d])?;
            let v = inputs.tensor::<E4m3>(&[1, 150, 2, d])?;
            let scale = inputs.tensor::<f32>(&[1, 2])?;
            let attention = Attention::of_e4m3(&q, &k, &v)
                .k_scale(&scale)
                .v_scale(&scale);
            let attention = attention.causal();
            let plan = attention.plan(&inputs.stream)?;
            for candidate in plan.candidates() {
                let attention = attention.clone().with_kernel(&candidate.name);
                let AttentionOutput { o, lse } = attention.lse().run(&inputs.stream)?;
                read(&o)?;
                read(&lse)?;
            }
        }
        Ok(())
    };
    cases.push(Case::new(name, arch, run).approximate());
}

/// Values that are parts of keys, and values of their own.
fn wide<T: Float + TestElement>(inputs: &mut Inputs) -> Result<()> {
    let q = inputs.tensor::<T>(&[1, 2, 20, 576])?;
    let k = inputs.tensor::<T>(&[1, 150, 1, 576])?;
    let v = inputs.tensor::<T>(&[1, 150, 1, 512])?;
    for v in [k.slice(3, ..512)?, v] {
        let attention = Attention::new(&q, &k, &v).causal();
        let AttentionOutput { o, lse } = attention.lse().run(&inputs.stream)?;
        read(&o)?;
        read(&lse)?;
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
    (part, kind): (&str, Kind),
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
    if kind == Kind::Scored {
        forward = forward.bias(&bias).alibi(&sink);
    }
    let mask = kind.blocks(inputs, [seqlen; 2])?;
    if let Some(mask) = &mask {
        forward = forward.block_mask(mask);
    }
    let AttentionOutput { o, lse } = forward.lse().run(&inputs.stream)?;
    let mut gradients = AttentionGrad::new(&q, &k, &v, &o, &lse, &d_o)
        .causal()
        .sink(&sink);
    if kind == Kind::Scored {
        gradients = gradients.bias(&bias).bias_gradient().alibi(&sink);
    }
    if let Some(mask) = &mask {
        gradients = gradients.block_mask(mask);
    }
    let mut seen = Seen::default();
    differentiate(&gradients, (part, &mut seen), inputs)?;
    if kind != Kind::Plain {
        return Ok(());
    }
    // Two sequences, packed.
    let [q, k, v, d_o] = [&q, &k, &v, &d_o].map(|x| x.index_axis(0, 0));
    let (q, k, v, d_o, bounds) = (q?, k?, v?, d_o?, [0, 60, seqlen as i32]);
    let forward = Attention::new(&q, &k, &v).causal();
    let forward = forward.cu_seqlens_q(&bounds).cu_seqlens_k(&bounds);
    let AttentionOutput { o, lse } = forward.lse().run(&inputs.stream)?;
    let gradients = AttentionGrad::new(&q, &k, &v, &o, &lse, &d_o).causal();
    let gradients = gradients.cu_seqlens_q(&bounds).cu_seqlens_k(&bounds);
    differentiate(&gradients, (part, &mut seen), inputs)
}

/// Gradients by kernels whose names contain `part` and have not been seen.
fn differentiate<T: Float + TestElement>(
    gradients: &AttentionGrad<'_, T>,
    (part, seen): (&str, &mut Seen),
    inputs: &Inputs,
) -> Result<()> {
    let plan = gradients.plan(&inputs.stream)?;
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
