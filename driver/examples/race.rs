//! A program with a data race: all threads write to one word. It does not look at errors.

use cudarc::driver::{CudaContext, DevicePtr, DriverError, result};
use std::ffi::CString;

const PTX: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry race(.param .u64 out) {
    .reg .u32 %thread;
    .reg .u64 %out;
    ld.param.u64 %out, [out];
    mov.u32 %thread, %tid.x;
    st.global.u32 [%out], %thread;
    ret;
}
";

fn main() -> Result<(), DriverError> {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let out = stream.alloc_zeros::<u32>(1)?;
    let text = CString::new(PTX).expect("no zero in it");
    // SAFETY: the text ends with a zero byte.
    let module = unsafe { result::module::load_data(text.as_ptr().cast()) }?;
    let name = CString::new("race").expect("no zero in it");
    // SAFETY: the module was just loaded.
    let function = unsafe { result::module::get_function(module, name) }?;
    let (address, _use) = out.device_ptr(&stream);
    let mut params = [(&raw const address).cast_mut().cast()];
    // SAFETY: a pointer to one number is what the kernel takes.
    let launched = unsafe {
        result::launch_kernel(
            function,
            (1, 1, 1),
            (64, 1, 1),
            0,
            stream.cu_stream(),
            &mut params,
        )
    };
    println!("launched: {launched:?}");
    println!("waited: {:?}", stream.synchronize());
    Ok(())
}
