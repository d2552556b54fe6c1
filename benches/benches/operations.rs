//! Criterion benches of every operation, through the public API, on the device that
//! `WARPSMITH_BENCH_DEVICE` names, timed by its events. `gemm` has those of products.

use std::error::Error;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use warpsmith::{
    Attention, Binary, BinaryOp, Device, Gemm, Reduce, ReduceOp, Result, Softmax, Stream, Unary,
    UnaryOp,
};
use warpsmith_benches::bench_device;
use warpsmith_benches::inputs::normal_tensor;

use events::DeviceTime;

mod events;

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let device = bench_device()?;
    let stream = device.default_stream();
    let mut criterion = events::criterion(&stream)?;
    attention(&mut criterion, &device, &stream)?;
    rows(&mut criterion, &device, &stream)?;
    elementwise(&mut criterion, &device, &stream)?;
    if device.is_emulator() {
        emulator(&mut criterion, &device, &stream)?;
    }
    criterion.final_summary();
    Ok(())
}

/// Extents that take a while on a GPU, and not forever on the emulator.
fn pick(device: &Device, gpu: usize, emulator: usize) -> usize {
    if device.is_emulator() { emulator } else { gpu }
}

/// One case.
fn case(
    criterion: &mut Criterion<DeviceTime>,
    name: &str,
    throughput: Throughput,
    mut run: impl FnMut() -> Result<()>,
) {
    let (group, case) = name.split_once('/').unwrap_or((name, ""));
    let mut group = criterion.benchmark_group(group);
    // A GPU's times hardly vary: short measurements, so that a lent machine gets through them all.
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .throughput(throughput);
    group.bench_function(case, |bencher| {
        bencher.iter(|| {
            run().unwrap_or_else(|error| panic!("{name}: {error}"));
        });
    });
    group.finish();
}

fn attention(
    criterion: &mut Criterion<DeviceTime>,
    device: &Device,
    stream: &Stream,
) -> Result<()> {
    let seqlen = pick(device, 2048, 128);
    let heads = pick(device, 16, 1);
    for head_dim in [64, 128, 256] {
        let shape = [1, seqlen, heads, head_dim];
        let q = normal_tensor::<f32>(device, &shape, 1)?;
        let k = normal_tensor::<f32>(device, &shape, 2)?;
        let v = normal_tensor::<f32>(device, &shape, 3)?;
        let flops = 4 * heads * seqlen * seqlen * head_dim;
        let name = format!("flash_fwd/f32/d{head_dim}/full/s{seqlen}");
        case(criterion, &name, Throughput::Elements(flops as u64), || {
            Attention::new(&q, &k, &v).run(stream).map(drop)
        });
        let name = format!("flash_fwd/f32/d{head_dim}/causal/s{seqlen}");
        case(
            criterion,
            &name,
            Throughput::Elements(flops as u64 / 2),
            || Attention::new(&q, &k, &v).causal().run(stream).map(drop),
        );
    }
    Ok(())
}

fn rows(criterion: &mut Criterion<DeviceTime>, device: &Device, stream: &Stream) -> Result<()> {
    let (rows, n) = (pick(device, 16_384, 64), pick(device, 8192, 1024));
    let x = normal_tensor::<f32>(device, &[rows, n], 1)?;
    let bytes = Throughput::Bytes(4 * (rows * n) as u64);
    for op in ReduceOp::ALL {
        for (axis, name) in [(Some(1), "rows"), (Some(0), "columns"), (None, "all")] {
            let reduce = axis.map_or(Reduce::new(op, &x), |axis| Reduce::new(op, &x).axis(axis));
            let name = format!("reduce/{}/{name}/{rows}x{n}", op.name());
            case(criterion, &name, bytes.clone(), || {
                if op.is_index() {
                    reduce.output::<i64>().run(stream).map(drop)
                } else {
                    reduce.run(stream).map(drop)
                }
            });
        }
    }
    let name = format!("softmax/f32/{rows}x{n}");
    case(criterion, &name, bytes, || {
        Softmax::new(&x).run(stream).map(drop)
    });
    Ok(())
}

fn elementwise(
    criterion: &mut Criterion<DeviceTime>,
    device: &Device,
    stream: &Stream,
) -> Result<()> {
    let len = pick(device, 1 << 26, 1 << 14);
    let x = normal_tensor::<f32>(device, &[len], 1)?;
    let y = normal_tensor::<f32>(device, &[len], 2)?;
    for op in [UnaryOp::Exp, UnaryOp::Tanh] {
        let name = format!("elementwise/{}/f32/{len}", op.name());
        let bytes = Throughput::Bytes(8 * len as u64);
        case(criterion, &name, bytes, || {
            Unary::new(op, &x).run(stream).map(drop)
        });
    }
    let name = format!("elementwise/{}/f32/{len}", BinaryOp::Add.name());
    let bytes = Throughput::Bytes(12 * len as u64);
    case(criterion, &name, bytes, || {
        Binary::new(BinaryOp::Add, &x, &y).run(stream).map(drop)
    });
    Ok(())
}

/// The emulator's speed, in lane-instructions a second, on a GEMM.
fn emulator(criterion: &mut Criterion<DeviceTime>, device: &Device, stream: &Stream) -> Result<()> {
    let a = normal_tensor::<f32>(device, &[256, 256], 1)?;
    let b = normal_tensor::<f32>(device, &[256, 256], 2)?;
    let executed = || device.lane_instructions().unwrap_or_default();
    let before = executed();
    Gemm::new(&a, &b).run(stream)?;
    stream.synchronize()?;
    let instructions = Throughput::Elements(executed() - before);
    case(
        criterion,
        "emulator/lane_instructions/gemm",
        instructions,
        || Gemm::new(&a, &b).run(stream).map(drop),
    );
    Ok(())
}
