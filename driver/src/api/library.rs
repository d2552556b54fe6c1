//! Libraries and their kernels. A library is a module without a context, and a kernel of it is a
//! function, so the handles of one are those of the other.

use crate::c::{Address, Data, Device, Handle, In, InOut, Out, Text};
use crate::call::entries;
use crate::state::driver;

use super::function;
use super::module::{self, Options};

entries! {
    fn cuLibraryLoadData: "cuLibraryLoadData" @ 12000 (
        library: Out<Handle>, image: Data, numbers: In<u32>, values: InOut<usize>, count: u32,
        _library_numbers: In<u32>, _library_values: In<usize>, _library_count: u32,
    ) {
        let options = Some(Options { count, numbers, values });
        library.set(module::load_image(None, "cuLibraryLoadData", image, options)?)
    }

    fn cuLibraryLoadFromFile: "cuLibraryLoadFromFile" @ 12000 (
        library: Out<Handle>, path: Text, _numbers: In<u32>, _values: InOut<usize>, _count: u32,
        _library_numbers: In<u32>, _library_values: In<usize>, _library_count: u32,
    ) {
        library.set(module::load_file(None, "cuLibraryLoadFromFile", path)?)
    }

    fn cuLibraryUnload: "cuLibraryUnload" @ 12000 (library: Handle) {
        module::unload(library)
    }

    fn cuLibraryGetKernel: "cuLibraryGetKernel" @ 12000 (
        place: Out<Handle>, library: Handle, name: Text,
    ) {
        let found = module::function(&mut driver()?.state(), library, name.get()?)?;
        place.set(found)
    }

    fn cuLibraryGetKernelCount: "cuLibraryGetKernelCount" @ 12040 (
        count: Out<u32>, library: Handle,
    ) {
        let kernels = driver()?.state().module(library)?.kernels().len();
        count.set(kernels as u32)
    }

    fn cuLibraryEnumerateKernels: "cuLibraryEnumerateKernels" @ 12040 (
        places: Out<Handle>, count: u32, library: Handle,
    ) {
        let all = module::functions(&mut driver()?.state(), library)?;
        places.set_all(all, count as usize)
    }

    fn cuLibraryGetModule: "cuLibraryGetModule" @ 12000 (place: Out<Handle>, library: Handle) {
        driver()?.state().module(library)?;
        place.set(library)
    }

    fn cuLibraryGetGlobal: "cuLibraryGetGlobal" @ 12000 (
        address: Out<Address>, bytes: Out<usize>, library: Handle, name: Text,
    ) {
        module::variable(library, name, address, bytes)
    }

    fn cuLibraryGetManaged: "cuLibraryGetManaged" @ 12000 (
        address: Out<Address>, bytes: Out<usize>, library: Handle, name: Text,
    ) {
        module::managed_variable(library, name, address, bytes)
    }

    fn cuKernelGetFunction: "cuKernelGetFunction" @ 12000 (place: Out<Handle>, kernel: Handle) {
        driver()?.state().function(kernel)?;
        place.set(kernel)
    }

    fn cuKernelGetLibrary: "cuKernelGetLibrary" @ 12050 (place: Out<Handle>, kernel: Handle) {
        let owner = driver()?.state().function(kernel)?.owner;
        place.set(owner)
    }

    fn cuKernelGetName: "cuKernelGetName" @ 12030 (
        place: Out<*const std::ffi::c_char>, kernel: Handle,
    ) {
        function::name(place, kernel)
    }

    fn cuKernelGetParamInfo: "cuKernelGetParamInfo" @ 12040 (
        kernel: Handle, index: usize, offset: Out<usize>, bytes: Out<usize>,
    ) {
        function::parameter(kernel, index, offset, bytes)
    }

    fn cuKernelGetParamCount: "cuKernelGetParamCount" @ 13020 (
        kernel: Handle, count: Out<usize>,
    ) {
        function::parameter_count(kernel, count)
    }

    fn cuKernelGetAttribute: "cuKernelGetAttribute" @ 12000 (
        value: Out<i32>, attribute: i32, kernel: Handle, _device: Device,
    ) {
        function::attribute(value, attribute, kernel)
    }

    fn cuKernelSetAttribute: "cuKernelSetAttribute" @ 12000 (
        attribute: i32, value: i32, kernel: Handle, _device: Device,
    ) {
        function::set_attribute(kernel, attribute, value)
    }

    fn cuKernelSetCacheConfig: "cuKernelSetCacheConfig" @ 12000 (
        kernel: Handle, _cache: u32, _device: Device,
    ) {
        driver()?.state().function(kernel).map(|_| ())
    }
}
