//! One call: the description and the memory that a candidate is launched with.

use super::desc::GradDesc;
use crate::launch::{KernelArg, KernelArgs};
use crate::load;
use crate::ops::attention::call::{Call, Memory};
use crate::ops::attention::score::scored;
use crate::{Error, LaunchConfig, Result};
use abi::attention::FlashFwdParams;
use abi::attention_grad::sink::{SINK_ENTRY, SINK_THREADS};
use abi::attention_grad::{AttentionGradParams, DELTA_ENTRY, DELTA_TILE};
use abi::entry::Entry;

/// Most queries, and most keys, of a kernel's tile.
const MOST_TILE: u32 = 128;

/// A description and its memory. All tensors have the layouts of the [`GradDesc`] and lie inside of
/// their allocations; the gradients are injective and overlap nothing.
pub(super) struct GradCall<'a> {
    pub(super) desc: GradDesc,
    /// The forward pass, with its o and lse, which are read.
    pub(super) forward: Call<'a>,
    pub(super) lse: Memory,
    pub(super) d_o: Memory,
    /// Written by [`launch_delta`](Self::launch_delta); f32, lies as lse does.
    pub(super) delta: Memory,
    pub(super) dq: Memory,
    pub(super) dk: Memory,
    pub(super) dv: Memory,
    /// One f32 per query head, if the forward call has a sink and its gradient is wanted.
    pub(super) d_sink: Option<Memory>,
    /// As in [`AttentionGradParams`].
    pub(super) softmax_scale: f32,
}

impl GradCall<'_> {
    /// Extents, strides and scalars, as every entry takes them.
    pub(super) fn params(&self) -> Result<AttentionGradParams> {
        Ok(AttentionGradParams {
            fwd: self.forward.params()?,
            d_o: self.desc.d_o.strides,
            dq: self.desc.dq.strides,
            dk: self.desc.dk.strides,
            dv: self.desc.dv.strides,
            softmax_scale: self.softmax_scale,
            heads_together: 1,
        })
    }

    /// Registers the use of all memory of the call on the stream, since launches get some of it as
    /// plain addresses.
    pub(super) fn uses(&self) -> Result<()> {
        self.forward.uses()?;
        [
            &self.lse,
            &self.d_o,
            &self.delta,
            &self.dq,
            &self.dk,
            &self.dv,
        ]
        .into_iter()
        .chain(&self.d_sink)
        .try_for_each(|memory| memory.use_on(self.forward.stream))
    }

    /// Enqueues `entry` with this memory and these parameter blocks.
    ///
    /// # Safety
    /// As [`Kernel::launch`](crate::Kernel::launch): the entry takes this memory, and `config` is
    /// the one that it requires for this description.
    pub(super) unsafe fn launch<E: Entry>(
        &self,
        entry: E,
        config: LaunchConfig,
        memory: impl KernelArgs,
        params: &E::Params,
    ) -> Result<()> {
        let kernel = load::kernel(self.forward.stream, entry)?;
        // SAFETY: guaranteed by the caller.
        unsafe { kernel.launch(self.forward.stream, config, memory, params) }
    }

    /// The same of an entry that computes scores, whose holes are filled.
    ///
    /// # Safety
    /// As [`launch`](Self::launch).
    pub(super) unsafe fn launch_scored<E: Entry>(
        &self,
        entry: E,
        config: LaunchConfig,
        memory: impl KernelArgs,
        params: &E::Params,
    ) -> Result<()> {
        let of = (entry, self.forward.stream);
        let score = self.forward.score.clone();
        let score = score.map(|score| score.for_tile([MOST_TILE; 2], true));
        // SAFETY: guaranteed by the caller.
        unsafe { scored(score.transpose()?.as_ref(), of, config, memory, params) }
    }

    /// Enqueues the kernel that writes delta.
    pub(super) fn launch_delta(&self) -> Result<()> {
        let desc = &self.desc.forward;
        let (batch, seqlen_q, heads_q) = (desc.batch, desc.seqlen_q, desc.heads_q);
        let grid = FlashFwdParams::grid(batch, seqlen_q, heads_q, DELTA_TILE.tile_m)
            .ok_or(Error::Bug("a plan whose delta has no grid"))?;
        let config = LaunchConfig {
            grid,
            block: [DELTA_TILE.threads, 1, 1],
            shared_bytes: 0,
            cluster: None,
        };
        let params = (self.forward.lengths(), self.params()?);
        let (o, d_o, delta) = (&self.forward.o, &self.d_o, &self.delta);
        // SAFETY: extents, strides and lengths are those of the call's memory; the grid covers
        // them.
        unsafe { self.launch(DELTA_ENTRY, config, (o, d_o, delta), &params) }
    }

    /// Enqueues the kernel that writes the sinks' gradients, if they are wanted. To be called after
    /// the launch of a candidate: that has written delta where there are queries, and has
    /// registered the use of the lengths.
    pub(super) fn launch_sink(&self) -> Result<()> {
        let (Some(sink), Some(d_sink)) = (&self.forward.sink, &self.d_sink) else {
            return Ok(());
        };
        let config = LaunchConfig {
            grid: [self.desc.forward.heads_q, 1, 1],
            block: [SINK_THREADS, 1, 1],
            shared_bytes: 0,
            cluster: None,
        };
        let params = (self.forward.lengths(), self.forward.params()?);
        let memory = (sink, &self.lse, &self.delta, d_sink);
        // SAFETY: extents and lengths are those of the call's memory, and delta is written before,
        // on the same stream; a block writes its head's element.
        unsafe { self.launch(SINK_ENTRY, config, memory, &params) }
    }
}
