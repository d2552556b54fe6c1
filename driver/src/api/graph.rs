//! Graphs: their nodes, and their launches.

use crate::c::{Copy3d, Data, Handle, In, InOut, Out};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::graph::{Graph, Node, work_of};
use crate::state::{current, driver};
use crate::work::{Work, submit};

use super::copy;
use super::graph_node::{FillNode, HostNode, KernelNode, KernelNode2};

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "the layout is that of the header")]
#[repr(C)]
pub(crate) struct Instantiate {
    flags: u64,
    stream: Handle,
    error_node: Handle,
    result: u32,
}

fn add(place: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, work: Work) -> Answer {
    let after = after.list(count)?;
    let node = driver()?.state().add_node(graph, work, after)?;
    place.set(node)
}

/// Gives a list of handles: their number if there is no place for them.
pub(super) fn list(handles: Vec<Handle>, places: Out<Handle>, count: InOut<usize>) -> Answer {
    if !places.is_null() {
        let room = count.at(0)?;
        places.set_all(handles.iter().copied(), room)?;
    }
    count.set_at(0, handles.len())
}

fn edges(graph: Handle, from: Out<Handle>, to: Out<Handle>, count: InOut<usize>) -> Answer {
    let mut state = driver()?.state();
    let nodes = state.graph(graph)?.nodes.iter();
    let all: Vec<(Handle, Handle)> = nodes
        .flat_map(|node| node.after.iter().map(|before| (*before, node.handle)))
        .collect();
    if !from.is_null() && !to.is_null() {
        let room = count.at(0)?;
        from.set_all(all.iter().map(|(from, _)| *from), room)?;
        to.set_all(all.iter().map(|(_, to)| *to), room)?;
    }
    count.set_at(0, all.len())
}

fn add_edges(graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) -> Answer {
    let (from, to) = (from.list(count)?, to.list(count)?);
    let mut state = driver()?.state();
    let graph = state.graph(graph)?;
    for (from, to) in from.into_iter().zip(to) {
        graph.node(from)?;
        let node = graph.node(to)?;
        if from == to || node.after.contains(&from) {
            return Err(Code::INVALID_VALUE);
        }
        node.after.push(from);
    }
    Ok(())
}

fn dependencies(node: Handle, places: Out<Handle>, count: InOut<usize>) -> Answer {
    let after = driver()?.state().graph_of(node)?.node(node)?.after.clone();
    list(after, places, count)
}

fn instantiate(place: Out<Handle>, graph: Handle) -> Answer {
    let mut state = current()?.state();
    let nodes = state.graph(graph)?.ordered()?;
    let handle = state.new_handle();
    state.executables.insert(handle, nodes);
    state.keep_as(handle, graph);
    place.set(handle)
}

/// Replaces the work of a node of a graph that can be launched by work of the same kind.
pub(super) fn replace(executable: Handle, node: Handle, work: Work) -> Answer {
    let mut state = driver()?.state();
    let nodes = state.executables.get_mut(&executable);
    let nodes = nodes.ok_or(Code::INVALID_HANDLE)?;
    let node = nodes.iter_mut().find(|known| known.handle == node);
    replace_in(node.ok_or(Code::INVALID_VALUE)?, work)
}

pub(super) fn replace_in(node: &mut Node, work: Work) -> Answer {
    if node.work.kind() != work.kind() {
        return Err(Code::INVALID_VALUE);
    }
    node.work = work;
    Ok(())
}

/// Replaces all work by that of a graph of the same form; the answer is whether it has this form.
fn update(executable: Handle, graph: Handle) -> Answer<bool> {
    let mut state = driver()?.state();
    let new = state.graph(graph)?.ordered()?;
    let nodes = state.executables.get_mut(&executable);
    let nodes = nodes.ok_or(Code::INVALID_HANDLE)?;
    let kinds = |nodes: &[Node]| nodes.iter().map(|n| n.work.kind()).collect::<Vec<_>>();
    if kinds(nodes) != kinds(&new) {
        return Ok(false);
    }
    for (old, new) in nodes.iter_mut().zip(new) {
        old.work = new.work;
    }
    let replaced = state.keep_as(executable, graph);
    drop(state);
    drop(replaced);
    Ok(true)
}

fn launch(executable: Handle, stream: Handle) -> Answer {
    let current = current()?;
    let state = current.state();
    let nodes = state.executables.get(&executable);
    let work = work_of(nodes.ok_or(Code::INVALID_HANDLE)?);
    drop(state);
    submit(current, stream, work)
}

entries! {
    fn cuGraphCreate: "cuGraphCreate" @ 10000 (place: Out<Handle>, flags: u32) {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let mut state = driver()?.state();
        let handle = state.new_handle();
        state.graphs.insert(handle, Graph::default());
        place.set(handle)
    }

    fn cuGraphDestroy: "cuGraphDestroy" @ 10000 (graph: Handle) {
        let mut state = driver()?.state();
        let removed = state.graphs.remove(&graph);
        let held = state.held.remove(&graph);
        drop(state);
        drop(held);
        removed.map(|_| ()).ok_or(Code::INVALID_VALUE)
    }

    fn cuGraphClone: "cuGraphClone" @ 10000 (place: Out<Handle>, graph: Handle) {
        let mut state = driver()?.state();
        let mut clone = state.graph(graph)?.clone();
        let renamed: Vec<(Handle, Handle)> =
            clone.nodes.iter().map(|node| (node.handle, state.new_handle())).collect();
        let new = |old: &mut Handle| {
            if let Some((_, new)) = renamed.iter().find(|(known, _)| known == old) {
                *old = *new;
            }
        };
        for node in &mut clone.nodes {
            new(&mut node.handle);
            node.after.iter_mut().for_each(new);
        }
        let handle = state.new_handle();
        state.graphs.insert(handle, clone);
        state.keep_as(handle, graph);
        place.set(handle)
    }

    fn cuGraphAddKernelNode: "cuGraphAddKernelNode" @ 10000 (
        place: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, node: In<KernelNode>,
    ) {
        add(place, graph, after, count, node.get()?.work()?)
    }

    fn cuGraphAddKernelNode_v2: "cuGraphAddKernelNode" @ 12000 (
        place: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, node: In<KernelNode2>,
    ) {
        add(place, graph, after, count, node.get()?.work()?)
    }

    fn cuGraphAddMemcpyNode: "cuGraphAddMemcpyNode" @ 10000 (
        place: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, shape: In<Copy3d>,
        _context: Handle,
    ) {
        add(place, graph, after, count, copy::work_of(shape.get()?)?)
    }

    fn cuGraphAddMemsetNode: "cuGraphAddMemsetNode" @ 10000 (
        place: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, node: In<FillNode>,
        _context: Handle,
    ) {
        add(place, graph, after, count, node.get()?.work()?)
    }

    fn cuGraphAddHostNode: "cuGraphAddHostNode" @ 10000 (
        place: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, node: In<HostNode>,
    ) {
        add(place, graph, after, count, node.get()?.work()?)
    }

    fn cuGraphAddEmptyNode: "cuGraphAddEmptyNode" @ 10000 (
        place: Out<Handle>, graph: Handle, after: In<Handle>, count: usize,
    ) {
        add(place, graph, after, count, Work::Nothing)
    }

    fn cuGraphAddChildGraphNode: "cuGraphAddChildGraphNode" @ 10000 (
        place: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, child: Handle,
    ) {
        let work = driver()?.state().graph(child)?.work()?;
        add(place, graph, after, count, work)
    }

    fn cuGraphAddEventRecordNode: "cuGraphAddEventRecordNode" @ 11010 (
        place: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, event: Handle,
    ) {
        driver()?.state().event(event)?;
        add(place, graph, after, count, Work::RecordEvent(event))
    }

    fn cuGraphAddEventWaitNode: "cuGraphAddEventWaitNode" @ 11010 (
        place: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, event: Handle,
    ) {
        driver()?.state().event(event)?;
        add(place, graph, after, count, Work::WaitForEvent(event))
    }

    fn cuGraphAddDependencies: "cuGraphAddDependencies" @ 10000 (
        graph: Handle, from: In<Handle>, to: In<Handle>, count: usize,
    ) {
        add_edges(graph, from, to, count)
    }

    fn cuGraphAddDependencies_v2: "cuGraphAddDependencies" @ 12030 (
        graph: Handle, from: In<Handle>, to: In<Handle>, _edges: Data, count: usize,
    ) {
        add_edges(graph, from, to, count)
    }

    fn cuGraphDestroyNode: "cuGraphDestroyNode" @ 10000 (node: Handle) {
        let mut state = driver()?.state();
        let graph = state.graph_of(node)?;
        graph.nodes.retain(|known| known.handle != node);
        for known in &mut graph.nodes {
            known.after.retain(|before| *before != node);
        }
        Ok(())
    }

    fn cuGraphGetNodes: "cuGraphGetNodes" @ 10000 (
        graph: Handle, places: Out<Handle>, count: InOut<usize>,
    ) {
        let mut state = driver()?.state();
        let nodes = state.graph(graph)?.nodes.iter().map(|node| node.handle).collect();
        list(nodes, places, count)
    }

    fn cuGraphGetRootNodes: "cuGraphGetRootNodes" @ 10000 (
        graph: Handle, places: Out<Handle>, count: InOut<usize>,
    ) {
        let mut state = driver()?.state();
        let nodes = state.graph(graph)?.nodes.iter().filter(|node| node.after.is_empty());
        let nodes = nodes.map(|node| node.handle).collect();
        list(nodes, places, count)
    }

    fn cuGraphGetEdges: "cuGraphGetEdges" @ 10000 (
        graph: Handle, from: Out<Handle>, to: Out<Handle>, count: InOut<usize>,
    ) {
        edges(graph, from, to, count)
    }

    fn cuGraphGetEdges_v2: "cuGraphGetEdges" @ 12030 (
        graph: Handle, from: Out<Handle>, to: Out<Handle>, _edges: Data, count: InOut<usize>,
    ) {
        edges(graph, from, to, count)
    }

    fn cuGraphNodeGetType: "cuGraphNodeGetType" @ 10000 (node: Handle, kind: Out<u32>) {
        let found = driver()?.state().graph_of(node)?.node(node)?.work.kind();
        kind.set(found)
    }

    fn cuGraphNodeGetDependencies: "cuGraphNodeGetDependencies" @ 10000 (
        node: Handle, places: Out<Handle>, count: InOut<usize>,
    ) {
        dependencies(node, places, count)
    }

    fn cuGraphNodeGetDependencies_v2: "cuGraphNodeGetDependencies" @ 12030 (
        node: Handle, places: Out<Handle>, _edges: Data, count: InOut<usize>,
    ) {
        dependencies(node, places, count)
    }

    fn cuGraphKernelNodeSetParams_v2: "cuGraphKernelNodeSetParams" @ 12000 (
        node: Handle, params: In<KernelNode2>,
    ) {
        let work = params.get()?.work()?;
        replace_in(driver()?.state().graph_of(node)?.node(node)?, work)
    }

    fn cuGraphExecKernelNodeSetParams_v2: "cuGraphExecKernelNodeSetParams" @ 12000 (
        executable: Handle, node: Handle, params: In<KernelNode2>,
    ) {
        replace(executable, node, params.get()?.work()?)
    }

    fn cuGraphExecKernelNodeSetParams: "cuGraphExecKernelNodeSetParams" @ 10010 (
        executable: Handle, node: Handle, params: In<KernelNode>,
    ) {
        replace(executable, node, params.get()?.work()?)
    }

    fn cuGraphExecMemcpyNodeSetParams: "cuGraphExecMemcpyNodeSetParams" @ 10020 (
        executable: Handle, node: Handle, shape: In<Copy3d>, _context: Handle,
    ) {
        replace(executable, node, copy::work_of(shape.get()?)?)
    }

    fn cuGraphExecMemsetNodeSetParams: "cuGraphExecMemsetNodeSetParams" @ 10020 (
        executable: Handle, node: Handle, params: In<FillNode>, _context: Handle,
    ) {
        replace(executable, node, params.get()?.work()?)
    }

    // Its versions differ in what follows: places for a log, or flags. None of it is used.
    fn cuGraphInstantiate_v2 | cuGraphInstantiate: "cuGraphInstantiate" @ 10000 (
        place: Out<Handle>, graph: Handle,
    ) {
        instantiate(place, graph)
    }

    fn cuGraphInstantiateWithFlags: "cuGraphInstantiateWithFlags" @ 11040 (
        place: Out<Handle>, graph: Handle, _flags: u64,
    ) {
        instantiate(place, graph)
    }

    fn cuGraphInstantiateWithParams | cuGraphInstantiateWithParams_ptsz:
        "cuGraphInstantiateWithParams" @ 12000 (
        place: Out<Handle>, graph: Handle, params: InOut<Instantiate>,
    ) {
        let mut answer = params.at(0)?;
        instantiate(place, graph)?;
        (answer.error_node, answer.result) = (0, 0);
        params.set_at(0, answer)
    }

    fn cuGraphLaunch | cuGraphLaunch_ptsz: "cuGraphLaunch" @ 10000 (
        executable: Handle, stream: Handle,
    ) {
        launch(executable, stream)
    }

    fn cuGraphUpload | cuGraphUpload_ptsz: "cuGraphUpload" @ 11010 (
        executable: Handle, stream: Handle,
    ) {
        let current = current()?;
        current.check_stream(stream)?;
        let is_known = current.state().executables.contains_key(&executable);
        if is_known { Ok(()) } else { Err(Code::INVALID_HANDLE) }
    }

    fn cuGraphExecUpdate: "cuGraphExecUpdate" @ 10020 (
        executable: Handle, graph: Handle, error_node: Out<Handle>, result: Out<u32>,
    ) {
        /// `CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED`
        const TOPOLOGY_CHANGED: u32 = 2;
        error_node.set_if_wanted(0);
        match update(executable, graph)? {
            true => result.set(0),
            false => result.set(TOPOLOGY_CHANGED).and(Err(Code::GRAPH_EXEC_UPDATE_FAILURE)),
        }
    }

    fn cuGraphExecUpdate_v2: "cuGraphExecUpdate" @ 12000 (
        executable: Handle, graph: Handle, result: Out<[usize; 3]>,
    ) {
        /// `CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED`, and no nodes.
        const TOPOLOGY_CHANGED: [usize; 3] = [2, 0, 0];
        match update(executable, graph)? {
            true => result.set([0; 3]),
            false => result.set(TOPOLOGY_CHANGED).and(Err(Code::GRAPH_EXEC_UPDATE_FAILURE)),
        }
    }

    fn cuGraphExecDestroy: "cuGraphExecDestroy" @ 10000 (executable: Handle) {
        let mut state = driver()?.state();
        let removed = state.executables.remove(&executable);
        let held = state.held.remove(&executable);
        drop(state);
        drop(held);
        removed.map(|_| ()).ok_or(Code::INVALID_HANDLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<Instantiate>(), 32);
    }
}
