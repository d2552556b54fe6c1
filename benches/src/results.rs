//! How measurements are kept: `<name>.csv` for plots and `<name>.json` with the machine, in
//! `benches/results/`.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use warpsmith::Device;

/// Where and when something was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The device's name.
    pub device: String,
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// CUDA version that the driver serves.
    pub cuda: Option<String>,
    /// What `nvidia-smi` says after the measurement: driver, clocks, power, temperature; `None`
    /// where there is none.
    pub nvidia_smi: Option<String>,
    /// Seconds since 1970, UTC.
    pub unix_time_s: u64,
    /// The commit that was measured, from `WARPSMITH_COMMIT` or git.
    pub commit: Option<String>,
}

impl Machine {
    /// Of `device`, now.
    pub fn of(device: &Device) -> Self {
        let info = device.info();
        let query = "driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu";
        let smi = [&format!("--query-gpu={query}"), "--format=csv,noheader"];
        let unix_time = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            device: info.name.clone(),
            multiprocessors: info.multiprocessors,
            cuda: info
                .driver_version
                .map(|(major, minor)| format!("{major}.{minor}")),
            nvidia_smi: output_of("nvidia-smi", &smi),
            unix_time_s: unix_time.map_or(0, |elapsed| elapsed.as_secs()),
            commit: std::env::var("WARPSMITH_COMMIT")
                .ok()
                .or_else(|| output_of("git", &["rev-parse", "--short=12", "HEAD"])),
        }
    }
}

/// What a program prints, where it runs and succeeds.
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// One case, ours beside the vendor's.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Slash path of the case, as criterion names it.
    pub case: String,
    /// Floating-point operations of one run.
    pub flops: f64,
    /// Median time of ours.
    pub ours_ms: f64,
    /// Shortest time of ours.
    pub ours_min_ms: f64,
    /// Longest time of ours.
    pub ours_max_ms: f64,
    /// Median time of the vendor's.
    pub vendor_ms: f64,
    /// The vendor's median over ours: 1 is as fast, more is faster.
    pub speed_of_vendor: f64,
    /// Largest difference of the results, over the largest result.
    pub largest_difference: f64,
    /// Repetitions of each.
    pub repetitions: usize,
}

#[derive(Serialize)]
struct Report<'a> {
    machine: &'a Machine,
    vendor: &'a str,
    rows: &'a [Row],
}

/// Writes `<name>.csv` and `<name>.json` into `folder`, which is made if it is missing.
///
/// # Errors
/// Where a file cannot be written.
pub fn write(
    folder: &Path,
    name: &str,
    machine: &Machine,
    vendor: &str,
    rows: &[Row],
) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let report = Report {
        machine,
        vendor,
        rows,
    };
    let mut json = serde_json::to_string_pretty(&report)?;
    json.push('\n');
    fs::write(folder.join(format!("{name}.json")), json)?;
    fs::write(folder.join(format!("{name}.csv")), csv(rows))
}

fn csv(rows: &[Row]) -> String {
    let mut text = String::from(
        "case,flops,ours_ms,ours_min_ms,ours_max_ms,vendor_ms,speed_of_vendor,\
         largest_difference,repetitions\n",
    );
    for row in rows {
        text.push_str(&format!(
            "{},{:e},{:.5},{:.5},{:.5},{:.5},{:.4},{:e},{}\n",
            row.case,
            row.flops,
            row.ours_ms,
            row.ours_min_ms,
            row.ours_max_ms,
            row.vendor_ms,
            row.speed_of_vendor,
            row.largest_difference,
            row.repetitions
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_a_line_a_row_with_as_many_fields_as_the_header() {
        let row = Row {
            case: "gemm/f32/nn/m1_n1_k1".to_owned(),
            flops: 2.0,
            ours_ms: 1.0,
            ours_min_ms: 0.5,
            ours_max_ms: 2.0,
            vendor_ms: 0.9,
            speed_of_vendor: 0.9,
            largest_difference: 1e-7,
            repetitions: 31,
        };
        let text = csv(&[row.clone(), row]);
        let fields: Vec<usize> = text.lines().map(|l| l.split(',').count()).collect();
        assert_eq!(fields, [9, 9, 9], "{text}");
    }
}
