//! `--trace` and `--html`: files that show what the launches did.

pub(in crate::commands) mod chrome;
mod page;
mod rows;
mod source;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use warpsmith_emulator::trace::{Timeline, Trace};

use super::description::Description;
use super::schedules::Schedules;
use super::{Args, report};
use crate::failure::fault_of;
use crate::output::OutputFiles;
use crate::progress::Spinner;

/// Blocks that are recorded unless the options say otherwise.
pub(in crate::commands) const USUAL_BLOCKS: u64 = 16;

/// The files that the options name.
pub(super) fn files(args: &Args) -> impl Iterator<Item = (&'static str, &PathBuf)> {
    let trace = args.trace.iter().map(|path| ("--trace", path));
    trace.chain(args.html.iter().map(|path| ("--html", path)))
}

/// Where the launches leave their timelines, if a file is requested.
pub(super) fn collector(args: &Args) -> Option<Trace> {
    let blocks = args.trace_blocks.unwrap_or(USUAL_BLOCKS);
    files(args).next().map(|_| Trace::of_blocks(blocks))
}

/// Writes the files. Launches that failed have a timeline, too.
pub(super) fn write(
    args: &Args,
    description: &Description,
    trace: &Trace,
    ran: &Result<Schedules>,
) -> Result<()> {
    let timelines = trace.take();
    let _spinner = Spinner::start("writing the trace".to_owned());
    let mut outputs = OutputFiles::default();
    if let Some(path) = &args.trace {
        let text = chrome::events(&timelines).to_string();
        add(&mut outputs, path, &text)?;
    }
    if let Some(path) = &args.html {
        let launches = timelines.iter().enumerate().map(|(at, timeline)| {
            let launch = description.launches.get(at);
            let launched = ran.as_ref().ok().and_then(|ran| ran.first.launched.get(at));
            let both = launch.zip(launched);
            page::Launch {
                timeline,
                profile: both
                    .and_then(|(launch, launched)| report::profile_as_json(args, launch, launched)),
            }
        });
        let finding = match ran {
            Ok(_) => None,
            Err(error) => fault_of(error).map(ToString::to_string),
        };
        let sources = source::Sources::new(&args.ptx);
        let launches: Vec<_> = launches.collect();
        let text = page::html(&launches, &sources, finding.as_deref());
        add(&mut outputs, path, &text)?;
    }
    outputs.commit()
}

fn add(outputs: &mut OutputFiles, path: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    let fill = |file: &mut std::io::BufWriter<std::fs::File>| Ok(file.write_all(text.as_bytes())?);
    outputs
        .add(path, fill)
        .with_context(|| format!("writing {}", path.display()))
}

/// The lines of a span: `kernel.cu:7-12`, or `PTX 53` without line information.
fn range(timeline: &Timeline, (first, last): (usize, usize)) -> String {
    let place = |line: usize| {
        let line = &timeline.lines[line];
        match &line.source {
            Some((file, number)) => (format!("{}:", short(file)), *number),
            None => ("PTX ".to_owned(), line.ptx_line),
        }
    };
    let (from, to) = (place(first), place(last));
    if from == to {
        return format!("{}{}", from.0, from.1);
    }
    if from.0 == to.0 {
        // A loop may lead back.
        return format!("{}{}-{}", from.0, from.1.min(to.1), from.1.max(to.1));
    }
    format!("{}{} to {}{}", from.0, from.1, to.0, to.1)
}

/// The name of a file without its folders.
fn short(file: &str) -> &str {
    file.rsplit(['/', '\\']).next().unwrap_or(file)
}
