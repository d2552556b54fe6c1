//! The same attention said in two ways, or run many times, has the same bits.

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
                let part = qkv.index_axis(axis, idx).expect("a part");
                part.contiguous(&stream).expect("a copy")
            };
            let (q, k, v) = (part(0), part(1), part(2));
            let bounds = [0, 30, 90];
            let finish = |attention: Attention<'_, bf16>| {
                let attention = match shape.len() {
                    4 => attention.cu_seqlens(&bounds, &bounds),
                    _ => attention,
                };
                let (o, lse) = attention.causal().run_with_lse(&stream).expect("attention");
                (o.to_ndarray().expect("o"), lse.to_ndarray().expect("lse"))
            };
            let one = finish(Attention::qkv_packed(&qkv).expect("a packed tensor"));
            let three = finish(Attention::new(&q, &k, &v));
            same_bits(&one.0, &three.0).expect("the same o");
            same_bits(&one.1, &three.1).expect("the same lse");
        }
    }
}

#[test]
fn every_run_of_every_kernel_has_the_same_bits() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let (seqlen, runs) = if device.is_emulator() {
            (70, 3)
        } else {
            (700, 1000)
        };
        let [q, k, v]: [Tensor<bf16>; 3] =
            [1, 2, 3].map(|seed| draw(&device, &[2, seqlen, 4, 64], seed));
        let attention = Attention::new(&q, &k, &v).causal().softcap(20.0);
        let plan = attention.plan(&stream).expect("a plan");
        for candidate in plan.candidates() {
            let attention = attention.clone().with_kernel(&candidate.name);
            let run = || {
                attention
                    .run(&stream)
                    .expect("attention")
                    .to_ndarray()
                    .expect("o")
            };
            let first = run();
            for _ in 1..runs {
                same_bits(&first, &run()).expect(&candidate.name);
            }
        }
    }
}
