//! Launches of a composed kernel: how many elements a thread takes, in which skeleton.

use super::compose::Composition;
use super::plan::{Piece, Walk};
use super::steps::{Operand, Step};
use crate::module::Kernel;
use crate::{Device, Error, KernelArg, LaunchConfig, Result};
use spec::DType;
use spec::elementwise::{
    Arithmetic, CHUNK_BYTES, DenseParams, FUSED_THREADS, FusedEntry, MAX_INPUTS, MAX_STEPS,
    StridedParams,
};

/// Instructions of a thread above which it takes fewer elements: what is longer is bound by
/// arithmetic, and its text by the driver's time to compile it.
const LONG: u32 = 2048;

/// Short chunks of a launch up to which a thread takes one: more blocks are worth more than more loads
/// at once.
const SMALL_CHUNKS: u32 = 1 << 17;

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
    /// Instructions of an element, more or less.
    weight: u32,
}

/// One launch.
pub(crate) struct Launch<'l> {
    pub(crate) kernel: &'l Kernel,
    pub(crate) config: LaunchConfig,
    pub(crate) piece: &'l Piece,
    /// The parameter behind the output and the four inputs.
    pub(crate) params: &'l dyn KernelArg,
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
        })
    }

    /// A cast.
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
        walk.pieces(self.most_elements(), |piece| {
            let composition = self.composition(piece);
            let (key, used) = composition.key();
            let kernel = device.composed(&key[..used], || composition.text(device.arch()))?;
            let len = piece.params.len;
            let (chunks, rest) = (len / composition.elements, len % composition.elements);
            let blocks = chunks
                .div_ceil(FUSED_THREADS * composition.entry.chunks)
                .max(1);
            let scalars = self.numbers;
            let (dense, strided);
            let params: &dyn KernelArg = if composition.entry.dense {
                dense = DenseParams {
                    chunks,
                    rest,
                    scalars,
                };
                &dense
            } else {
                strided = StridedParams {
                    walk: piece.params,
                    chunks,
                    rest,
                    scalars,
                };
                &strided
            };
            launch(&Launch {
                kernel: &kernel,
                config: LaunchConfig::linear(blocks, FUSED_THREADS),
                piece,
                params,
            })
        })
    }

    /// The text of the kernel that devices of `arch` run over dense tensors of many elements.
    pub(super) fn ptx(&self, arch: (u32, u32)) -> Result<String> {
        self.shaped(true, self.most_elements(), 0, 1).text(arch)
    }

    /// Elements of a chunk: 16 bytes of the widest tensor, but few of a long program, whose text
    /// stands there once for each.
    fn most_elements(&self) -> u32 {
        let most = CHUNK_BYTES / self.widest();
        if self.weight * most > LONG {
            most.min(4)
        } else {
            most
        }
    }

    /// Bytes of an element of the widest tensor.
    fn widest(&self) -> u32 {
        let tensors = &self.dtypes[..=self.inputs];
        let sizes = tensors.iter().map(|dtype| dtype.size_bytes() as u32);
        sizes.max().unwrap_or(CHUNK_BYTES)
    }

    /// The kernel for one launch.
    fn composition(&self, piece: &Piece) -> Composition<'_> {
        let params = &piece.params;
        let strides = &params.strides[..=self.inputs];
        let has_no_gaps = params.rank == 1 && strides.iter().all(|strides| strides[0] == 1);
        let most = FusedEntry::most_chunks(self.inputs as u32);
        let is_short = params.chunk * self.widest() < CHUNK_BYTES;
        let is_many = params.len / params.chunk > SMALL_CHUNKS;
        let is_long = self.weight * params.chunk * most > LONG;
        let takes_many = is_short && is_many && !is_long;
        let chunks = if takes_many { most } else { 1 };
        // Without gaps but not aligned to 16 bytes it has short chunks, too, and is a walk of one step.
        let is_dense = has_no_gaps && params.chunk > 1 && !takes_many;
        self.shaped(is_dense, params.chunk, params.splat, chunks)
    }

    fn shaped(&self, dense: bool, elements: u32, splat: u32, chunks: u32) -> Composition<'_> {
        Composition {
            entry: FusedEntry {
                dense,
                inputs: self.inputs as u32,
                chunks,
            },
            elements,
            splat,
            arithmetic: self.arithmetic,
            dtypes: self.dtypes,
            steps: self.steps,
        }
    }
}
