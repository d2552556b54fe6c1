//! Kernels other than the library's: those of the examples, of the device tests, of the corpus from
//! other compilers, and the proof-of-concept kernels for Hopper.

use half::bf16;
use warpsmith::{
    DeviceBuffer, KernelArgs, LaunchConfig, Result, Tensor, TensorMapDesc, TensorMapSwizzle,
    TensorMapType,
};

use super::{Case, Inputs, read};

macro_rules! text {
    ($path:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../", $path))
    };
}

/// Every case of them.
pub fn foreign() -> Vec<Case> {
    let spikes = [
        ("gemm_plain", text!("tests/spike/gemm_plain.ptx"), None),
        (
            "gemm_tma_store",
            text!("tests/spike/gemm_tma_store.ptx"),
            None,
        ),
        (
            "gemm_cluster",
            text!("tests/spike/gemm_cluster.ptx"),
            Some([2, 1, 1]),
        ),
    ];
    let spikes = spikes.map(|(name, text, cluster)| {
        // Tensor cores truncate what the emulator rounds.
        Case::new(name, (9, 0), move |inputs| {
            spike_product(text, cluster, inputs)
        })
        .within(1)
    });
    let mut cases = vec![
        Case::new("vector_add", (7, 5), vector_add),
        Case::new("row_norms", (7, 5), row_norms),
        Case::new("warp_answers", (8, 0), warp_answers),
        Case::new("saxpy", (7, 5), saxpy),
        Case::new("integers", (7, 5), integers),
        Case::new("histogram", (7, 5), histogram),
        Case::new("matmul_f32", (7, 5), matmul),
        Case::new("spike sum", (7, 5), spike_sum),
    ];
    cases.extend(spikes);
    cases
}

/// Launches a kernel of `text`, whose PTX version drivers of CUDA 13.0 accept: nothing uses what is
/// newer.
fn launch<A: KernelArgs>(
    inputs: &Inputs,
    text: &str,
    kernel: &str,
    config: LaunchConfig,
    args: A,
) -> Result<()> {
    let text = text.replacen(".version 9.5", ".version 9.0", 1);
    let kernel = inputs.device.load_ptx(&text)?.kernel(kernel)?;
    // SAFETY: the cases make tensors as large as their kernels access.
    unsafe { kernel.launch(&inputs.stream, config, args) }
}

fn vector_add(inputs: &mut Inputs) -> Result<()> {
    let (a, b) = (
        inputs.tensor::<f32>(&[1000])?,
        inputs.tensor::<f32>(&[1000])?,
    );
    let sums = inputs.tensor::<f32>(&[1000])?;
    let text = text!("examples/kernels/ptx/sm_75/vector_add.ptx");
    let args = (&a, &b, &sums, 1000_u64);
    launch(
        inputs,
        text,
        "vector_add",
        LaunchConfig::linear(8, 128),
        args,
    )?;
    read(&sums)
}

fn row_norms(inputs: &mut Inputs) -> Result<()> {
    let (x, norms) = (
        inputs.tensor::<f32>(&[20, 333])?,
        inputs.tensor::<f32>(&[20])?,
    );
    let text = text!("examples/kernels/ptx/sm_75/row_norms.ptx");
    let args = (&x, &norms, 333_u64);
    launch(
        inputs,
        text,
        "row_norms",
        LaunchConfig::linear(20, 128),
        args,
    )?;
    read(&norms)
}

fn warp_answers(inputs: &mut Inputs) -> Result<()> {
    let out = inputs.tensor::<i32>(&[25 * 32])?;
    let text = text!("tests/device_std/ptx/sm_80/warps.ptx");
    launch(
        inputs,
        text,
        "warp_answers",
        LaunchConfig::linear(1, 32),
        (&out,),
    )?;
    read(&out)
}

fn saxpy(inputs: &mut Inputs) -> Result<()> {
    let (x, y) = (
        inputs.tensor::<f32>(&[1000])?,
        inputs.tensor::<f32>(&[1000])?,
    );
    let text = text!("tests/corpus/ptx/vector.sm_75.ptx");
    let args = (1000_i32, 2.5_f32, &x, &y);
    launch(inputs, text, "saxpy", LaunchConfig::linear(4, 256), args)?;
    read(&y)
}

fn integers(inputs: &mut Inputs) -> Result<()> {
    let (x, out) = (
        inputs.tensor::<i32>(&[180])?,
        inputs.tensor::<i32>(&[32 * 60])?,
    );
    let text = text!("tests/corpus/ptx/bits.sm_75.ptx");
    launch(
        inputs,
        text,
        "integers",
        LaunchConfig::linear(1, 60),
        (&x, &out),
    )?;
    read(&out)
}

fn histogram(inputs: &mut Inputs) -> Result<()> {
    let (from, bins) = (inputs.tensor::<u8>(&[8000])?, inputs.tensor::<i32>(&[256])?);
    let text = text!("tests/corpus/ptx/histogram.sm_75.ptx");
    let args = (8000_i32, &from, &bins);
    launch(inputs, text, "histogram", LaunchConfig::linear(6, 96), args)?;
    read(&bins)
}

fn matmul(inputs: &mut Inputs) -> Result<()> {
    let [m, n, k] = [40_u32, 50, 33];
    let [a, b, c] = [[m, k], [k, n], [m, n]].map(|shape| shape.map(|extent| extent as usize));
    let (a, b) = (inputs.tensor::<f32>(&a)?, inputs.tensor::<f32>(&b)?);
    let c = inputs.tensor::<f32>(&c)?;
    let config = LaunchConfig {
        grid: [n.div_ceil(16), m.div_ceil(16), 1],
        block: [16, 16, 1],
        ..LaunchConfig::linear(1, 1)
    };
    let text = text!("tests/corpus/ptx/matmul.sm_75.ptx");
    launch(inputs, text, "matmul_f32", config, (m, n, k, &a, &b, &c))?;
    read(&c)
}

/// `C = A B^T`: tensor copies, mbarriers, `wgmma`.
fn spike_product(text: &str, cluster: Option<[u32; 3]>, inputs: &mut Inputs) -> Result<()> {
    let [m, n, k] = [256_u32, 256, 192];
    let mut maps = Vec::new();
    let mut tensors: Vec<Tensor<bf16>> = Vec::new();
    for [rows, columns, box_rows] in [[m, k, 128], [n, k, 128], [m, n, 64]] {
        let shape = [rows as usize, columns as usize];
        let tensor = inputs.tensor::<bf16>(&shape)?;
        let dims = [u64::from(columns), u64::from(rows)];
        let strides = [2 * u64::from(columns)];
        let desc = TensorMapDesc::new(TensorMapType::Bf16, &dims, &strides, &[64, box_rows]);
        let desc = desc.swizzle(TensorMapSwizzle::B128);
        let map = desc.encode_at(&inputs.device, tensor.device_ptr().as_raw())?;
        maps.push(DeviceBuffer::from_slice(
            &inputs.device,
            map.bytes().as_slice(),
        )?);
        tensors.push(tensor);
    }
    let config = LaunchConfig {
        shared_bytes: 229_504,
        cluster,
        ..LaunchConfig::linear(2, 384)
    };
    let [a, b, c] = [&maps[0], &maps[1], &maps[2]];
    launch(
        inputs,
        text,
        "gemm",
        config,
        (a, b, c, &tensors[2], m, n, k),
    )?;
    read(&tensors[2])
}

fn spike_sum(inputs: &mut Inputs) -> Result<()> {
    let (x, sum) = (
        inputs.tensor::<f32>(&[1 << 20])?,
        inputs.tensor::<f32>(&[1])?,
    );
    let text = text!("tests/spike/reduce.ptx");
    launch(
        inputs,
        text,
        "sum",
        LaunchConfig::linear(1, 1024),
        (&x, &sum),
    )?;
    read(&sum)
}
