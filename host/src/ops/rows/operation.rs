//! The calls that all operations on rows have: `run`, `run_into`, `plan` and `autotune`.

use crate::error::named;
use crate::ops::axes::RowAxes;
use crate::ops::plan::{
    Choice, Desc, Plan, Tuning, agree_within, blank, choose, copied, numbers, rotation, tune,
};
use crate::{Element, Result, Stream, Tensor};

/// A launch by any candidate.
pub(super) type Call<'a, Candidate> = Box<dyn Fn(&Candidate) -> Result<()> + 'a>;

/// The candidates of an operation.
type CandidateOf<Op> = <<Op as Operation>::Desc as Desc>::Candidate;

/// Most by which a result of two kernels may differ, relative to the largest.
const LARGEST_DIFFERENCE: f64 = 1.0 / 128.0;

/// The tensors that an operation writes.
pub(super) struct Written<'a, T: Element> {
    /// Those with the dtype of the rows.
    pub(super) rows: Vec<&'a Tensor<T>>,
    /// Losses, statistics and sums.
    pub(super) sums: Vec<&'a Tensor<f32>>,
    pub(super) indices: Vec<&'a Tensor<i64>>,
}

impl<'a, T: Element> Written<'a, T> {
    /// These rows alone.
    pub(super) fn rows(rows: impl IntoIterator<Item = &'a Tensor<T>>) -> Self {
        Self {
            rows: rows.into_iter().collect(),
            sums: Vec::new(),
            indices: Vec::new(),
        }
    }

    /// Writes numbers that are not results.
    fn blank(&self, stream: &Stream) -> Result<()> {
        fn all<T: Element>(tensors: &[&Tensor<T>], stream: &Stream) -> Result<()> {
            tensors.iter().try_for_each(|x| x.fill(blank(), stream))
        }
        all(&self.rows, stream)?;
        all(&self.sums, stream)?;
        all(&self.indices, stream)
    }

    fn read(&self) -> Result<Values> {
        let rows = self.rows.iter().map(|x| Ok(numbers(&x.to_vec()?)));
        let sums = self.sums.iter().map(|x| Ok(numbers(&x.to_vec()?)));
        let indices = self.indices.iter().map(|x| x.to_vec());
        Ok(Values {
            numbers: rows.chain(sums).collect::<Result<_>>()?,
            indices: indices.collect::<Result<_>>()?,
        })
    }
}

/// What a candidate wrote.
#[derive(Clone)]
struct Values {
    numbers: Vec<Vec<f64>>,
    indices: Vec<Vec<i64>>,
}

impl Values {
    fn agrees(&self, other: &Self) -> bool {
        let mut numbers = self.numbers.iter().zip(&other.numbers);
        let agree = |(want, got): (&Vec<f64>, &Vec<f64>)| {
            agree_within(
                want.iter().copied(),
                got.iter().copied(),
                LARGEST_DIFFERENCE,
            )
        };
        self.indices == other.indices && numbers.all(agree)
    }
}

/// An operation on rows, with its operands and options.
pub(super) trait Operation {
    /// The dtype of the rows.
    type Element: Element;
    /// The tensors that it writes.
    type Outputs;
    /// What the choice of a kernel depends on.
    type Desc: Desc;
    /// The operation on other operands.
    type On<'b>: Operation<Element = Self::Element, Outputs = Self::Outputs, Desc = Self::Desc>
    where
        Self: 'b;

    /// The name that errors begin with.
    fn name(&self) -> &'static str;

    /// The name of the candidate that a caller requests.
    fn kernel(&self) -> Option<&str>;

    /// Checks inputs and options.
    fn check(&self, stream: &Stream) -> Result<RowAxes>;

    /// Checks outputs, where inputs have passed.
    fn check_outputs(&self, out: &Self::Outputs, axes: &RowAxes, stream: &Stream) -> Result<()>;

    /// New outputs, contiguous.
    fn new_outputs(&self, axes: &RowAxes, stream: &Stream) -> Result<Self::Outputs>;

    /// Describes the work for these outputs, or for new ones; `None` if there are no rows to launch
    /// over.
    fn describe(&self, out: Option<&Self::Outputs>, axes: &RowAxes) -> Result<Option<Self::Desc>>;

    /// Enqueues a candidate for the described work.
    fn launch(
        &self,
        candidate: &CandidateOf<Self>,
        out: &Self::Outputs,
        axes: &RowAxes,
        stream: &Stream,
    ) -> Result<()>;

    /// Writes the outputs where there are no rows to launch over.
    fn launch_without_rows(
        &self,
        _out: &Self::Outputs,
        _axes: &RowAxes,
        _stream: &Stream,
    ) -> Result<()> {
        Ok(())
    }

    /// The tensors of rows that it reads.
    fn rows(&self) -> Vec<&Tensor<Self::Element>>;

    /// The same operation on other tensors of rows, in the same order.
    fn on<'b>(&'b self, rows: &'b [Tensor<Self::Element>]) -> Self::On<'b>;

    fn written(out: &Self::Outputs) -> Written<'_, Self::Element>;

    /// Enqueues it and returns new outputs.
    fn run(&self, stream: &Stream) -> Result<Self::Outputs> {
        named(self.name(), || {
            let axes = self.check(stream)?;
            let out = self.new_outputs(&axes, stream)?;
            self.enqueue(&out, &axes, stream)?;
            Ok(out)
        })
    }

    /// Enqueues it into these outputs.
    fn run_into(&self, out: &Self::Outputs, stream: &Stream) -> Result<()> {
        named(self.name(), || {
            let axes = self.check(stream)?;
            self.check_outputs(out, &axes, stream)?;
            self.enqueue(out, &axes, stream)
        })
    }

    fn enqueue(&self, out: &Self::Outputs, axes: &RowAxes, stream: &Stream) -> Result<()> {
        match self.describe(Some(out), axes)? {
            Some(desc) => {
                // Choose before anything is copied, so that errors come first.
                let (candidate, _) = choose(&desc, self.kernel(), stream)?;
                self.launch(&candidate, out, axes, stream)
            }
            None => self.launch_without_rows(out, axes, stream),
        }
    }

    fn plan(&self, stream: &Stream) -> Result<Plan> {
        named(self.name(), || {
            let axes = self.check(stream)?;
            match self.describe(None, &axes)? {
                Some(desc) => Plan::of(&desc, self.kernel(), stream),
                None => Ok(Plan::empty()),
            }
        })
    }

    fn autotune(&self, stream: &Stream) -> Result<Tuning>
    where
        CandidateOf<Self>: for<'c> Choice<Call<'c> = Call<'c, CandidateOf<Self>>>,
    {
        named(self.name(), || {
            let axes = self.check(stream)?;
            let Some(desc) = self.describe(None, &axes)? else {
                return Ok(Tuning::empty());
            };
            let out = self.new_outputs(&axes, stream)?;
            let call: Call<'_, CandidateOf<Self>> =
                Box::new(|candidate| self.launch(candidate, &out, &axes, stream));
            let elements: usize = self.rows().iter().map(|x| x.len()).sum();
            let bytes = (elements * size_of::<Self::Element>()) as u64;
            let calls = rotation(call, bytes, stream, || {
                let rows = self.rows().into_iter().map(|x| copied(x, stream));
                let rows = rows.collect::<Result<Vec<_>>>()?;
                let out = self.new_outputs(&axes, stream)?;
                let call: Call<'_, CandidateOf<Self>> = Box::new(move |candidate| {
                    self.on(&rows).launch(candidate, &out, &axes, stream)
                });
                Ok(call)
            })?;
            let written = Self::written(&out);
            let answer = |candidate: &CandidateOf<Self>| {
                written.blank(stream)?;
                calls[0](candidate)?;
                written.read()
            };
            tune(&desc, stream, &calls, answer, Values::agrees)
        })
    }
}

/// The method `with_kernel`, for a struct with a kernel's name in this field.
macro_rules! with_kernel {
    ($($kernel:tt).+) => {
        /// Runs the candidate of the [`plan`](Self::plan) with this name, or fails with
        /// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported), which lists the names.
        pub fn with_kernel(mut self, name: &'a str) -> Self {
            self$(.$kernel)+ = Some(name);
            self
        }
    };
}
pub(super) use with_kernel;

/// The methods `plan` and `autotune`, for a struct with an [`Operation`].
macro_rules! plans {
    ($of:expr, $self:ident => $operation:expr) => {
        /// The kernel that [`run`](Self::run) would launch over the rows, and the other candidates.
        ///
        /// # Errors
        #[doc = concat!("See [`", $of, "`](crate::", $of, ").")]
        pub fn plan(&$self, stream: &Stream) -> Result<$crate::Plan> {
            $crate::ops::rows::operation::Operation::plan($operation, stream)
        }

        /// Measures the candidates with these operands. The fastest one becomes the choice for rows
        /// of the same number, length, alignment and options on this kind of device, as
        /// [`Gemm::autotune`](crate::Gemm::autotune) does.
        ///
        /// # Errors
        #[doc = concat!("See [`", $of, "`](crate::", $of, "); also the first candidate's error or")]
        /// fault, if all fail.
        pub fn autotune(&$self, stream: &Stream) -> Result<$crate::Tuning> {
            $crate::ops::rows::operation::Operation::autotune($operation, stream)
        }
    };
}
pub(super) use plans;
