//! The composed kernels that a device has loaded.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::loaded::Loaded;
use crate::module::{Kernel, Module};

/// Kernels by a key that describes the composition.
pub(crate) type Cache = Loaded<[u64]>;

impl Device {
    /// The one kernel of the module that `compose` writes. It is composed and loaded on the first
    /// call with this key, and cached; later calls allocate nothing.
    ///
    /// Loading compiles, so launch once before launches are captured into a CUDA graph.
    ///
    /// # Errors
    /// What `compose` returns, and those of loading PTX.
    pub(crate) fn composed(
        &self,
        key: &[u64],
        compose: impl FnOnce() -> Result<String>,
    ) -> Result<Kernel> {
        self.compositions().get_or_load(self, key, || {
            let module = Module::load(self, &compose()?)?;
            let mut names = module.kernel_names();
            let name = names.next();
            module.kernel(name.ok_or(Error::Bug("a composed module has no kernel"))?)
        })
    }
}
