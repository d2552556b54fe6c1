//! Forgets to wait: once for each argument that names a mistake. Without arguments it waits always.
//! The results are right in any case.

use cudarc::driver::sys::{self, CUdeviceptr, CUevent, CUfunction, CUresult, CUstream};
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

const PTX: &CStr = c"
.version 8.0
.target sm_90
.address_size 64
.visible .entry double(.param .u64 data) {
    .reg .u64 %data;
    .reg .u32 %thread, %value;
    ld.param.u64 %data, [data];
    mov.u32 %thread, %tid.x;
    mad.wide.u32 %data, %thread, 4, %data;
    ld.global.u32 %value, [%data];
    add.u32 %value, %value, %value;
    st.global.u32 [%data], %value;
    ret;
}
.visible .entry count(.param .u64 data) {
    .reg .u64 %data;
    ld.param.u64 %data, [data];
    red.global.add.u32 [%data], 1;
    ret;
}
.visible .entry signal(.param .u64 data) {
    .reg .u64 %data;
    ld.param.u64 %data, [data];
    st.global.u32 [%data], 5;
    st.release.sys.global.u32 [%data + 4], 1;
    ret;
}
";

const NUMBERS: usize = 1024;
const BYTES: usize = 4 * NUMBERS;

/// Calls a function that succeeds.
macro_rules! ok {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: places are valid and handles live.
        let code = unsafe { sys::$function($($argument),*) };
        assert_eq!(code, CUresult::CUDA_SUCCESS, "{}", stringify!($function));
    };
}

/// The mistakes that the program makes.
struct Mistakes(Vec<String>);

impl Mistakes {
    fn has(&self, mistake: &str) -> bool {
        self.0.iter().any(|named| named == mistake)
    }

    /// Waits for a stream, unless this is forgotten.
    fn wait(&self, mistake: &str, stream: CUstream) {
        if !self.has(mistake) {
            ok!(cuStreamSynchronize(stream));
        }
    }
}

struct Program {
    double: CUfunction,
    count: CUfunction,
    signal: CUfunction,
    /// Neither waits for the other, nor for the legacy stream.
    a: CUstream,
    b: CUstream,
    /// Waits for the legacy stream.
    blocking: CUstream,
    event: CUevent,
    data: CUdeviceptr,
}

fn main() {
    let mistakes = Mistakes(std::env::args().skip(1).collect());
    let program = Program::new();
    program.kernels(&mistakes);
    program.copies(&mistakes);
    program.legacy(&mistakes);
    program.memory(&mistakes);
    program.graph(&mistakes);
    program.host(&mistakes);
    program.managed(&mistakes);
    program.times();
    ok!(cuCtxSynchronize());
    println!("done");
}

impl Program {
    fn new() -> Self {
        let (mut context, mut module) = (null_mut(), null_mut());
        ok!(cuInit(0));
        ok!(cuDevicePrimaryCtxRetain(&mut context, 0));
        ok!(cuCtxSetCurrent(context));
        ok!(cuModuleLoadData(&mut module, PTX.as_ptr().cast()));
        let function = |name: &CStr| {
            let mut function = null_mut();
            ok!(cuModuleGetFunction(&mut function, module, name.as_ptr()));
            function
        };
        let stream = |flags| {
            let mut stream = null_mut();
            ok!(cuStreamCreate(&mut stream, flags));
            stream
        };
        let (mut event, mut data) = (null_mut(), 0);
        ok!(cuEventCreate(&mut event, 0));
        ok!(cuMemAlloc_v2(&mut data, BYTES));
        ok!(cuMemsetD8_v2(data, 0, BYTES));
        ok!(cuCtxSynchronize());
        Self {
            double: function(c"double"),
            count: function(c"count"),
            signal: function(c"signal"),
            a: stream(1),
            b: stream(1),
            blocking: stream(0),
            event,
            data,
        }
    }

    fn launch(&self, function: CUfunction, threads: usize, data: CUdeviceptr, stream: CUstream) {
        let mut data = data;
        let mut params = [(&raw mut data).cast::<c_void>()];
        let (threads, params) = (threads as u32, params.as_mut_ptr());
        ok!(cuLaunchKernel(
            function,
            1,
            1,
            1,
            threads,
            1,
            1,
            0,
            stream,
            params,
            null_mut()
        ));
    }

    /// Stream `b` goes on after `a`, unless this is forgotten.
    fn order(&self, mistakes: &Mistakes, mistake: &str) {
        ok!(cuEventRecord(self.event, self.a));
        if !mistakes.has(mistake) {
            ok!(cuStreamWaitEvent(self.b, self.event, 0));
        }
    }

    fn kernels(&self, mistakes: &Mistakes) {
        self.launch(self.double, NUMBERS, self.data, self.a);
        self.order(mistakes, "kernels");
        self.launch(self.double, NUMBERS, self.data, self.b);
        ok!(cuCtxSynchronize());
        // Other bytes, and atomics on the same ones, need no order.
        self.launch(self.double, NUMBERS / 2, self.data, self.a);
        let half = self.data + BYTES as u64 / 2;
        self.launch(self.double, NUMBERS / 2, half, self.b);
        ok!(cuCtxSynchronize());
        self.launch(self.count, 32, self.data, self.a);
        self.launch(self.count, 32, self.data, self.b);
        ok!(cuCtxSynchronize());
    }

    fn copies(&self, mistakes: &Mistakes) {
        let numbers = [1_u32; NUMBERS];
        let from = numbers.as_ptr().cast();
        ok!(cuMemcpyHtoDAsync_v2(self.data, from, BYTES, self.a));
        self.order(mistakes, "copies");
        self.launch(self.double, NUMBERS, self.data, self.b);
        let mut result = [0_u32; NUMBERS];
        mistakes.wait("result", self.b);
        // The legacy stream does not wait for `b`.
        ok!(cuMemcpyDtoH_v2(
            result.as_mut_ptr().cast(),
            self.data,
            BYTES
        ));
        assert_eq!(result, [2; NUMBERS]);
        ok!(cuCtxSynchronize());
    }

    /// The legacy stream and blocking streams wait for each other.
    fn legacy(&self, mistakes: &Mistakes) {
        let stream = if mistakes.has("legacy") {
            self.a
        } else {
            self.blocking
        };
        self.launch(self.double, NUMBERS, self.data, stream);
        self.launch(self.double, NUMBERS, self.data, null_mut());
        self.launch(self.double, NUMBERS, self.data, self.blocking);
        ok!(cuCtxSynchronize());
    }

    fn memory(&self, mistakes: &Mistakes) {
        let mut data = 0;
        ok!(cuMemAllocAsync(&mut data, BYTES, self.a));
        self.order(mistakes, "allocation");
        ok!(cuMemsetD8Async(data, 0, BYTES, self.b));
        self.launch(self.double, NUMBERS, data, self.b);
        mistakes.wait("free", self.b);
        ok!(cuMemFreeAsync(data, self.a));
        ok!(cuCtxSynchronize());
    }

    /// Two nodes that use the same memory, with an edge between them.
    fn graph(&self, mistakes: &Mistakes) {
        let (mut graph, mut executable) = (null_mut(), null_mut());
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        ok!(cuStreamBeginCapture_v2(self.a, mode));
        ok!(cuEventRecord(self.event, self.a));
        ok!(cuStreamWaitEvent(self.b, self.event, 0));
        self.launch(self.double, NUMBERS, self.data, self.a);
        if !mistakes.has("graph") {
            ok!(cuEventRecord(self.event, self.a));
            ok!(cuStreamWaitEvent(self.b, self.event, 0));
        }
        self.launch(self.double, NUMBERS, self.data, self.b);
        ok!(cuEventRecord(self.event, self.b));
        ok!(cuStreamWaitEvent(self.a, self.event, 0));
        ok!(cuStreamEndCapture(self.a, &mut graph));
        ok!(cuGraphInstantiateWithFlags(&mut executable, graph, 0));
        ok!(cuGraphLaunch(executable, self.a));
        ok!(cuGraphLaunch(executable, self.a));
        ok!(cuCtxSynchronize());
    }

    /// Page-locked memory of the host.
    fn host(&self, mistakes: &Mistakes) {
        let mut pinned = null_mut();
        ok!(cuMemAllocHost_v2(&mut pinned, BYTES));
        let numbers = pinned.cast::<u32>();
        // SAFETY: live memory of so many numbers; whether the host may use it now, is the test.
        let set = |value| unsafe { numbers.write_volatile(value) };
        // SAFETY: as above.
        let get = || unsafe { numbers.read_volatile() };
        set(7);
        ok!(cuMemcpyHtoDAsync_v2(self.data, pinned, BYTES, self.a));
        // A read is allowed.
        assert_eq!(get(), 7);
        mistakes.wait("reuse", self.a);
        set(8);
        ok!(cuStreamSynchronize(self.a));
        ok!(cuMemcpyDtoHAsync_v2(pinned, self.data, BYTES, self.a));
        mistakes.wait("download", self.a);
        assert_eq!(get(), 7);
        ok!(cuCtxSynchronize());
        // A kernel that tells the host that it has come so far.
        self.launch(self.signal, 1, pinned as u64, self.a);
        assert_eq!(get(), 5);
        ok!(cuMemFreeHost(pinned));
    }

    /// By the times of events, streams go on side by side, and one after another where one waits.
    fn times(&self) {
        let event = || {
            let mut event = null_mut();
            ok!(cuEventCreate(&mut event, 0));
            event
        };
        let [start, end, beside, after] = [event(), event(), event(), event()];
        let milliseconds = |from, to| {
            let mut milliseconds = 0.0;
            ok!(cuEventElapsedTime(&mut milliseconds, from, to));
            milliseconds
        };
        ok!(cuEventRecord(start, self.a));
        for _ in 0..100 {
            self.launch(self.double, NUMBERS, self.data, self.a);
        }
        ok!(cuEventRecord(end, self.a));
        ok!(cuEventRecord(beside, self.b));
        ok!(cuStreamWaitEvent(self.b, end, 0));
        ok!(cuEventRecord(after, self.b));
        ok!(cuCtxSynchronize());
        assert!(milliseconds(start, end) > 0.0);
        assert!(milliseconds(beside, end) > 0.0);
        assert!(milliseconds(end, after) > 0.0);
        assert!(milliseconds(end, start) < 0.0);
    }

    fn managed(&self, mistakes: &Mistakes) {
        let mut managed = 0;
        ok!(cuMemAllocManaged(&mut managed, 8, 1));
        let numbers = managed as *mut u32;
        // SAFETY: live memory of two numbers; whether the host may use it now, is the test.
        let get = || unsafe { numbers.add(1).read_volatile() };
        // SAFETY: no work uses it.
        unsafe { numbers.cast::<[u32; 2]>().write([1, 2]) };
        self.launch(self.double, 2, managed, self.a);
        ok!(cuEventRecord(self.event, self.a));
        if !mistakes.has("managed") {
            ok!(cuEventSynchronize(self.event));
        }
        assert_eq!(get(), 4);
        ok!(cuMemFree_v2(managed));
    }
}
