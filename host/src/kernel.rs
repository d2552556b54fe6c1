//! Kernels of loaded modules, and their launches.

mod limits;

use crate::argument::{ArgumentType, Shape, is_shape};
use crate::backend::{KernelLimits, LoadedKernel, LoadedModule};
use crate::device::Device;
use crate::error::{Error, KernelError, Result};
use crate::launch::{KernelArg, KernelArgs, LaunchConfig, MAX_ARGUMENTS};
use crate::load::{ParamInfo, Signature};
use crate::sharing::Shared;
use crate::stream::Stream;
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

/// A kernel of a loaded module. A clone is another handle to it.
#[derive(Clone)]
pub struct Kernel {
    device: Device,
    inner: Arc<KernelInner>,
}

/// A kernel without its device, which keeps those that it was asked for: it would keep itself
/// alive.
pub(crate) struct KernelInner {
    signature: Signature,
    /// Sizes of the parameters in bytes.
    sizes: Box<[u32]>,
    limits: KernelLimits,
    /// Keeps the module.
    loaded: Box<dyn LoadedKernel>,
}

impl Kernel {
    /// The kernel of `module` with this signature.
    ///
    /// # Errors
    /// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) for a kernel with more
    /// than 64 parameters, [`DeviceError::Driver`](crate::DeviceError::Driver).
    pub(crate) fn load(
        device: &Device,
        module: &dyn LoadedModule,
        signature: &Signature,
    ) -> Result<Self> {
        let params = &signature.params;
        if params.len() > MAX_ARGUMENTS {
            return Err(Error::unsupported(
                format!(
                    "kernel `{}` with {} parameters",
                    signature.name,
                    params.len()
                ),
                format!("up to {MAX_ARGUMENTS} parameters"),
            ));
        }
        let loaded = module.kernel(signature)?;
        let mut limits = loaded.limits();
        let of_text = signature.max_threads.unwrap_or(u32::MAX);
        let of_device = device.info().max_threads_per_block;
        limits.max_threads = limits.max_threads.min(of_text).min(of_device);
        let kernel = KernelInner {
            signature: signature.clone(),
            sizes: params.iter().map(|param| param.size_bytes).collect(),
            limits,
            loaded,
        };
        Ok(Self::of(device, Arc::new(kernel)))
    }

    pub(crate) fn of(device: &Device, inner: Arc<KernelInner>) -> Self {
        Self {
            device: device.clone(),
            inner,
        }
    }

    pub(crate) fn inner(&self) -> &Arc<KernelInner> {
        &self.inner
    }

    /// Entry name.
    pub fn name(&self) -> &str {
        &self.inner.signature.name
    }

    /// The device it is on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Sizes and alignments of its parameters, in order.
    pub fn params(&self) -> &[ParamInfo] {
        &self.inner.signature.params
    }

    /// Largest number of threads in a block, limited by the kernel's launch bounds, its register
    /// use and the device.
    pub fn max_threads(&self) -> u32 {
        self.inner.limits.max_threads
    }

    /// Statically declared shared memory in bytes.
    pub fn static_shared_bytes(&self) -> u32 {
        self.inner.limits.static_shared_bytes
    }

    /// Largest dynamic shared memory of a launch, in bytes.
    pub fn max_dynamic_shared_bytes(&self) -> u32 {
        self.inner.limits.max_dynamic_shared_bytes
    }

    /// Least dynamic shared memory of a launch, in bytes: what `#[kernel(dynamic_shared = N)]`
    /// states. 0 for a kernel that states nothing, and for one whose module was loaded without its
    /// manifest ([`Device::load_ptx`]), since PTX does not say it.
    pub fn least_dynamic_shared_bytes(&self) -> u32 {
        self.inner.signature.dynamic_shared_bytes
    }

    /// Registers per thread; `None` on the emulator, which does not allocate registers.
    pub fn registers(&self) -> Option<u32> {
        Some(self.inner.limits.registers).filter(|&registers| registers > 0)
    }

    /// Local memory per thread in bytes: register spills and dynamically indexed arrays. 0 on the
    /// emulator.
    pub fn local_bytes(&self) -> u32 {
        self.inner.limits.local_bytes
    }

    /// Enqueues one launch on `stream`.
    ///
    /// Buffers and tensors among the arguments stay allocated until the launch is done, even if
    /// they are dropped before. The number and the sizes of the arguments are checked against the
    /// kernel's parameters, and `config` against the limits of kernel and device. Types are checked
    /// where the module was loaded with its manifest ([`Device::load_built`]), and so is what the kernel
    /// `requires`. On a mismatch nothing is launched.
    ///
    /// `None` for `config` means the launch that the kernel states: `#[kernel(grid = ..)]`.
    ///
    /// A safe kernel takes a tensor or a buffer for each `&[T]`, `View2` and `Disjoint` where its
    /// module was loaded with its manifest. Otherwise it takes an address and a length or a shape. With the
    /// manifest, the launch also checks that an output shares no element with another argument. Where
    /// other streams have used the memory of an argument, the launch waits for their work so far, and
    /// their later work on it waits for the launch.
    ///
    /// ```
    /// # fn main() -> warpsmith::Result<()> {
    /// use warpsmith::{Device, DeviceBuffer, LaunchConfig};
    /// let device = Device::auto()?;
    /// let module = device.load_ptx(
    ///     ".version 7.0
    ///      .target sm_75
    ///      .address_size 64
    ///      .visible .entry store(.param .u64 out, .param .u32 value) {
    ///          .reg .u64 %rd<2>;
    ///          .reg .u32 %r<1>;
    ///          ld.param.u64 %rd0, [out];
    ///          cvta.to.global.u64 %rd1, %rd0;
    ///          ld.param.u32 %r0, [value];
    ///          st.global.u32 [%rd1], %r0;
    ///          ret;
    ///      }",
    /// )?;
    /// let stream = device.stream()?;
    /// let mut out = DeviceBuffer::<u32>::zeros(&stream, 1)?;
    /// // SAFETY: the kernel writes one u32 through its first argument.
    /// unsafe {
    ///     module.kernel("store")?.launch(&stream, LaunchConfig::linear(1, 1), (&mut out, 7_u32))?;
    /// }
    /// assert_eq!(out.to_vec()?, [7]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Kernel`] and [`Error::Device`].
    /// [`ArgumentError::Value`](crate::ArgumentError::Value) for a block or cluster other than the
    /// one the kernel requires (`.reqntid`, `.reqnctapercluster`). The same for a cluster of more
    /// than 16 blocks, for a grid that it does not divide, or for no `config` where the kernel states no
    /// grid.
    /// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) for clusters on a device
    /// without them. A fault of the kernel is returned here as `EmulatorError::Launch` on the
    /// emulator; on a GPU a later call that waits reports it.
    ///
    /// # Safety
    /// Each argument is what the kernel expects of that parameter. Pointers refer to device memory
    /// that covers all accesses of the kernel and is aligned for them, and other work on that
    /// memory is ordered with this launch. In a capture, the same holds for each launch of the graph.
    ///
    /// A safe kernel that is loaded with its manifest takes any arguments that the launch accepts, if
    /// PTX and manifest are what cuda_builder wrote. Structs are those of the kernel's crate, and no
    /// other thread gives work on the same memory to another stream meanwhile.
    pub unsafe fn launch<A: KernelArgs>(
        &self,
        stream: &Stream,
        config: impl Into<Option<LaunchConfig>>,
        args: A,
    ) -> Result<()> {
        let inner = &self.inner;
        stream.device().check_same("kernel", &self.device)?;
        let config: Option<LaunchConfig> = config.into();
        if let Some(config) = &config {
            self.check_shape(config)?;
        }
        if args.count() != self.arguments() {
            return Err(self.argument_count(args.count()));
        }
        let mut shapes: [Shape; MAX_ARGUMENTS] = [Shape::default(); MAX_ARGUMENTS];
        let mut pointers: [*const c_void; MAX_ARGUMENTS] = [std::ptr::null(); MAX_ARGUMENTS];
        let mut shared = Shared::default();
        let mut index = 0;
        args.visit(&mut |argument| {
            // `visit` and `count` should agree, but another crate may implement `KernelArgs`
            // wrongly: check here rather than trust it.
            let (Some(pointer), Some(&size)) = (pointers.get_mut(index), inner.sizes.get(index))
            else {
                return Err(self.argument_count(index + 1));
            };
            let shape = self.shape_behind(index, argument)?;
            if let (Some(declared), None) = (inner.signature.declared.get(index), &shape) {
                self.check_type(index, declared, argument.argument_type())?;
            }
            if argument.size_bytes() != size as usize {
                return Err(self.argument_size(index, argument.size_bytes()));
            }
            argument.use_on(stream)?;
            *pointer = argument.bytes();
            if let (true, ArgumentType::Memory(elements)) =
                (inner.signature.is_safe, argument.argument_type())
            {
                let ty = self.declared(index).1;
                if let Some(other) = shared.add(index, ty, elements)? {
                    return Err(self.overlap(index, other));
                }
            }
            if let Some(shape) = shape {
                index += 1;
                shapes[index] = shape;
            }
            index += 1;
            Ok(())
        })?;
        for (index, (name, _)) in inner.signature.declared.iter().enumerate() {
            if is_shape(name) {
                pointers[index] = std::ptr::from_ref(&shapes[index]).cast();
            }
        }
        if index != inner.sizes.len() {
            return Err(self.argument_count(index));
        }
        let config = self.held_to_contract(config, &pointers[..index])?;
        self.check_resident(&config)?;
        stream.keep_kernel(inner)?;
        shared.in_turn(stream, &mut || {
            // SAFETY: number and sizes fit; the rest is the caller's. The arguments live as long as
            // `args` is borrowed, and `args` outlives the call.
            unsafe {
                inner
                    .loaded
                    .launch(stream.raw(), &config, &pointers[..index], &inner.sizes)
            }
        })
    }

    /// Holds a launch with these parameters against what the kernel requires. Without a
    /// configuration, it has the one that the kernel states.
    fn held_to_contract(
        &self,
        config: Option<LaunchConfig>,
        parameters: &[*const c_void],
    ) -> Result<LaunchConfig> {
        let Signature {
            contract, cluster, ..
        } = &self.inner.signature;
        // SAFETY: number and sizes of the parameters have been checked, and those are what the
        // contract was made for.
        unsafe {
            contract.check(self.name(), parameters, None)?;
            if let Some(config) = config {
                contract.check(self.name(), parameters, Some(&config))?;
                return Ok(config);
            }
            let shared_bytes = self.least_dynamic_shared_bytes();
            let resident = |block| {
                let config = LaunchConfig {
                    block,
                    ..LaunchConfig::linear(1, 1)
                };
                self.resident_blocks(&config.shared_bytes(shared_bytes))
            };
            let config = contract.launch(self.name(), parameters, *cluster, resident)?;
            let config = config.shared_bytes(shared_bytes);
            self.check_shape(&config)?;
            contract.check(self.name(), parameters, Some(&config))?;
            Ok(config)
        }
    }

    /// Number of arguments of a launch. A safe kernel takes an address and a shape for one.
    fn arguments(&self) -> usize {
        let declared = self.inner.signature.declared.iter();
        let shapes = declared.filter(|(name, _)| is_shape(name));
        self.inner.sizes.len() - shapes.count()
    }

    /// The value of the parameter behind this one, if that is the shape of what this one points to.
    fn shape_behind(&self, index: usize, argument: &dyn KernelArg) -> Result<Option<Shape>> {
        let declared = &self.inner.signature.declared;
        let Some([(name, ty), (next, next_ty)]) = declared.get(index..index + 2) else {
            return Ok(None);
        };
        if !is_shape(next) {
            return Ok(None);
        }
        let shape = argument.argument_type().shape(ty, next_ty);
        let refused = |got: String| KernelError::ArgumentType {
            kernel: self.name().into(),
            parameter: format!("{name}: {ty}").into(),
            got: got.into(),
        };
        shape.map(Some).map_err(|got| Error::Kernel(refused(got)))
    }

    /// Holds an argument against the name and the Rust type of its parameter.
    fn check_type(
        &self,
        index: usize,
        (name, ty): &(Box<str>, Box<str>),
        argument: ArgumentType<'_>,
    ) -> Result<()> {
        let layout = self.inner.signature.layouts.get(index).copied().flatten();
        let is_it = match layout {
            Some(layout) => argument == ArgumentType::Struct(layout),
            None => argument.suits(ty),
        };
        if is_it {
            return Ok(());
        }
        Err(Error::Kernel(KernelError::ArgumentType {
            kernel: self.name().into(),
            parameter: format!("{name}: {ty}").into(),
            got: argument.to_string().into(),
        }))
    }

    /// Name and Rust type of a parameter, if they are known.
    fn declared(&self, index: usize) -> (&str, &str) {
        let declared = self.inner.signature.declared.get(index);
        declared.map_or(("", ""), |(name, ty)| (name, ty))
    }

    #[cold]
    fn overlap(&self, index: usize, other: usize) -> Error {
        let [parameter, other] = [index, other].map(|index| {
            let (name, ty) = self.declared(index);
            format!("{name}: {ty}").into()
        });
        Error::Kernel(KernelError::Overlap {
            kernel: self.name().into(),
            parameter,
            other,
        })
    }

    #[cold]
    fn argument_count(&self, got: usize) -> Error {
        Error::Kernel(KernelError::ArgumentCount {
            kernel: self.name().into(),
            names: self.argument_names().into(),
            got,
            want: self.arguments(),
        })
    }

    /// The names of the arguments as they stand in a message, if they are known: ` (x, y)`.
    fn argument_names(&self) -> String {
        let declared = self.inner.signature.declared.iter();
        let names = declared.map(|(name, _)| &**name);
        let names: Vec<&str> = names.filter(|name| !is_shape(name)).collect();
        match names.is_empty() {
            true => String::new(),
            false => format!(" ({})", names.join(", ")),
        }
    }

    #[cold]
    fn argument_size(&self, index: usize, got_bytes: usize) -> Error {
        let want_bytes = self.inner.sizes.get(index).map_or(0, |&size| size as usize);
        Error::Kernel(KernelError::ArgumentSize {
            kernel: self.name().into(),
            index,
            got_bytes,
            want_bytes,
        })
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({} on {})", self.name(), self.device())
    }
}
