//! `warpsmith demo`

mod classify;
mod digits;
mod table;

use std::io::Write;

use anyhow::Result;
use serde_json::json;

use self::classify::Answers;
use self::digits::Digits;
use super::compute::DeviceArgs;
use crate::failure::Outcome;
use crate::output::Output;
use crate::threads;

/// Recognise handwritten digits with attention, in two ways, and check every step.
///
/// 1,437 images of digits are the keys, and their labels are the values; 360 further images are the
/// queries. The class with the highest output is the answer. It is computed once as attention, and
/// once as GEMM, softmax and GEMM; both must agree. Every result is compared with an f64 reference,
/// and must be within an error bound that follows from the arithmetic.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  warpsmith demo
  warpsmith demo --device emulator --json")]
pub(crate) struct Args {
    #[command(flatten)]
    device: DeviceArgs,
}

/// Number of images that are keys; the rest are queries.
const KEYS: usize = 1437;

/// Number of images that are drawn, including the first wrong answer.
const DRAWN: usize = 4;

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Outcome> {
    threads::start()?;
    let (device, stream) = args.device.open()?;
    let digits = Digits::load()?;
    let answers = classify::classify(&digits, KEYS, &stream)?;
    let truth = &digits.labels[KEYS..];
    let right = answers
        .by_attention
        .iter()
        .zip(truth)
        .filter(|(a, b)| a == b)
        .count();
    let accuracy = right as f64 / truth.len() as f64;
    args.device.write_trace()?;
    if args.device.json {
        let rows: Vec<_> = answers.rows.iter().map(table::Row::to_json).collect();
        let line = json!({
            "device": device.to_string(),
            "right": right,
            "images": truth.len(),
            "accuracy": accuracy,
            "largest_difference_of_both_ways": answers.difference,
            "operations": rows,
        });
        writeln!(output, "{line}")?;
        return Ok(Outcome::Done);
    }
    writeln!(output, "Handwritten digits by attention, on {device}")?;
    writeln!(
        output,
        "{right} of {} right ({:.2} %)\n",
        truth.len(),
        accuracy * 100.0
    )?;
    draw(&digits, &answers, output)?;
    writeln!(
        output,
        "\nAttention and GEMM, softmax, GEMM give the same {} answers; their outputs differ by at \
         most {:.1e}.\n",
        truth.len(),
        answers.difference
    )?;
    table::print(&answers.rows, &device.kind().to_string(), output)?;
    Ok(Outcome::Done)
}

/// Draws the first images, and the first whose answer is wrong.
fn draw(digits: &Digits, answers: &Answers, output: &mut Output) -> Result<()> {
    let truth = &digits.labels[KEYS..];
    let is_wrong = |&query: &usize| answers.by_attention[query] != truth[query];
    let wrong = (0..truth.len()).find(is_wrong);
    let queries = (0..truth.len())
        .filter(|query| !is_wrong(query))
        .take(DRAWN)
        .chain(wrong);
    let images: Vec<_> = queries
        .map(|query| {
            let (answer, label) = (answers.by_attention[query], truth[query]);
            let caption = match answer == label {
                true => format!("{answer}"),
                false => format!("{answer} (is {label})"),
            };
            (digits.images.row(KEYS + query), caption)
        })
        .collect();
    for line in digits::draw(&images) {
        writeln!(output, "  {line}")?;
    }
    Ok(())
}
