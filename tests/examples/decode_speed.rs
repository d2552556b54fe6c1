//! Times the kernels for few rows (decode) on one GPU, beside the bandwidth of a copy.
//!
//! `decode_speed PTX [speed|LAUNCHES] [FILTER]` runs the entries `gemm_decode_sm90_bf16_nt_*` of a PTX file on the
//! projections of an 8B and a 70B model, with every number of splits that makes sense, checks
//! samples of the answers, and prints the best of each and what `spec` would choose. Weights rotate
//! over more memory than L2 holds. With a number of launches it repeats each instead, and counts
//! results whose bits differ.

use std::error::Error;
use std::fs;

use half::bf16;
use spec::gemm::decode::{DecodeArch, DecodeConfig, SM90_CONFIGS, SPLITS_MAX};
use spec::gemm::{EpilogueParams, GemmParams, Transpose};
use warpsmith::{
    Device, DeviceBuffer, DevicePtr, Kernel, KernelArg, LaunchConfig, Stream, TensorMap,
    TensorMapDesc, TensorMapSwizzle, TensorMapType,
};

/// Weights `[n, k]`.
const SHAPES: [(&str, u32, u32); 10] = [
    ("tiny", 8192, 128),
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
const ROWS: [u32; 5] = [1, 8, 16, 32, 64];
/// Bytes that weights rotate over.
const ROTATION_BYTES: u64 = 400 << 20;
const COPY_BYTES: usize = 1 << 30;
const BATCHES: usize = 5;
const SAMPLES: usize = 64;

type Failure = Box<dyn Error>;

/// A kernel and what its name says of its tile.
struct Variant {
    name: String,
    kernel: Kernel,
    config: DecodeConfig,
}

/// `.._<m>x<n>x<k>[_s<stages>_w<warps_n>_b<blocks>]`
fn config_of(name: &str) -> Option<DecodeConfig> {
    let tile = name.split('_').find(|part| part.split('x').count() == 3)?;
    let extents: Vec<u32> = tile.split('x').map_while(|x| x.parse().ok()).collect();
    let &[tile_m, tile_n, tile_k] = &extents[..] else {
        return None;
    };
    let option = |letter: char| {
        let found = name
            .split('_')
            .find_map(|part| part.strip_prefix(letter)?.parse().ok());
        found as Option<u32>
    };
    let known = SM90_CONFIGS
        .into_iter()
        .find(|c| (c.tile_m, c.tile_n, c.tile_k) == (tile_m, tile_n, tile_k));
    match (option('s'), option('w'), option('b')) {
        (Some(stages), Some(warps_n), Some(blocks)) => Some(DecodeConfig {
            tile_m,
            tile_n,
            tile_k,
            stages,
            warps_n,
            blocks,
        }),
        _ => known,
    }
}

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
    d: DeviceBuffer<bf16>,
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
        let a_host = window(&bench.pattern, 1_234_567, 64 * k as usize);
        Ok(Self {
            n,
            k,
            a: DeviceBuffer::from_slice(&bench.device, &a_host)?,
            weights,
            d: DeviceBuffer::zeros(&bench.stream, 64 * n as usize)?,
            first_weights,
            a_host,
        })
    }

    fn maps(&self, config: &DecodeConfig, m: u32) -> Result<Maps, Failure> {
        let map = |buffer: &DeviceBuffer<bf16>, rows: u32, box_dims: [u32; 3]| {
            let dims = [u64::from(self.k), u64::from(rows), 1];
            let strides = [2 * dims[0], 2 * dims[0] * dims[1]];
            TensorMapDesc::new(TensorMapType::Bf16, &dims, &strides, &box_dims)
                .swizzle(TensorMapSwizzle::B128)
                .encode(buffer)
        };
        let box_b = config.box_b(Transpose::T);
        let weights = self.weights.iter().map(|buffer| map(buffer, self.n, box_b));
        Ok(Maps {
            a: map(&self.a, m, config.box_a())?,
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

    fn launch(
        &self,
        stream: &Stream,
        variant: &Variant,
        (m, splits): (u32, u32),
        maps: &Maps,
        i: usize,
    ) -> Result<(), Failure> {
        let config = &variant.config;
        let launch = LaunchConfig {
            grid: config.grid(self.n, 1, splits).ok_or("an empty grid")?,
            block: [DecodeArch::Sm90.threads(), 1, 1],
            shared_bytes: config.smem_bytes(DecodeArch::Sm90, Transpose::T),
            cluster: Some([1, splits, 1]),
        };
        let (map_a, map_b) = (&maps.a, &maps.weights[i]);
        let null = DevicePtr::<f32>::NULL;
        let (params, epilogue) = (self.params(m), EpilogueParams::default());
        let arguments: [&dyn KernelArg; 12] = [
            &map_a, &map_b, &null, &&self.d, &null, &null, &null, &null, &null, &null, &params,
            &epilogue,
        ];
        // SAFETY: the operands are as long as the parameters say.
        unsafe { variant.kernel.launch(stream, launch, &arguments[..])? };
        Ok(())
    }

    /// Microseconds of a launch.
    fn time(
        &self,
        bench: &mut Bench,
        variant: &Variant,
        maps: &Maps,
        how: (u32, u32),
    ) -> Result<f64, Failure> {
        let launches = self.weights.len().max(12);
        let mut times = Vec::new();
        for _ in 0..BATCHES {
            bench.copy()?; // while it runs, the launches queue up
            let start = bench.stream.record()?;
            for i in 0..launches {
                self.launch(&bench.stream, variant, how, maps, i % self.weights.len())?;
            }
            let end = bench.stream.record()?;
            end.synchronize()?;
            times.push(f64::from(start.elapsed_ms(&end)?) * 1e3 / launches as f64);
        }
        Ok(median(&mut times))
    }

    /// Launches `launches` times and says how many results have other bits than the first, and what
    /// they look like.
    fn repeat(
        &mut self,
        bench: &Bench,
        variant: &Variant,
        maps: &Maps,
        (how, launches): ((u32, u32), usize),
    ) -> Result<String, Failure> {
        let mut first: Option<Vec<bf16>> = None;
        let mut bad = 0;
        let mut what = String::new();
        for i in 0..launches {
            self.d.fill(bf16::NAN, &bench.stream)?;
            self.launch(&bench.stream, variant, how, maps, i % self.weights.len())?;
            let mut d = self.d.to_vec()?;
            d.truncate((how.0 * self.n) as usize);
            let Some(first) = &first else {
                first = Some(d);
                continue;
            };
            let differs = |(at, (x, y)): (usize, (&bf16, &bf16))| {
                (x.to_bits() != y.to_bits()).then_some((at, x.to_f32(), y.to_f32()))
            };
            let all: Vec<_> = first
                .iter()
                .zip(&d)
                .enumerate()
                .filter_map(differs)
                .collect();
            if !all.is_empty() {
                bad += 1;
                let n = self.n as usize;
                let columns = all.iter().map(|(at, ..)| at % n);
                let rows = all.iter().map(|(at, ..)| at / n);
                what = format!(
                    "launch {i}: {} differ, rows {:?}..={:?}, columns {:?}..={:?}, first {:?}",
                    all.len(),
                    rows.clone().min(),
                    rows.max(),
                    columns.clone().min(),
                    columns.max(),
                    all[0]
                );
            }
        }
        Ok(format!("{bad} of {launches} {what}"))
    }

    /// Largest error of samples, in units of what rounding D allows.
    fn check(
        &mut self,
        bench: &Bench,
        variant: &Variant,
        maps: &Maps,
        how: (u32, u32),
    ) -> Result<f64, Failure> {
        self.d.fill(bf16::NAN, &bench.stream)?;
        self.launch(&bench.stream, variant, how, maps, 0)?;
        let d = self.d.to_vec()?;
        let (m, n, k) = (how.0 as usize, self.n as usize, self.k as usize);
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

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("want the path of a PTX file")?;
    let launches: Option<usize> = match arguments.next().as_deref() {
        None | Some("speed") => None,
        Some(count) => Some(count.parse()?),
    };
    let filter = arguments.next().unwrap_or_default();
    let mut bench = Bench::new()?;
    println!(
        "{}: a copy of 1 GiB moves {:.0} GB/s",
        bench.device.name(),
        bench.copy_gb_s
    );
    let module = bench.device.load_ptx(&fs::read_to_string(path)?)?;
    let mut variants = Vec::new();
    for name in module.kernel_names().filter(|name| name.contains(&filter)) {
        if let Some(config) = config_of(name) {
            let kernel = module.kernel(name)?;
            variants.push(Variant {
                name: name.into(),
                kernel,
                config,
            });
        }
    }
    variants.sort_by(|a, b| a.name.cmp(&b.name));
    let multiprocessors = bench.device.info().multiprocessors;
    for (what, n, k) in SHAPES {
        let mut operands = Operands::new(&bench, n, k)?;
        let bytes = f64::from(n) * f64::from(k) * 2.0;
        for m in ROWS {
            let least = variants
                .iter()
                .map(|v| v.config.tile_m)
                .filter(|&tile_m| tile_m >= m)
                .min();
            for variant in variants.iter().filter(|v| Some(v.config.tile_m) == least) {
                let config = &variant.config;
                let maps = operands.maps(config, m)?;
                let chosen = config.choose_splits(n, k, 1, multiprocessors);
                let mut line = format!("{what:<10} m{m:<2} {:<44}", variant.name);
                let mut best = (f64::INFINITY, 0);
                for splits in 1..=SPLITS_MAX {
                    let blocks = config.tiles(n) * splits;
                    let is_useful = splits == chosen
                        || (blocks >= 100 && blocks <= multiprocessors * config.blocks);
                    if !is_useful {
                        continue;
                    }
                    if let Some(launches) = launches {
                        let how = ((m, splits), launches);
                        let outcome = operands.repeat(&bench, variant, &maps, how)?;
                        line += &format!(" {splits}: {outcome}");
                        continue;
                    }
                    let error = operands.check(&bench, variant, &maps, (m, splits))?;
                    if error.is_nan() || error > 1.0 {
                        line += &format!(" WRONG at {splits}: {error:.2}");
                        continue;
                    }
                    let time_us = operands.time(&mut bench, variant, &maps, (m, splits))?;
                    let share = bytes / time_us / 1e3 / bench.copy_gb_s;
                    line += &format!(
                        " {splits}{}:{time_us:.1}={share:.3}",
                        if splits == chosen { "*" } else { "" }
                    );
                    if time_us < best.0 {
                        best = (time_us, splits);
                    }
                }
                println!("{line}  best {}", best.1);
            }
        }
    }
    Ok(())
}
