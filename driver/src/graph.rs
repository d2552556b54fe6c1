//! Graphs of work, and streams that are captured to them.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::thread::ThreadId;

use crate::c::Handle;
use crate::code::{Answer, Code};
use crate::state::State;
use crate::work::{Step, Work};

/// A graph that a program builds.
#[derive(Clone, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
}

/// A piece of work in a graph.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) handle: Handle,
    pub(crate) work: Work,
    /// Nodes that come before.
    pub(crate) after: Vec<Handle>,
}

impl Graph {
    pub(crate) fn node(&mut self, handle: Handle) -> Answer<&mut Node> {
        let found = self.nodes.iter_mut().find(|node| node.handle == handle);
        found.ok_or(Code::INVALID_VALUE)
    }

    /// The nodes in an order in which each comes after those that it waits for.
    pub(crate) fn ordered(&self) -> Answer<Vec<Node>> {
        let mut left: Vec<&Node> = self.nodes.iter().collect();
        let mut done = HashSet::new();
        let mut ordered = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let before = left.len();
            left.retain(|node| {
                let is_ready = node.after.iter().all(|other| done.contains(other));
                if is_ready {
                    done.insert(node.handle);
                    ordered.push((*node).clone());
                }
                !is_ready
            });
            if left.len() == before {
                // A circle.
                return Err(Code::INVALID_VALUE);
            }
        }
        Ok(ordered)
    }

    /// The work of all nodes in order.
    pub(crate) fn work(&self) -> Answer<Work> {
        Ok(work_of(&self.ordered()?))
    }

    /// All nodes that come before these, and these.
    fn up_to(&self, nodes: &[Handle]) -> HashSet<Handle> {
        let mut found = HashSet::new();
        let mut open = nodes.to_vec();
        while let Some(handle) = open.pop() {
            let node = self.nodes.iter().find(|node| node.handle == handle);
            if found.insert(handle) {
                open.extend(node.into_iter().flat_map(|node| &node.after));
            }
        }
        found
    }
}

/// The work of nodes, which come in order.
pub(crate) fn work_of(nodes: &[Node]) -> Work {
    let positions: HashMap<Handle, usize> = nodes
        .iter()
        .enumerate()
        .map(|(position, node)| (node.handle, position))
        .collect();
    let step = |node: &Node| Step {
        work: node.work.clone(),
        after: node
            .after
            .iter()
            .filter_map(|before| positions.get(before).copied())
            .collect(),
    };
    Work::Graph(nodes.iter().map(step).collect())
}

/// Streams that are captured.
#[derive(Default)]
pub(crate) struct Captures {
    pub(crate) streams: HashMap<Handle, Captured>,
    /// Events that were recorded in a capture: graph and nodes.
    pub(crate) events: HashMap<Handle, (Handle, Vec<Handle>)>,
}

/// Which calls that are unsafe during a capture are refused, of a capture and of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Those of all threads.
    Global,
    /// Those of the thread that captures.
    ThreadLocal,
    Relaxed,
}

impl Mode {
    /// The mode with a number of the API.
    pub(crate) fn of(number: u32) -> Answer<Self> {
        Ok(match number {
            0 => Self::Global,
            1 => Self::ThreadLocal,
            2 => Self::Relaxed,
            _ => return Err(Code::INVALID_VALUE),
        })
    }
}

thread_local! {
    /// The mode of the calling thread.
    static MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// Sets the calling thread's mode, and gives the one before.
pub(crate) fn exchange_mode(mode: Mode) -> Mode {
    MODE.replace(mode)
}

/// A stream that is captured.
pub(crate) struct Captured {
    pub(crate) graph: Handle,
    /// If the capture began here: the thread that began it, and its mode. Else the stream waited for
    /// an event of the capture.
    pub(crate) origin: Option<(ThreadId, Mode)>,
    /// What the next node of the stream comes after.
    pub(crate) last: Vec<Handle>,
    /// Whether a call was made that capture forbids.
    pub(crate) is_invalid: bool,
}

impl State {
    pub(crate) fn graph(&mut self, handle: Handle) -> Answer<&mut Graph> {
        self.graphs.get_mut(&handle).ok_or(Code::INVALID_VALUE)
    }

    /// Adds a node to a graph.
    pub(crate) fn add_node(
        &mut self,
        graph: Handle,
        work: Work,
        after: Vec<Handle>,
    ) -> Answer<Handle> {
        work.check_size()?;
        let handle = self.new_handle();
        let graph = self.graph(graph)?;
        after
            .iter()
            .try_for_each(|other| graph.node(*other).map(|_| ()))?;
        graph.nodes.push(Node {
            handle,
            work,
            after,
        });
        Ok(handle)
    }

    /// The graph that a node is in.
    pub(crate) fn graph_of(&mut self, node: Handle) -> Answer<&mut Graph> {
        let mut graphs = self.graphs.values_mut();
        let found = graphs.find(|graph| graph.nodes.iter().any(|n| n.handle == node));
        found.ok_or(Code::INVALID_VALUE)
    }

    /// Makes work of a captured stream a node.
    pub(crate) fn capture(&mut self, stream: Handle, work: Work) -> Answer {
        let captured = self.captured(stream)?;
        if captured.is_invalid {
            return Err(Code::STREAM_CAPTURE_INVALIDATED);
        }
        let (graph, after) = (captured.graph, captured.last.clone());
        let node = self.add_node(graph, work, after)?;
        self.captured(stream)?.last = vec![node];
        Ok(())
    }

    fn captured(&mut self, stream: Handle) -> Answer<&mut Captured> {
        let found = self.captures.streams.get_mut(&stream);
        found.ok_or(Code::ILLEGAL_STATE)
    }

    /// Refuses a call that waits for a stream while it is captured, which ends the capture.
    pub(crate) fn check_not_captured(&mut self, stream: Handle) -> Answer {
        match self.captures.streams.get_mut(&stream) {
            Some(captured) => {
                captured.is_invalid = true;
                Err(Code::STREAM_CAPTURE_UNSUPPORTED)
            }
            None => Ok(()),
        }
    }

    /// Refuses work on the legacy stream while a stream that waits for it is captured.
    pub(crate) fn check_legacy(&mut self, stream: Handle) -> Answer {
        /// The legacy stream's names.
        const LEGACY: [Handle; 2] = [0, 1];
        /// `CU_STREAM_NON_BLOCKING`
        const NON_BLOCKING: u32 = 1;
        if !LEGACY.contains(&stream) {
            return Ok(());
        }
        let streams = &self.streams;
        let waits = |stream: &Handle| {
            let known = streams.get(stream);
            known.is_none_or(|stream| stream.flags & NON_BLOCKING == 0)
        };
        let captured = self.captures.streams.iter_mut();
        let mut waiting = captured.filter(|(stream, _)| waits(stream));
        match waiting.next() {
            Some((_, captured)) => {
                captured.is_invalid = true;
                Err(Code::STREAM_CAPTURE_IMPLICIT)
            }
            None => Ok(()),
        }
    }

    /// Refuses a call of the calling thread that is unsafe while streams are captured: it may wait
    /// for work that was captured. It ends the captures.
    pub(crate) fn check_unsafe(&mut self) -> Answer {
        let (thread, own) = (std::thread::current().id(), MODE.get());
        let forbids = |captured: &Captured| match captured.origin {
            Some((_, Mode::Relaxed)) | None => false,
            Some((of, _)) if of == thread => own != Mode::Relaxed,
            Some((_, mode)) => own == Mode::Global && mode == Mode::Global,
        };
        let captured = self.captures.streams.values_mut();
        let mut answer = Ok(());
        for captured in captured.filter(|captured| forbids(captured)) {
            captured.is_invalid = true;
            answer = Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        answer
    }

    /// Begins to capture a stream.
    pub(crate) fn begin_capture(&mut self, stream: Handle, mode: Mode) -> Answer {
        if self.captures.streams.contains_key(&stream) {
            return Err(Code::ILLEGAL_STATE);
        }
        let graph = self.new_handle();
        self.graphs.insert(graph, Graph::default());
        let captured = Captured {
            graph,
            origin: Some((std::thread::current().id(), mode)),
            last: Vec::new(),
            is_invalid: false,
        };
        self.captures.streams.insert(stream, captured);
        Ok(())
    }

    /// Ends a capture where it began, and gives its graph.
    pub(crate) fn end_capture(&mut self, stream: Handle) -> Answer<Handle> {
        let captured = self.captured(stream)?;
        let (thread, mode) = captured.origin.ok_or(Code::STREAM_CAPTURE_UNMATCHED)?;
        if mode != Mode::Relaxed && thread != std::thread::current().id() {
            return Err(Code::STREAM_CAPTURE_WRONG_THREAD);
        }
        let (graph, last) = (captured.graph, captured.last.clone());
        let all = self.captures.streams.values();
        let all = all.filter(|captured| captured.graph == graph);
        let is_invalid = all.clone().any(|captured| captured.is_invalid);
        let ends: Vec<Handle> = all.flat_map(|captured| captured.last.clone()).collect();
        let joined = self.graph(graph)?.up_to(&last);
        self.captures.streams.retain(|_, c| c.graph != graph);
        self.captures.events.retain(|_, (of, _)| *of != graph);
        let error = match (is_invalid, ends.iter().all(|end| joined.contains(end))) {
            (true, _) => Code::STREAM_CAPTURE_INVALIDATED,
            (false, false) => Code::STREAM_CAPTURE_UNJOINED,
            (false, true) => return Ok(graph),
        };
        self.graphs.remove(&graph);
        Err(error)
    }

    /// Records an event on a captured stream; false if the stream is not captured.
    pub(crate) fn capture_record(&mut self, event: Handle, stream: Handle) -> bool {
        match self.captures.streams.get(&stream) {
            Some(captured) => {
                let at = (captured.graph, captured.last.clone());
                self.captures.events.insert(event, at);
                true
            }
            None => {
                self.captures.events.remove(&event);
                false
            }
        }
    }

    /// Lets a stream wait for an event that was recorded in a capture; false if it was in none.
    pub(crate) fn capture_wait(&mut self, stream: Handle, event: Handle) -> Answer<bool> {
        let Some((graph, nodes)) = self.captures.events.get(&event).cloned() else {
            return match self.captures.streams.get(&stream) {
                // What happens outside of a capture cannot be a part of it.
                Some(_) => Err(Code::STREAM_CAPTURE_ISOLATION),
                None => Ok(false),
            };
        };
        let captured = self.captures.streams.entry(stream).or_insert(Captured {
            graph,
            origin: None,
            last: Vec::new(),
            is_invalid: false,
        });
        if captured.graph != graph {
            return Err(Code::STREAM_CAPTURE_MERGE);
        }
        for node in nodes {
            if !captured.last.contains(&node) {
                captured.last.push(node);
            }
        }
        Ok(true)
    }
}
