//! Operations beside those of other libraries, as a shared library that `peers/compare.py` loads.

use std::ffi::{CStr, c_char, c_int};
use std::io::Write;

use clap::Parser;
use warpsmith_benches::bench_device;
use warpsmith_benches::error::Result;
use warpsmith_benches::operations::foreign::{Callbacks, Foreign};
use warpsmith_benches::operations::{self, OperationOptions, Peers};

/// Puts an operation beside other libraries', interleaved in one process on one GPU.
#[derive(Debug, Parser)]
#[command(
    name = "compare.py",
    after_help = "Examples:
  compare.py attention --set squares --set window --out results
  compare.py elementwise --only f32 --repetitions 8"
)]
struct Arguments {
    /// Which: attention, attention_grad, scored_attention, reduce, rows, sort, topk,
    /// elementwise, gather, scatter, rotary, grouped.
    operation: String,
    #[command(flatten)]
    options: OperationOptions,
    /// Measure ours alone.
    #[arg(long)]
    no_peer: bool,
}

/// Measures what the arguments say. Returns 0; 1 where something falls short; 2 for arguments or a
/// machine that cannot be worked with, which is said on stderr.
///
/// # Safety
/// `argv` points to `argc` strings that end in a zero, the first the program's name; `callbacks` to
/// what [`Foreign::new`] may take.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpsmith_compare(
    argc: c_int,
    argv: *const *const c_char,
    callbacks: *const Callbacks,
) -> c_int {
    let argument = |idx| {
        // SAFETY: the caller's: as many pointers to strings.
        let text = unsafe { CStr::from_ptr(*argv.add(idx)) };
        text.to_string_lossy().into_owned()
    };
    let arguments = (0..usize::try_from(argc).unwrap_or(0)).map(argument);
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Nothing is left to do where stderr takes nothing.
            let _ = error.print();
            return error.exit_code();
        }
    };
    // SAFETY: the caller's.
    let peers = unsafe { Foreign::new(*callbacks) };
    match compare(&arguments, &peers) {
        Ok(falls_short) => c_int::from(falls_short),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            2
        }
    }
}

fn compare(arguments: &Arguments, peers: &Foreign) -> Result<bool> {
    let operation = operations::by_name(&arguments.operation)?;
    let peers: Option<&dyn Peers> = (!arguments.no_peer).then_some(peers);
    let output = &mut std::io::stdout();
    let report = operation.run(&arguments.options, &bench_device()?, peers, output)?;
    Ok(report.falls_short())
}
