//! The calls that both operations have.

use super::launch::Combination;
use crate::error::named;
use crate::ops::by_index::Placement;
use crate::ops::plan::{Plan, Tuning, like};
use crate::{IndexElement, Reducible, Result, Stream, Tensor};
use abi::scatter_add::ScatterOp;

/// Operands and options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a, T: Reducible, I: IndexElement> {
    op: ScatterOp,
    pub(super) placement: Placement<'a, T, I>,
    pub(super) kernel: Option<&'a str>,
    /// The name that errors begin with.
    name: &'static str,
}

impl<'a, T: Reducible, I: IndexElement> Call<'a, T, I> {
    pub(super) fn new(
        (op, name): (ScatterOp, &'static str),
        indices: &'a Tensor<I>,
        src: &'a Tensor<T>,
    ) -> Self {
        Self {
            op,
            placement: Placement::new(indices, src),
            kernel: None,
            name,
        }
    }

    /// Combines rows with numbers that change nothing, in a new result.
    pub(super) fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
        named(self.name, || {
            let shape = self.placement.new_shape()?;
            let rows = self.rows(&shape, stream)?;
            let [zero, one, least, greatest] = T::NUMBERS;
            let nothing = match self.op {
                ScatterOp::Sum => zero,
                ScatterOp::Prod => one,
                ScatterOp::Max => least,
                ScatterOp::Min => greatest,
            };
            let y = Tensor::full(stream, &shape, nothing)?;
            rows.launch(&y, self.kernel, stream)?;
            Ok(y)
        })
    }

    pub(super) fn run_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        self.with_rows_of(y, stream, |rows| rows.launch(y, self.kernel, stream))
    }

    pub(super) fn plan(&self, stream: &Stream) -> Result<Plan> {
        named(self.name, || {
            let shape = self.placement.new_shape()?;
            let rows = self.rows(&shape, stream)?;
            rows.plan_of_sums(&Tensor::empty(stream, &shape)?, self.kernel, stream)
        })
    }

    pub(super) fn plan_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<Plan> {
        self.with_rows_of(y, stream, |rows| rows.plan_of_sums(y, self.kernel, stream))
    }

    pub(super) fn autotune_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<Tuning> {
        self.with_rows_of(y, stream, |rows| rows.tune_sums(&like(y, stream)?, stream))
    }

    /// Calls `then` if rows can be combined with those of `y`.
    fn with_rows_of<R>(
        &self,
        y: &Tensor<T>,
        stream: &Stream,
        then: impl FnOnce(&Combination<'a, T, I>) -> Result<R>,
    ) -> Result<R> {
        named(self.name, || {
            let rows = self.rows(y.shape(), stream)?;
            self.placement.check_output(y, stream)?;
            then(&rows)
        })
    }

    /// Checks the inputs, for a result of this shape.
    fn rows(&self, y: &[usize], stream: &Stream) -> Result<Combination<'a, T, I>> {
        Combination::new(self.op, &self.placement, y, stream)
    }
}

/// The methods that both operations have, for a struct around a [`Call`] in its only field.
macro_rules! calls {
    ($name:literal) => {
        /// Works along this axis of `y`. A negative axis counts from the end of `y`. Its dimensions in
        /// `src` are those of the indices.
        pub fn axis(mut self, axis: isize) -> Self {
            self.0.placement.axis = axis;
            self
        }

        /// Lets negative indices count from the end of the axis: -1 is the last one.
        pub fn wrap_negative(mut self) -> Self {
            self.0.placement.wraps = true;
            self
        }

        /// Sets the extent of the axis of a new result, which [`run`](Self::run) needs.
        pub fn extent(mut self, extent: usize) -> Self {
            self.0.placement.extent = Some(extent);
            self
        }

        /// Runs the candidate of the [`plan`](Self::plan) with this name, or fails.
        pub fn with_kernel(mut self, name: &'a str) -> Self {
            self.0.kernel = Some(name);
            self
        }

        /// Enqueues the operation with the rows of `y`.
        ///
        /// # Errors
        #[doc = concat!("See [`", $name, "`].")]
        pub fn run_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<()> {
            self.0.run_into(y, stream)
        }

        /// The kernel that [`run`](Self::run) would launch, and the other candidates. Allocates a
        /// result, to see how it lies.
        ///
        /// # Errors
        #[doc = concat!("See [`", $name, "`].")]
        pub fn plan(&self, stream: &Stream) -> Result<Plan> {
            self.0.plan(stream)
        }

        /// The kernel that [`run_into`](Self::run_into) would launch, and the other candidates.
        ///
        /// # Errors
        #[doc = concat!("See [`", $name, "`].")]
        pub fn plan_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<Plan> {
            self.0.plan_into(y, stream)
        }

        /// Measures the candidates of [`plan_into`](Self::plan_into) with these tensors, as
        /// [`Gemm::autotune`](crate::Gemm::autotune) does. `y` is not written.
        ///
        /// # Errors
        #[doc = concat!("See [`", $name, "`]; also the first candidate's error or fault, if all fail.")]
        pub fn autotune_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<Tuning> {
            self.0.autotune_into(y, stream)
        }
    };
}

pub(super) use calls;
