//! The functions that come before the driver's.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{
    Hook, Launch, before, before_shape, loaded, named, owned, ptx_of, ptx_of_file, replaced, seen,
};
use crate::c::{Data, Handle, In, InOut, LaunchShape, Out, Text};
use crate::code::Code;

/// States functions that come before the driver's, as `fn symbol: name (arguments) |real| body`.
/// `real()` calls the driver's with the same arguments.
macro_rules! hooks {
    ($(fn $symbol:ident: $name:ident $arguments:tt |$real:ident| $body:block)*) => {
        $(hooks!(@one $symbol $arguments $real $body);)*

        pub(super) const HOOKS: &[Hook] = &[$(Hook {
            symbol: stringify!($symbol),
            name: stringify!($name),
            address: $symbol::hook as *const (),
            real: &$symbol::REAL,
        }),*];
    };
    (@one $symbol:ident ($($argument:ident: $type:ty),* $(,)?) $real:ident $body:block) => {
        #[allow(non_snake_case, reason = "the name is the API's")]
        mod $symbol {
            use super::*;

            pub(super) static REAL: AtomicUsize = AtomicUsize::new(0);

            pub(super) unsafe extern "C" fn hook($($argument: $type),*) -> Code {
                type Real = unsafe extern "C" fn($($type),*) -> Code;
                let $real = || {
                    // SAFETY: the loader or the driver gave the address of this function, which the
                    // caller calls with these arguments.
                    unsafe {
                        let real: Real = std::mem::transmute(REAL.load(Ordering::Relaxed));
                        real($($argument),*)
                    }
                };
                $body
            }
        }
    };
}

hooks! {
    fn cuModuleLoad: cuModuleLoad (module: Out<Handle>, path: Text) |real| {
        loaded(real(), module, || ptx_of_file(path))
    }

    fn cuModuleLoadData: cuModuleLoadData (module: Out<Handle>, image: Data) |real| {
        loaded(real(), module, || ptx_of(image))
    }

    fn cuModuleLoadDataEx: cuModuleLoadDataEx (
        module: Out<Handle>, image: Data, _count: u32, _numbers: In<u32>, _values: InOut<usize>,
    ) |real| {
        loaded(real(), module, || ptx_of(image))
    }

    fn cuModuleLoadFatBinary: cuModuleLoadFatBinary (module: Out<Handle>, image: Data) |real| {
        loaded(real(), module, || ptx_of(image))
    }

    fn cuLibraryLoadData: cuLibraryLoadData (
        library: Out<Handle>, image: Data, _numbers: In<u32>, _values: InOut<usize>, _count: u32,
        _more: In<u32>, _more_values: In<usize>, _more_count: u32,
    ) |real| {
        loaded(real(), library, || ptx_of(image))
    }

    fn cuLibraryLoadFromFile: cuLibraryLoadFromFile (
        library: Out<Handle>, path: Text, _numbers: In<u32>, _values: InOut<usize>, _count: u32,
        _more: In<u32>, _more_values: In<usize>, _more_count: u32,
    ) |real| {
        loaded(real(), library, || ptx_of_file(path))
    }

    fn cuModuleGetFunction: cuModuleGetFunction (
        place: Out<Handle>, module: Handle, name: Text,
    ) |real| {
        named(real(), place, |_| owned(module, name))
    }

    fn cuLibraryGetKernel: cuLibraryGetKernel (
        place: Out<Handle>, library: Handle, name: Text,
    ) |real| {
        named(real(), place, |_| owned(library, name))
    }

    fn cuKernelGetFunction: cuKernelGetFunction (place: Out<Handle>, kernel: Handle) |real| {
        named(real(), place, |seen| seen.kernels.get(&kernel).cloned())
    }

    fn cuLibraryGetModule: cuLibraryGetModule (place: Out<Handle>, library: Handle) |real| {
        let code = real();
        if let (Code::SUCCESS, Ok(module)) = (code, place.answered()) {
            seen(|seen| {
                if let Some(ptx) = seen.modules.get(&library).cloned() {
                    seen.modules.insert(module, ptx);
                }
            });
        }
        code
    }

    fn cuLaunchKernel: cuLaunchKernel (
        function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, shared_bytes: u32, _stream: Handle, each: In<*const c_void>,
        extra: In<usize>,
    ) |real| {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        before(&Launch { function, grid, block, cluster: None, shared_bytes, each, extra });
        real()
    }

    fn cuLaunchKernel_ptsz: cuLaunchKernel (
        function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, shared_bytes: u32, _stream: Handle, each: In<*const c_void>,
        extra: In<usize>,
    ) |real| {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        before(&Launch { function, grid, block, cluster: None, shared_bytes, each, extra });
        real()
    }

    fn cuLaunchCooperativeKernel: cuLaunchCooperativeKernel (
        function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, shared_bytes: u32, _stream: Handle, each: In<*const c_void>,
    ) |real| {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let extra = In::null();
        before(&Launch { function, grid, block, cluster: None, shared_bytes, each, extra });
        real()
    }

    fn cuLaunchKernelEx: cuLaunchKernelEx (
        shape: In<LaunchShape>, function: Handle, each: In<*const c_void>, extra: In<usize>,
    ) |real| {
        before_shape(shape, function, each, extra);
        real()
    }

    fn cuLaunchKernelEx_ptsz: cuLaunchKernelEx (
        shape: In<LaunchShape>, function: Handle, each: In<*const c_void>, extra: In<usize>,
    ) |real| {
        before_shape(shape, function, each, extra);
        real()
    }

    fn cuGetProcAddress: cuGetProcAddress (
        name: Text, place: Out<*const ()>, _version: i32, flags: u64,
    ) |real| {
        replaced(real(), name, place, flags)
    }

    fn cuGetProcAddress_v2: cuGetProcAddress (
        name: Text, place: Out<*const ()>, _version: i32, flags: u64, _status: Out<u32>,
    ) |real| {
        replaced(real(), name, place, flags)
    }
}
