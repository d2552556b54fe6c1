//! What batch invariance costs: each operation with it beside the same without it, in one process.
//!
//! `batch_invariance` prints a table: the times, and how often the time is that of the first choice.
//! `WARPSMITH_BENCH_DEVICE` names the device. On the emulator the cases are tiny.

use half::bf16;
use warpsmith::{Attention, CrossEntropy, Device, Gemm, Reduction, RmsNorm, Stream, Tensor};
use warpsmith_benches::bench_device;
use warpsmith_benches::error::Result;
use warpsmith_benches::inputs::normal_copies;
use warpsmith_benches::timing::{Launch, Timer, copies};

/// Repetitions that count.
const REPETITIONS: usize = 50;

/// Measures one case: `make(is_invariant)` makes a launch on one of the copies.
fn measure(
    timer: &Timer,
    name: &str,
    copies: usize,
    make: impl Fn(bool) -> Launch<'static>,
) -> Result<()> {
    let mut works = [make(false), make(true)];
    let schedule = timer.plan(REPETITIONS, copies, &mut works)?;
    let times = timer.interleaved(&schedule, &mut works)?.times;
    let [plain, invariant] = [times[0].median_ms, times[1].median_ms].map(|ms| 1000.0 * ms);
    println!(
        "{name:<44} {plain:>10.1} us {invariant:>10.1} us {:>6.2}",
        invariant / plain
    );
    Ok(())
}

fn gemm(timer: &Timer, l2_bytes: u64, [m, n, k]: [usize; 3]) -> Result<()> {
    let stream = timer.stream().clone();
    let count = copies(2 * (m * k + n * k) as u64, l2_bytes);
    let a = normal_copies::<bf16>(&stream, &[m, k], 1, count)?;
    let b = normal_copies::<bf16>(&stream, &[n, k], 2, count)?;
    measure(
        timer,
        &format!("gemm bf16 {m}x{n}x{k}"),
        count,
        |is_invariant| {
            let (stream, a, b) = (stream.clone(), a.clone(), b.clone());
            Box::new(move |copy| {
                let b = b[copy].t();
                let gemm = Gemm::new(&a[copy], &b).batch_invariant(is_invariant);
                gemm.run(&stream)?;
                Ok(())
            })
        },
    )
}

fn rows(timer: &Timer, l2_bytes: u64, [rows, n]: [usize; 2]) -> Result<()> {
    let stream = timer.stream().clone();
    let count = copies(2 * (rows * n) as u64, l2_bytes);
    let x = normal_copies::<bf16>(&stream, &[rows, n], 1, count)?;
    measure(
        timer,
        &format!("rms_norm bf16 {rows}x{n}"),
        count,
        |is_invariant| {
            let (stream, x) = (stream.clone(), x.clone());
            Box::new(move |copy| {
                let norm = RmsNorm::new(&x[copy]).batch_invariant(is_invariant);
                norm.run(&stream)?;
                Ok(())
            })
        },
    )?;
    let targets = Tensor::<i64>::zeros(&stream, &[rows])?;
    measure(
        timer,
        &format!("cross_entropy bf16 {rows}x{n}"),
        count,
        |is_invariant| {
            let (stream, x, targets) = (stream.clone(), x.clone(), targets.clone());
            Box::new(move |copy| {
                let loss = CrossEntropy::new(&x[copy], &targets).reduction(Reduction::None);
                loss.batch_invariant(is_invariant).run(&stream)?;
                Ok(())
            })
        },
    )
}

/// Attention of 32 heads on 8, of head_dim 128, causal; with keys in pages of 16 if `is_paged`.
fn attention(
    timer: &Timer,
    l2_bytes: u64,
    [batch, seqlen_q, seqlen_k]: [usize; 3],
    is_paged: bool,
) -> Result<()> {
    let stream = timer.stream().clone();
    let (pages, columns) = (batch * seqlen_k / 16, seqlen_k / 16);
    let shape = match is_paged {
        true => [pages, 16, 8, 128],
        false => [batch, seqlen_k, 8, 128],
    };
    let count = copies(4 * shape.iter().product::<usize>() as u64, l2_bytes);
    let q = normal_copies::<bf16>(&stream, &[batch, seqlen_q, 32, 128], 1, count)?;
    let k = normal_copies::<bf16>(&stream, &shape, 2, count)?;
    let v = normal_copies::<bf16>(&stream, &shape, 3, count)?;
    let entries: Vec<i32> = (0..pages as i32).collect();
    let table = Tensor::from_slice(stream.device(), &[batch, columns], &entries)?;
    let kind = if is_paged { "paged" } else { "dense" };
    let name = format!("attention bf16 {kind} b{batch} {seqlen_q}x{seqlen_k}");
    measure(timer, &name, count, |is_invariant| {
        let (stream, q, k, v) = (stream.clone(), q.clone(), k.clone(), v.clone());
        let table = table.clone();
        Box::new(move |copy| {
            let attention = Attention::new(&q[copy], &k[copy], &v[copy]).causal();
            let attention = attention.batch_invariant(is_invariant);
            match is_paged {
                true => attention.pages(&table).run(&stream)?,
                false => attention.run(&stream)?,
            };
            Ok(())
        })
    })
}

fn main() -> Result<()> {
    let device: Device = bench_device()?;
    let stream: Stream = device.stream()?;
    let timer = Timer::new(&stream)?;
    let l2_bytes = 60 << 20;
    println!(
        "{:<44} {:>13} {:>13} {:>6}",
        "case", "first choice", "invariant", "times"
    );
    if device.is_emulator() {
        gemm(&timer, 0, [3, 64, 64])?;
        rows(&timer, 0, [3, 64])?;
        attention(&timer, 0, [1, 2, 64], false)?;
        return attention(&timer, 0, [1, 1, 64], true);
    }
    for m in [1, 16, 64, 256, 1024, 8192] {
        gemm(&timer, l2_bytes, [m, 4096, 4096])?;
        gemm(&timer, l2_bytes, [m, 4096, 14_336])?;
    }
    for n in [4096, 4100, 8192] {
        rows(&timer, l2_bytes, [8192, n])?;
    }
    rows(&timer, l2_bytes, [4096, 128_256])?;
    for shape in [
        [1, 1, 8192],
        [1, 1, 131_072],
        [32, 1, 8192],
        [1, 4096, 4096],
    ] {
        attention(&timer, l2_bytes, shape, true)?;
        attention(&timer, l2_bytes, shape, false)?;
    }
    Ok(())
}
