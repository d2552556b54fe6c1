//! The timeline as Chrome's trace events, which Perfetto and `chrome://tracing` show. A microsecond
//! there is a step of the emulator.

use serde_json::{Value, json};
use warpsmith_emulator::trace::{Span, Timeline};

use super::rows::{block_name, described, rows};

/// The file. Each block of each launch is a process, and each row of it a thread.
pub(in crate::commands) fn events(timelines: &[Timeline]) -> Value {
    let mut events = Vec::new();
    let mut process = 0;
    for timeline in timelines {
        let mut block = None;
        let mut thread = 0;
        for row in &rows(timeline) {
            thread += 1;
            if block != Some(row.block) {
                block = Some(row.block);
                (process, thread) = (process + 1, 0);
                let name = format!("{}: {}", timeline.kernel, block_name(row.spans[0]));
                events.push(named("process_name", process, 0, json!({ "name": name })));
                let order = json!({ "sort_index": process });
                events.push(named("process_sort_index", process, 0, order));
            }
            let name = json!({ "name": row.name });
            events.push(named("thread_name", process, thread, name));
            let order = json!({ "sort_index": thread });
            events.push(named("thread_sort_index", process, thread, order));
            let spans = row.spans.iter();
            events.extend(spans.map(|span| event(timeline, span, process, thread)));
        }
    }
    let launches = timelines.iter().map(|timeline| {
        json!({
            "kernel": timeline.kernel,
            "seed": timeline.seed,
            "blocks": timeline.blocks,
            "recorded_blocks": timeline.recorded,
            "spans_left_out": timeline.left_out,
        })
    });
    json!({
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "unit": "a microsecond is one step of warpsmith's emulator, not a time",
            "launches": launches.collect::<Vec<Value>>(),
        },
    })
}

fn named(what: &str, process: usize, thread: usize, args: Value) -> Value {
    json!({ "ph": "M", "name": what, "pid": process, "tid": thread, "args": args })
}

fn event(timeline: &Timeline, span: &Span, process: usize, thread: usize) -> Value {
    let (class, name) = described(timeline, span);
    let line = |index: usize| {
        let line = &timeline.lines[index];
        let source = line.source.as_ref();
        json!({
            "ptx_line": line.ptx_line,
            "ptx": line.ptx_text,
            "source": source.map(|(file, number)| format!("{file}:{number}")),
        })
    };
    json!({
        "ph": "X",
        "name": name,
        "cat": class,
        "pid": process,
        "tid": thread,
        "ts": span.start,
        "dur": span.end - span.start,
        "args": { "first": line(span.lines.0), "last": line(span.lines.1) },
    })
}
