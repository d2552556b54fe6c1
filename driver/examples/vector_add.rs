//! A program that knows nothing of the emulator: cudarc loads PTX, launches a kernel, and copies
//! its result back.

use cudarc::driver::{CudaContext, DevicePtr, DriverError, result, sys};
use std::ffi::{CString, c_void};

const PTX: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {
    .reg .pred %outside;
    .reg .u32 %i, %block, %size, %n;
    .reg .u64 %a, %b, %c;
    .reg .f32 %x, %y;
    ld.param.u64 %a, [a];
    ld.param.u64 %b, [b];
    ld.param.u64 %c, [c];
    ld.param.u32 %n, [n];
    mov.u32 %i, %tid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mad.lo.u32 %i, %block, %size, %i;
    setp.ge.u32 %outside, %i, %n;
    @%outside bra end;
    mad.wide.u32 %a, %i, 4, %a;
    mad.wide.u32 %b, %i, 4, %b;
    mad.wide.u32 %c, %i, 4, %c;
    ld.global.f32 %x, [%a];
    ld.global.f32 %y, [%b];
    add.f32 %x, %x, %y;
    st.global.f32 [%c], %x;
end:
    ret;
}
";

fn main() -> Result<(), DriverError> {
    let n = 1000_u32;
    let a: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..n).map(|i| 0.5 * i as f32).collect();
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let (a, b) = (stream.clone_htod(&a)?, stream.clone_htod(&b)?);
    let c = stream.alloc_zeros::<f32>(n as usize)?;
    let text = CString::new(PTX).expect("no zero in it");
    // SAFETY: the text ends with a zero byte.
    let module = unsafe { result::module::load_data(text.as_ptr().cast()) }?;
    let name = CString::new("add").expect("no zero in it");
    // SAFETY: the module was just loaded.
    let function = unsafe { result::module::get_function(module, name) }?;
    {
        let pointers = [&a, &b, &c].map(|slice| slice.device_ptr(&stream).0);
        let [a, b, c] = [0, 1, 2].map(|at| (&raw const pointers[at]).cast_mut().cast::<c_void>());
        let mut params = [a, b, c, (&raw const n).cast_mut().cast()];
        // SAFETY: three arrays of n numbers and n are what the kernel takes.
        unsafe {
            result::launch_kernel(
                function,
                (n.div_ceil(128), 1, 1),
                (128, 1, 1),
                0,
                stream.cu_stream(),
                &mut params,
            )
        }?;
    }
    let c: Vec<f32> = stream.clone_dtoh(&c)?;
    assert!((0..n).all(|i| c[i as usize] == 1.5 * i as f32));
    // SAFETY: no kernel of it runs.
    unsafe { result::module::unload(module) }?;
    // SAFETY: a place for the version.
    let version = unsafe {
        let mut version = 0;
        sys::cuDriverGetVersion(&raw mut version).result()?;
        version
    };
    println!("added {n} numbers with driver {version}");
    Ok(())
}
