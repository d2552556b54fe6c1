//! Launches of composed kernels: the choice of the skeleton and of the elements per thread.

use super::compose::{Composition, inputs_of};
use super::costs::ElementwiseCosts;
use super::plan::{Piece, Walk};
use super::steps::{Operand, Step};
use crate::load::{EntryKernel, KernelKey, LoadVariant};
use crate::ops::plan::MachineModel;
use crate::{Device, Error, KernelArgs, LaunchConfig, Result, Stream};
use abi::DType;
use abi::elementwise::{
    Arithmetic, CHUNK_BYTES, DenseParams, FusedEntry, MAX_INPUTS, MAX_STEPS, StridedParams, THREADS,
};
use abi::entry::Entry;

/// How many chunks ahead the blocks of a launch prefetch; 0 if they do not.
fn ahead(composition: &Composition<'_>, device: &Device) -> u32 {
    let FusedEntry {
        inputs,
        chunks: own,
        ..
    } = composition.entry;
    let output = composition.dtypes[0].size_bytes() as u32;
    let input = widest_of(&composition.dtypes[1..=inputs as usize]);
    // 2 to 3 % slower where more is read than written: f32 to bf16 takes 190 us instead of 186.
    if own == 1 || output < input {
        return 0;
    }
    let blocks = MachineModel::of(device.info()).elementwise.ahead_blocks;
    blocks * THREADS * own * device.info().multiprocessors
}

/// Most chunks of a thread that there is a kernel for: they keep the memory busy if chunks are
/// short. With chunks of [`CHUNK_BYTES`], two are enough, by as many threads as an SM holds. One is
/// enough if the function is short, or if the output is wider than the inputs, for which threads
/// wait.
fn most_chunks(inputs: u32) -> u32 {
    let all = FusedEntry::ALL.iter();
    let fits = all.filter(|entry| !entry.dense && !entry.stores && entry.inputs == inputs);
    fits.map(|entry| entry.chunks).max().unwrap_or(1)
}

/// Steps over tensors of known dtypes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fused<'a> {
    arithmetic: Arithmetic,
    /// Of the output, then of the inputs.
    dtypes: [DType; 1 + MAX_INPUTS],
    inputs: usize,
    steps: &'a [Step<'a>],
    /// Bits of each step's number.
    numbers: [u64; MAX_STEPS],
    /// Estimate of the instructions per element.
    weight: u32,
    costs: &'static ElementwiseCosts,
}

/// Size in bytes of the widest dtype.
fn widest_of(dtypes: &[DType]) -> u32 {
    let sizes = dtypes.iter().map(|dtype| dtype.size_bytes() as u32);
    sizes.max().unwrap_or(CHUNK_BYTES)
}

/// One launch.
pub(crate) struct Launch<'l> {
    kernel: EntryKernel<FusedEntry>,
    config: LaunchConfig,
    pub(crate) piece: &'l Piece,
    params: <FusedEntry as Entry>::Params,
}

impl Launch<'_> {
    /// Enqueues it, with the output and the four inputs.
    ///
    /// # Safety
    /// As [`Kernel::launch`](crate::Kernel::launch): the tensors have the strides of the walk over its
    /// shape.
    pub(crate) unsafe fn enqueue(&self, memory: impl KernelArgs, stream: &Stream) -> Result<()> {
        // SAFETY: guaranteed by the caller; the kernel was composed for this walk.
        unsafe {
            self.kernel
                .launch(stream, self.config, memory, &self.params)
        }
    }
}

impl<'a> Fused<'a> {
    pub(super) fn new(
        arithmetic: Arithmetic,
        dtypes: [DType; 1 + MAX_INPUTS],
        inputs: usize,
        steps: &'a [Step<'a>],
    ) -> Result<Self> {
        let mut numbers = [0; MAX_STEPS];
        for (to, step) in numbers.iter_mut().zip(steps) {
            if let Some(Operand::Number(number)) = step.operand() {
                *to = number.bits(arithmetic)?;
            }
        }
        Ok(Self {
            arithmetic,
            dtypes,
            inputs,
            steps,
            numbers,
            weight: steps.iter().map(Step::weight).sum(),
            costs: &MachineModel::H200.elementwise,
        })
    }

    /// The same for launches on this device.
    fn on(&self, device: &Device) -> Self {
        Self {
            costs: &MachineModel::of(device.info()).elementwise,
            ..*self
        }
    }

    /// A cast, which has no steps.
    pub(crate) fn cast(from: DType, to: DType) -> Result<Self> {
        let between =
            Arithmetic::of_cast(from, to).ok_or(Error::Bug("a dtype without casts is cast"))?;
        let mut dtypes = [to; 1 + MAX_INPUTS];
        dtypes[1] = from;
        Self::new(between, dtypes, 1, &[])
    }

    /// Calls `launch` for each launch of a walk over at least one element.
    ///
    /// # Errors
    /// Those of composing and loading, and the first that `launch` returns.
    pub(crate) fn launches(
        &self,
        walk: &Walk,
        device: &Device,
        mut launch: impl FnMut(&Launch<'_>) -> Result<()>,
    ) -> Result<()> {
        let fused = self.on(device);
        walk.pieces(fused.most_elements(), |piece| {
            let composition = fused.composition(piece);
            let bytes = u64::from(piece.params.len) * self.bytes_each();
            let (key, used) = composition.key();
            let key = KernelKey {
                entry: &key[..used],
                variant: LoadVariant::of_once(device, bytes),
            };
            let kernel = device.composed(&key, || composition.text(device.arch()))?;
            let len = piece.params.len;
            let (chunks, rest) = (len / composition.elements, len % composition.elements);
            let scalars = self.numbers;
            let params = if composition.entry.dense {
                let dense = DenseParams {
                    chunks,
                    rest,
                    ahead: ahead(&composition, device),
                    padding: 0,
                    scalars,
                };
                (Some(dense), None)
            } else {
                let strided = StridedParams {
                    walk: piece.params,
                    chunks,
                    rest,
                    scalars,
                };
                (None, Some(strided))
            };
            launch(&Launch {
                kernel: EntryKernel::of(kernel),
                config: config(&composition, len),
                piece,
                params,
            })
        })
    }

    /// The skeleton and the grid of the first launch of a walk.
    pub(super) fn first(&self, walk: &Walk, device: &Device) -> Option<(FusedEntry, LaunchConfig)> {
        let fused = self.on(device);
        let mut first = None;
        let stop = walk.pieces(fused.most_elements(), |piece| {
            let composition = fused.composition(piece);
            first = Some((composition.entry, config(&composition, piece.params.len)));
            Err(())
        });
        first.filter(|_| stop.is_err())
    }

    /// Bytes that are read and written for an element.
    pub(super) fn bytes_each(&self) -> u64 {
        let [read, written] = [false, true].map(|is_written| inputs_of(self.steps, is_written));
        let accesses = |t: usize| match t {
            0 => 1,
            _ => u64::from((read >> (t - 1)) & 1) + u64::from((written >> (t - 1)) & 1),
        };
        let dtypes = self.dtypes[..=self.inputs].iter().enumerate();
        dtypes
            .map(|(t, of)| accesses(t) * of.size_bytes() as u64)
            .sum()
    }

    /// The PTX of the kernel that devices of `arch` run over large contiguous tensors.
    pub(super) fn ptx(&self, arch: (u32, u32)) -> Result<String> {
        self.shaped(true, self.most_elements(), 0, true).text(arch)
    }

    /// Largest chunk, in elements: 16 bytes of the widest tensor, but at most 4 elements of a long
    /// program, whose instructions are repeated for each element.
    fn most_elements(&self) -> u32 {
        let most = CHUNK_BYTES / widest_of(&self.dtypes[..=self.inputs]);
        if self.weight * most > self.costs.long {
            most.min(4)
        } else {
            most
        }
    }

    /// The kernel for one launch.
    fn composition(&self, piece: &Piece) -> Composition<'_> {
        let params = &piece.params;
        let strides = &params.strides[..=self.inputs];
        let has_no_gaps = params.rank == 1 && strides.iter().all(|strides| strides[0] == 1);
        let is_many = params.len / params.chunk > self.costs.small_chunks;
        let has_no_gaps = has_no_gaps && params.chunk > 1;
        self.shaped(has_no_gaps, params.chunk, params.splat, is_many)
    }

    fn shaped(
        &self,
        has_no_gaps: bool,
        elements: u32,
        splat: u32,
        is_many: bool,
    ) -> Composition<'_> {
        let (inputs, widest) = (self.inputs as u32, widest_of(&self.dtypes[..=self.inputs]));
        let instructions = self.weight * elements;
        let (most, costs) = (most_chunks(inputs), self.costs);
        let is_short = elements * widest < CHUNK_BYTES;
        let takes_most = is_many && is_short && instructions * most <= costs.long;
        // Contiguous tensors that are not aligned to 16 bytes have short chunks too; they go
        // through the strided skeleton, as a walk over one dimension.
        let dense = has_no_gaps && !takes_most;
        let dtypes = &self.dtypes[..=self.inputs];
        let is_even = dtypes.iter().all(|of| of.size_bytes() as u32 == widest);
        let is_light = is_even && widest > 1 && inputs <= 2 && self.weight <= costs.light;
        let is_wider = widest_of(&dtypes[1..]) < widest;
        let takes_two = is_many && dense && !is_wider && !is_light;
        let chunks = match (takes_most, takes_two) {
            (true, _) => most,
            (_, true) if 2 * instructions <= costs.long => 2,
            _ => 1,
        };
        let entry = match inputs_of(self.steps, true) {
            0 => FusedEntry::of(dense, inputs, chunks),
            _ => FusedEntry::with_stores(has_no_gaps),
        };
        Composition {
            entry: entry.expect("the table has this skeleton"),
            elements,
            splat,
            arithmetic: self.arithmetic,
            dtypes: self.dtypes,
            steps: self.steps,
        }
    }
}

/// Blocks of a launch over so many elements.
fn config(composition: &Composition<'_>, len: u32) -> LaunchConfig {
    let chunks = len / composition.elements;
    let blocks = chunks.div_ceil(THREADS * composition.entry.chunks).max(1);
    LaunchConfig::linear(blocks, THREADS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::elementwise::UnaryOp;

    /// Calls `look` with the composition of a function, or of a cast, of contiguous elements.
    fn with_composition<R>(
        [from, to]: [DType; 2],
        op: Option<UnaryOp>,
        is_many: bool,
        look: impl FnOnce(&Composition<'_>) -> R,
    ) -> R {
        let mut dtypes = [to; 1 + MAX_INPUTS];
        dtypes[1] = from;
        let step = op.map(Step::Unary);
        let fused = Fused::new(Arithmetic::F32, dtypes, 1, step.as_slice());
        let fused = fused.expect("no numbers");
        look(&fused.shaped(true, fused.most_elements(), 0, is_many))
    }

    #[test]
    fn a_thread_takes_two_chunks_of_long_functions_and_narrower_outputs_where_there_are_many() {
        use DType::{Bf16, E4m3, F32};
        let (relu, gelu) = (UnaryOp::Relu, UnaryOp::Gelu);
        for (from, to, op, is_many, want) in [
            (F32, F32, Some(relu), true, "fused_dense_1x1"),
            (F32, F32, Some(gelu), true, "fused_dense_1x2"),
            (F32, F32, Some(gelu), false, "fused_dense_1x1"),
            (Bf16, Bf16, Some(UnaryOp::Exp), true, "fused_dense_1x1"),
            (E4m3, E4m3, Some(relu), true, "fused_dense_1x2"),
            (F32, Bf16, None, true, "fused_dense_1x2"),
            (Bf16, F32, None, true, "fused_dense_1x1"),
            (E4m3, Bf16, None, true, "fused_dense_1x1"),
        ] {
            with_composition([from, to], op, is_many, |composition| {
                let entry = composition.entry.to_string();
                assert_eq!(entry, want, "{op:?} from {from} to {to}");
            });
        }
    }

    #[test]
    fn threads_of_two_chunks_prefetch_unless_less_is_written_than_read() {
        use DType::{Bf16, F32};
        let device = Device::emulator().expect("an emulator");
        let prefetches = |from, to, op: Option<UnaryOp>| {
            with_composition([from, to], op, true, |composition| {
                ahead(composition, &device) > 0
            })
        };
        assert!(prefetches(F32, F32, Some(UnaryOp::Gelu)));
        assert!(!prefetches(F32, F32, Some(UnaryOp::Relu)));
        assert!(!prefetches(Bf16, F32, None));
        assert!(!prefetches(F32, Bf16, None));
    }

    #[test]
    fn short_chunks_are_walked_several_a_thread_where_there_are_many() {
        let dtypes = [DType::F32; 1 + MAX_INPUTS];
        let fused = Fused::new(Arithmetic::F32, dtypes, 1, &[]).expect("no numbers");
        let entry = |elements, is_many| fused.shaped(true, elements, 0, is_many).entry.to_string();
        assert_eq!(entry(2, true), "fused_strided_1x4");
        assert_eq!(entry(2, false), "fused_dense_1x1");
        assert_eq!(entry(4, true), "fused_dense_1x1");
    }
}
