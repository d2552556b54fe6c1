//! GEMM beside cuBLAS in f32, interleaved in one process on one GPU.
//!
//! `compare_gemm [--out FOLDER] [--repetitions N]` prints a table and writes `gemm_f32.csv` and
//! `.json` (default folder: `benches/results`). cuBLAS is loaded at run time; its folder must be on
//! the library path. TF32 is off: both sides multiply in full f32.

mod cublas;
mod layout;

use std::error::Error;
use std::path::PathBuf;

use cublas::Cublas;
use layout::Layout;
use warpsmith::{Device, Gemm, Stream, Tensor};
use warpsmith_benches::normal_tensor;
use warpsmith_benches::results::{self, Machine, Row};
use warpsmith_benches::timing::{Work, interleaved};

/// Extents and layout of the cases.
const CASES: [(Layout, usize, usize, usize); 13] = [
    (Layout::NN, 512, 512, 512),
    (Layout::NN, 1024, 1024, 1024),
    (Layout::NN, 2048, 2048, 2048),
    (Layout::NN, 4096, 4096, 4096),
    (Layout::NT, 4096, 4096, 4096),
    (Layout::TN, 4096, 4096, 4096),
    (Layout::TT, 4096, 4096, 4096),
    (Layout::NN, 8192, 8192, 8192),
    (Layout::NN, 4096, 4096, 128),
    (Layout::NN, 128, 4096, 4096),
    (Layout::NN, 16, 4096, 4096),
    (Layout::NN, 4095, 4097, 4099),
    (Layout::NN, 1000, 1000, 1000),
];

const WARMUPS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let device = Device::gpu(0)?;
    let stream = device.default_stream();
    let cublas = Cublas::new(&stream)?;
    println!(
        "{}: ours beside cuBLAS, f32, median of {}",
        device.name(),
        options.repetitions
    );
    println!(
        "{:<32} {:>10} {:>10} {:>8} {:>8}",
        "case", "ours ms", "cuBLAS ms", "TFLOP/s", "speed"
    );
    let mut rows = Vec::new();
    for (layout, m, n, k) in CASES {
        let row = compare(
            &device,
            &stream,
            &cublas,
            (layout, m, n, k),
            options.repetitions,
        )?;
        println!(
            "{:<32} {:>10.4} {:>10.4} {:>8.2} {:>8.3}",
            row.case,
            row.ours_ms,
            row.vendor_ms,
            row.flops / row.ours_ms / 1e9,
            row.speed_of_vendor
        );
        rows.push(row);
    }
    let vendor = format!("cuBLAS {}", cublas.version()?);
    results::write(
        &options.out,
        "gemm_f32",
        &Machine::of(&device),
        &vendor,
        &rows,
    )?;
    println!("written to {}", options.out.display());
    Ok(())
}

struct Options {
    out: PathBuf,
    repetitions: usize,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut options = Self {
            out: PathBuf::from("benches/results"),
            repetitions: 31,
        };
        while let Some(argument) = arguments.next() {
            let value = arguments
                .next()
                .ok_or_else(|| format!("{argument} needs a value"))?;
            match argument.as_str() {
                "--out" => options.out = PathBuf::from(value),
                "--repetitions" => options.repetitions = value.parse::<usize>()?.max(1),
                _ => return Err(format!("{argument}: want --out or --repetitions").into()),
            }
        }
        Ok(options)
    }
}

/// Measures one case, and compares the results.
fn compare(
    device: &Device,
    stream: &Stream,
    cublas: &Cublas,
    (layout, m, n, k): (Layout, usize, usize, usize),
    repetitions: usize,
) -> Result<Row, Box<dyn Error>> {
    let a_stored: Tensor<f32> = normal_tensor(device, &layout.shape_a(m, k), 1)?;
    let b_stored: Tensor<f32> = normal_tensor(device, &layout.shape_b(k, n), 2)?;
    let a = if layout.trans_a {
        a_stored.t()
    } else {
        a_stored.clone()
    };
    let b = if layout.trans_b {
        b_stored.t()
    } else {
        b_stored.clone()
    };
    let ours = Tensor::full(stream, &[m, n], f32::NAN)?;
    let theirs = Tensor::full(stream, &[m, n], f32::NAN)?;
    let mut works: [Work<'_>; 2] = [
        Box::new(|stream| Gemm::new(&a, &b).run_into(&ours, stream)),
        Box::new(|_| {
            cublas.sgemm(layout, (m, n, k), &a_stored, &b_stored, &theirs);
            Ok(())
        }),
    ];
    let times = interleaved(stream, WARMUPS, repetitions, &mut works)?;
    drop(works);
    cublas.check()?;
    let (ours_ms, vendor_ms) = (times[0], times[1]);
    Ok(Row {
        case: format!("gemm/f32/{}/m{m}_n{n}_k{k}", layout.name()),
        flops: 2.0 * m as f64 * n as f64 * k as f64,
        ours_ms: ours_ms.median_ms,
        ours_min_ms: ours_ms.min_ms,
        ours_max_ms: ours_ms.max_ms,
        vendor_ms: vendor_ms.median_ms,
        speed_of_vendor: vendor_ms.median_ms / ours_ms.median_ms,
        largest_difference: largest_difference(&ours.to_vec()?, &theirs.to_vec()?),
        repetitions,
    })
}

/// Largest |x - y| over the largest |y|; infinite where a NaN is left.
fn largest_difference(x: &[f32], y: &[f32]) -> f64 {
    let mut difference = 0.0_f64;
    let mut largest = f64::MIN_POSITIVE;
    for (&x, &y) in x.iter().zip(y) {
        if x.is_nan() || y.is_nan() {
            return f64::INFINITY;
        }
        difference = difference.max((f64::from(x) - f64::from(y)).abs());
        largest = largest.max(f64::from(y).abs());
    }
    difference / largest
}
