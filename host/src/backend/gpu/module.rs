//! Modules and kernels loaded through the driver.

use super::driver::{cu, describe, driver, failure};
use super::{Context, cu_stream};
use crate::backend::{KernelLimits, LoadedKernel, LoadedModule, RawStream};
use crate::device::{DeviceInfo, lock};
use crate::error::{Error, KernelError, Result};
use crate::launch::LaunchConfig;
use crate::load::Signature;
use cudarc::driver::sys::{
    self, CUfunction, CUfunction_attribute, CUjit_option, CUmodule, CUresult, CUstream,
};
use std::collections::HashMap;
use std::ffi::{CString, c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Static plus dynamic shared memory that a launch may use without
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const SHARED_BYTES_WITHOUT_ASKING: u32 = 48 << 10;

/// Largest portable cluster size, in blocks.
const PORTABLE_CLUSTER_BLOCKS: u32 = 8;

/// First CUDA version whose driver takes attributes of launches: clusters, cooperative launches.
const ATTRIBUTES_DRIVER_VERSION: i32 = 11_080;

/// First CUDA version whose driver captures launches into a graph that begin early. With an older
/// one they begin when the launch before has ended, as the kernels' wait is none then.
const EARLY_DRIVER_VERSION: i32 = 12_030;

/// Size of the buffer for the log of the driver's compiler.
const LOG_BYTES: usize = 16 << 10;

struct GpuModule(Arc<Handle>);

struct Handle {
    context: Context,
    module: CUmodule,
    max_shared_bytes: u32,
    multiprocessors: u32,
    /// Dynamic shared memory that launches of a function may use by now, for those that asked: the
    /// driver keeps one number of each, however often it was looked up.
    opted_in: Mutex<HashMap<usize, u32>>,
}

// SAFETY: the driver's modules may be used from any thread.
unsafe impl Send for Handle {}
// SAFETY: the driver synchronises calls on one module itself.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: unloaded once, after all work that may run a kernel of it.
        let unloaded = self.context.bind().and_then(|()| unsafe {
            cu!(cuCtxSynchronize()).and_then(|()| cu!(cuModuleUnload(self.module)))
        });
        if let Err(error) = unloaded {
            tracing::warn!(%error, "a module was not unloaded");
        }
    }
}

/// Compiles and loads PTX text for the bound device.
pub(super) fn load(
    context: Context,
    info: &DeviceInfo,
    ptx: &str,
) -> Result<Box<dyn LoadedModule>> {
    context.bind()?;
    let text = CString::new(ptx).map_err(|error| {
        Error::Kernel(KernelError::PtxSyntax {
            line: ptx[..error.nul_position()].lines().count().max(1) as u32,
            column: 1,
            message: "a zero byte in the text".into(),
        })
    })?;
    let mut log = vec![0_u8; LOG_BYTES];
    let mut options = [
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    // The driver takes integer options in the place of pointers.
    let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), LOG_BYTES as *mut c_void];
    let mut module: CUmodule = std::ptr::null_mut();
    // SAFETY: the text ends with a zero, options and values are arrays of the length given, and
    // the log is as long as its option says.
    let code = unsafe {
        sys::cuModuleLoadDataEx(
            &raw mut module,
            text.as_ptr().cast(),
            options.len() as c_uint,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    if code != CUresult::CUDA_SUCCESS {
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
        return Err(Error::Kernel(KernelError::Jit {
            device: info.to_string().into(),
            code: describe(code).into(),
            log: String::from_utf8_lossy(&log[..end]).trim_end().into(),
        }));
    }
    let max_shared_bytes = info.max_shared_bytes_per_block;
    Ok(Box::new(GpuModule(Arc::new(Handle {
        context,
        module,
        max_shared_bytes,
        multiprocessors: info.multiprocessors,
        opted_in: Mutex::default(),
    }))))
}

impl LoadedModule for GpuModule {
    fn kernel(&self, signature: &Signature) -> Result<Box<dyn LoadedKernel>> {
        self.0.context.bind()?;
        // Parsed from text without a zero byte.
        let name = CString::new(&*signature.name).map_err(|_| Error::Bug("a zero in a name"))?;
        let mut function: CUfunction = std::ptr::null_mut();
        // SAFETY: the module is loaded, the name ends with a zero, `function` is a valid place.
        unsafe {
            cu!(cuModuleGetFunction(
                &raw mut function,
                self.0.module,
                name.as_ptr()
            ))
        }?;
        let limits = limits(function, self.0.max_shared_bytes)?;
        let opted_in = SHARED_BYTES_WITHOUT_ASKING.saturating_sub(limits.static_shared_bytes);
        Ok(Box::new(GpuKernel {
            function,
            module: self.0.clone(),
            limits,
            required_cluster: signature.cluster,
            begins_early: signature.begins_early
                && !signature.is_cooperative
                && driver()?.version >= EARLY_DRIVER_VERSION,
            is_cooperative: signature.is_cooperative,
            opted_in: AtomicU32::new(opted_in),
        }))
    }

    fn variable(&self, name: &str) -> Result<Option<(u64, u64)>> {
        self.0.context.bind()?;
        let Ok(name) = CString::new(name) else {
            return Ok(None);
        };
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: the module is loaded, the name ends with a zero, both places are valid.
        let found = unsafe {
            sys::cuModuleGetGlobal_v2(
                &raw mut address,
                &raw mut bytes,
                self.0.module,
                name.as_ptr(),
            )
        };
        match found {
            CUresult::CUDA_SUCCESS => Ok(Some((address, bytes as u64))),
            CUresult::CUDA_ERROR_NOT_FOUND => Ok(None),
            other => Err(failure("cuModuleGetGlobal", other)),
        }
    }
}

fn limits(function: CUfunction, max_shared_bytes: u32) -> Result<KernelLimits> {
    use CUfunction_attribute as A;
    let get = |which| {
        let mut value = 0;
        // SAFETY: `function` belongs to a loaded module, `value` is a valid place.
        unsafe { cu!(cuFuncGetAttribute(&raw mut value, which, function)) }?;
        Ok::<_, Error>(u32::try_from(value).unwrap_or(0))
    };
    let static_shared_bytes = get(A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
    Ok(KernelLimits {
        max_threads: get(A::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        static_shared_bytes,
        max_dynamic_shared_bytes: max_shared_bytes.saturating_sub(static_shared_bytes),
        registers: get(A::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
        local_bytes: get(A::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
    })
}

struct GpuKernel {
    function: CUfunction,
    module: Arc<Handle>,
    limits: KernelLimits,
    /// `.reqnctapercluster`
    required_cluster: Option<[u32; 3]>,
    /// See [`Signature::begins_early`].
    begins_early: bool,
    /// See [`Signature::is_cooperative`].
    is_cooperative: bool,
    /// Dynamic shared memory that launches may use, as far as this one knows.
    opted_in: AtomicU32,
}

// SAFETY: the driver's functions may be used from any thread; they live as long as their module.
unsafe impl Send for GpuKernel {}
// SAFETY: as above; what changes is atomic.
unsafe impl Sync for GpuKernel {}

impl GpuKernel {
    #[cold]
    fn opt_in(&self, shared_bytes: u32) -> Result<()> {
        let mut of_module = lock(&self.module.opted_in);
        let opted_in = of_module.entry(self.function as usize).or_default();
        // Held while it grows, so that it never shrinks.
        if shared_bytes > *opted_in {
            let which = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let value = i32::try_from(shared_bytes)
                .map_err(|_| Error::Bug("shared memory was not held against the limit"))?;
            // SAFETY: the function's module is loaded.
            unsafe { cu!(cuFuncSetAttribute(self.function, which, value)) }?;
            *opted_in = shared_bytes;
        }
        self.opted_in.store(*opted_in, Ordering::Release);
        Ok(())
    }
}

impl GpuKernel {
    /// Allows clusters of more than eight blocks. Not every device of the architecture supports
    /// them, so the driver requires an opt-in.
    #[cold]
    fn allow_large_clusters(&self) -> Result<()> {
        let which = CUfunction_attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        // SAFETY: the function's module is loaded.
        unsafe { cu!(cuFuncSetAttribute(self.function, which, 1)) }
    }

    /// The attributes of a launch, and how many they are. Sets what the launch needs of the function.
    fn attributes(&self, config: &LaunchConfig) -> Result<([sys::CUlaunchAttribute; 4], usize)> {
        self.module.context.bind()?;
        if config.shared_bytes > self.opted_in.load(Ordering::Acquire) {
            self.opt_in(config.shared_bytes)?;
        }
        if let Some(cluster) = config.cluster.or(self.required_cluster)
            && blocks(cluster) > PORTABLE_CLUSTER_BLOCKS
        {
            self.allow_large_clusters()?;
        }
        let mut attributes = [begins_early(); 4];
        let mut count = usize::from(self.begins_early);
        if self.is_cooperative {
            attributes[count] = cooperative()?;
            count += 1;
        }
        // A cluster that the kernel requires is part of its code and needs no attribute.
        if let Some(cluster) = config.cluster
            && self.required_cluster.is_none()
            && blocks(cluster) > 1
        {
            attributes[count] = clusters(cluster)?;
            count += 1;
            if blocks(config.grid) >= BALANCED_BLOCKS {
                attributes[count] = balanced();
                count += 1;
            }
        }
        Ok((attributes, count))
    }
}

fn blocks(extents: [u32; 3]) -> u32 {
    extents.into_iter().fold(1, u32::saturating_mul)
}

/// A launch with these attributes.
fn with_attributes(
    config: &LaunchConfig,
    attributes: &mut [sys::CUlaunchAttribute],
    stream: CUstream,
) -> sys::CUlaunchConfig {
    sys::CUlaunchConfig {
        gridDimX: config.grid[0],
        gridDimY: config.grid[1],
        gridDimZ: config.grid[2],
        blockDimX: config.block[0],
        blockDimY: config.block[1],
        blockDimZ: config.block[2],
        sharedMemBytes: config.shared_bytes,
        hStream: stream,
        attrs: attributes.as_mut_ptr(),
        numAttrs: attributes.len() as u32,
    }
}

/// An error where the driver is too old for a launch of this kind.
fn require_attributes(launch: &str) -> Result<()> {
    if driver()?.version < ATTRIBUTES_DRIVER_VERSION {
        return Err(Error::unsupported(
            format!("{launch} with this driver"),
            "drivers for CUDA 11.8 and later",
        ));
    }
    Ok(())
}

/// The launch attribute by which all blocks run at a time.
fn cooperative() -> Result<sys::CUlaunchAttribute> {
    require_attributes("a cooperative launch")?;
    Ok(sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue { cooperative: 1 },
    })
}

/// The launch attribute for clusters of these extents.
fn clusters([x, y, z]: [u32; 3]) -> Result<sys::CUlaunchAttribute> {
    require_attributes(&format!("a launch in clusters of {:?}", [x, y, z]))?;
    Ok(sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue {
            clusterDim: sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z },
        },
    })
}

/// Launches in clusters of at least this many blocks, more than run at a time, let blocks of a
/// cluster share a multiprocessor. More clusters then run at once, where they do not divide the
/// multiprocessors. Smaller launches are spread over as many multiprocessors as possible.
const BALANCED_BLOCKS: u32 = 2048;

/// The launch attribute by which the blocks of a cluster may share a multiprocessor.
fn balanced() -> sys::CUlaunchAttribute {
    sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue {
            clusterSchedulingPolicyPreference:
                sys::CUclusterSchedulingPolicy::CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING,
        },
    }
}

/// The launch attribute for programmatic dependent launch (PDL): the launch may start before the
/// preceding kernel has ended.
fn begins_early() -> sys::CUlaunchAttribute {
    sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue {
            programmaticStreamSerializationAllowed: 1,
        },
    }
}

impl LoadedKernel for GpuKernel {
    fn limits(&self) -> KernelLimits {
        self.limits
    }

    fn resident_blocks(&self, config: &LaunchConfig) -> Result<u32> {
        let (mut attributes, count) = self.attributes(config)?;
        let mut resident = 0;
        let cluster = blocks(config.cluster.or(self.required_cluster).unwrap_or([1; 3]));
        let each = if cluster > 1 {
            let launch = with_attributes(config, &mut attributes[..count], std::ptr::null_mut());
            let (resident, launch) = (&raw mut resident, &raw const launch);
            // SAFETY: the function's module is loaded, and the other two are valid places.
            unsafe {
                cu!(cuOccupancyMaxActiveClusters(
                    resident,
                    self.function,
                    launch
                ))
            }?;
            cluster
        } else {
            let threads = i32::try_from(blocks(config.block)).unwrap_or(i32::MAX);
            // SAFETY: the function's module is loaded, and `resident` is a valid place.
            unsafe {
                cu!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    &raw mut resident,
                    self.function,
                    threads,
                    config.shared_bytes as usize,
                ))
            }?;
            self.module.multiprocessors
        };
        Ok(u32::try_from(resident).unwrap_or(0) * each)
    }

    unsafe fn launch(
        &self,
        stream: RawStream,
        config: &LaunchConfig,
        args: &[*const c_void],
        _sizes: &[u32],
    ) -> Result<()> {
        let (mut attributes, count) = self.attributes(config)?;
        let args = args.as_ptr().cast_mut().cast();
        if count > 0 {
            let launch = with_attributes(config, &mut attributes[..count], cu_stream(stream));
            let (launch, none) = (&raw const launch, std::ptr::null_mut());
            // SAFETY: the caller checked the launch against the kernel; kernels with PDL or clusters
            // are compiled for sm_90 or later, which supports the attributes. The driver copies
            // arguments and attributes before it returns.
            return unsafe { cu!(cuLaunchKernelEx(launch, self.function, args, none)) };
        }
        let [grid_x, grid_y, grid_z] = config.grid;
        let [block_x, block_y, block_z] = config.block;
        // SAFETY: the caller checked the launch against the kernel; the driver copies the
        // arguments before it returns, and does not write through the pointers.
        unsafe {
            cu!(cuLaunchKernel(
                self.function,
                grid_x,
                grid_y,
                grid_z,
                block_x,
                block_y,
                block_z,
                config.shared_bytes,
                cu_stream(stream),
                args,
                std::ptr::null_mut(),
            ))
        }
    }
}
