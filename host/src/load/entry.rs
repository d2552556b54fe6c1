//! Kernels of this build, typed by their entries.

use super::{KernelKey, LoadVariant};
use crate::error::Result;
use crate::kernel::Kernel;
use crate::launch::{ByValue, KernelArg, KernelArgs, LaunchConfig, Then};
use crate::stream::Stream;
use abi::entry::{Blocks, Entry, MAX_BLOCKS};
use std::marker::PhantomData;

/// The kernel of an entry of type `E`, launched with the parameter blocks that `E` takes.
#[derive(Clone, Debug)]
pub(crate) struct EntryKernel<E> {
    kernel: Kernel,
    entry: PhantomData<E>,
}

impl<E: Entry> EntryKernel<E> {
    /// The embedded kernel of the entry on the stream's device.
    pub(super) fn embedded(variant: LoadVariant, stream: &Stream, entry: &E) -> Result<Self> {
        let entry = entry.name();
        let kernel = stream.device().embedded(&KernelKey { entry, variant })?;
        Ok(Self::of(kernel))
    }

    /// `kernel`, which takes what the entry takes.
    pub(crate) fn of(kernel: Kernel) -> Self {
        Self {
            kernel,
            entry: PhantomData,
        }
    }

    /// Enqueues one launch: `memory` is the pointers and tensor maps, and `params` the parameter
    /// blocks.
    ///
    /// # Safety
    /// As [`Kernel::launch`].
    pub(crate) unsafe fn launch(
        &self,
        stream: &Stream,
        config: LaunchConfig,
        memory: impl KernelArgs,
        params: &E::Params,
    ) -> Result<()> {
        let args = Then(memory, ByValues::of(params));
        // SAFETY: guaranteed by the caller.
        unsafe { self.kernel.launch(stream, config, args) }
    }

    /// The same of a composed kernel, which takes `more` behind the entry's parameters.
    ///
    /// # Safety
    /// As [`launch`](Self::launch).
    pub(crate) unsafe fn launch_with(
        &self,
        stream: &Stream,
        config: LaunchConfig,
        memory: impl KernelArgs,
        params: &E::Params,
        more: &[u8],
    ) -> Result<()> {
        let more = (ByValue::of_bytes(more),);
        let args = Then(Then(memory, ByValues::of(params)), more);
        // SAFETY: guaranteed by the caller.
        unsafe { self.kernel.launch(stream, config, args) }
    }
}

/// The parameter blocks as arguments.
struct ByValues<'a> {
    blocks: [ByValue<'a>; MAX_BLOCKS],
    count: usize,
}

impl<'a> ByValues<'a> {
    fn of(params: &'a impl Blocks) -> Self {
        let (mut blocks, mut count) = ([ByValue::of_bytes(&[]); MAX_BLOCKS], 0);
        params.visit(&mut |bytes| {
            blocks[count] = ByValue::of_bytes(bytes);
            count += 1;
        });
        Self { blocks, count }
    }
}

impl KernelArgs for ByValues<'_> {
    fn count(&self) -> usize {
        self.count
    }

    fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a dyn KernelArg) -> Result<()>) -> Result<()> {
        let mut blocks = self.blocks[..self.count].iter();
        blocks.try_for_each(|block| visit(block))
    }
}
