//! Capture of streams: their work becomes nodes of a graph.

use crate::c::{Data, Handle, In, InOut, Out};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::graph::{Mode, exchange_mode};
use crate::state::{current, current_even_if_faulty};

/// `CU_STREAM_CAPTURE_STATUS_NONE` and so on.
const NONE: u32 = 0;
const ACTIVE: u32 = 1;
const INVALIDATED: u32 = 2;

/// `CU_STREAM_CAPTURE_MODE_GLOBAL`
const GLOBAL: u32 = 0;

/// What is captured on a stream: status, and the graph.
fn status(stream: Handle) -> Answer<(u32, Handle)> {
    let current = current()?;
    current.check_stream(stream)?;
    let state = current.state();
    Ok(match state.captures.streams.get(&stream) {
        None => (NONE, 0),
        Some(captured) if captured.is_invalid => (INVALIDATED, captured.graph),
        Some(captured) => (ACTIVE, captured.graph),
    })
}

fn begin(stream: Handle, mode: u32) -> Answer {
    let current = current()?;
    current.check_stream(stream)?;
    // The legacy stream cannot be captured.
    if stream <= 1 {
        return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
    }
    current.state().begin_capture(stream, Mode::of(mode)?)
}

fn info(stream: Handle, status_place: Out<u32>, id: Out<u64>, graph: Out<Handle>) -> Answer {
    let (found, of) = status(stream)?;
    id.set_if_wanted(of as u64);
    graph.set_if_wanted(of);
    status_place.set(found)
}

fn update(stream: Handle, nodes: In<Handle>, count: usize, flags: u32) -> Answer {
    let nodes = nodes.list(count)?;
    let current = current()?;
    let mut state = current.state();
    let graph = state
        .captures
        .streams
        .get(&stream)
        .ok_or(Code::ILLEGAL_STATE)?
        .graph;
    let graph = state.graph(graph)?;
    nodes
        .iter()
        .try_for_each(|node| graph.node(*node).map(|_| ()))?;
    let captured = state
        .captures
        .streams
        .get_mut(&stream)
        .ok_or(Code::ILLEGAL_STATE)?;
    // Flag 1 replaces, 0 adds.
    if flags == 1 {
        captured.last.clear();
    }
    captured.last.extend(nodes);
    Ok(())
}

entries! {
    fn cuStreamBeginCapture | cuStreamBeginCapture_ptsz: "cuStreamBeginCapture" @ 10000 (
        stream: Handle,
    ) {
        begin(stream, GLOBAL)
    }

    fn cuStreamBeginCapture_v2 | cuStreamBeginCapture_v2_ptsz: "cuStreamBeginCapture" @ 10010 (
        stream: Handle, mode: u32,
    ) {
        begin(stream, mode)
    }

    fn cuStreamEndCapture | cuStreamEndCapture_ptsz: "cuStreamEndCapture" @ 10000 (
        stream: Handle, graph: Out<Handle>,
    ) {
        graph.set(0)?;
        let current = current_even_if_faulty()?;
        current.check_stream(stream)?;
        let ended = current.state().end_capture(stream)?;
        graph.set(ended)
    }

    fn cuThreadExchangeStreamCaptureMode: "cuThreadExchangeStreamCaptureMode" @ 10010 (
        mode: InOut<u32>,
    ) {
        let before = exchange_mode(Mode::of(mode.at(0)?)?);
        mode.set_at(0, before as u32)
    }

    fn cuStreamIsCapturing | cuStreamIsCapturing_ptsz: "cuStreamIsCapturing" @ 10000 (
        stream: Handle, place: Out<u32>,
    ) {
        place.set(status(stream)?.0)
    }

    fn cuStreamGetCaptureInfo | cuStreamGetCaptureInfo_ptsz: "cuStreamGetCaptureInfo" @ 10010 (
        stream: Handle, place: Out<u32>, id: Out<u64>,
    ) {
        let (found, of) = status(stream)?;
        id.set_if_wanted(of as u64);
        place.set(found)
    }

    // The list of the last nodes would have to live as long as the capture: it is left out.
    fn cuStreamGetCaptureInfo_v2 | cuStreamGetCaptureInfo_v2_ptsz:
        "cuStreamGetCaptureInfo" @ 11030 (
        stream: Handle, place: Out<u32>, id: Out<u64>, graph: Out<Handle>,
        dependencies: Out<Data>, count: Out<usize>,
    ) {
        dependencies.set_if_wanted(std::ptr::null());
        count.set_if_wanted(0);
        info(stream, place, id, graph)
    }

    fn cuStreamGetCaptureInfo_v3 | cuStreamGetCaptureInfo_v3_ptsz:
        "cuStreamGetCaptureInfo" @ 12030 (
        stream: Handle, place: Out<u32>, id: Out<u64>, graph: Out<Handle>,
        dependencies: Out<Data>, edges: Out<Data>, count: Out<usize>,
    ) {
        dependencies.set_if_wanted(std::ptr::null());
        edges.set_if_wanted(std::ptr::null());
        count.set_if_wanted(0);
        info(stream, place, id, graph)
    }

    fn cuStreamUpdateCaptureDependencies | cuStreamUpdateCaptureDependencies_ptsz:
        "cuStreamUpdateCaptureDependencies" @ 11030 (
        stream: Handle, nodes: In<Handle>, count: usize, flags: u32,
    ) {
        update(stream, nodes, count, flags)
    }

    fn cuStreamUpdateCaptureDependencies_v2 | cuStreamUpdateCaptureDependencies_v2_ptsz:
        "cuStreamUpdateCaptureDependencies" @ 12030 (
        stream: Handle, nodes: In<Handle>, _edges: Data, count: usize, flags: u32,
    ) {
        update(stream, nodes, count, flags)
    }
}
