//! The kernel of `examples/kernels/src/hopper_attention.rs`, attention in a page.

use std::path::Path;

use half::bf16;
use ndarray::ArrayD;
use warpsmith::reference::attention::{AttentionOptions, Band, attention};
use warpsmith::{
    Attention, DType, Device, LaunchConfig, Tensor, TensorMap, TensorMapDesc, TensorMapSwizzle,
    TensorMapType,
};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operation::agrees;
use warpsmith_tests::values::Values;

const HEADS: usize = 2;
const HEAD_DIM: usize = 128;
/// As the kernel has it: the queries, two stages of keys and two of values, and their barriers.
const SHARED_BYTES: u32 = 1024 + 5 * 128 * 256 + 3 * 2 * 16;

/// The map of a `[1, seqlen, heads, head_dim]`, with heads outermost.
fn map(device: &Device, x: &Tensor<bf16>) -> TensorMap {
    let row_bytes = 2 * (HEADS * HEAD_DIM) as u64;
    let dims = [HEAD_DIM as u64, x.shape()[1] as u64, HEADS as u64];
    let strides_bytes = [row_bytes, 2 * HEAD_DIM as u64];
    let boxes = [64, 128, 1];
    let desc = TensorMapDesc::new(TensorMapType::Bf16, &dims, &strides_bytes, &boxes);
    let desc = desc.swizzle(TensorMapSwizzle::B128);
    let encoded = desc.encode_at(device, x.device_ptr().as_raw());
    encoded.expect("a map")
}

fn check(device: &Device, seqlen: usize, is_causal: bool) {
    let stream = device.stream().expect("a stream");
    let shape = [1, seqlen, HEADS, HEAD_DIM];
    let [q, k, v] = [1, 2, 3].map(|seed| {
        let mut drawn = Values::Uniform.draw(&shape, seed);
        drawn.mapv_inplace(|x| bf16::nearest(x).wide());
        drawn
    });
    let tensor = |x: &ArrayD<f64>| {
        let values: Vec<bf16> = x.iter().map(|&x| bf16::nearest(x)).collect();
        Tensor::from_slice(device, &shape, &values).expect("a tensor")
    };
    let tensors = [&q, &k, &v].map(tensor);
    let [map_q, map_k, map_v] = [0, 1, 2].map(|idx| map(device, &tensors[idx]));
    let o = Tensor::<f32>::empty(&stream, &[HEADS, seqlen, HEAD_DIM]).expect("o");

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/kernels/ptx");
    let read = |name| std::fs::read_to_string(folder.join(name)).expect("the examples are built");
    let module = device.load_built(&read("sm_90a/hopper_attention.ptx"), &read("manifest.json"));
    let kernel = module.expect("a module").kernel("hopper_attention");
    let config = LaunchConfig {
        grid: [seqlen.div_ceil(128) as u32, HEADS as u32, 1],
        ..LaunchConfig::linear(1, 384)
    };
    let scale_log2 = std::f32::consts::LOG2_E / (HEAD_DIM as f32).sqrt();
    let numbers = (seqlen as u32, scale_log2, u32::from(is_causal));
    let arguments = (&map_q, &map_k, &map_v, &o, numbers.0, numbers.1, numbers.2);
    let config = config.shared_bytes(SHARED_BYTES);
    // SAFETY: as the kernel's docs state: a CTA for each 128 queries of a head, maps of q, k and v, which stay
    // allocated, and room for o.
    unsafe {
        kernel
            .expect("the kernel")
            .launch(&stream, config, arguments)
    }
    .expect("a launch");

    let [q_tensor, k_tensor, v_tensor] = &tensors;
    let by_library = Attention::new(q_tensor, k_tensor, v_tensor);
    let by_library = by_library.with_kernel("flash_fwd_sm90_bf16_d128_128x128");
    let model = by_library.model(&stream).expect("a model");
    let mut options = AttentionOptions::new(DType::F32, model);
    if is_causal {
        options.mask = Band {
            right: Some(0),
            ..Band::default()
        };
    }
    let [q, k, v] = [q, k, v].map(|x| x.into_dimensionality().expect("four dimensions"));
    let want = attention(&q.view(), &k.view(), &v.view(), &options).expect("a reference");
    let got = o.to_ndarray().expect("o").permuted_axes(vec![1, 0, 2]);
    let got = got.insert_axis(ndarray::Axis(0));
    agrees(&got.as_standard_layout().into_owned(), &want.o)
        .unwrap_or_else(|error| panic!("{seqlen} {is_causal}: {error}"));
}

#[test]
fn attention_in_a_page_matches_its_reference() {
    let device = Device::emulator().expect("an emulator");
    for seqlen in [1, 40, 128, 200, 391] {
        for is_causal in [false, true] {
            check(&device, seqlen, is_causal);
        }
    }
}
