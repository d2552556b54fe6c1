//! The six kernels without `unsafe` of `examples/kernels`, each beside its twin by raw pointers,
//! interleaved in one process on one GPU.
//!
//! `compare_safe --out FOLDER` prints a table and writes `FOLDER/CARD/safe.csv`; `--set tiny` runs on the
//! emulator. Exit status 1 where a safe kernel is more than 2 % slower than its twin or their results
//! differ, 2 for a machine that cannot be worked with.

mod cases;
mod twins;

use std::process::ExitCode;

use clap::Parser;
use warpsmith_benches::bench_device;
use warpsmith_benches::error::Result;
use warpsmith_benches::operations::OperationOptions;

/// Puts safe kernels beside their unsafe twins.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: OperationOptions,
}

fn main() -> ExitCode {
    match compare(&Arguments::parse().options) {
        Ok(falls_short) => ExitCode::from(u8::from(falls_short)),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn compare(options: &OperationOptions) -> Result<bool> {
    let device = bench_device()?;
    let twins = twins::Twins::new(&device)?;
    let report = cases::SAFE.run(options, &device, Some(&twins), &mut std::io::stdout())?;
    Ok(report.falls_short())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use warpsmith::Device;
    use warpsmith_benches::error::Result;

    use crate::{Arguments, cases, twins};

    #[test]
    fn each_twin_has_the_results_of_its_safe_kernel() -> Result<()> {
        let Arguments { options } = Arguments::parse_from(["compare_safe", "--repetitions", "1"]);
        let device = Device::emulator()?;
        let twins = twins::Twins::new(&device)?;
        let report = cases::SAFE.run(&options, &device, Some(&twins), &mut std::io::sink())?;
        let differences: Vec<_> = report.rows.iter().map(|row| row.difference).collect();
        assert_eq!(differences, [Some(0.0); 6]);
        Ok(())
    }
}
