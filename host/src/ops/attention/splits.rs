//! Split-KV: a launch that computes the parts of the keys, and one that merges them.

use super::call::{Call, Memory};
use super::desc::{AttentionDesc, OperandDesc};
use crate::load;
use crate::{DType, LaunchConfig, Result, Tensor};
use abi::attention::FwdPacking;
use abi::attention::merge::{SPLITS_ENTRY, THREADS, blocks, strides_of_splits};

/// Enqueues `launch` with the call and `packing`, once. One split is launched as it is. More splits
/// write o and lse to memory of their own, and the merge comes behind it.
pub(super) fn launch(
    call: &Call<'_>,
    mut packing: FwdPacking,
    splits: u32,
    launch: impl FnOnce(&Call<'_>, FwdPacking) -> Result<()>,
) -> Result<()> {
    if splits == 1 {
        return launch(call, packing);
    }
    let desc = &call.desc;
    let batches = if desc.lengths.cu_seqlens_q {
        1
    } else {
        desc.batch
    };
    let heads = desc.heads_q as usize;
    let of_lse = batches as usize * heads * desc.positions_q() as usize;
    let of_o = of_lse * desc.head_dim_v as usize;
    let count = splits as usize;
    let o = Tensor::<f32>::empty(call.stream, &[count, of_o])?;
    let lse = Tensor::<f32>::empty(call.stream, &[count, of_lse])?;
    packing.splits = splits;
    (packing.o_split, packing.lse_split) = (of_o as u64, of_lse as u64);
    let params = call.params()?;
    let call_of_splits = Call {
        desc: AttentionDesc {
            o_dtype: DType::F32,
            o: OperandDesc {
                strides: strides_of_splits(&params),
                ..desc.o
            },
            lse: true,
            ..*desc
        },
        o: Memory::of(&o),
        lse: Some(Memory::of(&lse)),
        sink: None, // the merge adds it
        ..call.clone()
    };
    launch(&call_of_splits, packing)?;
    call.uses()?;
    let rows = u64::from(desc.batch) * u64::from(desc.seqlen_q) * heads as u64;
    let config = LaunchConfig::linear(blocks(rows), THREADS);
    let (to, lengths) = (&call.o, call.lengths());
    let (to_lse, sink) = (call.lse.as_ref(), call.sink.as_ref());
    let (memory, params) = ((&o, &lse, to, to_lse, sink), (lengths, params, packing));
    // However brief, it does not let the next launch begin: that one's blocks can settle beside the
    // merge's, two on one multiprocessor and none on another.
    let kernel = load::kernel(call.stream, SPLITS_ENTRY)?;
    // SAFETY: the first launch wrote the partial results, with the same lengths; o and lse are
    // those of the call.
    unsafe { kernel.launch(call.stream, config, memory, &params) }
}

/// Roundings that the merge adds to each sum: it multiplies each part by an exponential and by the
/// quotient, and adds them up. (The lse it uses is rounded, by less than the error of a score.)
pub(super) fn roundings(splits: u32) -> usize {
    match splits {
        1 => 0,
        splits => splits as usize + 2,
    }
}
