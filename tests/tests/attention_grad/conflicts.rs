//! Bank conflicts of the kernels by `mma.sync`.

use half::bf16;
use warpsmith::{Attention, AttentionGrad, AttentionOutput, Stream, Tensor};
use warpsmith_tests::profiled;

fn ones(stream: &Stream, shape: &[usize]) -> Tensor<bf16> {
    Tensor::full(stream, shape, bf16::ONE).expect("a tensor")
}

#[test]
fn gradients_by_mma_have_no_bank_conflicts() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    for head_dim in [64, 128, 256] {
        let q = ones(&stream, &[1, 128, 1, head_dim]);
        let AttentionOutput { o, lse } = Attention::new(&q, &q, &q)
            .lse()
            .run(&stream)
            .expect("attention");
        let begin = format!("attention_grad_sm80_bf16_d{head_dim}");
        let grad = AttentionGrad::new(&q, &q, &q, &o, &lse, &q).with_kernel(&begin);
        grad.run(&stream).expect("the gradients");
        // That of the last launch: dv, alone or with dk.
        let stats = device.last_launch().expect("it was launched");
        let lines = stats.counters().lines.iter();
        let bad: Vec<_> = lines.filter(|line| line.bank_conflicts > 0).collect();
        assert!(bad.is_empty(), "{begin}: {bad:#?}");
    }
}
