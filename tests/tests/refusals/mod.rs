//! What the operations refuse: typed errors that name the value, and nothing is written.

mod extremes;
mod norms;

use warpsmith::{
    Activation, Attention, Binary, BinaryOp, Device, DeviceBuffer, Gemm, GradOp, Gradient, Reduce,
    ReduceOp, Softmax, Stream, Tensor, Unary, UnaryOp,
};
use warpsmith_tests::operand::View;
use warpsmith_tests::output::Output;
use warpsmith_tests::{on_every_device, refused};

fn ones(stream: &Stream, shape: &[usize]) -> Tensor<f32> {
    Tensor::full(stream, shape, 1.0).expect("a tensor")
}

/// A poisoned output with this shape.
fn output(device: &Device, shape: &[usize]) -> Output<f32> {
    Output::new(device, shape, View::Contiguous).expect("an output")
}

#[test]
fn gemm_refuses_shapes_that_do_not_fit() {
    on_every_device(|device, stream| {
        let (a, b) = (ones(stream, &[3, 4]), ones(stream, &[5, 6]));
        refused!(Gemm::new(&a, &b).run(stream) => Shape::Mismatch, "`b`", "[5, 6]", "[.., 4, n]");
        let vector = ones(stream, &[4]);
        refused!(Gemm::new(&a, &vector).run(stream) => Shape::Mismatch, "`b`", "2 dimensions");
        refused!(Gemm::new(&vector, &a).run(stream) => Shape::Mismatch, "`a`", "[4]");
        let (a3, b3) = (ones(stream, &[2, 3, 4]), ones(stream, &[5, 4, 6]));
        refused!(
            Gemm::new(&a3, &b3).run(stream)
            => Shape::Mismatch, "`b`", "[5, 4, 6]", "batch of 2"
        );
        let (b, c) = (ones(stream, &[4, 6]), ones(stream, &[6, 3]));
        let with_c = Gemm::new(&a, &b).beta(1.0, &c);
        refused!(with_c.run(stream) => Shape::Mismatch, "`c`", "[6, 3]", "[3, 6]");
        // A c that does not fit is refused even if it would not be read.
        refused!(Gemm::new(&a, &b).beta(0.0, &c).run(stream) => Shape::Mismatch, "`c`");
        let d = output(device, &[6, 3]);
        let into = Gemm::new(&a, &b).run_into(&d.tensor, stream);
        refused!(into => Shape::Mismatch, "`d`", "[6, 3]", "[3, 6]");
        d.expect_untouched().expect("nothing written");
    });
}

#[test]
fn gemm_refuses_outputs_that_overlap() {
    on_every_device(|_, stream| {
        let a = ones(stream, &[4, 4]);
        let b = ones(stream, &[4, 4]);
        refused!(Gemm::new(&a, &b).run_into(&a, stream) => Shape::Overlap, "`d`", "`a`");
        refused!(Gemm::new(&a, &b).run_into(&b.t(), stream) => Shape::Overlap, "`d`", "`b`");
        let c = ones(stream, &[4, 4]);
        let shifted = Gemm::new(&a, &b).beta(1.0, &c).run_into(&c.t(), stream);
        refused!(shifted => Shape::Overlap, "`d`", "`c`");
        // At beta 0, c is not read, and may overlap the output.
        Gemm::new(&a, &b)
            .beta(0.0, &c)
            .run_into(&c.t(), stream)
            .expect("c is not read");
        let wide = ones(stream, &[1, 4]).broadcast_to(&[4, 4]).expect("a view");
        refused!(Gemm::new(&a, &b).run_into(&wide, stream) => Shape::Strides, "`d`", "[0, 1]");
    });
}

#[test]
fn gemm_refuses_options_that_exclude_each_other_of_an_empty_product_too() {
    on_every_device(|_, stream| {
        for m in [0, 3] {
            let (a, b) = (ones(stream, &[m, 4]), ones(stream, &[4, 5]));
            let (one, columns) = (ones(stream, &[1]), ones(stream, &[5]));
            let scaled = Gemm::new(&a, &b).alpha_from(&one).scale_a_from(&one);
            let scaled = scaled.scale_b(0.5).column_scales(&columns);
            refused!(scaled.run(stream) => Argument::Value, "scale_b", "0.5", "want 1");
            refused!(scaled.plan(stream) => Argument::Value, "scale_b", "0.5");
        }
    });
}

#[test]
fn gemm_in_f64_refuses_what_its_kernels_do_not_do() {
    on_every_device(|_, stream| {
        let a = Tensor::<f64>::full(stream, &[4, 4], 1.0).expect("a tensor");
        let product = Gemm::new(&a, &a);
        let narrow = Gemm::new(&a, &a).output::<f32>().run(stream);
        refused!(narrow => Argument::Unsupported, "f64", "f32");
        let x = ones(stream, &[4, 4]);
        let wide = Gemm::new(&x, &x).output::<f64>().run(stream);
        refused!(wide => Argument::Unsupported, "f32", "f64");
        let gelu = product.activation(Activation::Gelu).run(stream);
        refused!(gelu => Argument::Unsupported, "gelu", "f64", "identity", "relu", "Unary");
        refused!(product.split_k(2).run(stream) => Argument::Unsupported, "split_k", "2");
        refused!(product.split_k(2).plan(stream) => Argument::Unsupported, "split_k", "2");
        let relu = product.activation(Activation::Relu).split_k(1);
        assert!(relu.run(stream).is_ok());
        let rows = Tensor::<f64>::zeros(stream, &[3]).expect("a tensor");
        let scaled = product.row_scales(&rows).run(stream);
        refused!(scaled => Shape::Mismatch, "`row_scales`", "[3]", "[4]");
        refused!(product.run_into(&a, stream) => Shape::Overlap, "`a`");
    });
}

#[test]
fn gemm_of_i8_refuses_what_integers_do_not_have() {
    on_every_device(|device, stream| {
        let a = Tensor::<i8>::full(stream, &[4, 4], 1).expect("a tensor");
        let product = Gemm::new(&a, &a);
        let x = ones(stream, &[4, 4]);
        let whole = Gemm::new(&x, &x).output::<i32>().run(stream);
        refused!(whole => Argument::Unsupported, "f32", "i32", "i8 in i32");
        let wide = Gemm::new(&a, &a).output::<f64>().run(stream);
        refused!(wide => Argument::Unsupported, "i8", "f64");
        let gelu = product.activation(Activation::Gelu).run(stream);
        refused!(gelu => Argument::Unsupported, "gelu", "i32", "relu", "Unary");
        let scales = Tensor::from_slice(device, &[4], &[1_i32; 4]).expect("a tensor");
        let one = Tensor::from_slice(device, &[1], &[1_i32]).expect("a tensor");
        for scaled in [
            product.row_scales(&scales),
            product.column_scales(&scales),
            product.scale_a(2),
            product.scale_b_from(&one),
        ] {
            refused!(scaled.run(stream) => Argument::Unsupported, "scales", "i32", "alpha");
            refused!(scaled.plan(stream) => Argument::Unsupported, "scales", "i32", "alpha");
        }
        assert!(product.scale_a(1).split_k(2).run(stream).is_ok());
        let gelu = Gemm::new(&a, &a)
            .output::<f32>()
            .activation(Activation::Gelu);
        assert!(gelu.run(stream).is_ok());
    });
}

#[test]
fn attention_refuses_shapes_that_do_not_fit() {
    on_every_device(|device, stream| {
        let q = ones(stream, &[2, 5, 4, 8]);
        let good = ones(stream, &[2, 7, 2, 8]);
        let flat = ones(stream, &[2, 5, 32]);
        let run =
            |q: &Tensor<f32>, k: &Tensor<f32>, v: &Tensor<f32>| Attention::new(q, k, v).run(stream);
        refused!(run(&flat, &good, &good) => Shape::Mismatch, "`q`", "[2, 5, 32]", "head_dim]");
        for shape in [[3, 7, 2, 8], [2, 7, 2, 9]] {
            let k = ones(stream, &shape);
            refused!(run(&q, &k, &good) => Shape::Mismatch, "`k`", &format!("{shape:?}"));
        }
        for shape in [[2, 6, 2, 8], [2, 7, 4, 8], [1, 7, 2, 8]] {
            let v = ones(stream, &shape);
            refused!(run(&q, &good, &v) => Shape::Mismatch, "`v`", &format!("{shape:?}"));
        }
        let three_heads = ones(stream, &[2, 7, 3, 8]);
        refused!(
            run(&q, &three_heads, &three_heads)
            => Shape::Mismatch, "`k`", "divides q's 4 heads"
        );
        let wide = ones(stream, &[2, 7, 4, 257]);
        refused!(run(&wide, &wide, &wide) => Argument::Unsupported, "257", "256");
        let scaled = Attention::new(&q, &good, &good)
            .softmax_scale(f32::NAN)
            .run(stream);
        refused!(scaled => Argument::Value, "softmax_scale", "NaN", "finite");
        // Finite, but not after conversion to base 2.
        let scaled = Attention::new(&q, &q, &q)
            .softmax_scale(f32::MAX)
            .run(stream);
        refused!(scaled => Argument::Value, "softmax_scale", "2.35e38");
        let (o, lse) = (output(device, &[2, 5, 4, 9]), output(device, &[2, 4, 5]));
        let into = Attention::new(&q, &good, &good);
        let into = into.lse().run_into(&o.tensor, &lse.tensor, stream);
        refused!(into => Shape::Mismatch, "`o`", "[2, 5, 4, 9]", "[2, 5, 4, 8]");
        o.expect_untouched().expect("nothing written");
        lse.expect_untouched().expect("nothing written");
    });
}

#[test]
fn attention_refuses_outputs_that_overlap() {
    on_every_device(|_, stream| {
        let q = ones(stream, &[1, 4, 4, 4]);
        let kv = ones(stream, &[1, 4, 4, 4]);
        let o = ones(stream, &[1, 4, 4, 4]);
        let attention = Attention::new(&q, &kv, &kv);
        refused!(attention.run_into(&q, stream) => Shape::Overlap, "`o`", "`q`");
        refused!(attention.run_into(&kv, stream) => Shape::Overlap, "`o`", "`k`");
        let attention = attention.lse();
        let lse = o
            .reshape(&[64])
            .and_then(|o| o.slice(0, ..16))
            .expect("a view");
        let lse = lse.reshape(&[1, 4, 4]).expect("a view");
        refused!(attention.run_into(&o, &lse, stream) => Shape::Overlap, "`lse`", "`o`");
        let lse = ones(stream, &[1, 4, 4]).t();
        let into = attention.run_into(&o, &lse, stream);
        refused!(into => Shape::Strides, "`lse`", "contiguous");
    });
}

#[test]
fn reduce_refuses_axes_and_operations_without_a_result() {
    on_every_device(|device, stream| {
        let x = ones(stream, &[3, 4]);
        let none = Reduce::new(ReduceOp::Sum, &x).axis(2).run(stream);
        refused!(none => Shape::Axis, "axis is 2, want -2 to 1");
        let values = Reduce::new(ReduceOp::Argmax, &x).run(stream);
        refused!(values => Argument::Value, "argmax", "output::<i64>()");
        let indices = Reduce::new(ReduceOp::Mean, &x).output::<i64>().run(stream);
        refused!(indices => Argument::Value, "dtype of the result is i64");
        let empty = ones(stream, &[3, 0]);
        for op in [ReduceOp::Max, ReduceOp::Min] {
            refused!(Reduce::new(op, &empty).axis(1).run(stream) => Argument::Value, op.name());
        }
        for op in [ReduceOp::Argmax, ReduceOp::Argmin] {
            refused!(
                Reduce::new(op, &empty).output::<i64>().run(stream)
                => Argument::Value, op.name()
            );
        }
        let both = Reduce::new(ReduceOp::Sum, &x).axes(&[0, 5]).run(stream);
        refused!(both => Shape::Axis, "axis is 5");
        let before = Reduce::new(ReduceOp::Sum, &x).axis(-3).run(stream);
        refused!(before => Shape::Axis, "axis is -3, want -2 to 1");
        let one = Reduce::new(ReduceOp::Dot, &x).run(stream);
        refused!(one => Argument::Value, "dot", "Reduce::dot");
        let freedom = Reduce::new(ReduceOp::Sum, &x).ddof(1).run(stream);
        refused!(freedom => Argument::Value, "sum", "variance");
        let mean = Reduce::new(ReduceOp::Max, &x).mean().run(stream);
        refused!(mean => Argument::Value, "max", "variance");
        let integers = Tensor::<i32>::zeros(stream, &[3]).expect("a tensor");
        let mean = Reduce::new(ReduceOp::Mean, &integers).run(stream);
        refused!(mean => Argument::Value, "mean", "output::<f64>()");
        let short = x.cast::<half::bf16>(stream).expect("a cast");
        let spread = Reduce::new(ReduceOp::Variance, &short).output::<half::bf16>();
        refused!(spread.mean().run(stream) => Argument::Value, "bf16", "f32");
        let y = output(device, &[4]);
        let into = Reduce::new(ReduceOp::Sum, &x)
            .axis(1)
            .run_into(&y.tensor, stream);
        refused!(into => Shape::Mismatch, "`y`", "[4]", "[3]");
        y.expect_untouched().expect("nothing written");
        let part = x.index_axis(0, 1).expect("a view");
        let into = Reduce::new(ReduceOp::Sum, &x)
            .axis(0)
            .run_into(&part, stream);
        refused!(into => Shape::Overlap, "`y`", "`x`");
    });
}

#[test]
fn softmax_and_elementwise_refuse_what_does_not_fit() {
    on_every_device(|device, stream| {
        let x = ones(stream, &[3, 4]);
        refused!(
            Softmax::new(&x).axis(2).run(stream)
            => Shape::Axis, "softmax: axis is 2, want -2 to 1"
        );
        let scalar = ones(stream, &[]);
        refused!(
            Softmax::new(&scalar).run(stream)
            => Shape::Axis, "axis is -1, but a tensor without dimensions has none"
        );
        let y = output(device, &[4, 3]);
        refused!(Softmax::new(&x).run_into(&y.tensor, stream) => Shape::Mismatch, "`y`", "[4, 3]");
        let square = ones(stream, &[4, 4]);
        refused!(
            Softmax::new(&square).run_into(&square.t(), stream)
            => Shape::Overlap, "`y`", "`x`"
        );

        let into = Unary::new(UnaryOp::Exp, &x).run_into(&y.tensor, stream);
        refused!(into => Shape::Mismatch, "`y`", "[4, 3]", "[3, 4]");
        refused!(
            Unary::new(UnaryOp::Scale, &x).run(stream)
            => Argument::Value, "scalar", "missing"
        );
        let exp = Unary::new(UnaryOp::Exp, &x).scalar(-1e30).run(stream);
        refused!(exp => Argument::Value, "scalar is -1e30, want none", "exp");
        let into = Unary::new(UnaryOp::Exp, &square).run_into(&square.t(), stream);
        refused!(into => Shape::Overlap, "`y`", "`x`");

        let into = Gradient::new(GradOp::Relu, &x, &x).run_into(&y.tensor, stream);
        refused!(into => Shape::Mismatch, "`dx`", "[4, 3]", "[3, 4]");

        let z = ones(stream, &[3, 5]);
        let sum = Binary::new(BinaryOp::Add, &x, &z).run(stream);
        refused!(sum => Shape::Mismatch, "`b`", "[3, 5]", "[3, 4]");
        let row = ones(stream, &[4]);
        let sum = Binary::new(BinaryOp::Add, &x, &row).run_into(&row, stream);
        refused!(sum => Shape::Mismatch, "`y`", "[4]", "[3, 4]");
        refused!(y.tensor.assign(&x, stream) => Shape::Mismatch, "[4, 3]", "[3, 4]");
        refused!(square.assign(&square.t(), stream) => Shape::Overlap, "source");
        y.expect_untouched().expect("nothing written");
    });
}

#[test]
fn operands_of_another_device_are_refused() {
    // Two emulators count as two devices.
    let [here, there] = [(); 2].map(|()| {
        Device::emulator_with(warpsmith::emulator::EmulatorConfig::default()).expect("an emulator")
    });
    let (stream, far) = (
        here.stream().expect("a stream"),
        there.stream().expect("a stream"),
    );
    let (x, y) = (ones(&stream, &[4, 4]), ones(&far, &[4, 4]));
    refused!(Gemm::new(&x, &y).run(&stream) => Device::Mismatch, "`b`");
    refused!(Gemm::new(&y, &x).run(&stream) => Device::Mismatch, "`a`");
    refused!(Gemm::new(&x, &x).beta(1.0, &y).run(&stream) => Device::Mismatch, "`c`");
    refused!(Gemm::new(&x, &x).run_into(&y, &stream) => Device::Mismatch, "`d`");
    refused!(Reduce::new(ReduceOp::Sum, &y).run(&stream) => Device::Mismatch, "`x`");
    refused!(Softmax::new(&y).run(&stream) => Device::Mismatch, "`x`");
    refused!(Unary::new(UnaryOp::Neg, &y).run(&stream) => Device::Mismatch, "`x`");
    refused!(Binary::new(BinaryOp::Add, &x, &y).run(&stream) => Device::Mismatch, "`b`");
    refused!(y.contiguous(&stream) => Device::Mismatch, "tensor");
    refused!(x.cast::<half::f16>(&far) => Device::Mismatch, "tensor");
    let heads = |x: &Tensor<f32>| x.reshape(&[1, 4, 1, 4]).expect("a view");
    let attention = Attention::new(&heads(&x), &heads(&y), &heads(&x)).run(&stream);
    refused!(attention => Device::Mismatch, "`k`");
}

#[test]
fn copies_between_buffers_that_share_memory_are_refused() {
    on_every_device(|device, stream| {
        let memory = DeviceBuffer::from_slice(device, &[1_i32, 2, 3, 4]).expect("a buffer");
        let at = memory.device_ptr().as_raw();
        // SAFETY: both are within `memory`, which outlives them and their work.
        let (from, mut to) = unsafe {
            (
                DeviceBuffer::<i32>::borrowed(device, at, 3),
                DeviceBuffer::<i32>::borrowed(device, at + 4, 3),
            )
        };
        refused!(to.copy_from_buffer(&from, stream) => Shape::Overlap, "source");
    });
}
