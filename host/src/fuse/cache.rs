//! The composed kernels that a device has loaded.

use crate::device::Device;
use crate::early::begin_early;
use crate::error::{Error, Result};
use crate::loaded::Loaded;
use crate::module::{Kernel, Module};
use crate::once::read_once;
use crate::signature::{parse, signatures};
use crate::traffic::Traffic;

/// Kernels by a key that describes the composition.
pub(crate) type Cache = Loaded<[u64]>;

impl Device {
    /// The one kernel of the module that `compose` writes, for launches of this traffic; the key says
    /// so too. It is composed and loaded on the first call with this key, and cached; later calls
    /// allocate nothing.
    ///
    /// Loading compiles, so launch once before launches are captured into a CUDA graph.
    ///
    /// # Errors
    /// What `compose` returns, and those of loading PTX.
    pub(crate) fn composed(
        &self,
        key: &[u64],
        traffic: Traffic,
        compose: impl FnOnce() -> Result<String>,
    ) -> Result<Kernel> {
        self.compositions().get_or_load(self, key, || {
            let mut text = compose()?;
            if traffic == Traffic::Streams {
                text = read_once(&text);
            }
            let signature = signatures(&parse(&text)?)?.pop();
            let mut signature = signature.ok_or(Error::Bug("a composed module has no kernel"))?;
            let name = signature.name.clone();
            let text = begin_early(&text, &mut signature, self.arch(), traffic)?;
            Module::load_parsed(self, &text, vec![signature])?.kernel(&name)
        })
    }
}
