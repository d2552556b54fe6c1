//! Compares our GEMMs with cuBLASLt's, and our kernels for Ampere with Triton's and CUTLASS's.

pub mod cases;
mod compare;
mod cutlass;
mod library;
mod peers;
mod product;
pub mod random;
mod triton;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;
use warpsmith::Device;

use crate::error::{BenchError, Result};
use crate::machine::Machine;
use crate::results::{Report, Unit};
use crate::session::{Session, empty_report, prepare_file};
use crate::table::Table;
use crate::timing::Timer;
use cases::{Beside, Case, Layout, Precision, Set};
use compare::Bench;
use peers::Peers;
use random::Draw;

/// Which products are measured, how often, and where the results go.
#[derive(Clone, Debug, clap::Args)]
pub struct GemmOptions {
    /// Cases with targets [default: squares, or tiny on the emulator].
    #[arg(long = "set", value_enum, value_name = "SET")]
    pub sets: Vec<Set>,
    /// Extents of a product of your own: 4096x4096x4096.
    #[arg(long = "shape", value_name = "MxNxK", value_parser = parse_shape)]
    pub shapes: Vec<[usize; 3]>,
    /// The random products.
    #[command(flatten)]
    pub draw: Draw,
    /// Types of the products of your own, and of the set random [default: bf16].
    #[arg(long, value_enum)]
    pub precision: Option<Precision>,
    /// Layout of the products of your own, and of the set random [default: nt].
    #[arg(long, value_enum)]
    pub layout: Option<Layout>,
    /// Only cases whose name contains this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub only: String,
    /// Repetitions that a median is of.
    #[arg(long, value_name = "N", default_value_t = 32, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repetitions: u32,
    /// Measure ours alone.
    #[arg(long)]
    pub no_peer: bool,
    /// Use the first of our kernels whose name begins so, in the cost model's order; a result file
    /// names them as ours' choice.
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// Measure as many of our kernels for each product as the cost model puts first, and use the
    /// fastest.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub tried: usize,
    /// Measure all of our kernels for each product, and list their times below it. With --kernel,
    /// only those whose names begin with it. Kernels that take 1.3 times as long as the fastest are
    /// left out.
    #[arg(long, conflicts_with = "tried")]
    pub all_candidates: bool,
    /// Ask cuBLASLt for so many algorithms, and use the fastest. It knows fewer for most products.
    #[arg(long, value_name = "N", default_value_t = 64, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub heuristics: u32,
    /// Folder of Triton's kernels, as scripts/gpu/triton_gemm writes it: the peer of
    /// the set ampere and of products of your own.
    #[arg(long, value_name = "FOLDER")]
    pub triton: Option<PathBuf>,
    /// Folder of CUTLASS's products, as scripts/gpu/cutlass_gemm writes it: likewise.
    #[arg(long, value_name = "FOLDER")]
    pub cutlass: Option<PathBuf>,
    /// Folder of results: what is measured replaces the same rows in CARD/gemm.csv there; without
    /// it nothing is written.
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
}

fn parse_shape(text: &str) -> std::result::Result<[usize; 3], String> {
    let extents: Option<Vec<usize>> = text
        .split('x')
        .map(|extent| {
            extent
                .parse()
                .ok()
                .filter(|&extent| (1..1 << 20).contains(&extent))
        })
        .collect();
    let extents = extents.and_then(|extents| extents.try_into().ok());
    extents.ok_or_else(|| "want three extents from 1 to 1048575, as 4096x4096x4096".into())
}

/// The largest number of operations of a case on the emulator, which does some 10^9 per second.
const EMULATOR_FLOPS: f64 = 2e9;

impl GemmOptions {
    /// The cases that the options select.
    ///
    /// # Errors
    /// [`BenchError::NoCase`], [`BenchError::TooLargeForMemory`],
    /// [`BenchError::TooLargeForEmulator`], errors of the device.
    pub fn cases(&self, device: &Device) -> Result<Vec<Case>> {
        let default = match () {
            () if !self.sets.is_empty() || !self.shapes.is_empty() => None,
            () if device.is_emulator() => Some(Set::Tiny),
            () => Some(Set::Squares),
        };
        let is_used = !self.shapes.is_empty() || self.sets.contains(&Set::Random);
        if !is_used && (self.precision.is_some() || self.layout.is_some()) {
            return Err(BenchError::UnusedTypes);
        }
        let precision = self.precision.unwrap_or(Precision::Bf16);
        let layout = self.layout.unwrap_or(Layout::Nt);
        let of_sets = self
            .sets
            .iter()
            .copied()
            .chain(default)
            .flat_map(|set| match set {
                Set::Random => self.draw.cases(precision, layout),
                set => set.cases(),
            });
        let own = self.shapes.iter().map(|&extents| Case {
            layout,
            beside: match self.triton.is_some() || self.cutlass.is_some() {
                true => Beside::Ampere,
                false => Beside::Library,
            },
            ..Case::new("own", precision, extents)
        });
        let is_chosen = |case: &Case| case.to_string().contains(&self.only);
        let cases: Vec<Case> = of_sets.chain(own).filter(is_chosen).collect();
        if cases.is_empty() {
            return Err(BenchError::NoCase {
                only: self.only.clone(),
            });
        }
        // Before operands are drawn on the host, which has no other limit for them.
        let limit = device.memory()?.free_bytes;
        if let Some(case) = cases.iter().find(|case| case.bytes() > limit) {
            return Err(BenchError::TooLargeForMemory {
                case: case.to_string(),
                bytes: case.bytes(),
                limit,
            });
        }
        let too_large = |case: &&Case| device.is_emulator() && case.flops() > EMULATOR_FLOPS;
        match cases.iter().find(too_large) {
            None => Ok(cases),
            Some(case) => Err(BenchError::TooLargeForEmulator {
                case: case.to_string(),
                flops: case.flops(),
                limit: EMULATOR_FLOPS,
            }),
        }
    }
}

/// Checks that the name of a GEMM of ours begins with `beginning`, before operands are drawn. The
/// words behind the kernel's name describe the launch, and only a case has them.
///
/// # Errors
/// [`BenchError::NoKernel`] with the families that there are, errors of the manifest.
fn check_kernel(beginning: &str) -> Result<()> {
    const FAMILY_WORDS: usize = 2;
    let modules = &warpsmith::builtin_manifest()?.modules;
    let kernels = modules.iter().flat_map(|module| &module.kernels);
    // The kernels that add up parts are launched by others.
    let names = kernels
        .map(|kernel| kernel.name.as_str())
        .filter(|name| name.starts_with("gemm_") && !name.starts_with("gemm_finish"));
    let names: Vec<&str> = names.collect();
    let fits = |name: &&str| name.starts_with(beginning) || beginning.starts_with(*name);
    if names.iter().any(fits) {
        return Ok(());
    }
    let family = |name: &&str| {
        let words: Vec<&str> = name.split('_').take(FAMILY_WORDS).collect();
        words.join("_")
    };
    let families: BTreeSet<String> = names.iter().map(family).collect();
    let families: Vec<String> = families.into_iter().collect();
    Err(BenchError::NoKernel {
        name: beginning.to_owned(),
        reason: format!(
            "none of our kernels begins so, want the beginning of a name: {}; --all-candidates \
             lists those of a case",
            families.join(", ")
        ),
    })
}

/// Measures every case and writes a table to `output` row by row. If a folder is given, the files
/// are written after each row, so that an interrupted run keeps what it has measured. Cases that
/// ours does not compute are listed and left out.
///
/// # Errors
/// The first error of the device, the peer or a file. It is not an error if there is no peer.
/// [`BenchError::NoKernel`] if the kernel that the options name is for none of the cases.
pub fn run(options: &GemmOptions, device: &Device, output: &mut dyn Write) -> Result<Report> {
    if let Some(kernel) = &options.kernel {
        check_kernel(kernel)?;
    }
    let cases = options.cases(device)?;
    let file = prepare_file(options.out.as_deref(), &device.info().name, "gemm")?;
    let stream = device.default_stream();
    let timer = Timer::new(&stream)?;
    let peers = Peers::load(options, &cases, &stream)?;
    let peer = peers.name.clone();
    let bench = Bench {
        machine: Machine::of(&timer)?,
        timer,
        peers,
        repetitions: options.repetitions as usize,
        kernel: options.kernel.as_deref(),
        tried: options.tried,
        all_candidates: options.all_candidates,
        heuristics: options.heuristics as usize,
    };
    let table = Table {
        has_peer: cases.iter().any(|case| bench.peers.has(case)),
        is_on_gpu: !device.is_emulator(),
        has_bounds: false,
        unit: Unit::Flops,
    };
    let mut session = Session::start(
        empty_report(bench.machine.clone(), peer),
        table,
        bench.repetitions,
        cases.len(),
        &target_of,
        file,
        output,
    )?;
    for case in &cases {
        let name = case.to_string();
        session.announce(&name);
        session.take(case.set, &name, bench.row(case))?;
    }
    let report = session.finish()?;
    match (&options.kernel, report.skipped.first()) {
        (Some(kernel), Some(first)) if report.rows.is_empty() => Err(BenchError::NoKernel {
            name: kernel.clone(),
            reason: format!("it computes no case: {}", first.reason),
        }),
        _ => Ok(report),
    }
}

/// The target of the geometric mean of a set.
fn target_of(name: &str) -> Option<f64> {
    let mut sets = Set::value_variants().iter();
    sets.find(|set| set.name() == name)?.geometric_mean()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_device_has_no_memory_for_is_refused_before_it_is_drawn() -> Result<()> {
        #[derive(clap::Parser)]
        struct Program {
            #[command(flatten)]
            options: GemmOptions,
        }
        let program = <Program as clap::Parser>::parse_from(["", "--shape", "1048575x8x1048575"]);
        let refused = program.options.cases(&Device::emulator()?);
        let Err(BenchError::TooLargeForMemory { bytes, limit, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert!(bytes > 2 << 40 && limit < 1 << 40, "{bytes} of {limit}");
        Ok(())
    }

    #[test]
    fn shapes_are_three_extents() {
        assert_eq!(parse_shape("1x2x3"), Ok([1, 2, 3]));
        for wrong in ["", "1x2", "1x2x3x4", "0x1x1", "ax1x1", "1x1x1048576"] {
            assert!(parse_shape(wrong).is_err(), "{wrong}");
        }
    }
}
