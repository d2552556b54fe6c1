//! PTX modules and their kernels.

use super::global::{Declared, Global, declared};
use super::signature::{Signature, parse, signatures};
use crate::backend::LoadedModule;
use crate::device::Device;
use crate::element::Element;
use crate::error::{Error, KernelError, Result};
use crate::kernel::Kernel;
use std::fmt;
use std::sync::Arc;

/// A PTX module that is loaded on a device. A clone is another handle to it.
#[derive(Clone)]
pub struct Module(Arc<Inner>);

struct Inner {
    device: Device,
    loaded: Box<dyn LoadedModule>,
    signatures: Vec<Signature>,
    variables: Vec<Declared>,
}

impl Module {
    /// Loads text with these kernels and variables, without parsing it again.
    pub(super) fn load_parsed(
        device: &Device,
        ptx: &str,
        signatures: Vec<Signature>,
        variables: Vec<Declared>,
    ) -> Result<Self> {
        let loaded = device.backend().load(ptx)?;
        Ok(Self(Arc::new(Inner {
            device: device.clone(),
            loaded,
            signatures,
            variables,
        })))
    }

    /// The device it was loaded on.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Names of its kernels, in the order of the PTX text.
    pub fn kernel_names(&self) -> impl Iterator<Item = &str> {
        self.0.signatures.iter().map(|signature| &*signature.name)
    }

    /// The kernel with this entry name. It keeps the module loaded. Look it up once and keep it:
    /// a lookup costs more than a launch.
    ///
    /// # Errors
    /// [`KernelError::Unknown`], [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported)
    /// for a kernel with more than 64 parameters,
    /// [`DeviceError::Driver`](crate::DeviceError::Driver). On the emulator
    /// [`EmulatorError::Launch`](crate::EmulatorError::Launch) for a kernel that it cannot run, with
    /// the line.
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        self.kernel_of(self.signature(name)?)
    }

    /// The same, launched by programmatic dependent launch (PDL): a launch may begin before the
    /// launch before it in the stream has ended, and its blocks wait by `griddepcontrol.wait`
    /// ([CUDA's guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/#programmatic-dependent-launch-and-synchronization)).
    /// The emulator runs launches one after another. Our own kernels are all launched this way from
    /// compute capability 9.0 on.
    ///
    /// # Errors
    /// Those of [`kernel`](Self::kernel), and
    /// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) for a kernel that does not
    /// contain the instruction.
    ///
    /// # Safety
    /// Every thread executes `griddepcontrol.wait` before it reads or writes global memory that
    /// work enqueued before the launch writes, or before it writes what such work reads.
    pub unsafe fn early_kernel(&self, name: &str) -> Result<Kernel> {
        let signature = self.signature(name)?;
        if !signature.waits {
            return Err(Error::unsupported(
                format!("early launches of kernel `{name}`, which does not wait"),
                "kernels with `griddepcontrol.wait` in their body",
            ));
        }
        self.kernel_of(&Signature {
            begins_early: true,
            ..signature.clone()
        })
    }

    /// The variable with this name: a `static` that is `#[unsafe(no_mangle)]` in Rust, or a
    /// `__device__` or `__constant__` variable of CUDA C++. `T` is the type of its elements, or of
    /// bytes that are taken for such: PTX calls arrays and structs bytes. `u8` fits every variable.
    ///
    /// # Errors
    /// [`KernelError::UnknownVariable`]; [`KernelError::VariableType`] where PTX gives another type, or a
    /// size that elements do not divide; [`DeviceError::Driver`](crate::DeviceError::Driver).
    pub fn global<T: Element>(&self, name: &str) -> Result<Global<T>> {
        Global::of(self, &self.0.variables, name)
    }

    pub(super) fn loaded(&self) -> &dyn LoadedModule {
        &*self.0.loaded
    }

    fn signature(&self, name: &str) -> Result<&Signature> {
        let mut known = self.0.signatures.iter();
        known.find(|known| *known.name == *name).ok_or_else(|| {
            let known: Vec<&str> = self.kernel_names().collect();
            Error::Kernel(KernelError::Unknown {
                name: name.into(),
                known: known.join(", ").into(),
            })
        })
    }

    fn kernel_of(&self, signature: &Signature) -> Result<Kernel> {
        Kernel::load(&self.0.device, &*self.0.loaded, signature)
    }
}

impl Device {
    /// Loads a module from PTX text. On a GPU, the driver compiles it for the device.
    ///
    /// # Errors
    /// [`KernelError::PtxSyntax`] where the text does not parse. Where the device cannot load it,
    /// [`KernelError::Jit`] with the log of the driver's compiler, or `EmulatorError::Load`.
    pub fn load_ptx(&self, ptx: &str) -> Result<Module> {
        let module = parse(ptx)?;
        Module::load_parsed(self, ptx, signatures(&module)?, declared(&module))
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.kernel_names().collect();
        write!(f, "Module({names:?} on {})", self.device())
    }
}
