//! What attention refuses: typed errors that name the value and what would be right; nothing is
//! launched.

use warpsmith::{Attention, AttentionMerge, AttentionOutput, Layout, Tensor};
use warpsmith_tests::operand::View;
use warpsmith_tests::output::Output;
use warpsmith_tests::{on_every_device, refused};

use super::check::ones;

#[test]
fn options_without_a_meaning() {
    on_every_device(|_, stream| {
        let x: Tensor<f32> = ones(stream, &[2, 5, 4, 8]);
        let attention = || Attention::new(&x, &x, &x);
        for softcap in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let run = attention().softcap(softcap).run(stream);
            refused!(run => Argument::Value, "softcap", &softcap.to_string(), "above 0");
        }
        let run = attention().softcap(1e-30).softmax_scale(1e30).run(stream);
        refused!(run => Argument::Value, "softcap", "divided");
        let sink = ones(stream, &[3]);
        refused!(attention().sink(&sink).run(stream) => Shape::Mismatch, "`sink`", "[3]", "[4]");
        refused!(
            attention().max_seqlens(5, 7).run(stream)
            => Argument::Unsupported, "max_seqlens of (5, 7)", "cu_seqlens_q"
        );
        let run = attention().with_kernel("flash_fwd_of_tomorrow").run(stream);
        refused!(run => Argument::Unsupported, "flash_fwd_of_tomorrow", "flash_fwd_simt_d64");
        refused!(
            attention().layout(Layout::Bhsd).cu_seqlens(&[0, 5], &[0, 5]).run(stream)
            => Shape::Mismatch, "`q`", "[heads, total, head_dim]"
        );
        refused!(Attention::qkv_packed(&x) => Shape::Mismatch, "`qkv`", "[2, 5, 4, 8]", "3");
    });
}

#[test]
fn lengths_that_no_tensor_has() {
    on_every_device(|device, stream| {
        let x: Tensor<f32> = ones(stream, &[6, 2, 8]);
        let packed = |q: &[i32], k: &[i32]| Attention::new(&x, &x, &x).cu_seqlens(q, k).run(stream);
        refused!(
            packed(&[0, 7], &[0, 6])
            => Argument::Value, "cu_seqlens_q", "7 at index 1", "at most 6"
        );
        refused!(
            packed(&[0, 6], &[0, 4, 3])
            => Argument::Value, "cu_seqlens_k", "3 bounds", "2 bounds, one more than there are sequences"
        );
        refused!(
            packed(&[0, 4, 6], &[0, 4, 3])
            => Argument::Value, "cu_seqlens_k", "3 at index 2", "at least 4"
        );
        refused!(
            packed(&[-1, 6], &[0, 6])
            => Argument::Value, "cu_seqlens_q", "-1 at index 0", "at least 0"
        );
        refused!(packed(&[], &[]) => Argument::Value, "cu_seqlens_q", "0 bounds", "1 bounds");
        let attention = || Attention::new(&x, &x, &x).cu_seqlens(&[0, 2, 6], &[0, 2, 6]);
        refused!(
            attention().max_seqlens(3, 4).run(stream)
            => Argument::Value, "max_seqlens of q", "3", "at least 4"
        );
        refused!(
            attention().seqused_k(&[3, 4]).run(stream)
            => Argument::Value, "seqused_k", "3 at index 0", "0 to 2"
        );
        refused!(attention().seqused_q(&[2]).run(stream) => Shape::Length, "seqused_q", "1", "2");
        let padded = attention().seqused_k(&[2, 3]).leftpad_k(&[0, 4]);
        refused!(padded.run(stream) => Argument::Value, "leftpad_k", "4 at index 1", "0 to 3");
        refused!(
            attention().leftpad_k(&[-1, 0]).run(stream)
            => Argument::Value, "leftpad_k", "-1", "0 to 2"
        );
        let square = Tensor::from_slice(device, &[1, 2], &[0, 6]).expect("a tensor");
        let run = Attention::new(&x, &x, &x)
            .cu_seqlens(&square, &square)
            .run(stream);
        refused!(run => Shape::Mismatch, "`cu_seqlens_q`", "[1, 2]", "[n]");
    });
}

#[test]
fn outputs_of_another_shape_and_over_what_is_read() {
    on_every_device(|device, stream| {
        let x: Tensor<f32> = ones(stream, &[6, 2, 8]);
        let bounds = Tensor::from_slice(device, &[4], &[0, 2, 6, 6]).expect("a tensor");
        let attention = Attention::new(&x, &x, &x).cu_seqlens(&bounds, &bounds);
        let output = |shape: &[usize]| Output::<f32>::new(device, shape, View::Contiguous);
        let o = output(&[6, 2, 8]).expect("o");
        let lse = output(&[6, 2]).expect("lse");
        let into = attention.clone().lse();
        let into = into.run_into(&o.tensor, &lse.tensor, stream);
        refused!(into => Shape::Mismatch, "`lse`", "[6, 2]", "[2, 6]");
        o.expect_untouched().expect("nothing written");
        let sink: Tensor<f32> = ones(stream, &[12]);
        let over = sink.reshape(&[2, 6]).expect("a view");
        let sink = sink.slice(0, ..2).expect("a view");
        let with_sink = attention.clone().sink(&sink);
        let into = with_sink.lse().run_into(&o.tensor, &over, stream);
        refused!(into => Shape::Overlap, "`lse`", "`sink`");
        let a = AttentionOutput { o: x, lse: over };
        let b = AttentionOutput {
            lse: lse.tensor.clone(),
            ..a.clone()
        };
        let merged = AttentionMerge::new(&a, &b).run(stream);
        refused!(merged => Shape::Mismatch, "attention_merge: ", "`lse of b`", "[6, 2]", "[2, 6]");
        let merge = AttentionMerge::new(&a, &a);
        let into = merge.run_into(&a.o, &a.lse, stream);
        refused!(into => Shape::Overlap, "`o`", "`o of a`");
        let into = merge.run_into(&o.tensor, &a.lse, stream);
        refused!(into => Shape::Overlap, "`lse`", "`lse of a`");
        o.expect_untouched().expect("nothing written");
    });
}
