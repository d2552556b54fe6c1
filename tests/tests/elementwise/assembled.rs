//! ptxas accepts composed kernels for every GPU generation, and without register spills.
//!
//! `WARPSMITH_KEEP_COMPOSED=FOLDER` keeps their texts: docs/elementwise.md counts their
//! instructions.

use std::io::Write;

use cuda_builder::toolchain::Ptxas;
use half::{bf16, f16};
use warpsmith::{
    BinaryOp, Chain, ChainElement, Device, E4m3, E5m2, GradOp, Result, Tensor, UnaryOp,
};

/// Architectures that kernels are assembled for.
const ARCHS: [(u32, u32); 6] = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0)];

/// A composed kernel: its name, and its text for an architecture.
type Composed = (&'static str, Box<dyn Fn((u32, u32)) -> Result<String>>);

fn tensor<T: ChainElement>(device: &Device) -> Tensor<T> {
    let stream = device.stream().expect("a stream");
    Tensor::zeros(&stream, &[64]).expect("a tensor")
}

/// A chain of eight functions and two tensors: relu(gelu(2 x + other) - 1) and so on.
fn of_eight<'a, T: ChainElement>(x: &'a Tensor<T>, other: &'a Tensor<T>) -> Chain<'a, T> {
    Chain::new(x)
        .scalar(BinaryOp::Mul, 2.0_f32)
        .with(BinaryOp::Add, other)
        .unary(UnaryOp::Relu)
        .scalar(BinaryOp::Min, 6.0_f32)
        .unary(UnaryOp::Square)
        .scalar(BinaryOp::Sub, 1.0_f32)
        .unary(UnaryOp::Abs)
        .unary(UnaryOp::Sqrt)
}

/// A function of one tensor, and a cast if the output has another type.
fn one<T: ChainElement, U: ChainElement>(
    device: &Device,
    name: &'static str,
    op: Option<UnaryOp>,
) -> Composed {
    let x = tensor::<T>(device);
    let text = move |arch| match op {
        Some(op) => Chain::new(&x).unary(op).output::<U>().ptx(arch),
        None => Chain::new(&x).output::<U>().ptx(arch),
    };
    (name, Box::new(text))
}

/// A chain of two tensors.
fn two<T: ChainElement>(
    device: &Device,
    name: &'static str,
    chain: impl for<'a> Fn(&'a Tensor<T>, &'a Tensor<T>) -> Chain<'a, T> + 'static,
) -> Composed {
    let (x, other) = (tensor::<T>(device), tensor::<T>(device));
    (name, Box::new(move |arch| chain(&x, &other).ptx(arch)))
}

fn composed(device: &Device) -> Vec<Composed> {
    let d = device;
    vec![
        one::<f32, f32>(d, "relu_f32", Some(UnaryOp::Relu)),
        one::<bf16, bf16>(d, "relu_bf16", Some(UnaryOp::Relu)),
        one::<f32, f32>(d, "exp_f32", Some(UnaryOp::Exp)),
        one::<bf16, bf16>(d, "exp_bf16", Some(UnaryOp::Exp)),
        one::<f32, f32>(d, "gelu_f32", Some(UnaryOp::Gelu)),
        one::<bf16, bf16>(d, "gelu_bf16", Some(UnaryOp::Gelu)),
        one::<f32, f32>(d, "silu_f32", Some(UnaryOp::Silu)),
        one::<bf16, bf16>(d, "silu_bf16", Some(UnaryOp::Silu)),
        one::<f32, f32>(d, "sigmoid_f32", Some(UnaryOp::Sigmoid)),
        one::<bf16, bf16>(d, "sigmoid_bf16", Some(UnaryOp::Sigmoid)),
        one::<f32, f32>(d, "tanh_f32", Some(UnaryOp::Tanh)),
        one::<bf16, bf16>(d, "tanh_bf16", Some(UnaryOp::Tanh)),
        one::<f32, f32>(d, "sin_f32", Some(UnaryOp::Sin)),
        one::<f64, f64>(d, "exp_f64", Some(UnaryOp::Exp)),
        one::<i64, i64>(d, "square_i64", Some(UnaryOp::Square)),
        one::<f32, bf16>(d, "cast_f32_bf16", None),
        one::<bf16, f32>(d, "cast_bf16_f32", None),
        one::<f16, f32>(d, "cast_f16_f32", None),
        one::<bf16, E4m3>(d, "cast_bf16_e4m3", None),
        one::<E4m3, bf16>(d, "cast_e4m3_bf16", None),
        one::<E5m2, E4m3>(d, "cast_e5m2_e4m3", None),
        two::<f32>(d, "add_f32", |x, y| Chain::new(x).with(BinaryOp::Add, y)),
        two::<bf16>(d, "add_bf16", |x, y| Chain::new(x).with(BinaryOp::Add, y)),
        two::<f32>(d, "pow_f32", |x, y| Chain::new(x).with(BinaryOp::Pow, y)),
        two::<f64>(d, "div_f64", |x, y| Chain::new(x).with(BinaryOp::Div, y)),
        two::<i32>(d, "remainder_i32", |x, y| {
            Chain::new(x).with(BinaryOp::Remainder, y)
        }),
        two::<i64>(d, "remainder_i64", |x, y| {
            Chain::new(x).with(BinaryOp::Remainder, y)
        }),
        two::<f32>(d, "chain_of_8_f32", of_eight),
        two::<bf16>(d, "chain_of_8_bf16", of_eight),
        two::<f32>(d, "gradients_f32", |x, dy| {
            Chain::new(x)
                .keep(0)
                .gradient(GradOp::Gelu, dy)
                .kept(BinaryOp::Hypot, 0)
        }),
        two::<f32>(d, "long_f32", |x, y| {
            let long = [
                UnaryOp::Sin,
                UnaryOp::Erfc,
                UnaryOp::Log1p,
                UnaryOp::Atan,
                UnaryOp::Tan,
            ];
            long.into_iter()
                .fold(Chain::new(x), |chain, op| chain.unary(op))
                .with(BinaryOp::Pow, y)
                .with(BinaryOp::Fmod, y)
        }),
    ]
}

#[test]
fn composed_kernels_are_assembled_for_every_generation_without_spilling() {
    let ptxas = match Ptxas::discover() {
        Ok(ptxas) => ptxas,
        Err(error) => {
            let required = std::env::var_os("WARPSMITH_REQUIRE_DEVICE_TOOLCHAIN").is_some();
            assert!(!required, "{error}");
            writeln!(std::io::stderr(), "\nassembled: skipped: no ptxas").ok();
            return;
        }
    };
    let device = Device::emulator().expect("an emulator");
    let folder = tempfile::tempdir().expect("a folder");
    let kept = std::env::var_os("WARPSMITH_KEEP_COMPOSED").map(std::path::PathBuf::from);
    let into = kept.as_deref().unwrap_or(folder.path());
    for (name, text) in composed(&device) {
        for (major, minor) in ARCHS {
            let arch = format!("sm_{major}{minor}");
            let text = text((major, minor)).unwrap_or_else(|error| panic!("{name}: {error}"));
            let path = into.join(format!("{name}.{arch}.ptx"));
            std::fs::write(&path, text).expect("a file");
            let said = cuda_builder::assemble(&ptxas, &path, &arch)
                .unwrap_or_else(|error| panic!("{name} for {arch}: {error}"));
            assert_eq!(said.kernels.len(), 1, "{name} for {arch}");
            for usage in said.kernels.values() {
                let spilled = usage.spill_store_bytes + usage.spill_load_bytes;
                assert_eq!(spilled, 0, "{name} for {arch} spills: {usage:?}");
                println!("{name} for {arch}: {} registers", usage.registers);
            }
        }
    }
}
