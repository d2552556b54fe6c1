//! The launch of a reduction.

use super::view;
use super::{Countable, Reduce, read_as};
use crate::launch::KernelArg;
use crate::load::{self, LoadVariant};
use crate::ops::axes::{Axes, RowAxes};
use crate::ops::check;
use crate::ops::copy::contiguous;
use crate::ops::workspaces::{Purpose, Workspace};
use crate::storage::Storage;
use crate::{Element, Error, LaunchConfig, Result, Stream, Tensor};
use abi::reduce::{ReduceEntry, ReduceOp, ReduceParams, ReducePlan, ReduceView, TICKETS};
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

/// The operands, with axes reversed or copied so that the kernel can read them.
struct Operands<T: Element> {
    x: Tensor<T>,
    y: Option<Tensor<T>>,
    view: ReduceView,
    plan: ReducePlan,
}

impl<T: Countable, O: Element> Reduce<'_, T, O> {
    /// The plan for elements with the layout of `x`. `None` if they have to be copied first.
    pub(super) fn plan_of(
        &self,
        x: &Tensor<T>,
        axes: Axes,
        entry: ReduceEntry,
    ) -> Option<(ReduceView, ReducePlan, Axes)> {
        let is_ordered = matches!(self.op, ReduceOp::Argmax | ReduceOp::Argmin);
        let (view, turned) = view::view(x, axes, is_ordered)?;
        let start = view::turn(x, turned).ok()?.device_ptr().as_raw();
        let is_aligned = start.is_multiple_of(VECTOR_BYTES);
        let plan = ReducePlan::of(entry, &view, is_aligned && self.y.is_none());
        let fits = !plan.is_cut() || plan.tickets() <= TICKETS as u64;
        fits.then_some((view, plan, turned))
    }

    fn operands(&self, axes: Axes, entry: ReduceEntry, stream: &Stream) -> Result<Operands<T>> {
        let is_alike = |y: &&Tensor<T>| {
            let dimensions = self.x.shape().iter().zip(self.x.strides()).zip(y.strides());
            dimensions
                .into_iter()
                .all(|((&extent, x), y)| extent == 1 || x == y)
        };
        let direct = match self.y.as_ref().is_none_or(is_alike) {
            true => self.plan_of(self.x, axes, entry),
            false => None,
        };
        if let Some((view, plan, turned)) = direct {
            let y = self.y.map(|y| view::turn(y, turned)).transpose()?;
            let x = view::turn(self.x, turned)?;
            return Ok(Operands { x, y, view, plan });
        }
        let order = RowAxes::new(axes, self.x.rank());
        let rows = |tensor: &Tensor<T>| contiguous(&order.last(tensor)?, stream);
        let (x, y) = (rows(self.x)?, self.y.map(rows).transpose()?);
        let last = (order.outer()..x.rank()).fold(Axes::NONE, Axes::with);
        let planned = self.plan_of(&x, last, entry);
        let (view, plan, _) = planned.ok_or(Error::Bug("rows are no rows"))?;
        Ok(Operands { x, y, view, plan })
    }

    /// Launches the validated reduction, with contiguous outputs. Elements that no kernel of the
    /// operation reads are converted first, all of them to f16 ([`Countable`]).
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
        if read_as::<T>(self.op) != T::DTYPE {
            let x = self.x.cast::<f16>(stream)?;
            return self.over(&x, None).launch(entry, out, means, stream);
        }
        let axes = self.axes.checked(self.x.rank())?;
        let is_rounded = entry.out() != O::DTYPE;
        if is_rounded && !entry.rounds_to(O::DTYPE) {
            return Err(Error::Bug("an entry writes another dtype"));
        }
        let Operands { x, y, view, plan } = self.operands(axes, entry, stream)?;
        let mut params = ReduceParams::new(self.op, view, &plan, T::DTYPE);
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
        let arch = stream.device().arch();
        let in_cluster = entry.in_cluster(&plan, arch);
        let for_plan = check::entry(entry.for_plan(&plan))?.in_pairs(self.op, arch);
        let workspace = (plan.is_cut() && in_cluster.is_none()).then_some(WORKSPACE);
        let partial_bytes = plan
            .partials()
            .saturating_mul(4 * entry.partial_words() as u64);
        let more = match workspace {
            Some(_) if partial_bytes > PARTIAL_BYTES => {
                Some(Storage::alloc(stream, partial_bytes)?)
            }
            _ => None,
        };
        let bytes = (x.len() as u64).saturating_mul(T::DTYPE.size_bytes() as u64);
        let variant = LoadVariant::of(stream.device(), bytes);
        let entry = in_cluster.unwrap_or(for_plan);
        let kernel = load::kernel_for(variant, stream, entry)?;
        let mut config = LaunchConfig::linear(plan.blocks, plan.threads());
        if in_cluster.is_some() {
            config = config.cluster([plan.blocks, 1, 1]);
        }
        let enqueue = |tickets: u64| {
            let partials = more
                .as_ref()
                .map_or(tickets + TICKET_BYTES, Storage::address);
            let memory = (&x, partials, tickets, out);
            // SAFETY: the view's extents and strides are x's, and y's, whose elements lie inside of their
            // storage; the outputs are contiguous, have outer * inner elements of the entry's type, or of
            // x's where results are rounded to it, and overlap neither; the workspace has room for the
            // plan's partial results, and tickets of 0, except in a cluster, whose blocks, one for each
            // part of the only row, use neither.
            unsafe { kernel.launch(stream, config, memory, &params) }
        };
        let workspaces = stream.device().workspaces();
        workspaces.lend(workspace, stream, enqueue)
    }
}
