//! The launch of a reduction.

use super::plan::{Candidate, ReduceDesc, TICKETS};
use super::view;
use super::{Countable, Reduce, read_as};
use crate::launch::KernelArg;
use crate::load::{self, LoadVariant};
use crate::ops::axes::{Axes, RowAxes};
use crate::ops::copy::contiguous;
use crate::ops::plan::{
    Choice, MachineModel, Tuning, agree_within, answer, blank, choose, copied, numbers, rotation,
    tune,
};
use crate::ops::workspaces::{Purpose, Workspace};
use crate::storage::Storage;
use crate::tensor::Layout;
use crate::{DType, Element, Error, Result, Stream, Tensor};
use abi::reduce::{ReduceEntry, ReduceOp, ReduceParams};
use half::f16;

/// Alignment of vector accesses in bytes.
const VECTOR_BYTES: u64 = 16;

/// Bytes of the tickets.
const TICKET_BYTES: u64 = 4 * TICKETS as u64;

/// Bytes for partial results in the workspace of a stream. A launch that needs more allocates them.
const PARTIAL_BYTES: u64 = 4 << 20;

/// Tickets, then partial results.
const WORKSPACE: Workspace = Workspace {
    purpose: Purpose::Reduce,
    bytes: TICKET_BYTES + PARTIAL_BYTES,
    words: TICKETS,
};

/// How a reduction reads its operands.
pub(super) struct Source {
    pub(super) desc: ReduceDesc,
    /// The axes to reverse. `None` if the operands are copied to rows first.
    turned: Option<Axes>,
}

/// The operands, with axes reversed or copied so that the kernel can read them.
struct Operands<T: Element> {
    x: Tensor<T>,
    y: Option<Tensor<T>>,
}

/// A launch by any candidate.
type Call<'a> = <Candidate as Choice>::Call<'a>;

impl<T: Countable, O: Element> Reduce<'_, T, O> {
    /// How the operands are read: in place, if they fit a view.
    pub(super) fn source(&self, entry: ReduceEntry) -> Result<Source> {
        let (axes, rank) = (self.axes.checked(self.x.rank())?, self.x.rank());
        // What is converted first is contiguous then.
        let (layout, address) = match self.is_converted() {
            true => (Layout::contiguous(self.x.shape())?, 0),
            false => (*self.x.layout(), self.x.device_ptr().as_raw()),
        };
        let direct = match self.y.is_none_or(|y| is_alike(self.x, y)) {
            true => self.describe(&layout, address, axes, entry),
            false => None,
        };
        if let Some((desc, turned)) = direct {
            let turned = Some(turned);
            return Ok(Source { desc, turned });
        }
        let order = RowAxes::new(axes, rank);
        let rows = Layout::contiguous(&order.permuted(self.x.shape()))?;
        let last = (order.outer()..rank).fold(Axes::NONE, Axes::with);
        let described = self.describe(&rows, 0, last, entry);
        let (desc, _) = described.ok_or(Error::Bug("rows are not rows"))?;
        Ok(Source { desc, turned: None })
    }

    /// Whether elements are converted first ([`Countable`]): no kernel of the operation reads them.
    fn is_converted(&self) -> bool {
        read_as::<T>(self.op) != T::DTYPE
    }

    /// The description of elements that lie like this, and the axes to reverse first. `None` if they
    /// have to be copied.
    fn describe(
        &self,
        layout: &Layout,
        address: u64,
        axes: Axes,
        entry: ReduceEntry,
    ) -> Option<(ReduceDesc, Axes)> {
        let is_ordered = matches!(self.op, ReduceOp::Argmax | ReduceOp::Argmin);
        let dtype = read_as::<T>(self.op);
        let size_bytes = dtype.size_bytes();
        let (view, turned) = view::view(layout, size_bytes, axes, is_ordered)?;
        let start = view::turned_address(layout, size_bytes, turned, address);
        let desc = ReduceDesc {
            op: self.op,
            dtype,
            entry,
            view,
            is_aligned: start.is_multiple_of(VECTOR_BYTES),
        };
        let model = MachineModel::of(self.x.device().info());
        desc.is_possible(&model.reduce).then_some((desc, turned))
    }

    fn operands(&self, source: &Source, stream: &Stream) -> Result<Operands<T>> {
        if let Some(turned) = source.turned {
            let y = self.y.map(|y| view::turn(y, turned)).transpose()?;
            let x = view::turn(self.x, turned)?;
            return Ok(Operands { x, y });
        }
        let axes = self.axes.checked(self.x.rank())?;
        let order = RowAxes::new(axes, self.x.rank());
        let rows = |tensor: &Tensor<T>| contiguous(&order.last(tensor)?, stream);
        let (x, y) = (rows(self.x)?, self.y.map(rows).transpose()?);
        Ok(Operands { x, y })
    }

    /// Launches the validated reduction, with contiguous outputs.
    pub(super) fn launch(
        &self,
        entry: ReduceEntry,
        out: &Tensor<O>,
        means: Option<&Tensor<O>>,
        stream: &Stream,
    ) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        let source = self.source(entry)?;
        let (candidate, _) = choose(&source.desc, self.kernel, stream)?;
        self.launch_by(&candidate, &source, [Some(out), means], stream)
    }

    /// Measures the candidates, with results in `out`.
    pub(super) fn tune(
        &self,
        entry: ReduceEntry,
        out: &Tensor<O>,
        stream: &Stream,
    ) -> Result<Tuning> {
        let source = &self.source(entry)?;
        let to = [Some(out), None];
        let call: Call<'_> = Box::new(move |by| self.launch_by(by, source, to, stream));
        let calls = rotation(call, source.desc.bytes() as u64, stream, || {
            let x = copied(self.x, stream)?;
            let y = self.y.map(|y| copied(y, stream)).transpose()?;
            let call: Call<'_> = Box::new(move |by| {
                let copy: Reduce<'_, T, O> = self.over(&x, y.as_ref());
                copy.launch_by(by, source, to, stream)
            });
            Ok(call)
        })?;
        let error = if self.op.is_index() {
            0.0
        } else {
            2f64.powi(-7)
        };
        tune(
            &source.desc,
            stream,
            &calls,
            |by| answer(out, blank(), stream, || calls[0](by)),
            |want, got| agree_within(numbers(want).into_iter(), numbers(got).into_iter(), error),
        )
    }

    /// Launches the validated reduction by one candidate, into the value and the mean.
    fn launch_by(
        &self,
        candidate: &Candidate,
        source: &Source,
        [out, means]: [Option<&Tensor<O>>; 2],
        stream: &Stream,
    ) -> Result<()> {
        let out = out.ok_or(Error::Bug("a reduction without a result"))?;
        if self.is_converted() {
            let to = [Some(out), means];
            return match read_as::<T>(self.op) {
                DType::F16 => self.converted::<f16>(candidate, source, to, stream),
                _ => self.converted::<i32>(candidate, source, to, stream),
            };
        }
        let entry = source.desc.entry;
        let is_rounded = entry.out() != O::DTYPE;
        if is_rounded && !entry.rounds_to(O::DTYPE) {
            return Err(Error::Bug("an entry writes another dtype"));
        }
        let Operands { x, y } = self.operands(source, stream)?;
        let (view, plan) = (source.desc.view, &candidate.decision);
        let mut params = ReduceParams::new(self.op, view, plan, T::DTYPE);
        if matches!(self.op, ReduceOp::Variance | ReduceOp::Std) {
            params.divisor = view.len().saturating_sub(self.ddof) as f64;
        }
        params.is_rounded = u64::from(is_rounded);
        if let Some(y) = &y {
            y.use_on(stream)?;
            let [from, to] = [&x, y].map(|tensor| tensor.device_ptr().as_raw());
            params.to_y = to.wrapping_sub(from) as i64;
        }
        if let Some(means) = means {
            means.use_on(stream)?;
            params.means = means.device_ptr().as_raw();
        }
        let bytes = (x.len() as u64).saturating_mul(T::DTYPE.size_bytes() as u64);
        let variant = LoadVariant::of(stream.device(), bytes);
        let kernel = load::kernel_for(variant, stream, candidate.entry)?;
        let words = entry.partial_words() as u64;
        with_partials(candidate, words, stream, |partials, tickets| {
            let memory = (&x, partials, tickets, out);
            // SAFETY: the view's extents and strides describe x and y, whose elements lie inside of
            // their storage. The outputs are contiguous, have outer * inner elements, and overlap
            // neither. Elements have the entry's type, or that of x where results are rounded to
            // it. There is room for the candidate's partial results, and tickets of 0.
            unsafe { kernel.launch(stream, candidate.config, memory, &params) }
        })
    }
}

impl<T: Countable, O: Element> Reduce<'_, T, O> {
    /// Converts the elements, and launches the reduction of these.
    fn converted<U: Countable>(
        &self,
        candidate: &Candidate,
        source: &Source,
        to: [Option<&Tensor<O>>; 2],
        stream: &Stream,
    ) -> Result<()> {
        let x = self.x.cast::<U>(stream)?;
        let converted: Reduce<'_, U, O> = self.over(&x, None);
        converted.launch_by(candidate, source, to, stream)
    }
}

/// Whether the second operand has the strides of the first.
fn is_alike<T: Element>(x: &Tensor<T>, y: &Tensor<T>) -> bool {
    let mut dimensions = x.shape().iter().zip(x.strides()).zip(y.strides());
    dimensions.all(|((&extent, x), y)| extent == 1 || x == y)
}

/// Calls `launch` with the addresses of memory for the candidate's partial results, of so many words,
/// and of its tickets. The blocks of a cluster use neither.
fn with_partials(
    candidate: &Candidate,
    words: u64,
    stream: &Stream,
    launch: impl FnOnce(u64, u64) -> Result<()>,
) -> Result<()> {
    let plan = &candidate.decision;
    let meets_in_memory = plan.is_cut() && candidate.config.cluster.is_none();
    let bytes = plan.partials().saturating_mul(4 * words);
    let more = match meets_in_memory && bytes > PARTIAL_BYTES {
        true => Some(Storage::alloc(stream, bytes)?),
        false => None,
    };
    let workspaces = stream.device().workspaces();
    workspaces.lend(meets_in_memory.then_some(WORKSPACE), stream, |tickets| {
        let partials = more.as_ref().map(Storage::address);
        launch(partials.unwrap_or(tickets + TICKET_BYTES), tickets)
    })
}
