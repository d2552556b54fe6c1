//! A roofline estimate: a lower bound of the time on a GPU, from the counters.
//!
//! Each resource is busy for its work divided by its peak rate. The slowest resource is the bound,
//! as if it hid all others. Real kernels take longer: latencies, waits, and instructions without a
//! rate here are ignored, and device memory is assumed to move each distinct byte only once.

use clap::ValueEnum;
use warpsmith_emulator::profile::Counters;

/// A GPU with known rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum GpuModel {
    /// H100 SXM, 80 GB.
    #[default]
    H100,
    /// H200 SXM, 141 GB.
    H200,
    /// A100 SXM, 80 GB.
    A100,
    /// One GPU of an HGX B200.
    B200,
    /// GeForce RTX 2080 Ti at its reference clocks.
    #[value(name = "2080ti")]
    Rtx2080Ti,
}

/// Peak rates in units of 10^12 per second: operations (a multiply-add counts as two) and bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    pub(super) name: &'static str,
    /// Source of the rates.
    pub(super) source: &'static str,
    multiprocessors: u32,
    /// f32 lanes of an SM; together with `single` they give the clock.
    lanes: u32,
    memory: f64,
    double: f64,
    single: f64,
    tensor_half: f64,
    tensor_integer: f64,
    /// `None` if the GPU's tensor cores do not support it.
    tensor_tf32: Option<f64>,
    tensor_fp8: Option<f64>,
    tensor_double: Option<f64>,
    has_wgmma: bool,
}

/// Dense rates; datasheets print some of them with sparsity, which is twice as much.
const H100: Rates = Rates {
    name: "H100 SXM",
    source: "NVIDIA H100 Tensor Core GPU datasheet",
    multiprocessors: 132,
    lanes: 128,
    memory: 3.35,
    double: 34.0,
    single: 67.0,
    tensor_half: 989.5,
    tensor_integer: 1979.0,
    tensor_tf32: Some(494.5),
    tensor_fp8: Some(1979.0),
    tensor_double: Some(67.0),
    has_wgmma: true,
};

const H200: Rates = Rates {
    name: "H200 SXM",
    source: "NVIDIA H200 Tensor Core GPU datasheet",
    memory: 4.8,
    ..H100
};

const A100: Rates = Rates {
    name: "A100 SXM 80 GB",
    source: "NVIDIA A100 Tensor Core GPU datasheet",
    multiprocessors: 108,
    lanes: 64,
    memory: 2.039,
    double: 9.7,
    single: 19.5,
    tensor_half: 312.0,
    tensor_integer: 624.0,
    tensor_tf32: Some(156.0),
    tensor_fp8: None,
    tensor_double: Some(19.5),
    has_wgmma: false,
};

const B200: Rates = Rates {
    name: "B200 (HGX)",
    source: "NVIDIA Blackwell datasheet, HGX B200, one GPU",
    multiprocessors: 148,
    lanes: 128,
    memory: 7.7,
    double: 37.0,
    single: 75.0,
    tensor_half: 2250.0,
    tensor_integer: 4500.0,
    tensor_tf32: Some(1100.0),
    tensor_fp8: Some(4500.0),
    tensor_double: Some(37.0),
    has_wgmma: false,
};

const RTX_2080_TI: Rates = Rates {
    name: "GeForce RTX 2080 Ti",
    source: "NVIDIA Turing GPU architecture whitepaper, reference clocks, f32 accumulation",
    multiprocessors: 68,
    lanes: 64,
    memory: 0.616,
    double: 13.4 / 32.0,
    single: 13.4,
    tensor_half: 53.8,
    tensor_integer: 215.2,
    tensor_tf32: None,
    tensor_fp8: None,
    tensor_double: None,
    has_wgmma: false,
};

impl GpuModel {
    pub(super) fn rates(self) -> &'static Rates {
        match self {
            Self::H100 => &H100,
            Self::H200 => &H200,
            Self::A100 => &A100,
            Self::B200 => &B200,
            Self::Rtx2080Ti => &RTX_2080_TI,
        }
    }
}

/// Warp instructions that an SM issues per clock: one for each of its four schedulers.
const ISSUED_A_CLOCK: f64 = 4.0;

/// How long one resource is busy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    /// The resource.
    pub(super) name: &'static str,
    /// The kernel's work on it, and its unit.
    pub(super) work: u64,
    pub(super) unit: &'static str,
    /// Its rate per second.
    pub(super) rate: f64,
    pub(super) seconds: f64,
}

/// The estimate.
#[derive(Clone, Debug)]
pub(super) struct Estimate {
    pub(super) rates: &'static Rates,
    /// Number of SMs that have a block to run.
    pub(super) busy: u32,
    /// Resources that the kernel uses, the slowest first.
    pub(super) bounds: Vec<Bound>,
    /// Resources that the kernel uses and the GPU does not have.
    pub(super) missing: Vec<&'static str>,
}

impl Rates {
    /// Clock in Hz, derived from the f32 rate.
    fn clock(&self) -> f64 {
        self.single * 1e12 / f64::from(2 * self.lanes * self.multiprocessors)
    }

    pub(super) fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }
}

/// Lower bound of the time of a launch with `blocks` blocks.
pub(super) fn estimate(model: GpuModel, counters: &Counters, blocks: u64) -> Estimate {
    let rates = model.rates();
    let busy = blocks.min(u64::from(rates.multiprocessors)) as u32;
    let share = f64::from(busy) / f64::from(rates.multiprocessors);
    let clocks = rates.clock() * f64::from(busy);
    let (tensor, global) = (&counters.tensor, &counters.global);
    let tera = |rate: f64| Some(rate * 1e12 * share);
    let bytes = global.distinct_read + global.distinct_written;
    let half = counters.flops.half;
    let all = [
        ("memory", bytes, "B", Some(rates.memory * 1e12)),
        (
            "issue slots",
            counters.warp_instructions(),
            "warp instr",
            Some(ISSUED_A_CLOCK * clocks),
        ),
        (
            "shared memory",
            counters.shared.wavefronts,
            "wavefronts",
            Some(clocks),
        ),
        ("f64", counters.flops.double, "flop", tera(rates.double)),
        ("f32", counters.flops.single, "flop", tera(rates.single)),
        ("f16, bf16", half, "flop", tera(2.0 * rates.single)),
        (
            "tensor f16, bf16",
            tensor.half,
            "flop",
            tera(rates.tensor_half),
        ),
        (
            "tensor integer",
            tensor.integer,
            "op",
            tera(rates.tensor_integer),
        ),
        (
            "tensor tf32",
            tensor.tf32,
            "flop",
            rates.tensor_tf32.and_then(tera),
        ),
        (
            "tensor fp8",
            tensor.fp8,
            "flop",
            rates.tensor_fp8.and_then(tera),
        ),
        (
            "tensor f64",
            tensor.double,
            "flop",
            rates.tensor_double.and_then(tera),
        ),
    ];
    let mut bounds = Vec::new();
    let mut missing = Vec::new();
    for (name, work, unit, rate) in all.into_iter().filter(|(_, work, ..)| *work > 0) {
        match rate {
            Some(rate) => bounds.push(Bound {
                name,
                work,
                unit,
                rate,
                seconds: work as f64 / rate,
            }),
            None => missing.push(name),
        }
    }
    if tensor.wgmma > 0 && !rates.has_wgmma {
        missing.push("wgmma");
    }
    bounds.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    Estimate {
        rates,
        busy,
        bounds,
        missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clocks_that_the_rates_imply_are_the_boost_clocks() {
        for (model, gigahertz) in [
            (GpuModel::H100, 1.98),
            (GpuModel::H200, 1.98),
            (GpuModel::A100, 1.41),
            (GpuModel::B200, 1.98),
            (GpuModel::Rtx2080Ti, 1.545),
        ] {
            let clock = model.rates().clock() / 1e9;
            assert!((clock / gigahertz - 1.0).abs() < 0.01, "{model:?}: {clock}");
        }
    }

    #[test]
    fn the_slowest_resource_is_the_bound() {
        let mut counters = Counters::default();
        counters.global.distinct_read = 48_000_000;
        counters.tensor.half = 989_500_000;
        let found = estimate(GpuModel::H200, &counters, 1 << 20);
        let times: Vec<_> = found.bounds.iter().map(|b| (b.name, b.seconds)).collect();
        assert_eq!(times, [("memory", 1e-5), ("tensor f16, bf16", 1e-6)]);
        // One block has one multiprocessor, and all of the memory.
        let alone = estimate(GpuModel::H200, &counters, 1);
        assert_eq!((alone.bounds[0].name, alone.busy), ("tensor f16, bf16", 1));
        assert_eq!(alone.bounds[1].seconds, 1e-5);
    }

    #[test]
    fn what_a_gpu_does_not_have_is_said() {
        let mut counters = Counters::default();
        counters.tensor.fp8 = 1;
        counters.tensor.wgmma = 1;
        let missing = |model| estimate(model, &counters, 1).missing;
        assert_eq!(missing(GpuModel::A100), ["tensor fp8", "wgmma"]);
        assert_eq!(missing(GpuModel::B200), ["wgmma"]);
        assert!(missing(GpuModel::H100).is_empty());
    }
}
