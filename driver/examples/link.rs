//! A program that links two modules of PTX by the driver, as numba-cuda does.

use cudarc::driver::sys::{self, CUjit_option, CUjitInputType, CUresult};
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

const CALLER: &CStr = c"
.version 8.0
.target sm_80
.address_size 64
.extern .global .align 4 .u32 base;
.global .align 4 .u32 step = 3;
.extern .func (.param .b32 result) twice(.param .b32 x);
.visible .entry fill(.param .u64 out) {
    .reg .u64 %out;
    .reg .u32 %x, %base, %step;
    .param .b32 argument, answer;
    ld.param.u64 %out, [out];
    mov.u32 %x, %tid.x;
    st.param.b32 [argument], %x;
    call (answer), twice, (argument);
    ld.param.b32 %x, [answer];
    ld.global.u32 %base, [base];
    ld.global.u32 %step, [step];
    add.u32 %x, %x, %base;
    add.u32 %x, %x, %step;
    mov.u32 %base, %tid.x;
    mad.wide.u32 %out, %base, 4, %out;
    st.global.u32 [%out], %x;
    ret;
}
";

const CALLEE: &CStr = c"
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 base = 100;
.global .align 4 .u32 step = 1;
.visible .func (.param .b32 result) twice(.param .b32 x) {
    .reg .u32 %x, %step;
    ld.param.b32 %x, [x];
    ld.global.u32 %step, [step];
    shl.b32 %x, %x, %step;
    st.param.b32 [result], %x;
    ret;
}
";

/// Calls a function, and asserts that it succeeds.
macro_rules! ok {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: places are valid and handles live.
        let code = unsafe { sys::$function($($argument),*) };
        assert_eq!(code, CUresult::CUDA_SUCCESS, "{}", stringify!($function));
    };
}

/// Links modules; the error is what the driver's log says.
fn link(modules: &[&CStr]) -> Result<Vec<u8>, String> {
    let mut log = [0_u8; 256];
    let mut options = [
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
    let mut state = null_mut();
    ok!(cuLinkCreate_v2(
        2,
        options.as_mut_ptr(),
        values.as_mut_ptr(),
        &raw mut state
    ));
    for module in modules {
        let bytes = module.to_bytes_with_nul();
        ok!(cuLinkAddData_v2(
            state,
            CUjitInputType::CU_JIT_INPUT_PTX,
            bytes.as_ptr().cast_mut().cast(),
            bytes.len(),
            c"module".as_ptr(),
            0,
            null_mut(),
            null_mut(),
        ));
    }
    let (mut image, mut len) = (null_mut(), 0);
    // SAFETY: the places are valid, and the link is live.
    let code = unsafe { sys::cuLinkComplete(state, &raw mut image, &raw mut len) };
    let result = match code {
        CUresult::CUDA_SUCCESS => {
            // SAFETY: the driver's image, of so many bytes, while the link lives.
            Ok(unsafe { std::slice::from_raw_parts(image.cast::<u8>(), len) }.to_vec())
        }
        _ => {
            let written = values[1] as usize;
            Err(String::from_utf8_lossy(&log[..written]).into_owned())
        }
    };
    ok!(cuLinkDestroy(state));
    result
}

fn main() {
    ok!(cuInit(0));
    let mut context = null_mut();
    ok!(cuCtxCreate_v2(&raw mut context, 0, 0));
    let image = link(&[CALLER, CALLEE]).expect("the modules fit");
    let mut module = null_mut();
    ok!(cuModuleLoadData(&raw mut module, image.as_ptr().cast()));
    let mut function = null_mut();
    ok!(cuModuleGetFunction(
        &raw mut function,
        module,
        c"fill".as_ptr()
    ));
    let mut out = 0;
    ok!(cuMemAlloc_v2(&raw mut out, 64));
    let mut params = [(&raw mut out).cast::<c_void>()];
    let shape = [1, 1, 1, 16, 1, 1];
    let [x, y, z, block_x, block_y, block_z] = shape;
    ok!(cuLaunchKernel(
        function,
        x,
        y,
        z,
        block_x,
        block_y,
        block_z,
        0,
        null_mut(),
        params.as_mut_ptr(),
        null_mut(),
    ));
    let mut values = [0_u32; 16];
    ok!(cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), out, 64));
    assert!((0..16).all(|i| values[i as usize] == 2 * i + 103));
    println!("linked: {}", values[15]);
    println!(
        "twice: {}",
        link(&[CALLEE, CALLEE]).expect_err("all is there twice")
    );
}
