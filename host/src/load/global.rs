//! Variables of modules, which the host reads and writes.

use super::module::Module;
use crate::buffer::{DeviceBuffer, DevicePtr, host_vec};
use crate::element::{Element, as_bytes, as_bytes_mut};
use crate::error::{Error, KernelError, Result};
use crate::storage::Storage;
use crate::stream::Stream;
use abi::DType;
use ptx_syntax::ast::{self, Linkage, ScalarType, Space};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// A variable of a module's text.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    name: Box<str>,
    ty: ScalarType,
    bytes: u64,
}

/// The variables of a module in global and constant memory.
pub(crate) fn declared(module: &ast::Module) -> Vec<Declared> {
    let variables = module.variables.iter();
    let in_memory = variables.filter(|variable| {
        matches!(variable.space, Space::Global | Space::Const)
            && variable.linkage != Linkage::Extern
    });
    let declared = |variable: &ast::Variable| {
        Some(Declared {
            name: variable.name.as_str().into(),
            ty: variable.ty,
            bytes: variable.bytes()?,
        })
    };
    in_memory.filter_map(declared).collect()
}

impl Declared {
    /// Whether it may hold elements of this type. Bytes may be anything: PTX has no other name for
    /// arrays and structs of Rust and C++.
    fn holds(&self, dtype: DType) -> bool {
        let bytes = dtype.size_bytes() as u64;
        let name = self.ty.word();
        let is_float = name.starts_with('f') || name.starts_with("bf");
        let is_bits = name.starts_with('b') && !is_float;
        let is_same = match dtype.name().as_bytes()[0] {
            b'u' | b'i' => !is_float,
            _ => name == dtype.name() || is_bits,
        };
        self.bytes.is_multiple_of(bytes)
            && (dtype == DType::U8
                || self.ty == ScalarType::B8
                || u64::from(self.ty.bytes()) == bytes && is_same)
    }
}

/// A variable of a module on a device: a `static` that is `#[unsafe(no_mangle)]` in Rust, or a
/// `__device__` or `__constant__` variable of CUDA C++. It keeps the module loaded.
///
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{Device, LaunchConfig};
/// let device = Device::auto()?;
/// let module = device.load_ptx(
///     ".version 7.0
///      .target sm_75
///      .address_size 64
///      .visible .global .align 4 .u32 COUNT = 40;
///      .visible .entry count() {
///          .reg .u32 %r<1>;
///          atom.global.add.u32 %r0, [COUNT], 1;
///          ret;
///      }",
/// )?;
/// let stream = device.stream()?;
/// let count = module.global::<u32>("COUNT")?;
/// // SAFETY: the kernel takes nothing and accesses its module's variable alone.
/// unsafe { module.kernel("count")?.launch(&stream, LaunchConfig::linear(1, 2), ())? };
/// assert_eq!(count.read(&stream)?, [42]);
/// # Ok(())
/// # }
/// ```
pub struct Global<T: Element> {
    module: Module,
    name: Box<str>,
    address: u64,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Element> Global<T> {
    pub(super) fn of(module: &Module, declared: &[Declared], name: &str) -> Result<Self> {
        let unknown = || {
            let known: Vec<&str> = declared.iter().map(|known| &*known.name).collect();
            Error::Kernel(KernelError::UnknownVariable {
                name: name.into(),
                known: known.join(", ").into(),
            })
        };
        let found = declared.iter().find(|known| *known.name == *name);
        let found = found.ok_or_else(unknown)?;
        let refused = |bytes| {
            Error::Kernel(KernelError::VariableType {
                name: name.into(),
                got: T::DTYPE.name(),
                want: format!("`.{}`, {bytes} bytes", found.ty.word()).into(),
            })
        };
        if !found.holds(T::DTYPE) {
            return Err(refused(found.bytes));
        }
        let (address, bytes) = module.loaded().variable(name)?.ok_or_else(unknown)?;
        let element = size_of::<T>() as u64;
        if bytes != found.bytes || !address.is_multiple_of(element) {
            return Err(refused(bytes));
        }
        Ok(Self {
            module: module.clone(),
            name: name.into(),
            address,
            len: (bytes / element) as usize,
            elements: PhantomData,
        })
    }

    /// Number of elements.
    #[allow(clippy::len_without_is_empty)] // PTX has no variable without bytes
    pub fn len(&self) -> usize {
        self.len
    }

    /// Its address, as an argument of a launch.
    pub fn device_ptr(&self) -> DevicePtr<T> {
        DevicePtr::from_raw(self.address)
    }

    /// The variable as a buffer, which keeps the module loaded. Kernels that name the variable use it
    /// without an argument, so that nothing orders such a launch with copies:
    /// [`Device::synchronize`](crate::Device::synchronize) does.
    pub fn buffer(&self) -> DeviceBuffer<T> {
        let bytes = (self.len * size_of::<T>()) as u64;
        let storage = Storage::variable(&self.module, self.address, bytes);
        DeviceBuffer::from_storage(Arc::new(storage), self.len)
    }

    /// Its values after all work that was given to `stream` so far. Blocks until they are read. Work on
    /// other streams is not waited for.
    ///
    /// # Errors
    /// [`Error::Device`]; [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) for a stream
    /// that is captured.
    pub fn read(&self, stream: &Stream) -> Result<Vec<T>> {
        let mut values = host_vec(self.len)?;
        values.resize(self.len, T::default());
        let backend = self.order(stream)?;
        let to = as_bytes_mut(&mut values);
        // SAFETY: the variable has so many bytes; the host's live until the synchronize returns.
        unsafe { backend.copy_out(to.as_mut_ptr(), self.address, to.len(), stream.raw()) }?;
        backend.synchronize_stream(stream.raw())?;
        Ok(values)
    }

    /// Overwrites all of it after all work that was given to `stream` so far. Blocks until the copy is
    /// done, so work that is given later to any stream sees it.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), and [`ShapeError::Length`](crate::ShapeError::Length).
    ///
    /// # Safety
    /// The values are values of the variable's type, of which PTX keeps the size alone. No kernel on
    /// another stream accesses it meanwhile. A `static` of Rust is an atomic or a
    /// `cuda_std::Global`: of others, the compiler takes the initial value for granted.
    pub unsafe fn write(&self, values: &[T], stream: &Stream) -> Result<()> {
        if values.len() != self.len {
            let what = "values written to a variable";
            return Err(Error::length(what, values.len(), self.len));
        }
        let backend = self.order(stream)?;
        let from = as_bytes(values);
        // SAFETY: as in `read`.
        unsafe { backend.copy_in(self.address, from.as_ptr(), from.len(), stream.raw()) }?;
        backend.synchronize_stream(stream.raw())
    }

    /// The backend, if the stream may copy now.
    fn order(&self, stream: &Stream) -> Result<&dyn crate::backend::Backend> {
        let device = self.module.device();
        stream.device().check_same("variable", device)?;
        stream.refuse_in_capture("copying a variable of a module on a stream")?;
        Ok(device.backend())
    }
}

impl<T: Element> fmt::Debug for Global<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Global<{}>({}, {} elements on {})",
            T::DTYPE,
            self.name,
            self.len,
            self.module.device()
        )
    }
}
