//! Refused operands, and empty dimensions, which are not an error.

use warpsmith::{AttentionGrads, Device, Stream, Tensor};
use warpsmith_tests::refused;

use super::operands::Operands;

fn devices() -> impl Iterator<Item = (Device, Stream)> {
    warpsmith::testing::devices().into_iter().map(|device| {
        let stream = device.stream().expect("a stream");
        (device, stream)
    })
}

#[test]
fn operands_that_do_not_fit_are_named_with_what_would() {
    for (_, stream) in devices() {
        let x = Operands::ones(&stream, [2, 5, 7], [4, 2], [8, 6]);
        let other = |shape: &[usize]| Tensor::<f32>::zeros(&stream, shape).expect("a tensor");
        let run = |x: &Operands| x.grad().run(&stream);
        let o = Operands {
            o: other(&[2, 5, 4, 8]),
            ..x.clone()
        };
        refused!(run(&o) => Shape::Mismatch, "attention_grad: ", "`o`", "want [2, 5, 4, 6]");
        let d_o = Operands {
            d_o: other(&[2, 4, 5, 6]),
            ..x.clone()
        };
        refused!(run(&d_o) => Shape::Mismatch, "attention_grad: ", "`d_o`", "want [2, 5, 4, 6]");
        let lse = Operands {
            lse: other(&[2, 5, 4]),
            ..x.clone()
        };
        refused!(run(&lse) => Shape::Mismatch, "attention_grad: ", "`lse`", "want [2, 4, 5]");
        let error = x.grad().with_kernel("attention_grad_x").run(&stream);
        refused!(error => Argument::Unsupported, "attention_grad_simt_d64");
    }
}

#[test]
fn gradients_that_overlap_anything_are_refused() {
    for (_, stream) in devices() {
        let x = Operands::ones(&stream, [1, 5, 5], [2, 2], [8, 8]);
        let [dq, dk, dv] = x.gradients(&stream);
        let into = |dq: &Tensor<f32>, dk: &Tensor<f32>, dv: &Tensor<f32>| {
            let [dq, dk, dv] = [dq, dk, dv].map(Tensor::clone);
            let into = AttentionGrads {
                dq,
                dk,
                dv,
                d_sink: None,
                d_bias: None,
            };
            x.grad().run_into(&into, &stream)
        };
        into(&dq, &dk, &dv).expect("they are apart");
        for (found, output, other) in [
            (into(&x.q, &dk, &dv), "dq", "q"),
            (into(&dq, &x.v, &dv), "dk", "v"),
            (into(&dq, &dk, &x.d_o), "dv", "d_o"),
            (into(&x.o, &dk, &dv), "dq", "o"),
            (into(&dq, &dq, &dv), "dk", "dq"),
            (into(&dq, &dk, &dk), "dv", "dk"),
        ] {
            let want = format!("`{output}` (written) overlaps `{other}`");
            refused!(found => Shape::Overlap, &want);
        }
        let one = Tensor::<f32>::zeros(&stream, &[1, 1, 2, 8]).expect("a tensor");
        let one = one.broadcast_to(&[1, 5, 2, 8]).expect("a view");
        refused!(into(&dq, &one, &dv) => Shape::Strides, "`dk`");
    }
}

#[test]
fn empty_dimensions_give_zeros_or_nothing() {
    for (_, stream) in devices() {
        // batch, queries, keys; heads; head_dim, head_dim_v.
        for (extents, heads, head_dims) in [
            ([0, 5, 5], [2, 2], [8, 8]),
            ([2, 0, 5], [2, 2], [8, 8]),
            ([2, 5, 0], [2, 2], [8, 8]),
            ([2, 0, 0], [2, 2], [8, 8]),
            ([2, 5, 5], [0, 2], [8, 8]),
            ([2, 5, 5], [2, 2], [0, 8]),
            ([2, 5, 5], [2, 2], [8, 0]),
            ([2, 5, 5], [2, 2], [0, 0]),
        ] {
            let x = Operands::ones(&stream, extents, heads, head_dims);
            let grads = x.grad().run(&stream).expect("empty is no fault");
            let [dq, dk, dv] = [&grads.dq, &grads.dk, &grads.dv].map(|x| x.to_vec().expect("x"));
            assert!(dq.iter().all(|&x| x == 0.0), "{extents:?} {heads:?}");
            // Without pairs there is nothing but zeros; with them, and ones everywhere, dv is not
            // 0.
            let no_pairs = extents.contains(&0) || heads.contains(&0);
            assert!(dk.iter().all(|&x| x == 0.0), "{extents:?} {heads:?}");
            assert!(
                dv.iter().all(|&x| (x == 0.0) == no_pairs),
                "{extents:?} {heads:?} {dv:?}"
            );
            x.grad().plan(&stream).expect("a plan");
            x.grad().model(&stream).expect("a model");
        }
    }
}

#[test]
fn a_plan_names_its_kernels() {
    for (_, stream) in devices() {
        let x = Operands::ones(&stream, [1, 5, 5], [2, 1], [8, 100]);
        let plan = x.grad().plan(&stream).expect("a plan");
        let found = plan.candidates().iter();
        let mut found = found.filter(|way| way.name == "attention_grad_simt_d128");
        let way = found.next().expect("the portable kernels");
        assert!(plan.to_string().contains(&way.entry), "{plan}");
        let debug = format!("{:?}", x.grad().causal());
        assert!(debug.starts_with("AttentionGrad"), "{debug}");
    }
}

#[test]
fn wide_heads_that_only_the_forward_pass_has_are_refused() {
    for (_, stream) in devices() {
        for head_dims in [[264, 8], [8, 264]] {
            let x = Operands::ones(&stream, [1, 5, 5], [2, 2], head_dims);
            let want = "head_dim and head_dim_v up to 256";
            refused!(x.grad().run(&stream) => Argument::Unsupported, want);
        }
    }
}

#[test]
fn options_are_checked_as_the_forward_pass_does() {
    for (_, stream) in devices() {
        let x = Operands::ones(&stream, [2, 5, 7], [2, 2], [8, 8]);
        refused!(x.grad().softcap(-1.0).run(&stream) => Argument::Value, "softcap");
        let scaled = x.grad().softmax_scale(f32::NAN).run(&stream);
        refused!(scaled => Argument::Value, "softmax_scale");
        let used = x.grad().seqused_k(&[8, 7]).run(&stream);
        refused!(used => Argument::Value, "seqused_k");
    }
}
