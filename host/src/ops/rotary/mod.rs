//! Rotary position embedding.

mod launch;
mod plan;

use self::plan::{Candidate, RotaryDesc};
use crate::element::as_bytes;
use crate::error::named;
use crate::ops::attention::Layout;
use crate::ops::check;
use crate::ops::indices::Indices;
use crate::ops::plan::{
    Choice, Desc, Plan, Tuning, answer, blank, choose, copied, like, rotation, tune,
};
use crate::ops::rows::ParamElement;
use crate::{Float, Result, Stream, Tensor};
use launch::Axes;

pub(super) use plan::RotaryCosts;

/// The operation's name in errors, plans and the file of tuned choices.
const NAME: &str = RotaryDesc::OPERATION;

/// A launch by any candidate.
type Call<'a> = <Candidate as Choice>::Call<'a>;

/// Rotary position embedding: pairs `(a, b)` of each head are turned by the angle of the token's
/// position and the pair's column, `(a cos - b sin, b cos + a sin)`.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `x` | `[.., seqlen, heads, head_dim]` with 3 to 8 dimensions, or as [`layout`](Self::layout) has it | f32, f16, bf16 | any; see Performance |
/// | `cos`, `sin` | `[seqlen_max, rotary_dim / 2]`, `rotary_dim <= head_dim` | f32, or as `x` | any |
/// | [`positions`](Self::positions) (optional) | `[.., seqlen]` | i32, i64 | any |
/// | [`offsets`](Self::offsets) (optional) | `[..]` | i32, i64 | any |
/// | `y` (written) | as `x` | as `x` | any where no two indices refer to one element; may be `x` itself, and must not overlap it otherwise, nor another input |
///
/// `..` are the same dimensions in all of them, such as a batch, or none. Column `i` of the tables
/// belongs to elements `i` and `i + rotary_dim / 2` of a head (GPT-NeoX, and FlashAttention's
/// default); with [`interleaved`](Self::interleaved) to `2 i` and `2 i + 1` (GPT-J). Elements from
/// `rotary_dim` on are copied.
///
/// A token's position is its row of the tables. It is its index in the sequence, plus
/// [`offset`](Self::offset) or the sequence's of [`offsets`](Self::offsets), or is given by
/// [`positions`](Self::positions); the last of these three that is set counts. **A position in
/// device memory that is not a row** is below 0 or not below `seqlen_max`. It is not an error, as
/// for an index out of range in [`Take`](crate::Take). No table is read, and the token's pairs are
/// NaN. With [`offset`](Self::offset), tables with too few rows are an error.
///
/// # Numerics
/// In f32: one product, rounded, then a fused multiply-add; the result is rounded once. Error
/// bound: [`reference::rotary`](mod@crate::reference::rotary). The same bits every run and on every
/// device.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`ShapeError::Mismatch`](crate::ShapeError::Mismatch),
/// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) (a token of 2^30 elements or more),
/// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) (`with_kernel` with a name that
/// is not in the plan), [`Error::Shape`](crate::Error::Shape),
/// [`Error::Device`](crate::Error::Device). No launch happens on error.
///
/// # Performance
/// One launch, which reads `x` once and writes `y` once; nothing is copied before or after. Heads
/// are moved 16 bytes at a time if all of this holds. Their elements are contiguous in `x` and in
/// `y`, and all heads begin at multiples of 16 bytes. `head_dim` and `rotary_dim / 2` are multiples
/// of as many elements (4 of f32, 8 of 16 bits). Rows of the tables are contiguous and begin at
/// multiples of 16 bytes. There are more than 2,048 elements for each multiprocessor. All others
/// are moved pair by pair. In place only pairs are read and written.
///
/// # Sources
/// Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, arXiv:2104.09864.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{Device, Rotary, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// // Quarter turns: position p turns by p times 90 degrees.
/// let cos = Tensor::from_slice(&device, &[4, 1], &[1.0_f32, 0.0, -1.0, 0.0])?;
/// let sin = Tensor::from_slice(&device, &[4, 1], &[0.0_f32, 1.0, 0.0, -1.0])?;
/// let q = Tensor::from_slice(&device, &[2, 1, 3], &[1.0_f32, 2.0, 9.0, 1.0, 2.0, 9.0])?;
/// let turned = Rotary::new(&q, &cos, &sin).offset(1).run(&stream)?;
/// assert_eq!(turned.to_vec()?, [-2.0, 1.0, 9.0, -1.0, -2.0, 9.0]);
/// let back = Rotary::new(&turned, &cos, &sin).offset(1).inverse().run(&stream)?;
/// assert_eq!(back.to_vec()?, q.to_vec()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct Rotary<'a, T: Float, C: ParamElement<T> = f32> {
    x: &'a Tensor<T>,
    cos: &'a Tensor<C>,
    sin: &'a Tensor<C>,
    layout: Layout,
    positions: Positions<'a>,
    is_interleaved: bool,
    is_inverse: bool,
    kernel: Option<&'a str>,
}

/// Where positions come from.
#[derive(Clone, Copy, Debug)]
enum Positions<'a> {
    /// Counted from here on in every sequence.
    From(usize),
    /// Counted from these on, one for each sequence.
    FromEach(Indices<'a>),
    /// One for each token.
    Each(Indices<'a>),
}

impl<'a, T: Float, C: ParamElement<T>> Rotary<'a, T, C> {
    /// Turns the pairs of `x`, halves of the rotated elements, by positions from 0 on.
    pub fn new(x: &'a Tensor<T>, cos: &'a Tensor<C>, sin: &'a Tensor<C>) -> Self {
        Self {
            x,
            cos,
            sin,
            layout: Layout::default(),
            positions: Positions::From(0),
            is_interleaved: false,
            is_inverse: false,
            kernel: None,
        }
    }

    /// Sets the order of the dimensions (default [`Layout::Bshd`]): with [`Layout::Bhsd`] `x` is
    /// `[.., heads, seqlen, head_dim]`.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Pairs are neighbours.
    pub fn interleaved(mut self) -> Self {
        self.is_interleaved = true;
        self
    }

    /// Sets the position of the first token of every sequence.
    pub fn offset(mut self, position: usize) -> Self {
        self.positions = Positions::From(position);
        self
    }

    /// Sets the position of the first token of each sequence.
    pub fn offsets(mut self, positions: impl Into<Indices<'a>>) -> Self {
        self.positions = Positions::FromEach(positions.into());
        self
    }

    /// Sets the position of each token. One row for all sequences is
    /// [broadcast](Tensor::broadcast_to) to them, which costs nothing.
    pub fn positions(mut self, positions: impl Into<Indices<'a>>) -> Self {
        self.positions = Positions::Each(positions.into());
        self
    }

    /// Turns back, by the negative angles: the inverse where `cos² + sin² = 1`, and the gradient
    /// with respect to `x` from that with respect to `y`.
    pub fn inverse(mut self) -> Self {
        self.is_inverse = true;
        self
    }

    /// Runs the candidate of the [`plan`](Self::plan) with this name, or fails.
    pub fn with_kernel(mut self, name: &'a str) -> Self {
        self.kernel = Some(name);
        self
    }

    /// Enqueues the rotation and returns its result, a new contiguous tensor.
    ///
    /// # Errors
    /// See [`Rotary`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
        named(NAME, || {
            let axes = self.validate(stream)?;
            let y = Tensor::empty(stream, self.x.shape())?;
            self.launch(&axes, &y, stream)?;
            Ok(y)
        })
    }

    /// Enqueues the rotation into `y`, which may be `x` itself.
    ///
    /// # Errors
    /// See [`Rotary`].
    pub fn run_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        named(NAME, || {
            let axes = self.validate_into(y, stream)?;
            self.launch(&axes, y, stream)
        })
    }

    /// The kernel that [`run`](Self::run) would launch, and the other candidates. Allocates a result,
    /// to see how it lies.
    ///
    /// # Errors
    /// See [`Rotary`].
    pub fn plan(&self, stream: &Stream) -> Result<Plan> {
        named(NAME, || {
            let axes = self.validate(stream)?;
            self.plan_of(&axes, &Tensor::empty(stream, self.x.shape())?, stream)
        })
    }

    /// The kernel that [`run_into`](Self::run_into) would launch, and the other candidates.
    ///
    /// # Errors
    /// See [`Rotary`].
    pub fn plan_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<Plan> {
        named(NAME, || {
            let axes = self.validate_into(y, stream)?;
            self.plan_of(&axes, y, stream)
        })
    }

    /// Measures the candidates of [`plan`](Self::plan) with these tensors, as
    /// [`Gemm::autotune`](crate::Gemm::autotune) does.
    ///
    /// # Errors
    /// See [`Rotary`]; also the first candidate's error or fault, if all fail.
    pub fn autotune(&self, stream: &Stream) -> Result<Tuning> {
        named(NAME, || {
            let axes = &self.validate(stream)?;
            let y = &Tensor::empty(stream, self.x.shape())?;
            let Some(desc) = self.describe(axes, y)? else {
                return Ok(Tuning::empty());
            };
            let call: Call<'_> = Box::new(move |by| self.launch_by(by, &desc, axes, y, stream));
            let calls = rotation(call, desc.bytes(), stream, || {
                let (x, y) = (copied(self.x, stream)?, like(y, stream)?);
                let call: Call<'_> = Box::new(move |by| {
                    let copy = Rotary { x: &x, ..*self };
                    copy.launch_by(by, &desc, axes, &y, stream)
                });
                Ok(call)
            })?;
            tune(
                &desc,
                stream,
                &calls,
                |by| answer(y, blank(), stream, || calls[0](by)),
                |want, got| as_bytes(want) == as_bytes(got),
            )
        })
    }

    /// As [`validate`](Self::validate), and checks that `y` can be written.
    fn validate_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<Axes> {
        let axes = self.validate(stream)?;
        check::output("y", y, self.x.shape(), stream)?;
        check::no_partial_overlap("y", y, "x", self.x)?;
        check::no_overlap("y", y, "cos", self.cos)?;
        check::no_overlap("y", y, "sin", self.sin)?;
        if let Some((name, positions)) = self.positions.tensor() {
            positions.check_apart(name, "y", y)?;
        }
        Ok(axes)
    }

    fn plan_of(&self, axes: &Axes, y: &Tensor<T>, stream: &Stream) -> Result<Plan> {
        match self.describe(axes, y)? {
            Some(desc) => Plan::of(&desc, self.kernel, stream),
            None => Ok(Plan::empty()),
        }
    }

    /// Launches into `y`, which is `x` or has its shape and overlaps no input.
    fn launch(&self, axes: &Axes, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        let Some(desc) = self.describe(axes, y)? else {
            return Ok(());
        };
        let (candidate, _) = choose(&desc, self.kernel, stream)?;
        self.launch_by(&candidate, &desc, axes, y, stream)
    }

    /// Checks the inputs, and returns which axis is which.
    fn validate(&self, stream: &Stream) -> Result<Axes> {
        check::device("x", self.x, stream)?;
        check::device("cos", self.cos, stream)?;
        check::device("sin", self.sin, stream)?;
        let axes = Axes::of(self.x, self.layout)?;
        let shape = self.x.shape();
        let head_dim = shape[axes.element];
        let &[rows, half] = self.cos.shape() else {
            let want = "[seqlen_max, rotary_dim / 2], two dimensions";
            return Err(check::shape_mismatch("cos", self.cos, want));
        };
        if half > head_dim / 2 {
            let want = format!("[.., n] with n at most {}, half of head_dim", head_dim / 2);
            return Err(check::shape_mismatch("cos", self.cos, want));
        }
        check::shape("sin", self.sin.shape(), self.cos.shape())?;
        match self.positions {
            Positions::From(offset) => {
                let last = offset.saturating_add(shape[axes.token]);
                if rows < last && !self.x.is_empty() {
                    let want = format!("at least {last} rows, as many as the last position needs");
                    return Err(check::shape_mismatch("cos", self.cos, want));
                }
            }
            Positions::FromEach(offsets) => {
                offsets.check("offsets", axes.outer(shape), stream)?;
            }
            Positions::Each(positions) => {
                let mut of = axes.outer(shape).to_vec();
                of.push(shape[axes.token]);
                positions.check("positions", &of, stream)?;
            }
        }
        Ok(axes)
    }
}

impl<'a> Positions<'a> {
    /// The tensor that they are in, and its name.
    fn tensor(self) -> Option<(&'static str, Indices<'a>)> {
        match self {
            Self::From(_) => None,
            Self::FromEach(offsets) => Some(("offsets", offsets)),
            Self::Each(positions) => Some(("positions", positions)),
        }
    }
}
