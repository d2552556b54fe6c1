//! Kernels other than the library's: those of the examples, of the device tests, of the corpus from
//! other compilers, and the proof-of-concept kernels for Hopper. To compare another kernel on both
//! devices, add a [`Case`].

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use warpsmith::{DType, LaunchConfig, TensorMapDesc, TensorMapSwizzle, TensorMapType};

use super::trial::{Arg, Trial};

/// What may differ between devices.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tolerance {
    /// Nothing.
    Exact,
    /// Elements of one buffer, by this many bf16 ulps; other buffers must be equal.
    Bf16 { buffer: usize, places: u16 },
}

/// A kernel and its launch.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The lowest architecture that it runs on.
    pub(crate) arch: (u32, u32),
    pub(crate) trial: Trial,
    pub(crate) tolerance: Tolerance,
}

impl Case {
    fn exact(name: &'static str, arch: (u32, u32), trial: Trial) -> Self {
        Self {
            name,
            arch,
            trial,
            tolerance: Tolerance::Exact,
        }
    }
}

/// All cases, the same every time.
pub(crate) fn cases() -> Vec<Case> {
    let mut rng = ChaCha8Rng::seed_from_u64(2026);
    let mut cases = vec![
        vector_add(&mut rng),
        row_norms(&mut rng),
        warp_answers(&mut rng),
    ];
    cases.extend(corpus(&mut rng));
    cases.extend([
        product("gemm_plain", GEMM_PLAIN, None, &mut rng),
        product("gemm_tma_store", GEMM_TMA_STORE, None, &mut rng),
        product("gemm_cluster", GEMM_CLUSTER, Some([2, 1, 1]), &mut rng),
        spike_sum(&mut rng),
    ]);
    cases
}

macro_rules! text {
    ($path:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../", $path))
    };
}

const GEMM_PLAIN: &str = text!("tests/spike/gemm_plain.ptx");
const GEMM_TMA_STORE: &str = text!("tests/spike/gemm_tma_store.ptx");
const GEMM_CLUSTER: &str = text!("tests/spike/gemm_cluster.ptx");

fn vector_add(rng: &mut ChaCha8Rng) -> Case {
    let mut trial = Trial::default();
    let args = [0; 3].map(|_| trial.floats(DType::F32, 1000, rng));
    let args: Vec<Arg> = args.into_iter().chain([Arg::params(1000_u64)]).collect();
    let text = text!("examples/kernels/ptx/sm_75/vector_add.ptx");
    trial.launch_text(text, "vector_add", LaunchConfig::linear(8, 128), args);
    Case::exact("vector_add", (7, 5), trial)
}

fn row_norms(rng: &mut ChaCha8Rng) -> Case {
    let mut trial = Trial::default();
    let x = trial.floats(DType::F32, 20 * 333, rng);
    let norms = trial.noise(80, rng);
    let args = [x, norms, Arg::params(333_u64)];
    let text = text!("examples/kernels/ptx/sm_75/row_norms.ptx");
    trial.launch_text(text, "row_norms", LaunchConfig::linear(20, 128), args);
    Case::exact("row_norms", (7, 5), trial)
}

fn warp_answers(rng: &mut ChaCha8Rng) -> Case {
    let mut trial = Trial::default();
    let out = trial.noise(4 * 23 * 32, rng);
    let text = text!("tests/device_std/ptx/sm_80/warps.ptx");
    trial.launch_text(text, "warp_answers", LaunchConfig::linear(1, 32), [out]);
    Case::exact("warp_answers", (8, 0), trial)
}

/// The text with a PTX version that drivers of CUDA 13.0 accept. It uses nothing newer; otherwise
/// they refuse it.
fn known(text: &str) -> String {
    text.replacen(".version 9.5", ".version 9.0", 1)
}

/// Kernels compiled by nvcc.
fn corpus(rng: &mut ChaCha8Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    let vector = &known(text!("tests/corpus/ptx/vector.sm_75.ptx"));
    let mut trial = Trial::default();
    let (x, y) = (
        trial.floats(DType::F32, 1000, rng),
        trial.floats(DType::F32, 1000, rng),
    );
    let args = [Arg::params(1000_i32), Arg::params(2.5_f32), x, y];
    trial.launch_text(vector, "saxpy", LaunchConfig::linear(4, 256), args);
    cases.push(Case::exact("saxpy", (7, 5), trial));

    let mut trial = Trial::default();
    let (x, out) = (trial.noise(4 * 180, rng), trial.noise(4 * 32 * 60, rng));
    let bits = &known(text!("tests/corpus/ptx/bits.sm_75.ptx"));
    trial.launch_text(bits, "integers", LaunchConfig::linear(1, 60), [x, out]);
    cases.push(Case::exact("integers", (7, 5), trial));

    let mut trial = Trial::default();
    let (from, bins) = (trial.noise(8000, rng), trial.noise(1024, rng));
    let histogram = &known(text!("tests/corpus/ptx/histogram.sm_75.ptx"));
    let args = [Arg::params(8000_i32), from, bins];
    trial.launch_text(histogram, "histogram", LaunchConfig::linear(6, 96), args);
    cases.push(Case::exact("histogram", (7, 5), trial));

    let mut trial = Trial::default();
    let (m, n, k) = (40_u32, 50_u32, 33_u32);
    let a = trial.floats(DType::F32, u64::from(m * k), rng);
    let b = trial.floats(DType::F32, u64::from(k * n), rng);
    let c = trial.noise(4 * u64::from(m * n), rng);
    let sizes = [m, n, k].map(Arg::params::<u32>);
    let args: Vec<Arg> = sizes.into_iter().chain([a, b, c]).collect();
    let config = LaunchConfig {
        grid: [n.div_ceil(16), m.div_ceil(16), 1],
        block: [16, 16, 1],
        ..LaunchConfig::linear(1, 1)
    };
    let matmul = &known(text!("tests/corpus/ptx/matmul.sm_75.ptx"));
    trial.launch_text(matmul, "matmul_f32", config, args);
    cases.push(Case::exact("matmul_f32", (7, 5), trial));
    cases
}

/// The GEMM proof of concept, `C = A B^T`: tensor copies, mbarriers, `wgmma`.
fn product(
    name: &'static str,
    text: &str,
    cluster: Option<[u32; 3]>,
    rng: &mut ChaCha8Rng,
) -> Case {
    let (m, n, k) = (256_u32, 256_u32, 192_u32);
    let mut trial = Trial::default();
    for (rows, columns) in [(m, k), (n, k), (m, n)] {
        let element = |rng: &mut ChaCha8Rng| half::bf16::from_f32(rng.random_range(-1.0..1.0));
        let len = rows as usize * columns as usize;
        let bytes = (0..len).flat_map(|_| element(rng).to_le_bytes()).collect();
        trial.buffer(bytes);
    }
    let map = |buffer: usize, rows: u32, columns: u32, box_rows: u32| {
        let dims = [u64::from(columns), u64::from(rows)];
        let strides = [2 * u64::from(columns)];
        let desc = TensorMapDesc::new(TensorMapType::Bf16, &dims, &strides, &[64, box_rows]);
        Arg::Map(buffer, desc.swizzle(TensorMapSwizzle::B128))
    };
    let mut args = vec![
        map(0, m, k, 128),
        map(1, n, k, 128),
        map(2, m, n, 64),
        Arg::Buffer(2),
    ];
    args.extend([m, n, k].map(Arg::params::<u32>));
    let config = LaunchConfig {
        shared_bytes: 229_504,
        cluster,
        ..LaunchConfig::linear(2, 384)
    };
    trial.launch_text(text, "gemm", config, args);
    Case {
        name,
        arch: (9, 0),
        trial,
        tolerance: Tolerance::Bf16 {
            buffer: 2,
            places: 1,
        },
    }
}

fn spike_sum(rng: &mut ChaCha8Rng) -> Case {
    let mut trial = Trial::default();
    let x = (0..1 << 20).flat_map(|_| rng.random_range(-1.0..1.0_f32).to_le_bytes());
    let x = trial.buffer(x.collect());
    let sum = trial.noise(4, rng);
    let text = text!("tests/spike/reduce.ptx");
    trial.launch_text(text, "sum", LaunchConfig::linear(1, 1024), [x, sum]);
    Case::exact("spike sum", (7, 5), trial)
}

impl Tolerance {
    /// Number of elements (or bytes) of a buffer that differ by more than is allowed.
    pub(crate) fn mismatches(self, buffer: usize, x: &[u8], y: &[u8]) -> usize {
        match self {
            Self::Bf16 { buffer: of, places } if of == buffer => {
                let elements = x.chunks_exact(2).zip(y.chunks_exact(2));
                let differs = |(x, y): &(&[u8], &[u8])| {
                    let place = |bytes: &[u8]| ordered(u16::from_le_bytes([bytes[0], bytes[1]]));
                    place(x).abs_diff(place(y)) > places
                };
                elements.filter(differs).count()
            }
            _ => x.iter().zip(y).filter(|(x, y)| x != y).count(),
        }
    }
}

/// The bits of a 16-bit float as an integer with the same order.
fn ordered(bits: u16) -> i16 {
    let magnitude = (bits & 0x7fff) as i16;
    if bits & 0x8000 != 0 {
        -magnitude
    } else {
        magnitude
    }
}
