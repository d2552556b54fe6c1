//! Times Hopper's kernels for few rows (decode) on one GPU, beside the bandwidth of a copy.
//!
//! `decode_speed [speed|LAUNCHES] [ROWS,..] [PTX]` runs the entries `gemm_decode_sm90_bf16_nt_*`, the
//! built-in ones or a PTX file's, on the projections of an 8B and a 70B model, for up to 128 rows, in
//! every tiling of one or two waves, checks samples of the answers, and prints the best. Weights
//! rotate over more memory than L2 holds. With a number of launches it repeats each instead, many in
//! a row, and counts results whose bits differ.

use std::error::Error;
use std::fs;

use abi::gemm::decode::sm90::{CLUSTER_MAX, DecodeTiling, Sm90DecodeEntry};
use abi::gemm::{EpilogueParams, GemmParams, Transpose};
use abi::{DType, OutputDType};
use half::bf16;
use warpsmith::{
    Device, DeviceBuffer, DevicePtr, Kernel, KernelArg, LaunchConfig, Stream, TensorMap,
    TensorMapDesc, TensorMapSwizzle, TensorMapType,
};

/// Weights `[n, k]`.
const SHAPES: [(&str, u32, u32); 11] = [
    ("tiny", 8192, 128),
    ("ragged", 5000, 1080),
    ("8B out", 4096, 4096),
    ("8B qkv", 6144, 4096),
    ("8B up", 14336, 4096),
    ("8B gate+up", 28672, 4096),
    ("8B down", 4096, 14336),
    ("70B out", 8192, 8192),
    ("70B qkv", 10240, 8192),
    ("70B up", 28672, 8192),
    ("70B down", 8192, 28672),
];
/// Bytes that weights rotate over.
const ROTATION_BYTES: u64 = 400 << 20;
const COPY_BYTES: usize = 1 << 30;
const BATCHES: usize = 5;
/// Widths of tiles that are tried.
const WIDTHS: [u32; 13] = [64, 72, 80, 88, 96, 112, 120, 128, 144, 160, 192, 224, 256];
/// Results that launches in a row write to.
const RESULTS: usize = 16;
/// Tilings that are printed.
const SHOWN: usize = 6;
const SAMPLES: usize = 64;

type Failure = Box<dyn Error>;

/// About normal numbers, the same each time.
fn pattern(len: usize) -> Vec<bf16> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..len)
        .map(|_| {
            let bits = next();
            let sum: u64 = (0..4).map(|i| bits >> (16 * i) & 0xffff).sum();
            bf16::from_f32((sum as f32 / 65_536.0 - 2.0) * 1.732)
        })
        .collect()
}

fn window(pattern: &[bf16], start: usize, len: usize) -> Vec<bf16> {
    pattern
        .iter()
        .cycle()
        .skip(start % pattern.len())
        .take(len)
        .copied()
        .collect()
}

struct Bench {
    device: Device,
    stream: Stream,
    copies: [DeviceBuffer<u32>; 2],
    pattern: Vec<bf16>,
    copy_gb_s: f64,
}

impl Bench {
    fn new() -> Result<Self, Failure> {
        let device = Device::gpu(0)?;
        let stream = device.stream()?;
        let len = COPY_BYTES / 4;
        let copies = [
            DeviceBuffer::zeros(&stream, len)?,
            DeviceBuffer::zeros(&stream, len)?,
        ];
        let mut bench = Self {
            device,
            stream,
            copies,
            pattern: pattern(8_388_593),
            copy_gb_s: 0.0,
        };
        let mut times = Vec::new();
        for _ in 0..11 {
            let start = bench.stream.record()?;
            bench.copy()?;
            let end = bench.stream.record()?;
            end.synchronize()?;
            times.push(f64::from(start.elapsed_ms(&end)?));
        }
        bench.copy_gb_s = 2.0 * COPY_BYTES as f64 / median(&mut times) / 1e6;
        Ok(bench)
    }

    fn copy(&mut self) -> Result<(), Failure> {
        let [to, from] = &mut self.copies;
        to.copy_from_buffer(from, &self.stream)?;
        Ok(())
    }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Tensor maps: of A, and of each of the weights.
struct Maps {
    a: TensorMap,
    weights: Vec<TensorMap>,
}

/// Operands of a shape on the device.
struct Operands {
    n: u32,
    k: u32,
    a: DeviceBuffer<bf16>,
    weights: Vec<DeviceBuffer<bf16>>,
    d: Vec<DeviceBuffer<bf16>>,
    first_weights: Vec<bf16>,
    a_host: Vec<bf16>,
}

impl Operands {
    fn new(bench: &Bench, n: u32, k: u32) -> Result<Self, Failure> {
        let len = n as usize * k as usize;
        let count = ROTATION_BYTES.div_ceil(2 * len as u64).max(2) as usize;
        let first_weights = window(&bench.pattern, 0, len);
        let mut weights = vec![DeviceBuffer::from_slice(&bench.device, &first_weights)?];
        for _ in 1..count {
            let mut copy = DeviceBuffer::uninit(&bench.stream, len)?;
            copy.copy_from_buffer(&weights[0], &bench.stream)?;
            weights.push(copy);
        }
        let a_host = window(&bench.pattern, 1_234_567, 128 * k as usize);
        Ok(Self {
            n,
            k,
            a: DeviceBuffer::from_slice(&bench.device, &a_host)?,
            weights,
            d: (0..RESULTS)
                .map(|_| DeviceBuffer::zeros(&bench.stream, 128 * n as usize))
                .collect::<Result<_, _>>()?,
            first_weights,
            a_host,
        })
    }

    fn maps(&self, tiling: &DecodeTiling, m: u32) -> Result<Maps, Failure> {
        let map = |buffer: &DeviceBuffer<bf16>, rows: u32, box_dims: [u32; 3]| {
            let dims = [u64::from(self.k), u64::from(rows), 1];
            let strides = [2 * dims[0], 2 * dims[0] * dims[1]];
            TensorMapDesc::new(TensorMapType::Bf16, &dims, &strides, &box_dims)
                .swizzle(TensorMapSwizzle::B128)
                .encode(buffer)
        };
        let box_b = tiling.box_b(Transpose::T);
        let weights = self.weights.iter().map(|buffer| map(buffer, self.n, box_b));
        Ok(Maps {
            a: map(&self.a, m, tiling.box_a())?,
            weights: weights.collect::<Result<_, _>>()?,
        })
    }

    fn params(&self, m: u32) -> GemmParams {
        GemmParams {
            m,
            n: self.n,
            k: self.k,
            batch: 1,
            lda: i64::from(self.k),
            ldb: i64::from(self.k),
            ldc: i64::from(self.n),
            ldd: i64::from(self.n),
            batch_stride_a: 0,
            batch_stride_b: 0,
            batch_stride_c: 0,
            batch_stride_d: 0,
            alpha: 1.0,
            beta: 0.0,
        }
    }

    /// Launches with the `i`th weights into the `i`th result, both in rotation.
    fn launch(&self, stream: &Stream, how: &How<'_>, i: usize) -> Result<(), Failure> {
        let (tiling, maps) = (&how.tiling, &how.maps);
        let config = LaunchConfig {
            grid: tiling.grid(self.n, 1).ok_or("an empty grid")?,
            block: [tiling.threads(), 1, 1],
            shared_bytes: tiling.smem_bytes(self.k),
            cluster: Some(tiling.cluster()),
        };
        let (map_a, map_b) = (&maps.a, &maps.weights[i % maps.weights.len()]);
        let d = &self.d[i % RESULTS];
        let null = DevicePtr::<f32>::NULL;
        let params = self.params(how.m);
        let epilogue = EpilogueParams {
            d_dtype: OutputDType::Bf16.code(),
            ..EpilogueParams::default()
        };
        let launch = tiling.launch(self.k);
        let arguments: [&dyn KernelArg; 13] = [
            &map_a, &map_b, &launch, &null, &d, &null, &null, &null, &null, &null, &null, &params,
            &epilogue,
        ];
        // SAFETY: the operands are as long as the parameters say.
        unsafe { how.kernel.launch(stream, config, &arguments[..])? };
        Ok(())
    }

    /// Microseconds of a launch.
    fn time(&self, bench: &mut Bench, how: &How<'_>) -> Result<f64, Failure> {
        let launches = self.weights.len().max(12);
        let mut times = Vec::new();
        for _ in 0..BATCHES {
            bench.copy()?; // while it runs, the launches queue up
            let start = bench.stream.record()?;
            for i in 0..launches {
                self.launch(&bench.stream, how, i)?;
            }
            let end = bench.stream.record()?;
            end.synchronize()?;
            times.push(f64::from(start.elapsed_ms(&end)?) * 1e3 / launches as f64);
        }
        Ok(median(&mut times))
    }

    /// Launches about `launches` times and says how many results have other bits than the first, and
    /// what the last of them looks like.
    fn repeat(&mut self, bench: &Bench, how: &How<'_>, launches: usize) -> Result<String, Failure> {
        let mut first: Option<Vec<bf16>> = None;
        let (mut bad, mut what) = (0, String::new());
        let rounds = launches.div_ceil(RESULTS);
        for round in 0..rounds {
            for d in &mut self.d {
                d.fill(bf16::NAN, &bench.stream)?;
            }
            for i in 0..RESULTS {
                self.launch(&bench.stream, how, i)?;
            }
            for (i, d) in self.d.iter().enumerate() {
                let mut d = d.to_vec()?;
                d.truncate((how.m * self.n) as usize);
                let Some(first) = &first else {
                    first = Some(d);
                    continue;
                };
                let differs = |&at: &usize| first[at].to_bits() != d[at].to_bits();
                let all: Vec<usize> = (0..d.len()).filter(differs).collect();
                if let Some(&at) = all.first() {
                    bad += 1;
                    let (row, column) = (at / self.n as usize, at % self.n as usize);
                    what = format!(
                        ", launch {} of {RESULTS} in a row, round {round}: {} differ, first row \
                         {row} column {column}: {} and not {}",
                        i,
                        all.len(),
                        d[at],
                        first[at]
                    );
                }
            }
        }
        Ok(format!("{bad} of {}{what}", rounds * RESULTS))
    }

    /// Largest error of samples, in units of what rounding D allows.
    fn check(&mut self, bench: &Bench, how: &How<'_>) -> Result<f64, Failure> {
        self.d[0].fill(bf16::NAN, &bench.stream)?;
        self.launch(&bench.stream, how, 0)?;
        let d = self.d[0].to_vec()?;
        let (m, n, k) = (how.m as usize, self.n as usize, self.k as usize);
        let mut worst = 0.0_f64;
        for sample in 0..SAMPLES {
            let (i, j) = (sample * 7 % m, (sample * 1_000_003 + n - 1) % n);
            let row = &self.a_host[i * k..][..k];
            let column = &self.first_weights[j * k..][..k];
            let want: f64 = row
                .iter()
                .zip(column)
                .map(|(&x, &y)| x.to_f64() * y.to_f64())
                .sum();
            let allowed = want.abs() / 256.0 + (k as f64).sqrt() * 1e-4;
            let got = d[i * n + j].to_f64();
            let error = if got.is_nan() {
                f64::INFINITY
            } else {
                (got - want).abs()
            };
            worst = worst.max(error / allowed);
        }
        Ok(worst)
    }
}

/// A kernel, and how it is launched.
struct How<'a> {
    kernel: &'a Kernel,
    tiling: DecodeTiling,
    maps: Maps,
    m: u32,
}

/// Tilings whose blocks are half a wave to two waves.
fn tilings(tile_m: u32, n: u32, multiprocessors: u32) -> Vec<DecodeTiling> {
    let mut all = Vec::new();
    for sharers in [1, 2, 4] {
        for splits in 1..=CLUSTER_MAX {
            for tile_n in WIDTHS {
                let tiling = DecodeTiling {
                    tile_m,
                    tile_n,
                    splits,
                    sharers,
                };
                let blocks = n.div_ceil(tile_n) * splits;
                let is_useful = blocks * 5 >= multiprocessors * 3
                    && (blocks <= 2 * multiprocessors || splits == 1);
                if is_useful && tiling.is_valid(Transpose::T) {
                    all.push(tiling);
                }
            }
        }
    }
    all
}

fn describe(tiling: &DecodeTiling) -> String {
    let DecodeTiling {
        tile_m,
        tile_n,
        splits,
        sharers,
    } = tiling;
    format!("{tile_m}x{tile_n} sharers {sharers} splits {splits}")
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let launches: Option<usize> = match arguments.next().as_deref() {
        None | Some("speed") => None,
        Some(count) => Some(count.parse()?),
    };
    let rows = arguments.next().unwrap_or("1,8,16,32,64".into());
    let rows: Vec<u32> = rows.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let path = arguments.next();
    let mut bench = Bench::new()?;
    println!(
        "{}: a copy of 1 GiB moves {:.0} GB/s",
        bench.device.name(),
        bench.copy_gb_s
    );
    let module = match &path {
        Some(path) => Some(bench.device.load_ptx(&fs::read_to_string(path)?)?),
        None => None,
    };
    let multiprocessors = bench.device.info().multiprocessors;
    for (what, n, k) in SHAPES {
        let mut operands = Operands::new(&bench, n, k)?;
        let bytes = f64::from(n) * f64::from(k) * 2.0;
        for &m in &rows {
            let entry = Sm90DecodeEntry::of(DType::Bf16, Transpose::T, m).ok_or("1 to 128 rows")?;
            let tile_m = entry.tile_m;
            let name = entry.to_string();
            let kernel = match &module {
                // SAFETY: the kernels wait before they read or write what launches before them do.
                Some(module) => unsafe { module.early_kernel(&name)? },
                None => bench.device.builtin_kernel(&name)?,
            };
            let mut found = Vec::new();
            for tiling in tilings(tile_m, n, multiprocessors) {
                let how = How {
                    kernel: &kernel,
                    tiling,
                    maps: operands.maps(&tiling, m)?,
                    m,
                };
                if let Some(launches) = launches {
                    let outcome = operands.repeat(&bench, &how, launches)?;
                    println!("{what:<10} m{m:<2} {}: {outcome}", describe(&tiling));
                    continue;
                }
                let error = operands.check(&bench, &how)?;
                if error.is_nan() || error > 1.0 {
                    println!("{what} m{m} {}: WRONG, {error:.2}", describe(&tiling));
                    continue;
                }
                found.push((operands.time(&mut bench, &how)?, tiling));
            }
            found.sort_by(|x, y| x.0.total_cmp(&y.0));
            for (time_us, tiling) in found.iter().take(SHOWN) {
                let share = bytes / time_us / 1e3 / bench.copy_gb_s;
                println!(
                    "{what:<10} m{m:<2} {time_us:6.2} us = {share:.3} {}",
                    describe(tiling)
                );
            }
        }
    }
    Ok(())
}
