//! The launches: sorting indices, and combining rows in their order.

use super::plan::{self, Candidate, Decision, ScatterAddDesc};
use crate::element::as_bytes;
use crate::load::{self, LoadVariant};
use crate::ops::by_index::{Placement, Rows, axis_stride, in_bytes};
use crate::ops::check;
use crate::ops::elementwise::{Piece, Walk};
use crate::ops::plan::{Choice, Plan, Tuning, answer, choose, copied, rotation, tune};
use crate::storage::Storage;
use crate::{Error, IndexElement, LaunchConfig, Reducible, Result, Stream, Tensor};
use abi::division::Division;
use abi::elementwise::WalkParams;
use abi::scatter_add::{
    self, AddParams, OrderParams, SCATTER_ADD_COUNT, SCATTER_ADD_FEW, SCATTER_ADD_FINISH,
    SCATTER_ADD_SORT, SCATTER_REDUCE_FINISH, ScatterAddEntry, ScatterOp,
};

/// A launch by any candidate.
type Call<'a> = <Candidate as Choice>::Call<'a>;

/// Rows, and how they are combined with those that their indices name.
pub(super) struct Combination<'a, T: Reducible, I: IndexElement> {
    op: ScatterOp,
    rows: Rows<'a, T, I>,
}

/// Rows that are to be added.
struct Sums {
    desc: ScatterAddDesc,
    /// The walk over the indices.
    positions: WalkParams,
    columns: Walk,
    /// Stride of the axis in y, in bytes.
    y_stride: i64,
}

/// Indices in order.
struct Sorted {
    pairs: Storage,
    begins: Storage,
    longs: Storage,
}

impl<'a, T: Reducible, I: IndexElement> Combination<'a, T, I> {
    /// Checks the inputs, for a result of this shape.
    pub(super) fn new(
        op: ScatterOp,
        placement: &Placement<'a, T, I>,
        y: &[usize],
        stream: &Stream,
    ) -> Result<Self> {
        let rows = placement.checked(y, stream)?;
        check::up_to("extent of the axis", y[rows.axis], scatter_add::MAX_EXTENT)?;
        check::up_to(
            "number of indices",
            rows.indices.len(),
            scatter_add::MAX_LEN,
        )?;
        Ok(Self { op, rows })
    }

    /// The walks, and what is to be chosen from; `None` if there is nothing to add.
    fn sums(&self, y: &Tensor<T>) -> Result<Option<Sums>> {
        if y.is_empty() || self.rows.src.is_empty() {
            return Ok(None);
        }
        let positions = self.rows.positions().first_piece(u64::MAX);
        let positions = positions.ok_or(Error::Bug("indices have one piece"))?;
        let positions = in_bytes(positions.params, [8, size_of::<T>(), size_of::<I>()]);
        let size = size_of::<T>();
        let y_stride = axis_stride(y, self.rows.axis).wrapping_mul(size as i64);
        let lanes = 16 / size;
        let own = self.rows.columns(y);
        let of_src = positions.strides[1].iter().chain([&y_stride]);
        let fits = scatter_add::VECTORS.contains(&T::DTYPE)
            && of_src.copied().all(|bytes| bytes % 16 == 0);
        let (columns, lanes) = match own.widened(lanes).filter(|_| fits) {
            Some(wide) => (wide, lanes),
            None => (own, 1),
        };
        let desc = ScatterAddDesc {
            op: self.op,
            dtype: T::DTYPE,
            indices: positions.len,
            columns: columns.len(),
            lanes,
        };
        Ok(Some(Sums {
            desc,
            positions,
            columns,
            y_stride,
        }))
    }

    /// Launches what adds to `y`, which has the right shape.
    pub(super) fn launch(
        &self,
        y: &Tensor<T>,
        kernel: Option<&str>,
        stream: &Stream,
    ) -> Result<()> {
        let Some(sums) = self.sums(y)? else {
            return Ok(());
        };
        let (candidate, _) = choose(&sums.desc, kernel, stream)?;
        self.add(&candidate, &sums, y, stream)
    }

    pub(super) fn plan_of_sums(
        &self,
        y: &Tensor<T>,
        kernel: Option<&str>,
        stream: &Stream,
    ) -> Result<Plan> {
        match self.sums(y)? {
            Some(sums) => Plan::of(&sums.desc, kernel, stream),
            None => Ok(Plan::empty()),
        }
    }

    /// Measures the candidates, with sums in `y`.
    pub(super) fn tune_sums(&self, y: &Tensor<T>, stream: &Stream) -> Result<Tuning> {
        let Some(sums) = &self.sums(y)? else {
            return Ok(Tuning::empty());
        };
        let call: Call<'_> = Box::new(move |by| self.add(by, sums, y, stream));
        let calls = rotation(call, sums.desc.bytes(), stream, || {
            let src = copied(self.rows.src, stream)?;
            let call: Call<'_> = Box::new(move |by| {
                let copy = Combination {
                    op: self.op,
                    rows: Rows {
                        src: &src,
                        ..self.rows
                    },
                };
                let sums = copy.sums(y)?.ok_or(Error::Bug("a copy has no rows"))?;
                copy.add(by, &sums, y, stream)
            });
            Ok(call)
        })?;
        tune(
            &sums.desc,
            stream,
            &calls,
            |by| answer(y, T::default(), stream, || calls[0](by)),
            |want, got| as_bytes(want) == as_bytes(got),
        )
    }

    /// Sorts the indices.
    fn sort(
        &self,
        positions: WalkParams,
        [per_block, blocks]: [u32; 2],
        extent: u32,
        stream: &Stream,
    ) -> Result<Sorted> {
        let len = positions.len;
        let alloc = |bytes: u64| Storage::alloc(stream, bytes);
        let begins = alloc(4 * u64::from(len.div_ceil(scatter_add::CHUNK)))?;
        let longs = alloc(4 * u64::from(scatter_add::longs(len)))?;
        let mut params = OrderParams {
            positions,
            extent,
            wrap: self.rows.wrap(extent.into()),
            index_bytes: size_of::<I>() as u32,
            bits: scatter_add::digits(extent) * scatter_add::DIGIT_BITS,
            shift: 0,
            per_block,
            blocks,
        };
        let room = 8 * u64::from(len + scatter_add::PAD);
        let variant = LoadVariant::of(stream.device(), 2 * room);
        let sort = load::kernel_for(variant, stream, SCATTER_ADD_SORT)?;
        let config = LaunchConfig::linear(blocks, scatter_add::THREADS);
        let mut from = alloc(room)?;
        let mut to = alloc(if blocks == 1 { 0 } else { room })?;
        let launch = |config, from: &Storage, to: &Storage, counts: u64, params: OrderParams| {
            let (from, to) = (from.address(), to.address());
            let found = (begins.address(), longs.address());
            let memory = (self.rows.indices, from, to, counts, found.0, found.1);
            // SAFETY: the walk covers the indices. There is room for a pair and a bit of each
            // index, for 256 counts of each block, and for as many segments of several parts as
            // there may be.
            unsafe { sort.launch(stream, config, memory, &params) }
        };
        if blocks == 1 {
            launch(config, &to, &from, 0, params)?;
            return Ok(Sorted {
                pairs: from,
                begins,
                longs,
            });
        }
        let counts = alloc(4 * u64::from(blocks * scatter_add::DIGITS))?;
        let count = load::kernel_for(variant, stream, SCATTER_ADD_COUNT)?;
        while params.shift < params.bits {
            let (pairs, counts) = (from.address(), counts.address());
            let memory = (self.rows.indices, pairs, counts, longs.address());
            // SAFETY: as above.
            unsafe { count.launch(stream, config, memory, &params) }?;
            launch(config, &from, &to, counts, params)?;
            std::mem::swap(&mut from, &mut to);
            params.shift += scatter_add::DIGIT_BITS;
        }
        let config = LaunchConfig::linear(len.div_ceil(scatter_add::THREADS), scatter_add::THREADS);
        launch(config, &from, &from, counts.address(), params)?;
        Ok(Sorted {
            pairs: from,
            begins,
            longs,
        })
    }

    /// Adds rows by few indices, or in the order of many.
    fn add(
        &self,
        candidate: &Candidate,
        sums: &Sums,
        y: &Tensor<T>,
        stream: &Stream,
    ) -> Result<()> {
        let (positions, lanes, decision) = (sums.positions, sums.desc.lanes, &candidate.decision);
        let extent = y.shape()[self.rows.axis] as u32;
        let sorted = match decision.step {
            plan::Step::Few => None,
            plan::Step::Add => Some(self.sort(positions, decision.sort, extent, stream)?),
        };
        let limit = plan::most_columns(positions.len, decision.chunk);
        let size = size_of::<T>();
        sums.columns.pieces_up_to(limit, 1, |piece| {
            let columns = in_bytes(piece.params, [size * lanes; 3]);
            let params = AddParams {
                columns,
                positions,
                y_stride: sums.y_stride,
                numbers: u64::from(columns.len) * lanes as u64,
                extent,
                lanes_log2: lanes.trailing_zeros(),
                size_log2: size.trailing_zeros(),
                code: scatter_add::code(T::DTYPE),
                chunk: decision.chunk,
                warps: Division::new(columns.len.div_ceil(32)),
                nothing: self.op.nothing(T::DTYPE),
                kind: self.op.kind(),
                wrap: self.rows.wrap(extent.into()) as u32,
            };
            match &sorted {
                Some(sorted) => self.add_piece(decision, y, sorted, (piece, params), stream),
                None => self.add_few(decision, y, (piece, params), stream),
            }
        })
    }

    /// Of the launches that add: rows are read, and as many are changed at most.
    fn variant(&self, stream: &Stream) -> LoadVariant {
        let bytes = (self.rows.src.len() as u64).saturating_mul(3 * size_of::<T>() as u64);
        LoadVariant::of(stream.device(), bytes)
    }

    /// Adds some columns by few indices.
    fn add_few(
        &self,
        decision: &Decision,
        y: &Tensor<T>,
        (piece, params): (&Piece, AddParams),
        stream: &Stream,
    ) -> Result<()> {
        let kernel = load::kernel_for(self.variant(stream), stream, SCATTER_ADD_FEW)?;
        let to = y.erased().argument(piece.addresses[0]);
        let from = self.rows.src.erased().argument(piece.addresses[1]);
        let config = plan::config(decision, params.positions.len, params.columns.len.into());
        let (memory, params) = (
            (self.rows.indices, from, to),
            (params, size_of::<I>() as u32),
        );
        // SAFETY: the walks cover y and src at index 0 of the axis and the first index; with an index
        // below the extent, and a position, they are elements. y is injective and overlaps neither.
        unsafe { kernel.launch(stream, config, memory, &params) }
    }

    /// Adds some columns.
    fn add_piece(
        &self,
        decision: &Decision,
        y: &Tensor<T>,
        sorted: &Sorted,
        (piece, params): (&Piece, AddParams),
        stream: &Stream,
    ) -> Result<()> {
        let len = params.positions.len;
        let has_parts = len > scatter_add::PART;
        let parts = match has_parts {
            true => scatter_add::parts(len) * params.numbers * scatter_add::number_bytes(T::DTYPE),
            false => 0,
        };
        let parts = Storage::alloc(stream, parts)?;
        let (pairs, begins) = (sorted.pairs.address(), sorted.begins.address());
        let longs = sorted.longs.address();
        let (to, from) = (
            y.erased().argument(piece.addresses[0]),
            self.rows.src.erased().argument(piece.addresses[1]),
        );
        let config = plan::config(decision, len, params.columns.len.into());
        let by_vectors = params.lanes_log2 > 0;
        let entry = check::entry(ScatterAddEntry::of(self.op, by_vectors.then_some(T::DTYPE)))?;
        let kernel = load::kernel_for(self.variant(stream), stream, entry)?;
        let memory = (pairs, begins, from, to, parts.address());
        // SAFETY: the walks cover y and src at index 0 of the axis and the first index; with an index
        // below the extent, and a position, they are elements. y is injective and overlaps neither. If
        // there are segments of several parts, there is room for these.
        unsafe { kernel.launch(stream, config, memory, &params) }?;
        if !has_parts {
            return Ok(());
        }
        let params = AddParams {
            warps: Division::new(params.numbers.div_ceil(32) as u32),
            ..params
        };
        let finish = match self.op {
            ScatterOp::Sum => SCATTER_ADD_FINISH,
            _ => SCATTER_REDUCE_FINISH,
        };
        let kernel = load::kernel_for(self.variant(stream), stream, finish)?;
        // Blocks go on to what is left: there may be no such segment, or many.
        let most = u64::from(scatter_add::longs(len) - 1) * u64::from(params.warps.divisor);
        let blocks = most.min(decision.finish_blocks) as u32;
        let config = LaunchConfig::linear(blocks, scatter_add::FINISH_THREADS);
        let to = y.erased().argument(piece.addresses[0]);
        let memory = (pairs, longs, to, parts.address());
        // SAFETY: as above.
        unsafe { kernel.launch(stream, config, memory, &params) }
    }
}
