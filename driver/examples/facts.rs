//! Asks the driver for what NVIDIA's manual states, in the order of a program's life. A wrong
//! answer ends it with a panic.

use cudarc::driver::sys::{self, CUresult};
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::null_mut;

const PTX: &CStr = c"
.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 counter = 5;
.visible .entry count(.param .u64 out, .param .u32 step) .maxntid 256, 1, 1 {
    .reg .u64 %out, %counter;
    .reg .u32 %step, %value;
    .shared .align 4 .b8 tile[256];
    ld.param.u64 %out, [out];
    ld.param.u32 %step, [step];
    mov.u64 %counter, counter;
    ld.global.u32 %value, [%counter];
    add.u32 %value, %value, %step;
    st.global.u32 [%out], %value;
    ret;
}
.visible .entry rank(.param .u64 out) {
    .reg .u64 %out;
    .reg .u32 %block, %count;
    ld.param.u64 %out, [out];
    mov.u32 %block, %ctaid.x;
    mov.u32 %count, %cluster_nctaid.x;
    mad.wide.u32 %out, %block, 4, %out;
    st.global.u32 [%out], %count;
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

fn main() {
    let context = contexts();
    memory();
    let module = modules();
    let function = attributes(module);
    launches(module, function);
    streams_and_events();
    handles_that_are_none();
    faults(function);
    ok!(cuCtxDestroy_v2(context));
}

/// Before and after `cuInit`, and the stack of contexts.
fn contexts() -> sys::CUcontext {
    let mut count = 0;
    answers!(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&raw mut count));
    answers!(CUDA_ERROR_INVALID_VALUE, cuInit(1));
    ok!(cuInit(0));
    ok!(cuDeviceGetCount(&raw mut count));
    assert_eq!(count, 1);
    let mut device = 0;
    answers!(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&raw mut device, 1));
    ok!(cuDeviceGet(&raw mut device, 0));
    answers!(CUDA_ERROR_INVALID_VALUE, cuDeviceGet(null_mut(), 0));
    let mut current = 8 as sys::CUcontext;
    ok!(cuCtxGetCurrent(&raw mut current));
    assert!(current.is_null());
    let mut address = 0;
    answers!(
        CUDA_ERROR_INVALID_CONTEXT,
        cuMemAlloc_v2(&raw mut address, 8)
    );
    answers!(
        CUDA_ERROR_INVALID_CONTEXT,
        cuCtxPopCurrent_v2(&raw mut current)
    );
    let mut primary = null_mut();
    ok!(cuDevicePrimaryCtxRetain(&raw mut primary, device));
    ok!(cuCtxGetCurrent(&raw mut current));
    assert!(current.is_null(), "retaining does not make current");
    ok!(cuCtxSetCurrent(primary));
    let mut context = null_mut();
    ok!(cuCtxCreate_v2(&raw mut context, 0, device));
    ok!(cuCtxGetCurrent(&raw mut current));
    assert_eq!(current, context, "creating makes current");
    let (mut flags, mut is_active) = (1, 0);
    ok!(cuDevicePrimaryCtxGetState(
        device,
        &raw mut flags,
        &raw mut is_active
    ));
    assert_eq!((flags, is_active), (0, 1));
    ok!(cuDevicePrimaryCtxRelease_v2(device));
    ok!(cuDevicePrimaryCtxGetState(
        device,
        &raw mut flags,
        &raw mut is_active
    ));
    assert_eq!(is_active, 0);
    let mut again = null_mut();
    ok!(cuDevicePrimaryCtxRetain(&raw mut again, device));
    assert_eq!(again, primary, "one handle for the life of the process");
    ok!(cuDevicePrimaryCtxRelease_v2(device));
    context
}

/// Memory of the device, of the host, and managed memory, and copies between them.
fn memory() {
    let mut address = 0;
    answers!(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(&raw mut address, 0));
    answers!(
        CUDA_ERROR_OUT_OF_MEMORY,
        cuMemAlloc_v2(&raw mut address, 1 << 40)
    );
    ok!(cuMemAlloc_v2(&raw mut address, 64));
    answers!(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(address + 4));
    let (mut base, mut bytes) = (0, 0);
    ok!(cuMemGetAddressRange_v2(
        &raw mut base,
        &raw mut bytes,
        address + 63
    ));
    assert_eq!((base, bytes), (address, 64));
    let (mut free, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&raw mut free, &raw mut total));
    assert_eq!(total - free, 64);
    ok!(cuMemsetD2D32_v2(address, 16, 7, 2, 4));
    let mut words = [1_u32; 16];
    ok!(cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), address, 64));
    // What was never written reads as zero.
    assert_eq!(words, [7, 7, 0, 0, 7, 7, 0, 0, 7, 7, 0, 0, 7, 7, 0, 0]);
    let past_the_end = (words.as_mut_ptr().cast(), address + 4, 64);
    answers!(
        CUDA_ERROR_INVALID_VALUE,
        cuMemcpyDtoH_v2(past_the_end.0, past_the_end.1, past_the_end.2)
    );
    answers!(
        CUDA_ERROR_INVALID_VALUE,
        cuMemcpyDtoH_v2(null_mut(), address, 4)
    );
    let mut kind = 0_u32;
    let memory_type = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    ok!(cuPointerGetAttribute(
        (&raw mut kind).cast(),
        memory_type,
        address
    ));
    assert_eq!(kind, 2);
    let host = words.as_ptr() as sys::CUdeviceptr;
    answers!(
        CUDA_ERROR_INVALID_VALUE,
        cuPointerGetAttribute((&raw mut kind).cast(), memory_type, host)
    );
    ok!(cuMemFree_v2(address));
    answers!(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(address));
    ok!(cuMemFree_v2(0));
}

/// PTX that loads, and PTX that does not.
fn modules() -> sys::CUmodule {
    let mut module = null_mut();
    let mut log = [0_u8; 256];
    let mut options = [
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), log.len() as *mut c_void];
    answers!(
        CUDA_ERROR_INVALID_PTX,
        cuModuleLoadDataEx(
            &raw mut module,
            c".version 8.0\n.target sm_90\nnonsense".as_ptr().cast(),
            2,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    );
    let said = CStr::from_bytes_until_nul(&log).expect("it ends");
    assert_eq!(said.to_bytes().len(), values[1] as usize);
    assert!(said.to_bytes().starts_with(b"3:"), "{said:?}");
    let elf = c"\x7fELF\x02";
    answers!(
        CUDA_ERROR_NO_BINARY_FOR_GPU,
        cuModuleLoadData(&raw mut module, elf.as_ptr().cast())
    );
    ok!(cuModuleLoadData(&raw mut module, PTX.as_ptr().cast()));
    let (mut counter, mut bytes) = (0, 0);
    ok!(cuModuleGetGlobal_v2(
        &raw mut counter,
        &raw mut bytes,
        module,
        c"counter".as_ptr()
    ));
    assert_eq!(bytes, 4);
    ok!(cuMemsetD32_v2(counter, 10, 1));
    let mut function = null_mut();
    answers!(
        CUDA_ERROR_NOT_FOUND,
        cuModuleGetFunction(&raw mut function, module, c"missing".as_ptr())
    );
    module
}

/// Attributes of a kernel, and its occupancy.
fn attributes(module: sys::CUmodule) -> sys::CUfunction {
    use sys::CUfunction_attribute as A;
    let mut function = null_mut();
    ok!(cuModuleGetFunction(
        &raw mut function,
        module,
        c"count".as_ptr()
    ));
    let get = |attribute| {
        let mut value = -1;
        ok!(cuFuncGetAttribute(&raw mut value, attribute, function));
        value
    };
    assert_eq!(get(A::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 256);
    assert_eq!(get(A::CU_FUNC_ATTRIBUTE_PTX_VERSION), 90);
    assert!(get(A::CU_FUNC_ATTRIBUTE_NUM_REGS) > 0);
    let dynamic = A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    answers!(
        CUDA_ERROR_INVALID_VALUE,
        cuFuncSetAttribute(function, dynamic, 1 << 20)
    );
    ok!(cuFuncSetAttribute(function, dynamic, 100 << 10));
    assert_eq!(get(dynamic), 100 << 10);
    let mut blocks = 0;
    ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
        &raw mut blocks,
        function,
        256,
        100 << 10
    ));
    assert_eq!(blocks, 2);
    function
}

/// Launches with pointers, with a packed buffer, on mapped and managed memory, and in clusters.
fn launches(module: sys::CUmodule, function: sys::CUfunction) {
    let mut managed = 0;
    ok!(cuMemAllocManaged(&raw mut managed, 16, 1));
    let mut step = 32_u32;
    let mut params: [*mut c_void; 2] = [(&raw mut managed).cast(), (&raw mut step).cast()];
    let count = |threads, shared, stream, params: *mut *mut c_void, extra: *mut *mut c_void| {
        // SAFETY: parameters as the kernel takes them.
        unsafe {
            sys::cuLaunchKernel(
                function, 1, 1, 1, threads, 1, 1, shared, stream, params, extra,
            )
        }
    };
    let pointers = params.as_mut_ptr();
    assert_eq!(
        count(1, 0, null_mut(), pointers, null_mut()),
        CUresult::CUDA_SUCCESS
    );
    // SAFETY: managed memory of 16 bytes, which the host reads at the same address.
    assert_eq!(unsafe { (managed as *const u32).read() }, 42);
    let refused = CUresult::CUDA_ERROR_INVALID_VALUE;
    assert_eq!(count(512, 0, null_mut(), pointers, null_mut()), refused);
    assert_eq!(count(0, 0, null_mut(), pointers, null_mut()), refused);
    assert_eq!(
        count(1, 200 << 10, null_mut(), pointers, null_mut()),
        refused
    );
    assert_eq!(count(1, 0, null_mut(), null_mut(), null_mut()), refused);
    let no_stream = count(1, 0, 0x1234 as sys::CUstream, pointers, null_mut());
    assert_eq!(no_stream, CUresult::CUDA_ERROR_INVALID_HANDLE);

    let mut host: *mut c_void = null_mut();
    ok!(cuMemHostAlloc(&raw mut host, 64, 2));
    let mut mapped = 0;
    ok!(cuMemHostGetDevicePointer_v2(&raw mut mapped, host, 0));
    let mut packed = [0_u8; 12];
    packed[..8].copy_from_slice(&mapped.to_le_bytes());
    packed[8..].copy_from_slice(&1_u32.to_le_bytes());
    let mut len = packed.len();
    let mut extra: [*mut c_void; 5] = [
        std::ptr::dangling_mut::<c_void>(),
        packed.as_mut_ptr().cast(),
        2 as *mut c_void,
        (&raw mut len).cast(),
        null_mut(),
    ];
    let packed = count(1, 0, null_mut(), null_mut(), extra.as_mut_ptr());
    assert_eq!(packed, CUresult::CUDA_SUCCESS);
    // SAFETY: page-locked memory of 64 bytes.
    assert_eq!(unsafe { host.cast::<u32>().read() }, 11);

    let mut rank = null_mut();
    ok!(cuModuleGetFunction(&raw mut rank, module, c"rank".as_ptr()));
    let in_clusters = |x| {
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { pad: [0; 64] },
        };
        attribute.value.clusterDim.x = x;
        attribute.value.clusterDim.y = 1;
        attribute.value.clusterDim.z = 1;
        let config = sys::CUlaunchConfig {
            gridDimX: 4,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 1,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: null_mut(),
            attrs: &raw mut attribute,
            numAttrs: 1,
        };
        let mut params: [*mut c_void; 1] = [(&raw const mapped).cast_mut().cast()];
        // SAFETY: one pointer to four words is what the kernel takes.
        unsafe { sys::cuLaunchKernelEx(&config, rank, params.as_mut_ptr(), null_mut()) }
    };
    assert_eq!(in_clusters(2), CUresult::CUDA_SUCCESS);
    // SAFETY: page-locked memory of 64 bytes.
    assert_eq!(unsafe { host.cast::<[u32; 4]>().read() }, [2; 4]);
    assert_eq!(in_clusters(3), CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE);
    ok!(cuMemFreeHost(host));
    ok!(cuMemFree_v2(managed));

    let mut words = vec![0_u32; 3000];
    let own = words.as_mut_ptr().wrapping_add(5).cast::<c_void>();
    ok!(cuMemHostRegister_v2(own, 8, 0));
    answers!(
        CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        cuMemHostRegister_v2(own, 8, 0)
    );
    params[0] = (&raw const own).cast_mut().cast();
    let registered = count(1, 0, null_mut(), params.as_mut_ptr(), null_mut());
    assert_eq!(registered, CUresult::CUDA_SUCCESS);
    ok!(cuMemHostUnregister(own));
    answers!(
        CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
        cuMemHostUnregister(own)
    );
    assert_eq!(words[4..7], [0, 42, 0]);
}

fn streams_and_events() {
    let mut stream = null_mut();
    ok!(cuStreamCreate(&raw mut stream, 1));
    let (mut start, mut end) = (null_mut(), null_mut());
    ok!(cuEventCreate(&raw mut start, 0));
    ok!(cuEventCreate(&raw mut end, 0));
    let mut ms = -1.0;
    answers!(
        CUDA_ERROR_INVALID_HANDLE,
        cuEventElapsedTime(&raw mut ms, start, end)
    );
    ok!(cuEventRecord(start, stream));
    ok!(cuStreamWaitEvent(stream, start, 0));
    ok!(cuEventRecord(end, stream));
    ok!(cuEventElapsedTime(&raw mut ms, start, end));
    assert!(ms >= 0.0);
    ok!(cuStreamQuery(stream));
    ok!(cuStreamDestroy_v2(stream));
    answers!(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(stream));
    ok!(cuEventDestroy_v2(start));
    answers!(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(start));
}

/// Wrong handles are errors, and so is what the driver lacks.
fn handles_that_are_none() {
    let mut function = null_mut();
    for wrong in [null_mut(), 8 as sys::CUmodule, usize::MAX as sys::CUmodule] {
        answers!(
            CUDA_ERROR_INVALID_HANDLE,
            cuModuleGetFunction(&raw mut function, wrong, c"count".as_ptr())
        );
        answers!(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(wrong));
    }
    answers!(
        CUDA_ERROR_INVALID_CONTEXT,
        cuCtxSetCurrent(8 as sys::CUcontext)
    );
    let mut handle = sys::CUipcMemHandle_st { reserved: [0; 64] };
    for _ in 0..2 {
        answers!(
            CUDA_ERROR_NOT_SUPPORTED,
            cuIpcGetMemHandle(&raw mut handle, 0)
        );
    }
    let mut text: *const c_char = std::ptr::null();
    ok!(cuGetErrorName(CUresult::CUDA_ERROR_ASSERT, &raw mut text));
    // SAFETY: a text of the driver.
    let name = unsafe { CStr::from_ptr(text) };
    assert_eq!(name, c"CUDA_ERROR_ASSERT");
    let name = CString::new("cuMemAlloc").expect("no zero in it");
    let (mut place, mut status) = (
        null_mut(),
        sys::CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS,
    );
    ok!(cuGetProcAddress_v2(
        name.as_ptr(),
        &raw mut place,
        12_000,
        0,
        &raw mut status
    ));
    assert!(!place.is_null());
}

/// A fault stays until the context goes.
fn faults(function: sys::CUfunction) {
    let (mut nowhere, mut step) = (0x1000_u64, 1_u32);
    let mut params: [*mut c_void; 2] = [(&raw mut nowhere).cast(), (&raw mut step).cast()];
    ok!(cuLaunchKernel(
        function,
        1,
        1,
        1,
        1,
        1,
        1,
        0,
        null_mut(),
        params.as_mut_ptr(),
        null_mut()
    ));
    answers!(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    let mut address = 0;
    answers!(
        CUDA_ERROR_ILLEGAL_ADDRESS,
        cuMemAlloc_v2(&raw mut address, 8)
    );
    answers!(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamQuery(null_mut()));
}
