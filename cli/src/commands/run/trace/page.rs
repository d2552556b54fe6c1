//! The timeline as one page of HTML with its data, its style and its script.

use serde_json::{Value, json};
use warpsmith_emulator::trace::Timeline;

use super::rows::{block_name, described, rows};
use super::source::Sources;

/// A launch on the page.
pub(super) struct Launch<'t> {
    pub(super) timeline: &'t Timeline,
    /// Its counters and the estimate, as `--json` prints them; `None` if the launch failed.
    pub(super) profile: Option<Value>,
}

/// The page.
pub(super) fn html(launches: &[Launch<'_>], sources: &Sources, finding: Option<&str>) -> String {
    let files = launches.iter().flat_map(|launch| {
        let lines = launch.timeline.lines.iter();
        lines.filter_map(|line| line.source.as_ref().map(|(file, _)| file.as_str()))
    });
    let data = json!({
        "launches": launches.iter().map(as_json).collect::<Vec<Value>>(),
        "sources": sources.read(files),
        "finding": finding,
    });
    // In a script, `</` could end it.
    let data = data.to_string().replace("</", "<\\/");
    include_str!("page.html")
        .replace("/* STYLE */", include_str!("page.css"))
        .replace("/* SCRIPT */", include_str!("page.js"))
        .replace("/* DATA */", &data)
}

fn as_json(launch: &Launch<'_>) -> Value {
    let timeline = launch.timeline;
    let rows = rows(timeline);
    let drawn = rows.iter().map(|row| {
        let spans = row.spans.iter().map(|span| {
            let (class, text) = described(timeline, span);
            json!([
                span.start,
                span.end,
                class,
                text,
                span.lines.0,
                span.lines.1
            ])
        });
        json!({
            "block": block_name(row.spans[0]),
            "name": row.name,
            "spans": spans.collect::<Vec<Value>>(),
        })
    });
    let lines = timeline.lines.iter().map(|line| {
        let source = line.source.as_ref();
        json!({
            "ptx_line": line.ptx_line,
            "ptx": line.ptx_text,
            "source": source.map(|(file, line)| json!({ "file": file, "line": line })),
        })
    });
    json!({
        "kernel": timeline.kernel,
        "seed": timeline.seed,
        "blocks": timeline.blocks,
        "recorded": timeline.recorded,
        "left_out": timeline.left_out,
        "rows": drawn.collect::<Vec<Value>>(),
        "lines": lines.collect::<Vec<Value>>(),
        "profile": launch.profile,
    })
}
