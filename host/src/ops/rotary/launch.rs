//! The launch: which axis is which, the walk over tokens, the kernel.

use super::plan::{Candidate, RotaryDesc};
use super::{Positions, Rotary};
use crate::load::{self, LoadVariant};
use crate::ops::attention::Layout;
use crate::ops::check;
use crate::ops::elementwise::{Steps, Walk};
use crate::ops::rows::ParamElement;
use crate::tensor::Address;
use crate::{Element, Error, Float, LaunchConfig, Result, Stream, Tensor};
use abi::division::Division;
use abi::elementwise::MAX_RANK;
use abi::rotary::{HEADS, MAX_THREADS, RotaryParams, THREADS, Variant, flags};

/// Which axis of x is which. Those before are of sequences.
pub(super) struct Axes {
    pub(super) token: usize,
    pub(super) head: usize,
    pub(super) element: usize,
}

impl Axes {
    /// # Errors
    /// [`ShapeError::Mismatch`](crate::ShapeError::Mismatch) for fewer than three dimensions.
    pub(super) fn of<T: Element>(x: &Tensor<T>, layout: Layout) -> Result<Self> {
        let rank = x.rank();
        if rank < 3 {
            let want = match layout {
                Layout::Bshd => "[.., seqlen, heads, head_dim], three dimensions at least",
                Layout::Bhsd => "[.., heads, seqlen, head_dim], three dimensions at least",
            };
            return Err(check::shape_mismatch("x", x, want));
        }
        let (token, head) = match layout {
            Layout::Bshd => (rank - 3, rank - 2),
            Layout::Bhsd => (rank - 2, rank - 3),
        };
        Ok(Self {
            token,
            head,
            element: rank - 1,
        })
    }

    /// The extents of the axes of sequences.
    pub(super) fn outer<'a>(&self, shape: &'a [usize]) -> &'a [usize] {
        &shape[..self.element - 2]
    }

    /// What a list of extents or strides has for sequences and tokens; `rank` in all.
    fn tokens<N: Copy + Default>(&self, of: &[N]) -> ([N; MAX_RANK], usize) {
        let (mut list, outer) = ([N::default(); MAX_RANK], self.element - 2);
        list[..outer].copy_from_slice(&of[..outer]);
        list[outer] = of[self.token];
        (list, outer + 1)
    }
}

impl<T: Float, C: ParamElement<T>> Rotary<'_, T, C> {
    /// What is to be chosen from; `None` if there is nothing to write.
    pub(super) fn describe(&self, axes: &Axes, y: &Tensor<T>) -> Result<Option<RotaryDesc>> {
        if y.is_empty() {
            return Ok(None);
        }
        let (half, written) = self.extents(axes, y)?;
        let heads = check::extent("heads", y.shape()[axes.head])?;
        let desc = RotaryDesc {
            dtype: T::DTYPE,
            table: C::DTYPE,
            tokens: (y.len() / (y.shape()[axes.head] * y.shape()[axes.element])) as u64,
            heads,
            elements: y.len() as u64,
            half,
            written,
            is_interleaved: self.is_interleaved,
            is_of_vectors: self.is_of_vectors(axes, y),
        };
        let threads = desc.least_threads();
        if threads > MAX_THREADS {
            return Err(Error::out_of_bounds(
                "number of threads for a token's heads",
                threads,
                MAX_THREADS + 1,
            ));
        }
        Ok((threads > 0).then_some(desc))
    }

    /// Launches one candidate.
    pub(super) fn launch_by(
        &self,
        candidate: &Candidate,
        desc: &RotaryDesc,
        axes: &Axes,
        y: &Tensor<T>,
        stream: &Stream,
    ) -> Result<()> {
        let &RotaryDesc {
            half,
            written,
            heads,
            ..
        } = desc;
        let entry = candidate.entry;
        let (slots, groups) = (entry.slots(half, written), heads.div_ceil(HEADS));
        let threads = desc.threads(entry);
        let strides = |axis: usize| [y.strides()[axis], self.x.strides()[axis]];
        let tables = |table: &Tensor<C>| [table.strides()[0], table.strides()[1]];
        let inverse = u32::from(self.is_inverse) * flags::INVERSE;
        let interleaved = u32::from(self.is_interleaved) * flags::INTERLEAVED;
        let bytes = 2 * y.len() as u64 * size_of::<T>() as u64;
        let variant = match entry.variant {
            Variant::Strided => LoadVariant::of(stream.device(), bytes),
            _ => LoadVariant::of_once(stream.device(), bytes),
        };
        let kernel = load::kernel_for(variant, stream, entry)?;
        let (of_y, of_x) = (y.erased(), self.x.erased());
        let positions = self.positions.tensor();
        let positions = positions.map(|(_, positions)| positions.to_i32(stream));
        let positions = positions.transpose()?;
        let of_positions = positions.as_ref().map(Tensor::erased);
        self.walk(axes, y, positions.as_ref())
            .pieces_up_to(MAX_THREADS / threads, 1, |piece| {
                let params = RotaryParams {
                    walk: piece.params,
                    base: piece.addresses[3] as i64,
                    rows: self.cos.shape()[0] as u64,
                    head_strides: strides(axes.head),
                    last_strides: strides(axes.element),
                    cos_strides: tables(self.cos),
                    sin_strides: tables(self.sin),
                    slots: Division::new(slots),
                    groups: Division::new(groups),
                    heads,
                    half,
                    written,
                    flags: inverse | interleaved,
                };
                let threads = threads * u64::from(piece.params.len);
                let config = LaunchConfig::for_elements(threads, THREADS);
                let [to, from, by] = [0, 1, 2].map(|t| piece.addresses[t]);
                let (to, from) = (of_y.argument(to), of_x.argument(from));
                let by = of_positions.map_or(Address::NULL, |positions| positions.argument(by));
                let memory = (from, to, self.cos, self.sin, by);
                // SAFETY: the walk covers the tokens of y, x and the positions. The strides of
                // heads and elements are those of the tensors. The tables have these strides,
                // `rows` rows and `half` columns. y is injective, and is x or overlaps no input.
                // Kernels by vectors are candidates of what is aligned alone.
                unsafe { kernel.launch(stream, config, memory, &params) }
            })
    }

    /// Pairs of a head, and how many of its elements are written: in place, what would be copied is
    /// there.
    fn extents(&self, axes: &Axes, y: &Tensor<T>) -> Result<(u32, u32)> {
        let half = self.cos.shape()[1];
        let is_in_place = y.device_ptr().as_raw() == self.x.device_ptr().as_raw();
        let written = match is_in_place {
            true => 2 * half,
            false => y.shape()[axes.element],
        };
        Ok((
            check::extent("rotary_dim / 2", half)?,
            check::extent("head_dim", written)?,
        ))
    }

    /// Whether all heads and rows of the tables are whole vectors that begin at multiples of 16 bytes.
    fn is_of_vectors(&self, axes: &Axes, y: &Tensor<T>) -> bool {
        let lanes = 16 / size_of::<T>();
        let half = self.cos.shape()[1];
        let is_whole = half.is_multiple_of(lanes) && y.shape()[axes.element].is_multiple_of(lanes);
        is_whole
            && lies_on_vectors(self.x)
            && lies_on_vectors(y)
            && (half == 0 || lies_on_vectors(self.cos) && lies_on_vectors(self.sin))
    }

    /// The walk over tokens of y and x, the positions, and what counts as the position of a token.
    fn walk(&self, axes: &Axes, y: &Tensor<T>, of_tokens: Option<&Tensor<i32>>) -> Walk {
        let (shape, rank) = axes.tokens(y.shape());
        let tensors = [y, self.x].map(|tensor| Steps {
            strides: axes.tokens(tensor.strides()).0,
            address: tensor.device_ptr().as_raw(),
            size_bytes: size_of::<T>(),
        });
        let mut positions = Steps {
            strides: [0; MAX_RANK],
            address: 0,
            size_bytes: size_of::<i32>(),
        };
        // The "address" of a token is its position, but for what is in memory.
        let mut counted = Steps {
            strides: [0; MAX_RANK],
            address: 0,
            size_bytes: 1,
        };
        if let Some(tensor) = of_tokens {
            positions.address = tensor.device_ptr().as_raw();
            positions.strides[..tensor.rank()].copy_from_slice(tensor.strides());
        }
        if let Positions::From(offset) = self.positions {
            counted.address = offset as u64;
        }
        if !matches!(self.positions, Positions::Each(_)) {
            counted.strides[rank - 1] = 1;
        }
        let [of_y, of_x] = tensors;
        Walk::new(&shape[..rank], &[of_y, of_x, positions, counted])
    }
}

/// Whether elements along the last axis lie side by side, and begin at multiples of 16 bytes
/// wherever the other axes lead.
fn lies_on_vectors<E: Element>(tensor: &Tensor<E>) -> bool {
    let lanes = 16 / size_of::<E>() as i64;
    let last = tensor.rank() - 1;
    let mut axes = tensor.shape().iter().zip(tensor.strides()).enumerate();
    tensor.device_ptr().as_raw().is_multiple_of(16)
        && axes.all(|(axis, (&extent, &stride))| match axis == last {
            true => stride == 1,
            false => extent <= 1 || stride % lanes == 0,
        })
}
