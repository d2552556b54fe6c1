//! Grouped GEMM: rows in groups, each multiplied by a matrix of its own.

mod choice;
mod simt;
mod sm90;

use self::choice::{Candidate, GroupedDesc, Kernel};
use crate::error::named;
use crate::ops::check;
use crate::ops::gemm::MatrixLayout;
use crate::ops::indices::Indices;
use crate::ops::plan::{self, Choice, Desc as _, Plan, Tuning};
use crate::{Error, Float, Result, Stream, Tensor};
use abi::gemm::Transpose;

/// Grouped GEMM, as experts of a mixture compute it: rows of `a` that belong together lie together,
/// and each group of them is multiplied by its own matrix.
///
/// ```text
/// d[i, j] = alpha * (a[i, :] @ b[g])[j]    for the rows ends[g - 1] <= i < ends[g]
/// ```
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `a` | `[m, k]` | f32, f16, bf16 | any; see Performance |
/// | `b` | `[groups, k, n]` | as `a` | any; see Performance |
/// | `ends` | `[groups]` | i32, i64 | any |
/// | `d` (written) | `[m, n]` | as `a` | any where no two indices refer to one element; must not overlap a tensor that is read |
///
/// `ends` is read when the kernel runs: a router on the device writes it, and the host need not
/// know it. Group 0 begins at row 0. Matrices that lie transposed are views: of weights
/// `[groups, n, k]`, `b` is `weights.t()`.
///
/// **Whatever `ends` holds, no element outside of the tensors is read or written.** Group `g` has
/// the rows from `max(0, ends[0..g])` to `max(0, ends[0..=g])`, both at most `m`. So an end that is
/// not above all ends before it, such as a negative one, is that of an empty group, and one above
/// `m` counts as `m`. Rows of no group, behind the last end, are 0, whatever `a` holds there.
///
/// If `k == 0`, the products are 0. If `d` has no elements, nothing is launched. Without groups,
/// all rows are 0.
///
/// # Numerics
/// Accumulation is in f32, `alpha` is multiplied in f32, and the result is rounded once to the
/// dtype of `d`. Error bound: [`reference::gemm::grouped`](crate::reference::gemm::grouped()). NaN
/// and infinities stay in the rows and the groups that have them. Deterministic: the same bits
/// every run, those of a [`Gemm`](crate::Gemm) of each group alone by the kernel of the same kind.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`ShapeError::Mismatch`], [`ShapeError::Overlap`], [`DeviceError::Mismatch`] and
/// [`Error::Device`](crate::Error::Device). [`ShapeError::Overflow`]: a copy of repeated elements
/// of 2^63 bytes or more. [`ShapeError::Strides`]: two indices of `d` that may refer to one
/// element. [`ShapeError::OutOfBounds`]: an extent above 2^32 - 1025.
/// [`ArgumentError::Unsupported`]: 2^31 tiles or more. No launch happens on error.
///
/// # Performance
/// One launch; each block finds its groups by itself. [`plan`](Self::plan) names the kernel:
///
/// - On Hopper, in f16 and bf16 with up to 384 groups and a finite `alpha`, tensor cores. `a` is
///   read in place if k is contiguous, `b` if k or n is, and `d` is written in place if n is. Their
///   rows must begin at multiples of 16 bytes (and those of `d` must be as long). Others go through
///   a copy.
/// - Else the portable kernel. In f32, `a` and `b` are copied first if neither their rows nor their
///   columns are contiguous. In f16 and bf16 it reads copies in f32, and its result is converted.
///
/// # Sources
/// The contiguous layout is that of DeepGEMM's grouped GEMMs and of `torch._grouped_mm`.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use ndarray::array;
/// use warpsmith::{Device, GroupedGemm, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let a = Tensor::from_ndarray(&device, &array![[1.0_f32, 2.0], [3.0, 4.0], [5.0, 6.0]])?;
/// // Two experts: one doubles, one swaps.
/// let b = array![[[2.0_f32, 0.0], [0.0, 2.0]], [[0.0, 1.0], [1.0, 0.0]]];
/// let b = Tensor::from_ndarray(&device, &b)?;
/// let ends = Tensor::from_slice(&device, &[2], &[1_i32, 3])?;
/// let d = GroupedGemm::new(&a, &b, &ends).run(&stream)?;
/// assert_eq!(d.to_ndarray()?, array![[2.0, 4.0], [4.0, 3.0], [6.0, 5.0]].into_dyn());
/// # Ok(())
/// # }
/// ```
///
/// [`ShapeError::Mismatch`]: crate::ShapeError::Mismatch
/// [`ShapeError::Overflow`]: crate::ShapeError::Overflow
/// [`ShapeError::Strides`]: crate::ShapeError::Strides
/// [`ShapeError::Overlap`]: crate::ShapeError::Overlap
/// [`DeviceError::Mismatch`]: crate::DeviceError::Mismatch
/// [`ShapeError::OutOfBounds`]: crate::ShapeError::OutOfBounds
/// [`ArgumentError::Unsupported`]: crate::ArgumentError::Unsupported
/// [`DeviceError::OutOfMemory`]: crate::DeviceError::OutOfMemory
/// [`DeviceError::Driver`]: crate::DeviceError::Driver
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct GroupedGemm<'a, T: Float> {
    a: &'a Tensor<T>,
    b: &'a Tensor<T>,
    ends: Indices<'a>,
    alpha: f32,
    kernel: Option<&'a str>,
}

/// A launch by any candidate.
type Call<'a> = <Candidate as Choice>::Call<'a>;

impl<'a, T: Float> GroupedGemm<'a, T> {
    /// `a @ b`, where the rows of group `g` end before row `ends[g]` and are multiplied by `b[g]`.
    pub fn new(a: &'a Tensor<T>, b: &'a Tensor<T>, ends: impl Into<Indices<'a>>) -> Self {
        Self {
            a,
            b,
            ends: ends.into(),
            alpha: 1.0,
            kernel: None,
        }
    }

    /// Sets the factor of the products (default 1).
    pub fn alpha(mut self, alpha: f32) -> Self {
        self.alpha = alpha;
        self
    }

    /// Runs the candidate of the [`plan`](Self::plan) with this name, or fails.
    pub fn with_kernel(mut self, name: &'a str) -> Self {
        self.kernel = Some(name);
        self
    }

    /// Enqueues the products and returns their result, a new contiguous tensor.
    ///
    /// # Errors
    /// See [`GroupedGemm`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
        named(GroupedDesc::OPERATION, || {
            let desc = self.validate(stream)?;
            let d = Tensor::empty(stream, &self.shape())?;
            self.launch(desc, &d, stream)?;
            Ok(d)
        })
    }

    /// Enqueues the products into `d`.
    ///
    /// # Errors
    /// See [`GroupedGemm`].
    pub fn run_into(&self, d: &Tensor<T>, stream: &Stream) -> Result<()> {
        named(GroupedDesc::OPERATION, || {
            let desc = self.validate(stream)?;
            check::output("d", d, &self.shape(), stream)?;
            check::no_overlap("d", d, "a", self.a)?;
            check::no_overlap("d", d, "b", self.b)?;
            self.ends.check_apart("ends", "d", d)?;
            self.launch(desc, d, stream)
        })
    }

    /// The kernel that [`run`](Self::run) or [`run_into`](Self::run_into) would launch, and the
    /// other candidates.
    ///
    /// # Errors
    /// See [`GroupedGemm`].
    pub fn plan(&self, stream: &Stream) -> Result<Plan> {
        named(GroupedDesc::OPERATION, || match self.validate(stream)? {
            Some(desc) => Plan::of(&desc, self.kernel, stream),
            None => Ok(Plan::empty()),
        })
    }

    /// Measures the candidates with these tensors, as [`Gemm::autotune`](crate::Gemm::autotune)
    /// does.
    ///
    /// # Errors
    /// See [`GroupedGemm`]; also the first candidate's error or fault, if all fail.
    pub fn autotune(&self, stream: &Stream) -> Result<Tuning> {
        named(GroupedDesc::OPERATION, || {
            let Some(desc) = self.validate(stream)? else {
                return Ok(Tuning::empty());
            };
            let d = Tensor::empty(stream, &self.shape())?;
            let call: Call<'_> = Box::new(|candidate| self.launch_by(candidate, &desc, &d, stream));
            let calls = plan::rotation(call, desc.bytes() as u64, stream, || {
                let (a, b) = (plan::copied(self.a, stream)?, plan::copied(self.b, stream)?);
                let (d, ends, alpha) = (plan::like(&d, stream)?, self.ends, self.alpha);
                let call: Call<'_> = Box::new(move |candidate| {
                    let copy = GroupedGemm::new(&a, &b, ends).alpha(alpha);
                    copy.launch_by(candidate, &desc, &d, stream)
                });
                Ok(call)
            })?;
            plan::tune(
                &desc,
                stream,
                &calls,
                |candidate| plan::answer(&d, T::from_f64(f64::NAN), stream, || calls[0](candidate)),
                |want, got| {
                    let [want, got] =
                        [want, got].map(|all: &Vec<T>| all.iter().map(|x| x.widened()));
                    plan::agree_within(want, got, 2f64.powi(-7))
                },
            )
        })
    }

    /// The shape of `d`, of validated inputs.
    fn shape(&self) -> [usize; 2] {
        [self.a.shape()[0], self.b.shape()[2]]
    }

    /// Checks the inputs, and describes the product; `None` if it has no results.
    fn validate(&self, stream: &Stream) -> Result<Option<GroupedDesc>> {
        check::device("a", self.a, stream)?;
        check::device("b", self.b, stream)?;
        self.ends.check_device("ends", stream)?;
        let &[m, k] = self.a.shape() else {
            return Err(check::shape_mismatch("a", self.a, "[m, k], two dimensions"));
        };
        let &[groups, k_of_b, n] = self.b.shape() else {
            let want = "[groups, k, n], three dimensions";
            return Err(check::shape_mismatch("b", self.b, want));
        };
        if k_of_b != k {
            let want = format!("[groups, {k}, n], as a is {:?}", self.a.shape());
            return Err(check::shape_mismatch("b", self.b, want));
        }
        if self.ends.shape() != [groups] {
            let want = format!("[{groups}], an end for each matrix of b");
            return Err(Error::shape("ends", self.ends.shape(), want));
        }
        let desc = GroupedDesc {
            dtype: T::DTYPE,
            m: check::extent("m", m)?,
            n: check::extent("n", n)?,
            k: check::extent("k", k)?,
            groups: check::extent("groups", groups)?,
            trans_b: sm90::mapped(self.b).map_or(Transpose::N, |layout| layout.transpose),
            alpha_is_finite: self.alpha.is_finite(),
        };
        Ok((m > 0 && n > 0).then_some(desc))
    }

    /// Launches the validated product, unless there is nothing to compute.
    fn launch(&self, desc: Option<GroupedDesc>, d: &Tensor<T>, stream: &Stream) -> Result<()> {
        let Some(desc) = desc else { return Ok(()) };
        let (candidate, _) = plan::choose(&desc, self.kernel, stream)?;
        self.launch_by(&candidate, &desc, d, stream)
    }

    fn launch_by(
        &self,
        candidate: &Candidate,
        desc: &GroupedDesc,
        d: &Tensor<T>,
        stream: &Stream,
    ) -> Result<()> {
        match &candidate.kernel {
            Kernel::Portable => simt::launch(self, (desc, candidate.config), d, stream),
            Kernel::Hopper(hopper) => hopper.launch(self, desc, d, stream),
        }
    }
}
