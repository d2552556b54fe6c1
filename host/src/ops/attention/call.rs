//! One call of attention: the description and the memory that a candidate is launched with.

use super::desc::AttentionDesc;
use super::score::{ScoreCall, scored};
use crate::launch::KernelArg;
pub(in crate::ops) use crate::ops::gemm::Memory;
use crate::{Error, LaunchConfig, Result, Stream};
use abi::attention::decode::DecodeScales;
use abi::attention::{FlashFwdLengths, FlashFwdPages, FlashFwdParams, OutputDType};
use abi::division::Division;
use abi::entry::Entry;

/// Scales in memory, and their strides between sequences and between key heads.
pub(in crate::ops) type Scales = (Memory, [i64; 2]);

/// A description and its memory. All tensors have the layouts of the [`AttentionDesc`] and lie
/// inside of their allocations; o and lse are injective and overlap nothing that is read.
#[derive(Clone)]
pub(in crate::ops) struct Call<'a> {
    pub(in crate::ops) stream: &'a Stream,
    pub(in crate::ops) desc: AttentionDesc,
    pub(in crate::ops) q: Memory,
    pub(in crate::ops) k: Memory,
    pub(in crate::ops) v: Memory,
    pub(in crate::ops) o: Memory,
    pub(in crate::ops) lse: Option<Memory>,
    /// One f32 per query head.
    pub(in crate::ops) sink: Option<Memory>,
    pub(in crate::ops) lengths: CallLengths,
    /// The table of pages, `[batch, n]` with rows as the description has them.
    pub(in crate::ops) pages: Option<Memory>,
    /// Those of the keys and of the values, if they have some.
    pub(in crate::ops) scales: [Option<Scales>; 2],
    /// What is done to scores, if anything is.
    pub(in crate::ops) score: Option<ScoreCall>,
    /// As in [`FlashFwdParams`].
    pub(in crate::ops) softmax_scale_log2: f32,
    /// As in [`FlashFwdParams`].
    pub(in crate::ops) softcap_scale: f32,
}

/// Arrays of lengths, as in [`FlashFwdLengths`].
#[derive(Clone, Default)]
pub(in crate::ops) struct CallLengths {
    pub(in crate::ops) cu_seqlens_q: Option<Memory>,
    pub(in crate::ops) cu_seqlens_k: Option<Memory>,
    pub(in crate::ops) seqused_q: Option<Memory>,
    pub(in crate::ops) seqused_k: Option<Memory>,
    pub(in crate::ops) leftpad_k: Option<Memory>,
}

impl Call<'_> {
    /// Extents, strides and scalars, as every entry takes them.
    pub(in crate::ops) fn params(&self) -> Result<FlashFwdParams> {
        let desc = &self.desc;
        let o_dtype = OutputDType::new(desc.o_dtype)
            .ok_or(Error::Bug("an element type that attention does not have"))?;
        Ok(FlashFwdParams {
            q: desc.q.strides,
            k: desc.k.strides,
            v: desc.v.strides,
            o: desc.o.strides,
            batch: desc.batch,
            seqlen_q: desc.seqlen_q,
            seqlen_k: desc.seqlen_k,
            total_q: desc.total_q,
            total_k: desc.total_k,
            heads_q: desc.heads_q,
            heads_kv: desc.heads_kv,
            head_dim: desc.head_dim,
            head_dim_v: desc.head_dim_v,
            window_left: desc.window_left,
            window_right: desc.window_right,
            top_left: u32::from(desc.top_left),
            softmax_scale_log2: self.softmax_scale_log2,
            softcap_scale: self.softcap_scale,
            o_dtype: o_dtype.code(),
            write_lse: u32::from(desc.lse),
        })
    }

    /// Pointers to the lengths. They do not register the use of the memory on the stream: see
    /// [`uses`](Self::uses).
    pub(in crate::ops) fn lengths(&self) -> FlashFwdLengths {
        let pointer = |memory: &Option<Memory>| {
            let address = memory.as_ref().map_or(0, Memory::address);
            std::ptr::with_exposed_provenance(address as usize)
        };
        let lengths = &self.lengths;
        FlashFwdLengths {
            cu_seqlens_q: pointer(&lengths.cu_seqlens_q),
            cu_seqlens_k: pointer(&lengths.cu_seqlens_k),
            seqused_q: pointer(&lengths.seqused_q),
            seqused_k: pointer(&lengths.seqused_k),
            leftpad_k: pointer(&lengths.leftpad_k),
        }
    }

    /// The table of pages; see [`lengths`](Self::lengths).
    pub(in crate::ops) fn pages(&self) -> FlashFwdPages {
        match (&self.pages, self.desc.pages) {
            (Some(table), Some(desc)) => FlashFwdPages {
                table: std::ptr::with_exposed_provenance(table.address() as usize),
                row: desc.row,
                pages: desc.count,
                page_size: Division::new(desc.page_size),
            },
            _ => FlashFwdPages::NONE,
        }
    }

    /// The factors of keys and values in e4m3; see [`lengths`](Self::lengths).
    pub(in crate::ops) fn decode_scales(&self) -> Result<DecodeScales> {
        let q_dtype = OutputDType::new(self.desc.dtype)
            .ok_or(Error::Bug("an element type that attention does not have"))?;
        let [(k, k_strides), (v, v_strides)] = [0, 1].map(|idx| match &self.scales[idx] {
            Some((memory, strides)) => (
                std::ptr::with_exposed_provenance(memory.address() as usize),
                *strides,
            ),
            None => (std::ptr::null(), [0; 2]),
        });
        Ok(DecodeScales {
            k,
            v,
            k_strides,
            v_strides,
            q_dtype: q_dtype.code(),
            reserved: 0,
        })
    }

    /// Registers the use of all memory of the call on the stream, since launches get some of it as
    /// plain addresses.
    pub(in crate::ops) fn uses(&self) -> Result<()> {
        let CallLengths {
            cu_seqlens_q,
            cu_seqlens_k,
            seqused_q,
            seqused_k,
            leftpad_k,
        } = &self.lengths;
        let lengths = [cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, leftpad_k];
        let tensors = [&self.q, &self.k, &self.v, &self.o];
        let optional = lengths
            .into_iter()
            .chain([&self.lse, &self.sink, &self.pages]);
        let of_scales = self.scales.iter().flatten().map(|(memory, _)| memory);
        let of_score = self.score.iter().flat_map(|score| &score.memory);
        tensors
            .into_iter()
            .chain(optional.flatten())
            .chain(of_score)
            .chain(of_scales)
            .try_for_each(|memory| memory.use_on(self.stream))
    }

    /// Enqueues `entry` with the memory of every forward entry (see [`abi::attention`]), and the
    /// parameter blocks that `params` makes of lengths, extents and strides.
    ///
    /// # Safety
    /// As [`Kernel::launch`](crate::Kernel::launch): the entry takes this memory, and `config` is the
    /// one that it requires for this description.
    pub(in crate::ops) unsafe fn launch<E: Entry>(
        &self,
        entry: E,
        config: LaunchConfig,
        params: impl FnOnce(FlashFwdLengths, FlashFwdParams) -> E::Params,
    ) -> Result<()> {
        self.uses()?;
        let params = params(self.lengths(), self.params()?);
        let (q, k, v, o) = (&self.q, &self.k, &self.v, &self.o);
        let memory = (q, k, v, o, self.lse.as_ref(), self.sink.as_ref());
        let of = (entry, self.stream);
        // SAFETY: guaranteed by the caller.
        unsafe { scored(self.score.as_ref(), of, config, memory, &params) }
    }
}
