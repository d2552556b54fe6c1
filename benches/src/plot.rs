//! Plots of the rates of ours, the peer and the bound: a line for each case.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::error::{BenchError, Result};
use crate::record::Record;
use crate::results::Unit;

/// Pixels: the picture (readable on a phone), a letter, the title with the legend, a case, the axis.
const WIDTH: f64 = 640.0;
const LETTER: f64 = 8.2;
const HEAD: f64 = 64.0;
const LINE: f64 = 20.0;
const AXIS: f64 = 44.0;
/// Right of the longest rate.
const MARGIN: f64 = 30.0;

const OURS: &str = "#c85014";
const PEER: &str = "#285aaa";
const BOUND: &str = "#787878";

/// Draws `rows` in their order, as an SVG file.
///
/// # Errors
/// [`BenchError::File`].
pub fn draw(path: &Path, title: &str, rows: &[&Record]) -> Result<()> {
    fs::write(path, svg(title, rows)).map_err(BenchError::file(path))
}

fn svg(title: &str, rows: &[&Record]) -> String {
    let unit = rows.first().map(|row| row.unit).unwrap_or_default();
    let rates = rows
        .iter()
        .flat_map(|row| [Some(row.rate), peer(row), bound(row)]);
    let highest = rates.flatten().fold(0.0, f64::max);
    let step = step(highest);
    let steps = (highest / step).ceil().max(1.0);
    let longest = rows.iter().map(|row| label(row).chars().count()).max();
    let labels = 24.0 + LETTER * longest.unwrap_or(0) as f64;
    let x = |rate: f64| labels + (WIDTH - labels - MARGIN) * rate / (steps * step);
    let bottom = HEAD + LINE * rows.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"system-ui, sans-serif\" font-size=\"14\" \
         fill=\"#0f172a\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
        height = bottom + AXIS,
    );
    text(
        &mut svg,
        (WIDTH / 2.0, 22.0),
        "middle",
        &format!("{title}, {}", unit.name()),
    );
    for (place, (name, colour)) in [("warpsmith", OURS), ("best peer", PEER), ("bound", BOUND)]
        .into_iter()
        .enumerate()
    {
        let at = labels + 110.0 * place as f64;
        dot(&mut svg, (at, 44.0), colour);
        text(&mut svg, (at + 12.0, 48.0), "start", name);
    }
    for tick in 0..=steps as u32 {
        let rate = f64::from(tick) * step;
        line(&mut svg, (x(rate), HEAD), (x(rate), bottom), "#e2e8f0", 1);
        let rate_text = match unit {
            Unit::Flops => format!("{rate:.0}"),
            Unit::Bytes => format!("{rate:.1}"),
        };
        text(&mut svg, (x(rate), bottom + 20.0), "middle", &rate_text);
    }
    for (place, row) in rows.iter().enumerate() {
        let y = HEAD + LINE * (place as f64 + 0.5);
        text(&mut svg, (labels - 12.0, y + 4.0), "end", &label(row));
        if let Some(rate) = bound(row) {
            line(&mut svg, (x(rate), y - 7.0), (x(rate), y + 7.0), BOUND, 3);
        }
        if let Some(rate) = peer(row) {
            line(&mut svg, (x(rate), y), (x(row.rate), y), "#cbd5e1", 4);
            dot(&mut svg, (x(rate), y), PEER);
        }
        dot(&mut svg, (x(row.rate), y), OURS);
    }
    svg + "</svg>\n"
}

fn peer(row: &Record) -> Option<f64> {
    Some(row.rate / row.ratio?)
}

fn bound(row: &Record) -> Option<f64> {
    Some(row.rate / row.bound_share?)
}

/// The distance of ticks, such that `highest` has 4 to 10: 1, 2 or 5 times a power of ten.
fn step(highest: f64) -> f64 {
    let power = 10_f64.powf((highest.max(1e-9) / 4.0).log10().floor());
    let steps = [5.0, 2.0, 1.0].map(|factor| factor * power);
    steps
        .into_iter()
        .find(|step| highest / step >= 4.0)
        .unwrap_or(power)
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    );
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), colour: &str, width: u32) {
    let _ = writeln!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" \
         stroke-width=\"{width}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn dot(svg: &mut String, (x, y): (f64, f64), colour: &str) {
    let _ = writeln!(
        svg,
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\"/>"
    );
}

/// A case's name without operation and type, with equal extents combined: `nt 4096³`.
fn label(row: &Record) -> String {
    let mut parts: Vec<&str> = row.case.split('/').skip(2).collect();
    let extents = parts.pop().unwrap_or_default();
    let sizes: Vec<&str> = extents
        .split('_')
        .map(|extent| extent.trim_start_matches(char::is_alphabetic))
        .collect();
    let extents = match sizes[..] {
        [m, n, k] if m == n && n == k => format!("{m}³"),
        _ => extents.replace('_', " "),
    };
    format!("{} {extents}", parts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{report, row};

    #[test]
    fn a_plot_names_what_it_shows() -> Result<()> {
        let folder = tempfile::tempdir().map_err(BenchError::file("a temporary folder"))?;
        let cases = ["gemm/bf16/nt/m8_n8_k8", "gemm/bf16/nt/m8_n16_k8"];
        let report = report(cases.map(|case| row(case, 1.0)).to_vec());
        let records: Vec<Record> = (report.rows.iter())
            .map(|row| Record::of(&report, row))
            .collect();
        let path = folder.path().join("gemm.svg");
        draw(&path, "squares", &records.iter().collect::<Vec<_>>())?;
        let svg = fs::read_to_string(&path).map_err(BenchError::file(path))?;
        for text in [
            "squares",
            "nt 8³",
            "nt m8 n16 k8",
            "bound",
            "best peer",
            "warpsmith",
            "TFLOP/s",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        Ok(())
    }

    #[test]
    fn ticks_are_round_and_few() {
        for (highest, want) in [(1067.0, 200.0), (4.8, 1.0), (0.9, 0.2), (40.0, 10.0)] {
            assert!(
                (step(highest) - want).abs() < 1e-9,
                "{highest}: {}",
                step(highest)
            );
        }
    }
}
