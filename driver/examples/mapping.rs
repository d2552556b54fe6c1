//! A program that maps memory itself, launches in the way of CUDA 3, and changes a node of a graph.

use cudarc::driver::sys::{self, CUresult};
use std::ffi::{CStr, c_void};
use std::mem::zeroed;
use std::ptr::null_mut;

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

/// Memory comes in units of this size.
const UNIT: usize = 2 << 20;

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

fn value(place: u64) -> u32 {
    let mut value = 0_u32;
    ok!(cuMemcpyDtoH_v2((&raw mut value).cast(), place, 4));
    value
}

fn main() {
    ok!(cuInit(0));
    // SAFETY: all bytes zero is a value of each of these structures.
    let (mut params, mut properties, mut access): (
        sys::CUctxCreateParams,
        sys::CUmemAllocationProp,
        sys::CUmemAccessDesc,
    ) = unsafe { (zeroed(), zeroed(), zeroed()) };
    let (mut context, mut module, mut add) = (null_mut(), null_mut(), null_mut());
    ok!(cuCtxCreate_v4(&raw mut context, &raw mut params, 0, 0));
    ok!(cuModuleLoadData(&raw mut module, PTX.as_ptr().cast()));
    ok!(cuModuleGetFunction(&raw mut add, module, c"add".as_ptr()));

    // Two pieces of memory side by side.
    properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    access.location = properties.location;
    access.flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    let mut memory = [0; 2];
    let mut place = 0;
    ok!(cuMemAddressReserve(&raw mut place, 3 * UNIT, 0, 0, 0));
    for (at, handle) in memory.iter_mut().enumerate() {
        ok!(cuMemCreate(handle, UNIT, &raw const properties, 0));
        ok!(cuMemMap(place + (at * UNIT) as u64, UNIT, 0, *handle, 0));
    }
    answers!(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(place, 5, 1));
    ok!(cuMemSetAccess(place, 2 * UNIT, &raw const access, 1));
    ok!(cuMemsetD32_v2(place, 5, UNIT / 2));
    answers!(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(place));

    // What memory holds goes with it to other addresses.
    let last = place + UNIT as u64;
    ok!(cuMemsetD32_v2(last, 7, 1));
    ok!(cuMemUnmap(place, 2 * UNIT));
    answers!(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(place, 5, 1));
    ok!(cuMemMap(place, UNIT, 0, memory[1], 0));
    ok!(cuMemSetAccess(place, UNIT, &raw const access, 1));
    println!("mapped: {}", value(place));

    ok!(cuFuncSetBlockShape(add, 1, 1, 1));
    let mut to = place;
    ok!(cuParamSetv(add, 0, (&raw mut to).cast(), 8));
    ok!(cuParamSeti(add, 8, 10));
    ok!(cuParamSetSize(add, 12));
    ok!(cuLaunchGrid(add, 1, 1));
    println!("launched: {}", value(place));

    let (mut graph, mut node, mut executable) = (null_mut(), null_mut(), null_mut());
    let mut n = [100_u32, 1000];
    let mut each: [*mut c_void; 2] = [(&raw mut to).cast(), (&raw mut n[0]).cast()];
    // SAFETY: as above.
    let mut kernel: sys::CUDA_KERNEL_NODE_PARAMS = unsafe { zeroed() };
    kernel.func = add;
    (kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ) = (1, 1, 1);
    (kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ) = (1, 1, 1);
    kernel.kernelParams = each.as_mut_ptr();
    ok!(cuGraphCreate(&raw mut graph, 0));
    let (no_nodes, kernel_of) = (null_mut(), &raw mut kernel);
    ok!(cuGraphAddKernelNode_v2(
        &raw mut node,
        graph,
        no_nodes,
        0,
        kernel_of
    ));
    ok!(cuGraphKernelNodeGetParams_v2(node, kernel_of));
    // SAFETY: the driver's list of pointers to the parameters, of which the second has four bytes.
    let known = unsafe { (*kernel.kernelParams.add(1)).cast::<u32>().read_unaligned() };
    assert_eq!((kernel.func, known), (add, 100));
    each[1] = (&raw mut n[1]).cast();
    kernel.kernelParams = each.as_mut_ptr();
    ok!(cuGraphKernelNodeSetParams_v2(node, &raw mut kernel));
    ok!(cuGraphInstantiateWithFlags(&raw mut executable, graph, 0));
    ok!(cuGraphLaunch(executable, null_mut()));
    ok!(cuCtxSynchronize());
    println!("changed: {}", value(place));

    ok!(cuMemUnmap(place, UNIT));
    for handle in memory {
        ok!(cuMemRelease(handle));
    }
    answers!(CUDA_ERROR_INVALID_VALUE, cuMemRelease(memory[0]));
    ok!(cuMemAddressFree(place, 3 * UNIT));
}
