//! Graphs and stream capture.

use crate::api::graph_node::{FillNode, HostNode, KernelNode};
use crate::c::{Address, Copy3d, Data, Handle, In, InOut, Out, Text};
use crate::code::Answer;

use super::copy::{Parameters3d, check, driver_shape};
use super::memory::{Extent, PitchedPointer};
use super::registry::kernel;
use super::{cu, runtime};

/// `cudaKernelNodeParams`, which differs from the driver's in how it names the kernel.
fn kernel_node(node: In<KernelNode>) -> Answer<KernelNode> {
    let mut node = node.get()?;
    node.function = kernel(node.function)?;
    Ok(node)
}

/// The shape of a copy of bytes.
fn line(to: Address, from: Address, bytes: usize, kind: u32) -> Answer<Copy3d> {
    check(to, from, kind)?;
    let side = |address| PitchedPointer {
        address,
        pitch: bytes,
        width: bytes,
        height: 1,
    };
    let extent = Extent {
        width: bytes,
        height: 1,
        depth: 1,
    };
    driver_shape(Parameters3d::new(side(to), side(from), extent, kind))
}

runtime! {
    fn cudaStreamBeginCapture | cudaStreamBeginCapture_ptsz (stream: Handle, mode: u32) {
        cu!(capture::cuStreamBeginCapture_v2(stream, mode))
    }

    fn cudaStreamEndCapture | cudaStreamEndCapture_ptsz (stream: Handle, graph: Out<Handle>) {
        cu!(capture::cuStreamEndCapture(stream, graph))
    }

    fn cudaStreamIsCapturing | cudaStreamIsCapturing_ptsz (stream: Handle, status: Out<u32>) {
        cu!(capture::cuStreamIsCapturing(stream, status))
    }

    // Of CUDA 13, and of the third version of CUDA 12.
    fn cudaStreamGetCaptureInfo | cudaStreamGetCaptureInfo_ptsz | cudaStreamGetCaptureInfo_v3 (
        stream: Handle, status: Out<u32>, id: Out<u64>, graph: Out<Handle>,
        dependencies: Out<Data>, edges: Out<Data>, count: Out<usize>,
    ) {
        cu!(capture::cuStreamGetCaptureInfo_v3(
            stream, status, id, graph, dependencies, edges, count
        ))
    }

    fn cudaThreadExchangeStreamCaptureMode(mode: InOut<u32>) {
        cu!(capture::cuThreadExchangeStreamCaptureMode(mode))
    }

    fn cudaGraphCreate(place: Out<Handle>, flags: u32) {
        cu!(graph::cuGraphCreate(place, flags))
    }

    fn cudaGraphDestroy(graph: Handle) {
        cu!(graph::cuGraphDestroy(graph))
    }

    fn cudaGraphClone(place: Out<Handle>, graph: Handle) {
        cu!(graph::cuGraphClone(place, graph))
    }

    fn cudaGraphAddKernelNode(
        place: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, node: In<KernelNode>,
    ) {
        let node = kernel_node(node)?;
        cu!(graph::cuGraphAddKernelNode(place, graph, after, count, In::from(&node)))
    }

    fn cudaGraphAddMemcpyNode(
        place: Out<Handle>, graph: Handle, after: In<Handle>, count: usize,
        shape: In<Parameters3d>,
    ) {
        let shape = driver_shape(shape.get()?)?;
        cu!(graph::cuGraphAddMemcpyNode(place, graph, after, count, In::from(&shape), 0))
    }

    fn cudaGraphAddMemcpyNode1D(
        place: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, to: Address,
        from: Address, bytes: usize, kind: u32,
    ) {
        let shape = line(to, from, bytes, kind)?;
        cu!(graph::cuGraphAddMemcpyNode(place, graph, after, count, In::from(&shape), 0))
    }

    fn cudaGraphAddMemsetNode(
        place: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, node: In<FillNode>,
    ) {
        cu!(graph::cuGraphAddMemsetNode(place, graph, after, count, node, 0))
    }

    fn cudaGraphAddHostNode(
        place: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, node: In<HostNode>,
    ) {
        cu!(graph::cuGraphAddHostNode(place, graph, after, count, node))
    }

    fn cudaGraphAddEmptyNode(
        place: Out<Handle>, graph: Handle, after: In<Handle>, count: usize,
    ) {
        cu!(graph::cuGraphAddEmptyNode(place, graph, after, count))
    }

    fn cudaGraphAddChildGraphNode(
        place: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, child: Handle,
    ) {
        cu!(graph::cuGraphAddChildGraphNode(place, graph, after, count, child))
    }

    fn cudaGraphAddEventRecordNode(
        place: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, event: Handle,
    ) {
        cu!(graph::cuGraphAddEventRecordNode(place, graph, after, count, event))
    }

    fn cudaGraphAddEventWaitNode(
        place: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, event: Handle,
    ) {
        cu!(graph::cuGraphAddEventWaitNode(place, graph, after, count, event))
    }

    fn cudaGraphGetNodes(graph: Handle, places: Out<Handle>, count: InOut<usize>) {
        cu!(graph::cuGraphGetNodes(graph, places, count))
    }

    fn cudaGraphGetRootNodes(graph: Handle, places: Out<Handle>, count: InOut<usize>) {
        cu!(graph::cuGraphGetRootNodes(graph, places, count))
    }

    fn cudaGraphNodeGetType(node: Handle, kind: Out<u32>) {
        cu!(graph::cuGraphNodeGetType(node, kind))
    }

    fn cudaGraphKernelNodeGetParams(node: Handle, place: Out<KernelNode>) {
        cu!(graph_node::cuGraphKernelNodeGetParams(node, place))
    }

    fn cudaGraphKernelNodeSetParams(node: Handle, params: In<KernelNode>) {
        let params = kernel_node(params)?;
        cu!(graph_node::cuGraphKernelNodeSetParams(node, In::from(&params)))
    }

    fn cudaGraphMemsetNodeGetParams(node: Handle, place: Out<FillNode>) {
        cu!(graph_node::cuGraphMemsetNodeGetParams(node, place))
    }

    fn cudaGraphMemsetNodeSetParams(node: Handle, params: In<FillNode>) {
        cu!(graph_node::cuGraphMemsetNodeSetParams(node, params))
    }

    fn cudaGraphHostNodeGetParams(node: Handle, place: Out<HostNode>) {
        cu!(graph_node::cuGraphHostNodeGetParams(node, place))
    }

    fn cudaGraphHostNodeSetParams(node: Handle, params: In<HostNode>) {
        cu!(graph_node::cuGraphHostNodeSetParams(node, params))
    }

    fn cudaGraphMemcpyNodeSetParams(node: Handle, shape: In<Parameters3d>) {
        let shape = driver_shape(shape.get()?)?;
        cu!(graph_node::cuGraphMemcpyNodeSetParams(node, In::from(&shape)))
    }

    fn cudaGraphMemcpyNodeSetParams1D(
        node: Handle, to: Address, from: Address, bytes: usize, kind: u32,
    ) {
        let shape = line(to, from, bytes, kind)?;
        cu!(graph_node::cuGraphMemcpyNodeSetParams(node, In::from(&shape)))
    }

    fn cudaGraphExecMemcpyNodeSetParams(
        executable: Handle, node: Handle, shape: In<Parameters3d>,
    ) {
        let shape = driver_shape(shape.get()?)?;
        cu!(graph::cuGraphExecMemcpyNodeSetParams(executable, node, In::from(&shape), 0))
    }

    fn cudaGraphExecMemsetNodeSetParams(
        executable: Handle, node: Handle, params: In<FillNode>,
    ) {
        cu!(graph::cuGraphExecMemsetNodeSetParams(executable, node, params, 0))
    }

    fn cudaGraphExecHostNodeSetParams(
        executable: Handle, node: Handle, params: In<HostNode>,
    ) {
        cu!(graph_node::cuGraphExecHostNodeSetParams(executable, node, params))
    }

    fn cudaGraphDebugDotPrint(graph: Handle, path: Text, flags: u32) {
        cu!(graph_node::cuGraphDebugDotPrint(graph, path, flags))
    }

    fn cudaGraphDestroyNode(node: Handle) {
        cu!(graph::cuGraphDestroyNode(node))
    }

    fn cudaGraphExecKernelNodeSetParams(
        executable: Handle, node: Handle, params: In<KernelNode>,
    ) {
        let params = kernel_node(params)?;
        cu!(graph::cuGraphExecKernelNodeSetParams(executable, node, In::from(&params)))
    }

    fn cudaGraphExecMemcpyNodeSetParams1D(
        executable: Handle, node: Handle, to: Address, from: Address, bytes: usize, kind: u32,
    ) {
        let shape = line(to, from, bytes, kind)?;
        cu!(graph::cuGraphExecMemcpyNodeSetParams(executable, node, In::from(&shape), 0))
    }

    fn cudaGraphInstantiate | cudaGraphInstantiateWithFlags (
        place: Out<Handle>, graph: Handle, _flags: u64,
    ) {
        cu!(graph::cuGraphInstantiate(place, graph))
    }

    fn cudaGraphLaunch | cudaGraphLaunch_ptsz (executable: Handle, stream: Handle) {
        cu!(graph::cuGraphLaunch(executable, stream))
    }

    fn cudaGraphUpload | cudaGraphUpload_ptsz (executable: Handle, stream: Handle) {
        cu!(graph::cuGraphUpload(executable, stream))
    }

    fn cudaGraphExecUpdate(executable: Handle, graph: Handle, result: Out<[usize; 3]>) {
        cu!(graph::cuGraphExecUpdate_v2(executable, graph, result))
    }

    fn cudaGraphExecDestroy(executable: Handle) {
        cu!(graph::cuGraphExecDestroy(executable))
    }
}
