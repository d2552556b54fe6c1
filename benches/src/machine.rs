//! Where and when something was measured, and the machine's limits (roofline).

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use cudarc::driver::CudaContext;
use cudarc::driver::sys::CUdevice_attribute;
use serde::Serialize;
use warpsmith::{DType, Device, DeviceBuffer, DeviceKind};

use crate::error::{BenchError, Result};
use crate::operations::Work;
use crate::results::Bound;
use crate::timing::{Launch, Schedule, Timer};

/// The machine on which results were measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// The device's name.
    pub device: String,
    /// Compute capability: `sm_90`.
    pub arch: String,
    /// Its number of SMs.
    pub multiprocessors: u32,
    /// Size of its L2 cache; absent on the emulator.
    pub l2_bytes: Option<u64>,
    /// Highest clock of the SMs.
    pub sm_clock_mhz: Option<u32>,
    /// Bandwidth of a copy within device memory in bytes per second, reads and writes together.
    pub copy_bytes_per_s: Option<f64>,
    /// CUDA version that the driver supports.
    pub cuda: Option<String>,
    /// The answer of `nvidia-smi` to [`SMI_QUERY`], taken right after the last measurement if the
    /// run was completed.
    pub nvidia_smi: Option<String>,
    /// UTC: `2026-11-21T09:30:00Z`.
    pub date: String,
    /// The commit that was measured, from `WARPSMITH_COMMIT` or git.
    pub commit: Option<String>,
    /// The command that measured, without folders of programs and the place of results.
    pub command: String,
}

/// The fields that `nvidia-smi` is asked for.
pub const SMI_QUERY: &str =
    "driver_version,clocks.sm,clocks.mem,power.draw,power.limit,temperature.gpu";

impl Machine {
    /// The machine of the timer's device. Measures its copy bandwidth.
    ///
    /// # Errors
    /// If the device or its driver fails.
    pub fn of(timer: &Timer) -> Result<Self> {
        let device = timer.stream().device();
        let info = device.info();
        let attribute = |what, attribute| gpu_attribute(device, what, attribute);
        use CUdevice_attribute as Attribute;
        let l2 = attribute(
            "its L2's size",
            Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,
        )?;
        let clock = attribute("its clock", Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?;
        let (major, minor) = info.arch;
        let version = info.driver_version;
        let mut machine = Self {
            device: info.name.clone(),
            arch: format!("sm_{major}{minor}"),
            multiprocessors: info.multiprocessors,
            l2_bytes: l2.map(u64::from),
            sm_clock_mhz: clock.map(|khz| khz / 1000),
            copy_bytes_per_s: copy_bandwidth(timer)?,
            cuda: version.map(|(major, minor)| format!("{major}.{minor}")),
            nvidia_smi: None,
            date: date_utc(SystemTime::now()),
            commit: commit(),
            command: command(std::env::args()),
        };
        if device.kind() != DeviceKind::Emulator {
            machine.note_clocks();
        }
        Ok(machine)
    }

    /// Asks `nvidia-smi` for clocks and power. Call it right after work.
    pub fn note_clocks(&mut self) {
        let query = format!("--query-gpu={SMI_QUERY}");
        self.nvidia_smi = output_of("nvidia-smi", &[&query, "--format=csv,noheader"]);
    }

    /// The bound of GEMMs of `input` that do `flops` operations on `bytes` of memory. It is the
    /// longer of two times: of the tensor cores at the highest clock, and of memory at the
    /// bandwidth of a copy. The power limit may allow less.
    pub fn roofline(&self, input: DType, tf32: bool, flops: f64, bytes: f64) -> Option<Bound> {
        let clock_hz = f64::from(self.sm_clock_mhz?) * 1e6;
        let per_clock = flops_per_clock(&self.arch, input, tf32)?;
        let peak = per_clock * clock_hz * f64::from(self.multiprocessors);
        let bound = |name: &str, seconds: f64| Bound {
            name: name.to_owned(),
            ms: seconds * 1e3,
        };
        let compute = bound("peak", flops / peak);
        let memory = bound("memory", bytes / self.copy_bytes_per_s?);
        Some(match memory.ms > compute.ms {
            true => memory,
            false => compute,
        })
    }

    /// The least time that each part of the machine needs for `work`, the longest first; empty on
    /// the emulator.
    pub fn bounds(&self, work: &Work) -> Vec<Bound> {
        let clocks = self.sm_clock_mhz.map(|mhz| f64::from(mhz) * 1e6);
        let per_clock = clocks.map(|hz| hz * f64::from(self.multiprocessors));
        let tensor = work.tensor_input.and_then(|input| {
            let flops = flops_per_clock(&self.arch, input, false)?;
            Some((work.flops, flops * per_clock? * TENSOR_SUSTAINED))
        });
        let exponentials = per_clock.map(|rate| (work.exponentials, EXP2_PER_CLOCK * rate));
        let memory = self.copy_bytes_per_s.map(|rate| (work.bytes, rate));
        let parts = [
            ("memory", memory),
            ("tensor", tensor),
            ("exp2", exponentials),
        ];
        let bound = |(name, part): (&str, Option<(f64, f64)>)| {
            let (count, rate) = part?;
            let name = name.to_owned();
            (count > 0.0).then(|| Bound {
                name,
                ms: count / rate * 1e3,
            })
        };
        let mut bounds: Vec<Bound> = parts.into_iter().filter_map(bound).collect();
        bounds.sort_by(|x, y| y.ms.total_cmp(&x.ms));
        match self.copy_bytes_per_s {
            Some(_) => bounds,
            None => Vec::new(),
        }
    }
}

/// The share of the tensor cores' rate at the highest clock that the power limit allows on random
/// operands. (For bf16 and f16 on an H200, 790 of 989 TFLOP/s.)
const TENSOR_SUSTAINED: f64 = 0.8;

/// Exponentials per SM and clock, the same for every architecture known here.
const EXP2_PER_CLOCK: f64 = 16.0;

/// Dense operations per SM and clock, a multiply-add counted as two, from the architectures'
/// whitepapers. `None` if it is not known.
fn flops_per_clock(arch: &str, input: DType, tf32: bool) -> Option<f64> {
    let (simt_f32, half, fp8) = match arch {
        "sm_75" => (128, 1024, None),
        "sm_80" => (128, 2048, None),
        "sm_89" => (256, 1024, Some(2048)),
        "sm_90" => (256, 4096, Some(8192)),
        _ => return None,
    };
    let flops = match input {
        DType::F32 if tf32 => half / 2,
        // By tensor cores, as many as of f32 without them.
        DType::F64 if matches!(arch, "sm_80" | "sm_90") => simt_f32,
        DType::F32 => simt_f32,
        DType::F16 | DType::Bf16 => half,
        DType::E4m3 | DType::E5m2 => fp8?,
        DType::I8 => 2 * half,
        _ => return None,
    };
    Some(f64::from(flops))
}

/// A property of the GPU; `None` on the emulator.
fn gpu_attribute(
    device: &Device,
    what: &'static str,
    attribute: CUdevice_attribute,
) -> Result<Option<u32>> {
    let DeviceKind::Gpu { ordinal } = device.kind() else {
        return Ok(None);
    };
    let value = CudaContext::new(ordinal).and_then(|context| context.attribute(attribute));
    let value = value.map_err(|error| BenchError::Property {
        what,
        message: error.to_string(),
    })?;
    Ok(Some(value.unsigned_abs()))
}

/// Bytes that are copied to measure the bandwidth, many times the size of any L2. Fewer are copied
/// if the GPU has less than eight times as much memory.
const COPIED_BYTES: u64 = 2 << 30;

/// Bytes per second that a large copy within device memory reads and writes; `None` on the
/// emulator, whose time is that of the CPU.
fn copy_bandwidth(timer: &Timer) -> Result<Option<f64>> {
    if timer.stream().device().is_emulator() {
        return Ok(None);
    }
    let stream = timer.stream();
    let bytes = COPIED_BYTES.min(stream.device().info().memory_bytes / 8) as usize;
    let from = DeviceBuffer::<u8>::zeros(stream, bytes)?;
    let mut to = DeviceBuffer::<u8>::zeros(stream, bytes)?;
    let schedule = Schedule {
        warmups: 2,
        repetitions: 11,
        launches: 1,
        copies: 1,
    };
    let copy: Launch<'_> = Box::new(|_| Ok(to.copy_from_buffer(&from, stream)?));
    let times = timer.interleaved(&schedule, &mut [copy])?.times;
    let moved = 2.0 * bytes as f64;
    Ok(times.first().map(|times| moved / times.median_ms * 1e3))
}

/// The commit, from `WARPSMITH_COMMIT` (for a machine without a checkout) or git, marked if the
/// checkout differs from it.
fn commit() -> Option<String> {
    let of_checkout = || output_of("git", &["describe", "--always", "--dirty", "--abbrev=12"]);
    std::env::var("WARPSMITH_COMMIT").ok().or_else(of_checkout)
}

/// A command line without the interpreter, the folder of the program and `--out`.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let is_interpreter = |argument: &String| {
        argument
            .rsplit('/')
            .next()
            .is_some_and(|name| name.starts_with("python"))
    };
    let mut arguments = arguments.skip_while(is_interpreter);
    let program = arguments.next().unwrap_or_default();
    let mut words = vec![program.rsplit('/').next().unwrap_or_default().to_owned()];
    while let Some(argument) = arguments.next() {
        match argument.strip_prefix("--out") {
            Some("") => drop(arguments.next()),
            Some(rest) if rest.starts_with('=') => {}
            _ => words.push(argument),
        }
    }
    words.join(" ")
}

/// The output of a program, if it runs and succeeds.
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// ISO 8601, to the second.
fn date_utc(time: SystemTime) -> String {
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let (mut year, mut day) = (1970, seconds / 86_400);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let days_of_year = |year| 365 + u64::from(is_leap(year));
    while day >= days_of_year(year) {
        day -= days_of_year(year);
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!(
        "{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z",
        day + 1
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let date = |seconds| date_utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_795_236_725), "2026-11-21T04:52:05Z");
        assert_eq!(date(4_102_444_799), "2099-12-31T23:59:59Z");
    }

    #[test]
    fn a_command_is_what_another_folder_repeats() {
        for (line, want) in [
            (
                "python3 benches/peers/compare.py rows --launches 8",
                "compare.py rows --launches 8",
            ),
            (
                "/a/compare_gemm --out b --tried 6 --out=c",
                "compare_gemm --tried 6",
            ),
            (
                "warpsmith bench gemm --out-of",
                "warpsmith bench gemm --out-of",
            ),
            ("", ""),
        ] {
            let words = line.split_whitespace().map(str::to_owned);
            assert_eq!(command(words), want);
        }
    }

    #[test]
    fn the_roofline_is_the_lower_of_compute_and_memory() {
        let machine = Machine {
            device: String::new(),
            arch: "sm_90".into(),
            multiprocessors: 132,
            l2_bytes: None,
            sm_clock_mhz: Some(1830),
            copy_bytes_per_s: Some(4e12),
            cuda: None,
            nvidia_smi: None,
            date: String::new(),
            commit: None,
            command: String::new(),
        };
        let bound = |input, flops, bytes| {
            let bound = machine.roofline(input, false, flops, bytes);
            bound.map(|bound| (bound.name, bound.ms))
        };
        let bf16 = bound(DType::Bf16, 1e12, 1e6);
        assert!(
            matches!(&bf16, Some((name, ms)) if name == "peak" && (ms * 0.9894 - 1.0).abs() < 1e-3),
            "{bf16:?}"
        );
        assert_eq!(bound(DType::Bf16, 1e6, 4e9), Some(("memory".into(), 1.0)));
        let int8 = bound(DType::I8, 1e12, 1e6);
        assert_eq!(int8, bound(DType::E4m3, 1e12, 1e6));
        assert_eq!(bound(DType::I16, 1e6, 1e6), None);
        let work = Work {
            flops: 1e12,
            bytes: 4e9,
            exponentials: 3e9,
            tensor_input: Some(DType::Bf16),
        };
        let bounds = machine.bounds(&work);
        let names: Vec<&str> = bounds.iter().map(|bound| bound.name.as_str()).collect();
        assert_eq!(names, ["tensor", "memory", "exp2"]);
        assert!((bounds[0].ms - 1.263).abs() < 1e-3 && (bounds[1].ms - 1.0).abs() < 1e-9);
    }
}
