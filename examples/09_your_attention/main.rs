//! Attention whose scores and masks are functions of your own, on the device, forward and backward:
//! the examples of PyTorch's FlexAttention. No compiler runs: the functions are compiled in advance,
//! and put into attention's kernel when it is loaded.
//!
//! The functions are in `examples/kernels/src/scores.rs`.
//!
//! ```text
//! cargo run --release --example 09_your_attention
//! ```

use anyhow::{Result, ensure};
use half::bf16;
use warpsmith::fuse::{Fragment, Scalar};
use warpsmith::{Attention, AttentionGrad, Device, ScoreFunction, Stream, Tensor};

/// The fragments' PTX, built by `warpsmith build examples/kernels`.
const FRAGMENTS: &str = include_str!("../kernels/ptx/sm_75/scores.ptx");

/// A fragment that takes a score and its place, and returns a score.
fn score(name: &str, values: &[Scalar]) -> Result<Fragment> {
    let place = [
        Scalar::F32,
        Scalar::U32,
        Scalar::U32,
        Scalar::U32,
        Scalar::U32,
    ];
    // SAFETY: cuda_builder made the text.
    Ok(unsafe { Fragment::from_ptx(FRAGMENTS, name, &[&place, values].concat(), Scalar::F32) }?)
}

/// A fragment that takes a place, and returns whether the key is seen.
fn mask(name: &str, values: &[Scalar]) -> Result<Fragment> {
    let params = [&[Scalar::U32; 4], values].concat();
    // SAFETY: cuda_builder made the text.
    Ok(unsafe { Fragment::from_ptx(FRAGMENTS, name, &params, Scalar::U32) }?)
}

fn main() -> Result<()> {
    let device = Device::auto()?;
    let stream = device.stream()?;
    let value = |i: usize| bf16::from_f32((i * 37 % 101) as f32 * 0.02 - 1.0);
    let values: Vec<bf16> = (0..144 * 2 * 64).map(value).collect();
    let x = Tensor::from_slice(&device, &[1, 144, 2, 64], &values)?;
    let plain = Attention::new(&x, &x, &x);

    let window =
        ScoreFunction::new().apply(&mask("sliding_window", &[Scalar::U32])?, [32_u32.into()]);
    let by_mask = plain.clone().mask(&window).run(&stream)?;
    let built_in = plain.clone().causal().window(31, None).run(&stream)?;
    let apart = largest_difference(&by_mask, &built_in)?;
    ensure!(
        apart < 0.02,
        "a sliding window as a mask differs by {apart}"
    );

    let documents: Vec<i32> = (0..144).map(|position| position / 50).collect();
    let documents = Tensor::from_slice(&device, &[144], &documents)?;
    let own = ScoreFunction::new().apply(
        &mask("same_document", &[Scalar::U64])?,
        [(&documents).into()],
    );
    let prefixes = Tensor::from_slice(&device, &[1], &[40_i32])?;
    let prefix = ScoreFunction::new().apply(&mask("prefix", &[Scalar::U64])?, [(&prefixes).into()]);
    let near = mask("neighbourhood", &[Scalar::U32, Scalar::U32])?;
    let near = ScoreFunction::new().apply(&near, [12_u32.into(), 2_u32.into()]);
    for mask in [&own, &prefix, &near] {
        let o = plain.clone().mask(mask).run(&stream)?;
        ensure!(
            o.to_vec()?.iter().all(|x| x.is_finite()),
            "every query sees itself"
        );
    }
    gradients(&x, &stream)?;
    println!("a window, documents, a prefix, neighbours and a soft cap on {device}");
    Ok(())
}

/// A soft cap of each head's own, and its gradients.
fn gradients(x: &Tensor<bf16>, stream: &Stream) -> Result<()> {
    let (capped, slope) = (
        score("capped", &[Scalar::F32])?,
        score("capped_slope", &[Scalar::F32])?,
    );
    let capped = ScoreFunction::new().apply_with_derivative(&capped, &slope, [2.0_f32.into()]);
    let forward = Attention::new(x, x, x).score(&capped).lse().run(stream)?;
    let grad = AttentionGrad::new(x, x, x, &forward.o, &forward.lse, x).score(&capped);
    let dq = grad.run(stream)?.dq.to_vec()?;
    ensure!(
        dq.iter().any(|&dq| dq != bf16::ZERO),
        "the gradient is there"
    );
    Ok(())
}

fn largest_difference(a: &Tensor<bf16>, b: &Tensor<bf16>) -> Result<f32> {
    let (a, b) = (a.to_vec()?, b.to_vec()?);
    let differences = a
        .iter()
        .zip(&b)
        .map(|(a, b)| (a.to_f32() - b.to_f32()).abs());
    Ok(differences.fold(0.0, f32::max))
}
