//! A program that captures two streams to a graph, builds another graph by hand, and launches both.

use cudarc::driver::sys::{self, CUgraphNodeType, CUresult, CUstreamCaptureMode};
use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

const PTX: &CStr = c"
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 to, .param .u32 n) {
    .reg .u64 %to;
    .reg .u32 %x, %n;
    ld.param.u64 %to, [to];
    ld.param.u32 %n, [n];
    ld.global.u32 %x, [%to];
    add.u32 %x, %x, %n;
    st.global.u32 [%to], %x;
    ret;
}
";

/// Calls a function, and asserts the name of its answer.
macro_rules! answers {
    ($name:ident, $function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: places are valid and handles live, or the driver has to refuse them.
        let code = unsafe { sys::$function($($argument),*) };
        assert_eq!(code, CUresult::$name, "{}", stringify!($function));
    };
}

/// Calls a function that succeeds.
macro_rules! ok {
    ($function:ident($($argument:expr),* $(,)?)) => {
        answers!(CUDA_SUCCESS, $function($($argument),*))
    };
}

const MODE: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;

/// The kernel, and the number that it adds to.
struct Program {
    function: sys::CUfunction,
    place: u64,
}

impl Program {
    fn add(&self, stream: sys::CUstream, n: u32) {
        let params = (self.place, n);
        let mut params: [*mut c_void; 2] = [
            (&raw const params.0).cast_mut().cast(),
            (&raw const params.1).cast_mut().cast(),
        ];
        let each = params.as_mut_ptr();
        let function = self.function;
        ok!(cuLaunchKernel(
            function,
            1,
            1,
            1,
            1,
            1,
            1,
            0,
            stream,
            each,
            null_mut()
        ));
    }

    fn value(&self) -> u32 {
        let mut value = 0_u32;
        ok!(cuMemcpyDtoH_v2((&raw mut value).cast(), self.place, 4));
        value
    }
}

fn main() {
    ok!(cuInit(0));
    let (mut context, mut module) = (null_mut(), null_mut());
    ok!(cuCtxCreate_v2(&raw mut context, 0, 0));
    ok!(cuModuleLoadData(&raw mut module, PTX.as_ptr().cast()));
    let (mut function, mut place) = (null_mut(), 0);
    ok!(cuModuleGetFunction(
        &raw mut function,
        module,
        c"add".as_ptr()
    ));
    ok!(cuMemAlloc_v2(&raw mut place, 4));
    ok!(cuMemsetD32_v2(place, 0, 1));
    let program = Program { function, place };
    captures(&program);
    builds(&program);
    modes(&program);
    nests();
    keeps();
}

/// Objects of the program live as long as a graph that has them, or what was made of it.
fn keeps() {
    static DESTROYED: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn destroy(_data: *mut c_void) {
        DESTROYED.fetch_add(1, Ordering::Relaxed);
    }
    let destroyed = || DESTROYED.load(Ordering::Relaxed);
    let (mut object, mut graph, mut executable) = (null_mut(), null_mut(), null_mut());
    ok!(cuUserObjectCreate(
        &raw mut object,
        null_mut(),
        Some(destroy),
        2,
        1
    ));
    ok!(cuGraphCreate(&raw mut graph, 0));
    answers!(
        CUDA_ERROR_INVALID_VALUE,
        cuGraphRetainUserObject(graph, object, 3, 1)
    );
    ok!(cuGraphRetainUserObject(graph, object, 1, 1));
    ok!(cuUserObjectRelease(object, 1));
    answers!(CUDA_ERROR_INVALID_VALUE, cuUserObjectRelease(object, 1));
    ok!(cuGraphInstantiateWithFlags(&raw mut executable, graph, 0));
    ok!(cuGraphDestroy(graph));
    assert_eq!(destroyed(), 0);
    ok!(cuGraphExecDestroy(executable));
    assert_eq!(destroyed(), 1);
    answers!(CUDA_ERROR_INVALID_VALUE, cuUserObjectRetain(object, 1));
}

/// What each mode forbids while a stream is captured, in the thread that captures and in another.
fn modes(program: &Program) {
    use CUstreamCaptureMode as Mode;
    let (mut stream, mut event) = (null_mut(), null_mut());
    ok!(cuStreamCreate(&raw mut stream, 1));
    ok!(cuEventCreate(&raw mut event, 2));
    ok!(cuEventRecord(event, null_mut()));
    let event = event as usize;
    let mut context = null_mut();
    ok!(cuCtxGetCurrent(&raw mut context));
    let context = context as usize;
    let (global, local, relaxed) = (
        Mode::CU_STREAM_CAPTURE_MODE_GLOBAL,
        Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        Mode::CU_STREAM_CAPTURE_MODE_RELAXED,
    );
    let asks = move || {
        // SAFETY: live handles.
        unsafe { sys::cuEventQuery(event as sys::CUevent) }
    };
    let asks_elsewhere = move || {
        let other = std::thread::spawn(move || {
            ok!(cuCtxSetCurrent(context as sys::CUcontext));
            asks()
        });
        other.join().expect("it does not panic")
    };
    let forbidden = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    let allowed = CUresult::CUDA_SUCCESS;
    for (mode, here, there) in [
        (global, forbidden, forbidden),
        (local, forbidden, allowed),
        (relaxed, allowed, allowed),
    ] {
        for (elsewhere, expected) in [(false, here), (true, there)] {
            let mut graph = null_mut();
            ok!(cuStreamBeginCapture_v2(stream, mode));
            program.add(stream, 1);
            let asked = if elsewhere { asks_elsewhere() } else { asks() };
            assert_eq!(asked, expected, "{mode:?}, elsewhere: {elsewhere}");
            let ended = match expected {
                CUresult::CUDA_SUCCESS => expected,
                _ => CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
            };
            // SAFETY: a live handle and a place.
            let code = unsafe { sys::cuStreamEndCapture(stream, &raw mut graph) };
            assert_eq!(code, ended);
        }
    }
    // A thread may allow itself what a capture of its own mode forbids.
    let mut mode = relaxed;
    ok!(cuThreadExchangeStreamCaptureMode(&raw mut mode));
    assert_eq!(mode, global);
    ok!(cuStreamBeginCapture_v2(stream, global));
    assert_eq!(asks(), allowed);
    ok!(cuThreadExchangeStreamCaptureMode(&raw mut mode));
    assert_eq!(mode, relaxed);
    // Only the thread that began it ends it, unless it is relaxed.
    let captured = stream as usize;
    let other = std::thread::spawn(move || {
        ok!(cuCtxSetCurrent(context as sys::CUcontext));
        let mut graph = null_mut();
        answers!(
            CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
            cuStreamEndCapture(captured as sys::CUstream, &raw mut graph)
        );
    });
    other.join().expect("it does not panic");
    let mut graph = null_mut();
    ok!(cuStreamEndCapture(stream, &raw mut graph));
}

/// A graph in a graph, and so on, until the driver has enough.
fn nests() {
    let mut inner = null_mut();
    ok!(cuGraphCreate(&raw mut inner, 0));
    for depth in 1.. {
        let (mut outer, mut node) = (null_mut(), null_mut());
        ok!(cuGraphCreate(&raw mut outer, 0));
        // SAFETY: live handles and a place.
        let added =
            unsafe { sys::cuGraphAddChildGraphNode(&raw mut node, outer, null(), 0, inner) };
        if added != CUresult::CUDA_SUCCESS {
            assert_eq!(added, CUresult::CUDA_ERROR_NOT_SUPPORTED);
            println!("nested: {} levels", depth - 1);
            return;
        }
        inner = outer;
    }
}

fn captures(program: &Program) {
    let [mut one, mut other] = [null_mut(); 2];
    ok!(cuStreamCreate(&raw mut one, 0));
    ok!(cuStreamCreate(&raw mut other, 1));
    let [mut fork, mut join] = [null_mut(); 2];
    ok!(cuEventCreate(&raw mut fork, 2));
    ok!(cuEventCreate(&raw mut join, 2));
    let (mut graph, mut executable) = (null_mut(), null_mut());
    answers!(
        CUDA_ERROR_ILLEGAL_STATE,
        cuStreamEndCapture(one, &raw mut graph)
    );
    ok!(cuStreamBeginCapture_v2(one, MODE));
    ok!(cuMemsetD32Async(program.place, 1, 1, one));
    ok!(cuEventRecord(fork, one));
    ok!(cuStreamWaitEvent(other, fork, 0));
    program.add(other, 5);
    ok!(cuEventRecord(join, other));
    ok!(cuStreamWaitEvent(one, join, 0));
    program.add(one, 10);
    answers!(
        CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
        cuStreamEndCapture(other, &raw mut graph)
    );
    ok!(cuStreamEndCapture(one, &raw mut graph));
    assert_eq!(program.value(), 0, "nothing was done yet");
    let mut count = 0;
    ok!(cuGraphGetNodes(graph, null_mut(), &raw mut count));
    assert_eq!(count, 3);
    ok!(cuGraphInstantiateWithFlags(&raw mut executable, graph, 0));
    ok!(cuGraphDestroy(graph));
    for _ in 0..2 {
        ok!(cuGraphLaunch(executable, one));
    }
    ok!(cuStreamSynchronize(one));
    println!("captured: {}", program.value());

    // A call that waits ends a capture, and so does work on the legacy stream.
    ok!(cuStreamBeginCapture_v2(one, MODE));
    answers!(
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        cuStreamSynchronize(one)
    );
    answers!(
        CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
        cuStreamEndCapture(one, &raw mut graph)
    );
    ok!(cuStreamBeginCapture_v2(one, MODE));
    answers!(
        CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
        cuMemsetD32_v2(program.place, 0, 1)
    );
    answers!(
        CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
        cuStreamEndCapture(one, &raw mut graph)
    );
    // Work of a stream is left over that no event waited for.
    ok!(cuStreamBeginCapture_v2(one, MODE));
    ok!(cuEventRecord(fork, one));
    ok!(cuStreamWaitEvent(other, fork, 0));
    program.add(other, 1);
    answers!(
        CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
        cuStreamEndCapture(one, &raw mut graph)
    );
    program.add(other, 0);
    ok!(cuGraphExecDestroy(executable));
    answers!(CUDA_ERROR_INVALID_HANDLE, cuGraphLaunch(executable, one));
}

fn builds(program: &Program) {
    let mut graph = null_mut();
    ok!(cuGraphCreate(&raw mut graph, 0));
    let [mut last, mut first] = [null_mut(); 2];
    let numbers = [4_u32, 6, 0];
    let place: *const u64 = &raw const program.place;
    let mut params = numbers.each_ref().map(|n| {
        [
            place.cast_mut().cast::<c_void>(),
            std::ptr::from_ref(n).cast_mut().cast(),
        ]
    });
    let mut node = sys::CUDA_KERNEL_NODE_PARAMS_v2 {
        func: program.function,
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 1,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        kernelParams: params[0].as_mut_ptr(),
        extra: null_mut(),
        kern: null_mut(),
        ctx: null_mut(),
    };
    ok!(cuGraphAddKernelNode_v2(
        &raw mut last,
        graph,
        null(),
        0,
        &raw const node
    ));
    node.kernelParams = params[1].as_mut_ptr();
    ok!(cuGraphAddKernelNode_v2(
        &raw mut first,
        graph,
        null(),
        0,
        &raw const node
    ));
    let mut copied = 0_u32;
    let copy = sys::CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcHost: null(),
        srcDevice: program.place,
        srcArray: null_mut(),
        reserved0: null_mut(),
        srcPitch: 4,
        srcHeight: 1,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_HOST,
        dstHost: (&raw mut copied).cast(),
        dstDevice: 0,
        dstArray: null_mut(),
        reserved1: null_mut(),
        dstPitch: 4,
        dstHeight: 1,
        WidthInBytes: 4,
        Height: 1,
        Depth: 1,
    };
    let mut end = null_mut();
    let context = null_mut();
    let after = [last];
    ok!(cuGraphAddMemcpyNode(
        &raw mut end,
        graph,
        after.as_ptr(),
        1,
        &raw const copy,
        context,
    ));
    ok!(cuGraphAddDependencies(
        graph,
        &raw const first,
        &raw const last,
        1
    ));
    let mut kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
    ok!(cuGraphNodeGetType(end, &raw mut kind));
    assert_eq!(kind, CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY);
    let mut executable = null_mut();
    ok!(cuGraphInstantiateWithFlags(&raw mut executable, graph, 0));
    ok!(cuGraphLaunch(executable, null_mut()));
    assert_eq!(copied, program.value());
    // The node of 4 now adds 0, in the graph that is launched alone.
    node.kernelParams = params[2].as_mut_ptr();
    ok!(cuGraphExecKernelNodeSetParams_v2(
        executable,
        last,
        &raw const node
    ));
    ok!(cuMemsetD32_v2(program.place, 20, 1));
    ok!(cuGraphLaunch(executable, null_mut()));
    println!("built: {copied}");
    // A circle has no order.
    ok!(cuGraphAddDependencies(
        graph,
        &raw const end,
        &raw const first,
        1
    ));
    answers!(
        CUDA_ERROR_INVALID_VALUE,
        cuGraphInstantiateWithFlags(&raw mut executable, graph, 0)
    );
    node.func = null_mut();
    answers!(
        CUDA_ERROR_INVALID_HANDLE,
        cuGraphAddKernelNode_v2(&raw mut last, graph, null(), 0, &raw const node)
    );
    ok!(cuGraphDestroy(graph));
}
