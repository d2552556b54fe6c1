//! What is known of the nodes of graphs, and what may change: their work, and what they wait for.

use std::ffi::c_void;
use std::fmt::Write;

use warpsmith_emulator::LaunchConfig;

use crate::c::{Address, Copy3d, Data, Handle, HostFunction, In, InOut, Out, Side3d, Text};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::state::{current, driver};
use crate::work::Work;

use super::copy;
use super::fill::Fill;
use super::graph::{list, replace, replace_in};
use super::launch::{Launch, Parameters};

/// `CUDA_KERNEL_NODE_PARAMS_v1`; the second version has two handles behind it, which a program
/// sets instead of the function.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct KernelNode {
    pub(crate) function: Handle,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) each: In<*const c_void>,
    pub(crate) extra: In<usize>,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct KernelNode2 {
    node: KernelNode,
    kernel: Handle,
    context: Handle,
}

/// `CUDA_MEMSET_NODE_PARAMS`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct FillNode {
    to: Address,
    pitch: usize,
    value: u32,
    unit_bytes: u32,
    width: usize,
    height: usize,
}

/// `CUDA_HOST_NODE_PARAMS`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct HostNode {
    pub(super) function: HostFunction,
    pub(super) data: usize,
}

impl KernelNode {
    pub(super) fn work(self) -> Answer<Work> {
        let config = LaunchConfig {
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared_bytes,
            cluster: None,
        };
        let Self { each, extra, .. } = self;
        let parameters = Parameters { each, extra };
        let launch = Launch::plain(current()?, self.function, config, parameters)?;
        Ok(Work::Kernel(Box::new(launch)))
    }
}

impl KernelNode2 {
    pub(super) fn of_function(node: KernelNode) -> Self {
        Self {
            node,
            kernel: 0,
            context: 0,
        }
    }

    pub(super) fn work(self) -> Answer<Work> {
        let mut node = self.node;
        if node.function == 0 {
            node.function = self.kernel;
        }
        node.work()
    }
}

impl HostNode {
    pub(super) fn work(self) -> Answer<Work> {
        self.function.ok_or(Code::INVALID_VALUE)?;
        Ok(Work::Host(self.function, self.data))
    }
}

impl FillNode {
    pub(super) fn of(fill: &Fill) -> Self {
        let (unit, [width, height]) = fill.shape();
        let mut value = [0; 4];
        value[..unit.len()].copy_from_slice(unit);
        Self {
            to: fill.to,
            pitch: fill.pitch,
            value: u32::from_ne_bytes(value),
            unit_bytes: unit.len() as u32,
            width,
            height,
        }
    }

    pub(super) fn work(self) -> Answer<Work> {
        let value = self.value.to_ne_bytes();
        let unit = match self.unit_bytes {
            1 => &value[..1],
            2 => &value[..2],
            4 => &value[..],
            _ => return Err(Code::INVALID_VALUE),
        };
        let extents = [self.width, self.height];
        Ok(Work::Fill(Fill::new(self.to, self.pitch, unit, extents)?))
    }
}

/// `CU_MEMORYTYPE_UNIFIED`: the address says where the memory is.
const BY_ADDRESS: u32 = 4;
/// `CUgraphNodeType` by number.
const KINDS: [&str; 8] = [
    "KERNEL",
    "MEMCPY",
    "MEMSET",
    "HOST",
    "GRAPH",
    "EMPTY",
    "WAIT_EVENT",
    "EVENT_RECORD",
];

/// Looks at the work of a node.
fn with_work<T>(node: Handle, with: impl FnOnce(&mut Work) -> Answer<T>) -> Answer<T> {
    with(&mut driver()?.state().graph_of(node)?.node(node)?.work)
}

fn set_work(node: Handle, work: Work) -> Answer {
    replace_in(driver()?.state().graph_of(node)?.node(node)?, work)
}

fn kernel(node: Handle) -> Answer<KernelNode> {
    with_work(node, |work| match work {
        Work::Kernel(launch) => Ok(launch.as_node()),
        _ => Err(Code::INVALID_VALUE),
    })
}

fn event(node: Handle) -> Answer<Handle> {
    with_work(node, |work| match work {
        Work::RecordEvent(event) | Work::WaitForEvent(event) => Ok(*event),
        _ => Err(Code::INVALID_VALUE),
    })
}

fn copied(node: Handle) -> Answer<Copy3d> {
    let side = |address| Side3d {
        kind: BY_ADDRESS,
        device: address,
        ..Side3d::default()
    };
    with_work(node, |work| match work {
        Work::Copy3d(shape) => Ok(**shape),
        Work::Copy { to, from, len } => Ok(Copy3d {
            from: side(*from),
            to: side(*to),
            width_bytes: *len,
            height: 1,
            depth: 1,
        }),
        _ => Err(Code::INVALID_VALUE),
    })
}

fn dependents(node: Handle, places: Out<Handle>, count: InOut<usize>) -> Answer {
    let mut state = driver()?.state();
    let nodes = state.graph_of(node)?.nodes.iter();
    let after = nodes.filter(|other| other.after.contains(&node));
    let after = after.map(|other| other.handle).collect();
    drop(state);
    list(after, places, count)
}

fn remove_edges(graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) -> Answer {
    let (from, to) = (from.list(count)?, to.list(count)?);
    let mut state = driver()?.state();
    let graph = state.graph(graph)?;
    for (from, to) in from.into_iter().zip(to) {
        let after = &mut graph.node(to)?.after;
        let at = after.iter().position(|before| *before == from);
        after.remove(at.ok_or(Code::INVALID_VALUE)?);
    }
    Ok(())
}

/// The graph in the language of Graphviz.
fn drawn(graph: Handle) -> Answer<String> {
    let mut state = driver()?.state();
    let nodes = &state.graph(graph)?.nodes;
    let mut text = format!("digraph graph_{graph:x} {{\n");
    for node in nodes {
        let kind = KINDS[node.work.kind() as usize];
        let name = match &node.work {
            Work::Kernel(launch) => format!("\\n{}", launch.name()),
            _ => String::new(),
        };
        // Writing to a text cannot fail.
        let _ = writeln!(text, "  \"{:x}\" [label=\"{kind}{name}\"];", node.handle);
        for before in &node.after {
            let _ = writeln!(text, "  \"{before:x}\" -> \"{:x}\";", node.handle);
        }
    }
    Ok(text + "}\n")
}

entries! {
    fn cuGraphKernelNodeGetParams: "cuGraphKernelNodeGetParams" @ 10000 (
        node: Handle, place: Out<KernelNode>,
    ) {
        place.set(kernel(node)?)
    }

    fn cuGraphKernelNodeGetParams_v2: "cuGraphKernelNodeGetParams" @ 12000 (
        node: Handle, place: Out<KernelNode2>,
    ) {
        place.set(KernelNode2::of_function(kernel(node)?))
    }

    fn cuGraphKernelNodeSetParams: "cuGraphKernelNodeSetParams" @ 10000 (
        node: Handle, params: In<KernelNode>,
    ) {
        set_work(node, params.get()?.work()?)
    }

    fn cuGraphMemcpyNodeGetParams: "cuGraphMemcpyNodeGetParams" @ 10000 (
        node: Handle, place: Out<Copy3d>,
    ) {
        place.set(copied(node)?)
    }

    fn cuGraphMemcpyNodeSetParams: "cuGraphMemcpyNodeSetParams" @ 10000 (
        node: Handle, shape: In<Copy3d>,
    ) {
        set_work(node, copy::work_of(shape.get()?)?)
    }

    fn cuGraphMemsetNodeGetParams: "cuGraphMemsetNodeGetParams" @ 10000 (
        node: Handle, place: Out<FillNode>,
    ) {
        let found = with_work(node, |work| match work {
            Work::Fill(fill) => Ok(FillNode::of(fill)),
            _ => Err(Code::INVALID_VALUE),
        })?;
        place.set(found)
    }

    fn cuGraphMemsetNodeSetParams: "cuGraphMemsetNodeSetParams" @ 10000 (
        node: Handle, params: In<FillNode>,
    ) {
        set_work(node, params.get()?.work()?)
    }

    fn cuGraphHostNodeGetParams: "cuGraphHostNodeGetParams" @ 10000 (
        node: Handle, place: Out<HostNode>,
    ) {
        let found = with_work(node, |work| match work {
            Work::Host(function, data) => Ok(HostNode { function: *function, data: *data }),
            _ => Err(Code::INVALID_VALUE),
        })?;
        place.set(found)
    }

    fn cuGraphHostNodeSetParams: "cuGraphHostNodeSetParams" @ 10000 (
        node: Handle, params: In<HostNode>,
    ) {
        set_work(node, params.get()?.work()?)
    }

    fn cuGraphExecHostNodeSetParams: "cuGraphExecHostNodeSetParams" @ 10020 (
        executable: Handle, node: Handle, params: In<HostNode>,
    ) {
        replace(executable, node, params.get()?.work()?)
    }

    fn cuGraphEventRecordNodeGetEvent: "cuGraphEventRecordNodeGetEvent" @ 11010 (
        node: Handle, place: Out<Handle>,
    ) {
        place.set(event(node)?)
    }

    fn cuGraphEventRecordNodeSetEvent: "cuGraphEventRecordNodeSetEvent" @ 11010 (
        node: Handle, event: Handle,
    ) {
        driver()?.state().event(event)?;
        set_work(node, Work::RecordEvent(event))
    }

    fn cuGraphEventWaitNodeGetEvent: "cuGraphEventWaitNodeGetEvent" @ 11010 (
        node: Handle, place: Out<Handle>,
    ) {
        place.set(event(node)?)
    }

    fn cuGraphEventWaitNodeSetEvent: "cuGraphEventWaitNodeSetEvent" @ 11010 (
        node: Handle, event: Handle,
    ) {
        driver()?.state().event(event)?;
        set_work(node, Work::WaitForEvent(event))
    }

    fn cuGraphNodeGetDependentNodes: "cuGraphNodeGetDependentNodes" @ 10000 (
        node: Handle, places: Out<Handle>, count: InOut<usize>,
    ) {
        dependents(node, places, count)
    }

    fn cuGraphNodeGetDependentNodes_v2: "cuGraphNodeGetDependentNodes" @ 12030 (
        node: Handle, places: Out<Handle>, _edges: Data, count: InOut<usize>,
    ) {
        dependents(node, places, count)
    }

    fn cuGraphRemoveDependencies: "cuGraphRemoveDependencies" @ 10000 (
        graph: Handle, from: In<Handle>, to: In<Handle>, count: usize,
    ) {
        remove_edges(graph, from, to, count)
    }

    fn cuGraphRemoveDependencies_v2: "cuGraphRemoveDependencies" @ 12030 (
        graph: Handle, from: In<Handle>, to: In<Handle>, _edges: Data, count: usize,
    ) {
        remove_edges(graph, from, to, count)
    }

    fn cuGraphDebugDotPrint: "cuGraphDebugDotPrint" @ 11030 (
        graph: Handle, path: Text, _flags: u32,
    ) {
        let text = drawn(graph)?;
        std::fs::write(path.get()?, text).map_err(|_| Code::OPERATING_SYSTEM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<KernelNode>(), 56);
        assert_eq!(size_of::<KernelNode2>(), 72);
        assert_eq!(size_of::<FillNode>(), 40);
    }
}
