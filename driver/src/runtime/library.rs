//! Libraries of kernels that a program loads itself. Handles of kernels stand for host functions.

use crate::c::{Address, Data, Device, Handle, In, InOut, Out, Text};

use super::{cu, runtime};

runtime! {
    fn cudaLibraryLoadData(
        library: Out<Handle>, image: Data, numbers: In<u32>, values: InOut<usize>, count: u32,
        library_numbers: In<u32>, library_values: In<usize>, library_count: u32,
    ) {
        cu!(library::cuLibraryLoadData(
            library, image, numbers, values, count, library_numbers, library_values, library_count
        ))
    }

    fn cudaLibraryLoadFromFile(
        library: Out<Handle>, path: Text, numbers: In<u32>, values: InOut<usize>, count: u32,
        library_numbers: In<u32>, library_values: In<usize>, library_count: u32,
    ) {
        cu!(library::cuLibraryLoadFromFile(
            library, path, numbers, values, count, library_numbers, library_values, library_count
        ))
    }

    fn cudaLibraryUnload(library: Handle) {
        cu!(library::cuLibraryUnload(library))
    }

    fn cudaLibraryGetKernel(place: Out<Handle>, library: Handle, name: Text) {
        cu!(library::cuLibraryGetKernel(place, library, name))
    }

    fn cudaLibraryGetKernelCount(count: Out<u32>, library: Handle) {
        cu!(library::cuLibraryGetKernelCount(count, library))
    }

    fn cudaLibraryEnumerateKernels(places: Out<Handle>, count: u32, library: Handle) {
        cu!(library::cuLibraryEnumerateKernels(places, count, library))
    }

    fn cudaLibraryGetGlobal(
        address: Out<Address>, bytes: Out<usize>, library: Handle, name: Text,
    ) {
        cu!(library::cuLibraryGetGlobal(address, bytes, library, name))
    }

    fn cudaLibraryGetManaged(
        address: Out<Address>, bytes: Out<usize>, library: Handle, name: Text,
    ) {
        cu!(library::cuLibraryGetManaged(address, bytes, library, name))
    }

    fn cudaKernelSetAttributeForDevice(
        kernel: Handle, attribute: i32, value: i32, device: Device,
    ) {
        cu!(library::cuKernelSetAttribute(attribute, value, kernel, device))
    }
}
