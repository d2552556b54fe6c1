//! How a kernel gets from this build's files to a device.
//!
//! ```text
//!  ptx/**/*.ptx, compressed            skeleton and fragments
//!     | embedded: unpack, check hash      | fuse: compose
//!     | cut: one kernel, lines kept;      |
//!     |      f16 from the text of bf16    |
//!     v                                   v
//!  text of one kernel ---------------- text of one kernel
//!                         | parse
//!                         v
//!                    syntax tree        held against the manifest
//!                         | edit: begin_early   all launches, from compute capability 9.0 on
//!                         |       read_once     streaming launches
//!                         | print, lines kept
//!                         v
//!                       text            dump: WARPSMITH_DUMP=folder
//!                         | driver or emulator
//!                         v
//!                      Kernel           cache: one for each entry and variant
//! ```
//!
//! [`LoadVariant`] decides on the edits. A launch looks its kernel up by a [`KernelKey`], which
//! allocates nothing; everything else happens on the first launch.
//!
//! Modules that a user loads ([`Device::load_ptx`]) are loaded as they are.

mod built;
mod cache;
mod contract;
mod dump;
mod edit;
mod embedded;
mod entry;
mod features;
mod files;
mod global;
mod key;
mod manifest;
mod module;
mod signature;
mod variant;

pub use built::Built;
pub(crate) use cache::KernelCache;
pub use embedded::builtin_manifest;
pub(crate) use embedded::{best, kernel_text, module_text, newest, target_for};
pub(crate) use entry::EntryKernel;
pub use global::Global;
pub(crate) use key::KernelKey;
pub use module::Module;
pub use signature::ParamInfo;
pub(crate) use signature::Signature;
pub(crate) use variant::{LoadVariant, streams};

use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::stream::Stream;
use abi::entry::Entry;
use ptx_syntax::ast;
use signature::{parse, signatures};

/// The embedded kernel of the entry, on the stream's device. For launches of any size.
pub(crate) fn kernel<E: Entry>(stream: &Stream, entry: E) -> Result<EntryKernel<E>> {
    kernel_for(LoadVariant::Plain, stream, entry)
}

/// The same in another variant.
pub(crate) fn kernel_for<E: Entry>(
    variant: LoadVariant,
    stream: &Stream,
    entry: E,
) -> Result<EntryKernel<E>> {
    EntryKernel::embedded(variant, stream, &entry)
}

impl Device {
    /// The embedded kernel with this entry name, from the module with the newest architecture that
    /// this device can run. It is loaded on first use and kept.
    ///
    /// With the environment variable `WARPSMITH_DUMP=folder`, the PTX of every embedded or composed
    /// kernel is written to that folder as it is loaded, on a GPU or on the emulator.
    ///
    /// # Errors
    /// [`KernelError::Missing`](crate::KernelError::Missing) where no such kernel runs on the
    /// device. [`KernelError::LeftOut`](crate::KernelError::LeftOut) where this build does not
    /// embed it. [`KernelError::Manifest`](crate::KernelError::Manifest) where an embedded module
    /// does not match the manifest. [`KernelError::Dump`](crate::KernelError::Dump), and the errors
    /// of loading PTX.
    pub fn builtin_kernel(&self, name: &str) -> Result<Kernel> {
        self.embedded(&KernelKey {
            entry: name,
            variant: LoadVariant::Plain,
        })
    }

    fn embedded(&self, key: &KernelKey<'_>) -> Result<Kernel> {
        self.kernels().get_or_load(self, key, || {
            let (module, entry) = best(key.entry, self.arch())?;
            let (ptx, signature) = embedded::kernel(module, entry)?;
            load(self, key.entry, key.variant, ptx, signature)
        })
    }

    /// The one kernel of the module that `compose` writes. Its entry in the key describes the
    /// composition. It is composed and loaded on the first call with this key, and cached; later
    /// calls allocate nothing.
    ///
    /// Loading compiles, so launch once before launches are captured into a CUDA graph.
    ///
    /// # Errors
    /// What `compose` returns, [`KernelError::Dump`](crate::KernelError::Dump), and the errors of
    /// loading PTX.
    pub(crate) fn composed(
        &self,
        key: &KernelKey<'_, [u64]>,
        compose: impl FnOnce() -> Result<String>,
    ) -> Result<Kernel> {
        self.compositions().get_or_load(self, key, || {
            let text = compose()?;
            let ptx = parse(&text)?;
            let signature = signatures(&ptx)?.pop();
            let signature = signature.ok_or(Error::Bug("a composed module has no kernel"))?;
            // Many compositions have the name of their skeleton.
            let hash = ptx_syntax::manifest::hash(&text);
            let name = format!("{}_{hash}", signature.name);
            load(self, &name, key.variant, ptx, signature)
        })
    }
}

/// Edits the one kernel of `ptx`, and loads it. `name` is its name in a dump.
fn load(
    device: &Device,
    name: &str,
    variant: LoadVariant,
    mut ptx: ast::Module,
    mut signature: Signature,
) -> Result<Kernel> {
    edit::edit(&mut ptx, &mut signature, device.arch(), variant)?;
    let text = ptx.text_at_lines();
    dump::write(name, variant, device.arch(), &text)?;
    let entry = signature.name.clone();
    Module::load_parsed(device, &text, vec![signature], Vec::new())?.kernel(&entry)
}
