//! Launches, attributes of kernels, and occupancy.

use std::cell::RefCell;
use std::ffi::{c_char, c_void};

use crate::c::{Data, Handle, HostFunction, In, LaunchAttribute, LaunchShape, Out, Room};
use crate::code::{Answer, Code};

use super::error::{INVALID_CONFIGURATION, INVALID_FUNCTION, MISSING_CONFIGURATION};
use super::registry::kernel;
use super::{Dim3, cu, runtime};

/// Most threads of a block.
const MOST_THREADS: u64 = 1024;

/// `cudaLaunchConfig_t`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Config {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: Handle,
    attributes: In<LaunchAttribute>,
    count: u32,
}

/// What `<<<...>>>` says of a launch.
#[derive(Clone, Copy)]
struct Call {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: Handle,
}

thread_local! {
    /// Launches whose `<<<...>>>` was evaluated and whose kernel was not called yet.
    static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
}

impl Dim3 {
    fn extents(self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }

    fn volume(self) -> u64 {
        let extents = self.extents().into_iter().map(u64::from);
        extents.fold(1, u64::saturating_mul)
    }
}

impl Config {
    fn of(call: Call) -> Self {
        Self {
            grid: call.grid,
            block: call.block,
            shared_bytes: call.shared_bytes,
            stream: call.stream,
            attributes: In::null(),
            count: 0,
        }
    }

    /// The shape as the driver takes it.
    fn shape(self) -> Answer<LaunchShape> {
        let threads = self.block.volume();
        if self.grid.volume() == 0 || threads == 0 || threads > MOST_THREADS {
            return Err(INVALID_CONFIGURATION);
        }
        let shared_bytes = u32::try_from(self.shared_bytes).map_err(|_| Code::INVALID_VALUE)?;
        Ok(LaunchShape {
            grid: self.grid.extents(),
            block: self.block.extents(),
            shared_bytes,
            stream: self.stream,
            attributes: self.attributes,
            count: self.count,
        })
    }
}

fn launch(function: usize, config: Config, arguments: In<*const c_void>) -> Answer {
    let function = kernel(function)?;
    let shape = config.shape()?;
    cu!(launch::cuLaunchKernelEx(
        In::from(&shape),
        function,
        arguments,
        In::null()
    ))
}

fn launch_call(function: usize, call: Call, arguments: In<*const c_void>) -> Answer {
    if function == 0 {
        return Err(INVALID_FUNCTION);
    }
    launch(function, Config::of(call), arguments)
}

/// `cudaFuncAttributes`, up to the fields that are reserved.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "the layout is that of the header")]
#[repr(C)]
pub(super) struct FunctionAttributes {
    sizes: [usize; 3],
    others: [i32; 13],
}

/// Attributes of the driver in the order of [`FunctionAttributes`].
const SIZES: [i32; 3] = [1, 2, 3];
const OTHERS: [i32; 13] = [0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 14];

/// Remembers a launch that was configured.
// SAFETY: the name is the API's, and no other item of the crate has it.
#[unsafe(no_mangle)]
extern "C" fn __cudaPushCallConfiguration(
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: Handle,
) -> u32 {
    let call = Call {
        grid,
        block,
        shared_bytes,
        stream,
    };
    let kept = CALLS.try_with(|calls| calls.borrow_mut().push(call));
    u32::from(kept.is_err())
}

runtime! {
    fn __cudaPopCallConfiguration(
        grid: Out<Dim3>, block: Out<Dim3>, shared_bytes: Out<usize>, stream: Out<Handle>,
    ) {
        let call = CALLS.try_with(|calls| calls.borrow_mut().pop());
        let call = call.ok().flatten().ok_or(MISSING_CONFIGURATION)?;
        grid.set(call.grid)?;
        block.set(call.block)?;
        shared_bytes.set(call.shared_bytes)?;
        stream.set(call.stream)
    }

    fn __cudaLaunchKernel | __cudaLaunchKernel_ptsz (
        function: usize, grid: Dim3, block: Dim3, arguments: In<*const c_void>,
        shared_bytes: usize, stream: Handle,
    ) {
        launch_call(function, Call { grid, block, shared_bytes, stream }, arguments)
    }

    fn cudaLaunchKernel | cudaLaunchKernel_ptsz (
        function: usize, grid: Dim3, block: Dim3, arguments: In<*const c_void>,
        shared_bytes: usize, stream: Handle,
    ) {
        launch_call(function, Call { grid, block, shared_bytes, stream }, arguments)
    }

    fn cudaLaunchKernelExC | cudaLaunchKernelExC_ptsz (
        config: In<Config>, function: usize, arguments: In<*const c_void>,
    ) {
        launch(function, config.get()?, arguments)
    }

    fn cudaLaunchCooperativeKernel | cudaLaunchCooperativeKernel_ptsz (
        function: usize, grid: Dim3, block: Dim3, arguments: In<*const c_void>,
        shared_bytes: usize, stream: Handle,
    ) {
        /// `cudaLaunchAttributeCooperative`
        const COOPERATIVE: u32 = 2;
        let mut value = [0; 16];
        value[0] = 1;
        let attribute = LaunchAttribute { id: COOPERATIVE, pad: 0, value };
        let mut config = Config::of(Call { grid, block, shared_bytes, stream });
        (config.attributes, config.count) = (In::from(&attribute), 1);
        launch(function, config, arguments)
    }

    fn cudaLaunchHostFunc | cudaLaunchHostFunc_ptsz (
        stream: Handle, function: HostFunction, data: Room,
    ) {
        cu!(stream::cuLaunchHostFunc(stream, function, data))
    }

    fn cudaFuncGetAttributes(place: Out<FunctionAttributes>, function: usize) {
        let function = kernel(function)?;
        let attribute = |number| {
            let mut value = 0;
            cu!(function::cuFuncGetAttribute(Out::to(&mut value), number, function))?;
            Ok(value)
        };
        let mut found = FunctionAttributes { sizes: [0; 3], others: [0; 13] };
        for (place, number) in found.sizes.iter_mut().zip(SIZES) {
            *place = usize::try_from(attribute(number)?).unwrap_or(0);
        }
        for (place, number) in found.others.iter_mut().zip(OTHERS) {
            *place = attribute(number)?;
        }
        place.set(found)
    }

    fn cudaFuncSetAttribute(function: usize, number: i32, value: i32) {
        let function = kernel(function)?;
        cu!(function::cuFuncSetAttribute(function, number, value))
    }

    fn cudaFuncSetCacheConfig(function: usize, _cache: u32) {
        kernel(function).map(|_| ())
    }

    fn cudaFuncSetSharedMemConfig(function: usize, _banks: u32) {
        kernel(function).map(|_| ())
    }

    fn cudaFuncGetName(place: Out<*const c_char>, function: usize) {
        let function = kernel(function)?;
        cu!(function::cuFuncGetName(place, function))
    }

    fn cudaFuncGetParamInfo(
        function: usize, index: usize, offset: Out<usize>, bytes: Out<usize>,
    ) {
        let function = kernel(function)?;
        cu!(function::cuFuncGetParamInfo(function, index, offset, bytes))
    }

    fn cudaFuncGetParamCount(function: usize, count: Out<usize>) {
        let function = kernel(function)?;
        cu!(function::cuFuncGetParamCount(function, count))
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        count: Out<i32>, function: usize, threads: i32, dynamic: usize,
    ) {
        let function = kernel(function)?;
        cu!(occupancy::cuOccupancyMaxActiveBlocksPerMultiprocessor(
            count, function, threads, dynamic
        ))
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        count: Out<i32>, function: usize, threads: i32, dynamic: usize, _flags: u32,
    ) {
        let function = kernel(function)?;
        cu!(occupancy::cuOccupancyMaxActiveBlocksPerMultiprocessor(
            count, function, threads, dynamic
        ))
    }

    fn cudaOccupancyAvailableDynamicSMemPerBlock(
        bytes: Out<usize>, function: usize, count: i32, threads: i32,
    ) {
        let function = kernel(function)?;
        cu!(occupancy::cuOccupancyAvailableDynamicSMemPerBlock(bytes, function, count, threads))
    }

    fn cudaOccupancyMaxActiveClusters(count: Out<i32>, function: usize, config: In<Config>) {
        let (function, shape) = (kernel(function)?, config.get()?.shape()?);
        cu!(occupancy::cuOccupancyMaxActiveClusters(count, function, In::from(&shape)))
    }

    fn cudaOccupancyMaxPotentialClusterSize(size: Out<i32>, function: usize, config: In<Config>) {
        let (function, shape) = (kernel(function)?, config.get()?.shape()?);
        cu!(occupancy::cuOccupancyMaxPotentialClusterSize(size, function, In::from(&shape)))
    }

    fn cudaGetExportTable(table: Out<Data>, _id: Data) {
        table.set(std::ptr::null())?;
        Err(Code::NOT_FOUND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<Config>(), 56);
        assert_eq!(size_of::<FunctionAttributes>(), 80);
    }
}
