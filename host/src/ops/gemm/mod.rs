//! Matrix products.

mod plan;

use crate::ops::check;
use crate::ops::copy::{contiguous, strided_copy};
use crate::ops::float::Float;
use crate::ops::kernels;
use crate::{Error, LaunchConfig, Result, Stream, Tensor};
use plan::{GemmDesc, GemmPlan, Layouts, MatrixLayout};
use spec::gemm::Transpose;

/// Matrix product: `d = alpha * a @ b + beta * c`, batched.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `a` | `[m, k]` or `[batch, m, k]` | f32, f16, bf16 | any; see Performance |
/// | `b` | `[k, n]` or `[batch, k, n]` | as `a` | any; see Performance |
/// | `c` | broadcasts to `d` | as `d` | any; not read at `beta == 0` |
/// | `d` (written) | `[m, n]`, or `[batch, m, n]` where `a` or `b` has a batch | as `a`, or f32 | any that give each element a place of its own; must not overlap `a` or `b`; may be `c` itself |
///
/// A batch of 1, or none, is repeated. Transposes are views: `a.t()`. `k == 0` writes
/// `beta * c`; without any element in `d` nothing is launched.
///
/// # Numerics
/// One f32 accumulator an element takes the products in the order of k by fused multiply-add;
/// `alpha * acc + beta * c` in f32, rounded once to the dtype of `d`. Error bound:
/// [`reference::gemm`](crate::reference::gemm). Deterministic: same bits every run, on every
/// device, for every layout and tile. `alpha == 0` still reads `a` and `b`, and 0 × ∞ is NaN.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`Error::ShapeMismatch`], [`Error::StrideMismatch`] (a `d` that writes an element twice),
/// [`Error::Overlap`], [`Error::DeviceMismatch`], [`Error::OutOfBounds`] (an extent of 2^32 or
/// more), [`Error::OutOfMemory`], [`Error::Driver`]. No launch happens on error.
///
/// # Performance
/// `a` and `b` are read where they lie as long as the stride of their rows or of their columns is
/// 1; else they are copied first, once over the tensor. The same goes for `c` and `d`, of which
/// the stride of the rows or of the columns has to be 1 in both. Tiles are chosen by
/// [`spec::gemm::TileConfig::choose_simt`]: large ones as soon as each multiprocessor gets one.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use ndarray::array;
/// use warpsmith::{Device, Gemm, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let a = Tensor::from_ndarray(&device, &array![[1.0_f32, 2.0], [3.0, 4.0]])?;
/// let b = Tensor::from_ndarray(&device, &array![[0.0_f32, 1.0], [1.0, 0.0]])?;
/// let d = Gemm::new(&a, &b.t()).alpha(2.0).run(&stream)?;
/// assert_eq!(d.to_ndarray()?, array![[4.0, 2.0], [8.0, 6.0]].into_dyn());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct Gemm<'a, In: Float, Out: Float = In> {
    a: &'a Tensor<In>,
    b: &'a Tensor<In>,
    c: Option<&'a Tensor<Out>>,
    alpha: f32,
    beta: f32,
}

impl<'a, T: Float> Gemm<'a, T> {
    /// `a @ b`, written in the dtype of `a`.
    pub fn new(a: &'a Tensor<T>, b: &'a Tensor<T>) -> Self {
        Self {
            a,
            b,
            c: None,
            alpha: 1.0,
            beta: 0.0,
        }
    }
}

impl<'a, In: Float> Gemm<'a, In, f32> {
    /// `a @ b`, written in f32 whatever the dtype of `a`.
    pub fn with_f32_output(a: &'a Tensor<In>, b: &'a Tensor<In>) -> Self {
        Self {
            a,
            b,
            c: None,
            alpha: 1.0,
            beta: 0.0,
        }
    }
}

impl<'a, In: Float, Out: Float> Gemm<'a, In, Out> {
    /// Factor of the product; 1 if not said.
    pub fn alpha(mut self, alpha: f32) -> Self {
        self.alpha = alpha;
        self
    }

    /// Adds `beta * c`. At `beta == 0`, `c` is not read: it may hold anything.
    pub fn beta(mut self, beta: f32, c: &'a Tensor<Out>) -> Self {
        self.beta = beta;
        self.c = Some(c);
        self
    }

    /// The product in a new tensor.
    ///
    /// # Errors
    /// See [`Gemm`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<Out>> {
        let desc = self.validate(stream)?;
        let d = Tensor::empty(stream, &desc.shape())?;
        self.launch(&desc, &d, stream)?;
        Ok(d)
    }

    /// The product into `d`, which has the product's shape and may be `c` itself.
    ///
    /// # Errors
    /// See [`Gemm`].
    pub fn run_into(&self, d: &Tensor<Out>, stream: &Stream) -> Result<()> {
        let desc = self.validate(stream)?;
        check::output("d", d, &desc.shape(), stream)?;
        check::no_overlap("d", d, "a", self.a)?;
        check::no_overlap("d", d, "b", self.b)?;
        if let Some(c) = self.c_read() {
            check::no_partial_overlap("d", d, "c", c)?;
        }
        self.launch(&desc, d, stream)
    }

    /// `c` where it is read.
    fn c_read(&self) -> Option<&'a Tensor<Out>> {
        self.c.filter(|_| self.beta != 0.0)
    }

    fn validate(&self, stream: &Stream) -> Result<GemmDesc> {
        check::device("a", self.a, stream)?;
        check::device("b", self.b, stream)?;
        let desc = GemmDesc::new(self.a, self.b)?;
        if let Some(c) = self.c {
            check::device("c", c, stream)?;
            let shape = desc.shape();
            if c.broadcast_to(&shape).is_err() {
                let want = format!("one that broadcasts to {:?}", &*shape);
                return Err(check::shape_mismatch("c", c, want));
            }
        }
        Ok(desc)
    }

    /// Launches what was validated. Where `d` lies by columns, the transposed product is computed.
    fn launch(&self, desc: &GemmDesc, d: &Tensor<Out>, stream: &Stream) -> Result<()> {
        if d.is_empty() {
            return Ok(());
        }
        let c = self
            .c_read()
            .map(|c| c.broadcast_to(&desc.shape()))
            .transpose()?;
        match MatrixLayout::of(d.shape(), d.strides()) {
            Some(MatrixLayout {
                transpose: Transpose::N,
                ..
            }) => self.launch_rows(desc, [self.a, self.b], c.as_ref(), d, stream),
            Some(MatrixLayout {
                transpose: Transpose::T,
                ..
            }) => {
                let desc = GemmDesc {
                    m: desc.n,
                    n: desc.m,
                    ..*desc
                };
                let (a, b) = (self.b.t(), self.a.t());
                self.launch_rows(&desc, [&a, &b], c.map(|c| c.t()).as_ref(), &d.t(), stream)
            }
            None => {
                let rows = Tensor::empty(stream, d.shape())?;
                self.launch_rows(desc, [self.a, self.b], c.as_ref(), &rows, stream)?;
                strided_copy(&rows, d, stream)
            }
        }
    }

    /// Launches into a `d` whose rows lie without gaps.
    fn launch_rows(
        &self,
        desc: &GemmDesc,
        [a, b]: [&Tensor<In>; 2],
        c: Option<&Tensor<Out>>,
        d: &Tensor<Out>,
        stream: &Stream,
    ) -> Result<()> {
        let (a, layout_a) = with_layout(a, |_| true, stream)?;
        let (b, layout_b) = with_layout(b, |_| true, stream)?;
        let by_rows = |layout: &MatrixLayout| layout.transpose == Transpose::N;
        let (d, layout_d) = with_layout(d, by_rows, stream)?;
        let (c, layout_c) = match c {
            Some(c) => {
                let (c, layout) = with_layout(c, by_rows, stream)?;
                (Some(c), layout)
            }
            None => (None, layout_d),
        };
        let layouts = Layouts {
            a: layout_a,
            b: layout_b,
            c: layout_c,
            d: layout_d,
        };
        let beta = if c.is_some() { self.beta } else { 0.0 };
        let scalars = (self.alpha, beta);
        let Some(plan) = GemmPlan::new::<In, Out>(desc, &layouts, scalars, stream.device())? else {
            return Ok(());
        };
        let kernel = kernels::kernel(stream, plan.entry)?;
        let config = LaunchConfig {
            grid: plan.grid,
            block: [plan.entry.tile.threads, 1, 1],
            shared_bytes: 0,
            cluster: None,
        };
        // SAFETY: the plan's extents and strides are those of the tensors, whose layouts lie
        // inside of their storage; d is injective and overlaps neither a nor b, and c only where
        // it is c; null stands for a c that is not read.
        unsafe { kernel.launch(stream, config, (&a, &b, c.as_ref(), &d, plan.params)) }
    }
}

/// `tensor` and its layout, or a copy of it by rows where it has no layout that `accept`s.
fn with_layout<T: Float>(
    tensor: &Tensor<T>,
    accept: impl Fn(&MatrixLayout) -> bool,
    stream: &Stream,
) -> Result<(Tensor<T>, MatrixLayout)> {
    if let Some(layout) = MatrixLayout::of(tensor.shape(), tensor.strides()).filter(accept) {
        return Ok((tensor.clone(), layout));
    }
    let copy = contiguous(tensor, stream)?;
    let layout = MatrixLayout::of(copy.shape(), copy.strides());
    let layout = layout.ok_or(Error::Bug("a contiguous matrix has no gapless rows"))?;
    Ok((copy, layout))
}
