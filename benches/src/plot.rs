//! Plots of the rates of ours, the peer and the roofline.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::error::{BenchError, Result};
use crate::record::Record;
use crate::results::Unit;

const SIZE: (u32, u32) = (900, 560);
const OURS: RGBColor = RGBColor(200, 80, 20);
const PEER: RGBColor = RGBColor(40, 90, 170);
const ROOF: RGBColor = RGBColor(120, 120, 120);

/// Draws `rows` in their order, as an SVG file.
///
/// # Errors
/// [`BenchError::Plot`].
pub fn draw(path: &Path, title: &str, rows: &[&Record]) -> Result<()> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    draw_rows(&area, title, rows).map_err(|error| BenchError::Plot {
        path: path.to_owned(),
        message: error.to_string(),
    })
}

type Drawn<B> = std::result::Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

fn draw_rows<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    title: &str,
    rows: &[&Record],
) -> Drawn<B> {
    let ours = rates(rows, |row| Some(row.rate));
    let peer = rates(rows, |row| Some(row.rate / row.ratio?));
    let roof = rates(rows, |row| Some(row.rate / row.bound_share?));
    let unit = rows.first().map(|row| row.unit).unwrap_or_default();
    let highest = [&ours, &peer, &roof]
        .into_iter()
        .flatten()
        .map(|point| point.1);
    let top = highest.fold(0.0, f64::max) * 1.08;
    let labels: Vec<String> = rows.iter().map(|row| label(row)).collect();
    let last = rows.len().saturating_sub(1);
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(160)
        .y_label_area_size(60)
        .build_cartesian_2d((0..last).into_segmented(), 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|_| String::new())
        .y_label_formatter(&|rate| match unit {
            Unit::Flops => format!("{rate:.0}"),
            Unit::Bytes => format!("{rate:.1}"),
        })
        .y_desc(unit.name())
        .draw()?;
    // Labels drawn here instead of by the mesh, which would centre them on the axis: they run
    // upwards and end at it.
    let upwards = ("sans-serif", 12)
        .into_font()
        .transform(FontTransform::Rotate270);
    let upwards = TextStyle::from(upwards).pos(Pos::new(HPos::Right, VPos::Center));
    for (row, label) in labels.into_iter().enumerate() {
        let text = Text::new(label, (0, 8), upwards.clone());
        let place = (SegmentValue::CenterOf(row), 0.0);
        chart
            .plotting_area()
            .draw(&(EmptyElement::at(place) + text))?;
    }
    for (name, points, colour) in [
        ("roofline", roof, ROOF),
        ("peer", peer, PEER),
        ("warpsmith", ours, OURS),
    ] {
        if points.is_empty() {
            continue;
        }
        let place = |&(row, rate): &(usize, f64)| (SegmentValue::CenterOf(row), rate);
        let is_one_line = |x: &(usize, f64), y: &(usize, f64)| rows[x.0].kind() == rows[y.0].kind();
        for (idx, line) in points.chunk_by(is_one_line).enumerate() {
            let line = line.iter().map(place);
            let drawn = chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
            if idx == 0 {
                drawn.label(name).legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2))
                });
            }
        }
        let dots = points
            .iter()
            .map(|point| Circle::new(place(point), 3, colour.filled()));
        chart.draw_series(dots)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(ROOF)
        .draw()?;
    area.present()
}

/// The rates of the rows that have one, with the rows' positions.
fn rates(rows: &[&Record], rate: impl Fn(&Record) -> Option<f64>) -> Vec<(usize, f64)> {
    let placed = rows.iter().enumerate();
    placed
        .filter_map(|(place, row)| Some((place, rate(row)?)))
        .collect()
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
        let svg = std::fs::read_to_string(&path).map_err(BenchError::file(path))?;
        for text in [
            "squares",
            "nt 8³",
            "nt m8 n16 k8",
            "roofline",
            "peer",
            "warpsmith",
            "TFLOP/s",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        Ok(())
    }
}
