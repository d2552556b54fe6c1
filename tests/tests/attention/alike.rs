//! The same attention, described in two ways or run many times, has the same bits.

use half::bf16;
use warpsmith::{Attention, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::output::same_bits;
use warpsmith_tests::values::Values;

fn draw<T: TestElement>(device: &warpsmith::Device, shape: &[usize], seed: u64) -> Tensor<T> {
    let drawn = Operand::draw(device, shape, Values::Uniform, View::Contiguous, seed);
    drawn.expect("an operand").tensor
}

#[test]
fn q_k_and_v_in_one_tensor_are_as_in_three() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        for shape in [vec![2, 70, 3, 2, 64], vec![90, 3, 2, 64]] {
            let qkv: Tensor<bf16> = draw(&device, &shape, 7);
            let axis = shape.len() - 3;
            let part = |idx| {
                let part = qkv.index_axis(axis as isize, idx).expect("a part");
                part.contiguous(&stream).expect("a copy")
            };
            let (q, k, v) = (part(0), part(1), part(2));
            let bounds = [0, 30, 90];
            let finish = |attention: Attention<'_, bf16>| {
                let attention = match shape.len() {
                    4 => attention.cu_seqlens(&bounds, &bounds),
                    _ => attention,
                };
                let results = attention.causal().lse().run(&stream).expect("attention");
                (
                    results.o.to_ndarray().expect("o"),
                    results.lse.to_ndarray().expect("lse"),
                )
            };
            let one = finish(Attention::qkv_packed(&qkv).expect("a packed tensor"));
            let three = finish(Attention::new(&q, &k, &v));
            same_bits(&one.0, &three.0).expect("the same o");
            same_bits(&one.1, &three.1).expect("the same lse");
        }
    }
}

/// Shapes of q, `[batch, seqlen, heads, head_dim]`, each with its number of key heads.
const REPEATED: [([usize; 4], usize); 4] = [
    ([2, 700, 4, 64], 4),
    ([1, 300, 4, 128], 2),
    ([1, 260, 2, 256], 2),
    // More tiles than an H200 has SMs: blocks take tiles dynamically.
    ([3, 500, 16, 128], 16),
];

/// Number of runs on a GPU.
const RUNS: usize = 1000;

#[test]
fn every_run_of_every_kernel_has_the_same_bits() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        for ([batch, seqlen, heads, head_dim], heads_kv) in REPEATED {
            let (seqlen, heads, runs) = match device.is_emulator() {
                true => (seqlen / 10, heads.min(4), 3),
                false => (seqlen, heads, RUNS),
            };
            let heads_kv = heads_kv.min(heads);
            let of =
                |heads: usize, seed| draw::<bf16>(&device, &[batch, seqlen, heads, head_dim], seed);
            let (q, k, v) = (of(heads, 1), of(heads_kv, 2), of(heads_kv, 3));
            let plain = Attention::new(&q, &k, &v);
            let attention = match head_dim {
                64 => plain.causal().softcap(20.0),
                128 => plain.causal(),
                _ => plain.window(50, 7),
            };
            let plan = attention.plan(&stream).expect("a plan");
            for candidate in plan.candidates() {
                let attention = attention.clone().with_kernel(&candidate.name);
                let run = || {
                    let o = attention.run(&stream).expect("attention");
                    let o = o.to_vec().expect("o");
                    o.into_iter().map(bf16::to_bits).collect::<Vec<u16>>()
                };
                let first = run();
                for idx in 1..runs {
                    assert!(first == run(), "run {idx} of {} differs", candidate.name);
                }
            }
        }
    }
}
