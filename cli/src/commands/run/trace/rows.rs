//! The rows in which a timeline is drawn: those of each block together, without overlaps in a row.

use warpsmith_emulator::profile::Waited;
use warpsmith_emulator::trace::{Activity, CopyKind, Span, Timeline, Track};

use super::range;

/// One row.
pub(super) struct Row<'t> {
    /// Number of its block among those that were recorded.
    pub(super) block: usize,
    pub(super) name: String,
    pub(super) spans: Vec<&'t Span>,
}

/// The rows of a timeline, in the order of blocks and tracks.
pub(super) fn rows(timeline: &Timeline) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    let same_track =
        |a: &Span, b: &Span| (a.cluster, a.block, a.track) == (b.cluster, b.block, b.track);
    let mut block = 0;
    let mut before: Option<&Span> = None;
    for spans in timeline.spans.chunk_by(same_track) {
        let first = &spans[0];
        block += usize::from(before.is_some_and(|before| before.block != first.block));
        before = Some(first);
        // Spans of copies overlap: each goes into the first row that is free.
        let begin = rows.len();
        for span in spans {
            let is_free =
                |row: &Row<'_>| row.spans.last().is_none_or(|last| last.end <= span.start);
            match rows[begin..].iter_mut().find(|row| is_free(row)) {
                Some(row) => row.spans.push(span),
                None => rows.push(Row {
                    block,
                    name: name(first.track, rows.len() - begin),
                    spans: vec![span],
                }),
            }
        }
    }
    rows
}

fn name(track: Track, row: usize) -> String {
    match track {
        Track::Warp(warp) => format!("warp {warp}"),
        Track::Warpgroup(warp) => format!("wgmma of warps {warp}-{}", warp + 3),
        Track::Copies if row == 0 => "copies".to_owned(),
        Track::Copies => format!("copies ({})", row + 1),
        Track::Mbarrier(offset) => format!("mbarrier 0x{offset:x}"),
    }
}

/// What a span is drawn as: its class, and its text.
pub(super) fn described(timeline: &Timeline, span: &Span) -> (&'static str, String) {
    let place = range(timeline, span.lines);
    match span.activity {
        Activity::Run => ("run", place),
        Activity::Wait(what) => {
            let what = match what {
                Waited::Barrier => "barrier",
                Waited::Cluster => "cluster barrier",
                Waited::Mbarrier => "mbarrier",
                Waited::Copies => "copies",
                Waited::Wgmma => "wgmma",
            };
            ("wait", format!("wait: {what}, {place}"))
        }
        Activity::Copy { kind, bytes } => {
            let kind = match kind {
                CopyKind::Lanes => "cp.async",
                CopyKind::Load => "load",
                CopyKind::Store => "store",
                CopyKind::Across => "copy to a peer",
                CopyKind::Sent => "st.async",
            };
            ("copy", format!("{kind}, {bytes} bytes, {place}"))
        }
        Activity::Wgmma { count } => ("wgmma", format!("{count} wgmma, {place}")),
        Activity::Phase(number) => ("phase", format!("phase {number}, ends at {place}")),
    }
}

/// `(x, y, z)` of the block, with its cluster if that has several blocks.
pub(super) fn block_name(span: &Span) -> String {
    let [x, y, z] = span.block;
    format!("block ({x}, {y}, {z})")
}
