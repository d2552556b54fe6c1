//! Fills the holes of block masks (`kernels-gpu/src/attention/sparse.rs`).

use super::compose::{DROPOUT, ScoreCall, Writer};
use super::desc::BlocksDesc;
use super::function::Step;
use super::places::At;
use super::prepare::byte_strides;
use crate::fuse::{Body, Scalar, Value};
use crate::ops::attention::block_mask::BlockMask;
use crate::ops::gemm::Memory;
use crate::{Error, Result};

/// Slots of lines of queries, then of keys.
pub(super) const LINES: usize = DROPOUT - BLOCK_SLOTS;
/// Of each: addresses of the three planes, and bytes from batch to batch, head to head and line to
/// line. Then log2 of a line's rows, the number of blocks, and log2 of a block's columns.
const WORDS: usize = 9;
/// The cells: address, bytes from batch to batch, head to head and row to row, number of columns.
const CELLS: usize = 5;
/// Number of slots.
pub(super) const BLOCK_SLOTS: usize = 2 * WORDS + CELLS;

impl ScoreCall {
    /// The same for a kernel whose tiles have so many queries and keys. If it does not read whether a
    /// block is partial, it `is_backward`.
    pub(in crate::ops) fn for_tile(mut self, tile: [u32; 2], is_backward: bool) -> Result<Self> {
        let (Some(mask), Some(desc)) = (&self.blocks, &mut self.desc.blocks) else {
            return Ok(self);
        };
        let fits = |log2: [u32; 2]| (0..2).all(|idx| tile[idx] <= 1 << log2[idx]);
        const COARSE: Error = Error::Bug("a tile is larger than the lines of a block mask");
        let mut levels = mask.levels.iter();
        let level = levels.find(|level| fits(level.log2)).ok_or(COARSE)?;
        let is_fine = level.log2 == mask.levels[0].log2;
        let always = is_backward || self.desc.changes;
        desc.reads_cells = !is_fine || (desc.has_function && !mask.is_by_function && always);
        let mut memory = Vec::new();
        for (idx, lines) in level.lines.iter().enumerate() {
            let slots = &mut self.slots[LINES + idx * WORDS..][..WORDS];
            let strides = byte_strides(lines);
            let of = Memory::of(lines);
            for (plane, slot) in slots[..3].iter_mut().enumerate() {
                *slot = of.address() + plane as u64 * strides[0];
            }
            let mask_has = [mask.shape.batch > 1, mask.shape.heads > 1];
            slots[3] = if mask_has[0] { strides[1] } else { 0 };
            slots[4] = if mask_has[1] { strides[2] } else { 0 };
            slots[5] = strides[3];
            slots[6] = u64::from(level.log2[idx]);
            slots[7] = lines.shape()[4] as u64;
            slots[8] = u64::from(level.log2[1 - idx]);
            memory.push(of);
        }
        let slots = &mut self.slots[LINES + 2 * WORDS..];
        let (cells, strides) = (Memory::of(&mask.cells), byte_strides(&mask.cells));
        slots[0] = cells.address();
        slots[1] = if mask.shape.batch > 1 { strides[0] } else { 0 };
        slots[2] = if mask.shape.heads > 1 { strides[1] } else { 0 };
        slots[3] = strides[2];
        slots[4] = mask.shape.columns() as u64;
        memory.push(cells);
        self.memory.extend(memory);
        Ok(self)
    }
}

/// What a line's hole reads.
#[derive(Clone, Copy, PartialEq)]
enum Plane {
    Before,
    Behind,
    Through,
}

/// The line of a hole: what it reads, and whether lines are of keys.
pub(super) struct Line(Plane, bool);

/// The line of the hole of this name, if it has one.
pub(super) fn line_of(hole: &str) -> Option<Line> {
    let of_queries = hole.strip_suffix("_of_keys");
    let plane = match of_queries.unwrap_or(hole) {
        "block_before" => Plane::Before,
        "block_behind" => Plane::Behind,
        "blocks_through" => Plane::Through,
        _ => return None,
    };
    Some(Line(plane, of_queries.is_some()))
}

impl Writer<'_> {
    /// The body of a hole that moves along a line.
    pub(super) fn line(mut self, Line(plane, of_keys): Line) -> Result<Body> {
        let first = LINES + if of_keys { WORDS } else { 0 };
        let outputs = if plane == Plane::Through { 1 } else { 2 };
        let block = self.body.input(0);
        let [batch, head, row, own_log2] = [0, 1, 2, 3].map(|idx| self.body.input(outputs + idx));
        let blocks = self.slot(first + 7, Scalar::U32);
        let blocks_log2 = self.slot(first + 8, Scalar::U32);
        let shift = self.apply("blocks_shift", &[blocks_log2, own_log2])?;
        let mut word = |of: Plane| -> Result<Value> {
            let of_batch = self.slot(first + 3, Scalar::I64);
            let of_head = self.slot(first + 4, Scalar::I64);
            let of_line = self.slot(first + 5, Scalar::I64);
            let row_log2 = self.slot(first + 6, Scalar::U32);
            let base = self.slot(first + of as usize, Scalar::U64);
            let place = [base, batch, of_batch, head, of_head, row, row_log2, of_line];
            let line = self.apply("blocks_row", &place)?;
            let address = self.apply("blocks_word", &[line, block, shift, blocks])?;
            Ok(self.body.load(address, 4))
        };
        match plane {
            Plane::Before | Plane::Behind => {
                let word = word(plane)?;
                let found = match plane {
                    Plane::Before => self.apply("blocks_before", &[word, block, shift])?,
                    _ => self.apply("blocks_behind", &[word, block, shift, blocks])?,
                };
                let partial = self.apply("blocks_partial", &[word])?;
                self.body.output(0, found)?;
                self.body.output(1, partial)?;
            }
            Plane::Through => {
                let (through, before) = (word(Plane::Through)?, word(Plane::Before)?);
                let count = self.apply("blocks_through", &[through, before, block, shift])?;
                self.body.output(0, count)?;
            }
        }
        Ok(self.body)
    }

    /// The body of the hole that says whether a block's scores are changed.
    pub(super) fn flag_of_changed(mut self) -> Result<Body> {
        let flag = match (self.of.desc.changes, self.of.desc.blocks) {
            (true, _) => self.body.constant(1, Scalar::U32),
            (false, Some(blocks)) if blocks.hides() => self.body.input(0),
            (false, _) => self.body.constant(0, Scalar::U32),
        };
        self.body.output(0, flag)?;
        Ok(self.body)
    }

    /// The body of the hole that says whether a mask shows a pair.
    pub(super) fn shown(mut self) -> Result<Body> {
        let [batch, head, query, key] = [0, 1, 2, 3].map(|idx| self.body.input(idx));
        let mut arguments = vec![batch, head, query, key];
        const ONE: Error = Error::Bug("a block mask's function is not one fragment");
        let step = self.of.mask.as_ref().and_then(|mask| mask.steps.first());
        let Some(Step::Apply {
            fragment, values, ..
        }) = step
        else {
            return Err(ONE);
        };
        for (idx, value) in values.iter().enumerate() {
            arguments.push(self.slot(super::compose::VALUES + idx, value.scalar()));
        }
        let shown = self.body.apply(fragment, &arguments)?;
        self.body.output(0, shown)?;
        Ok(self.body)
    }

    /// Whether the block mask shows a pair, if it hides any in blocks that are visited. The values of
    /// its function begin at slot `value`.
    pub(super) fn shown_by_blocks(&mut self, at: &At, value: usize) -> Result<Option<Value>> {
        let Some(blocks) = self.of.desc.blocks.filter(BlocksDesc::hides) else {
            return Ok(None);
        };
        let mut shown = None;
        let function = self
            .of
            .blocks
            .as_ref()
            .and_then(|mask| mask.function.as_ref());
        if let Some(Step::Apply {
            fragment, values, ..
        }) = function.and_then(|function| function.steps.first())
        {
            let mut arguments = vec![at.batch, at.head, at.query, at.key];
            for (idx, given) in values.iter().enumerate() {
                arguments.push(self.slot(value + idx, given.scalar()));
            }
            shown = Some(self.body.apply(fragment, &arguments)?);
        }
        if !blocks.reads_cells {
            return Ok(shown);
        }
        let first = LINES + 2 * WORDS;
        let base = self.slot(first, Scalar::U64);
        let of_batch = self.slot(first + 1, Scalar::I64);
        let of_head = self.slot(first + 2, Scalar::I64);
        let pitch = self.slot(first + 3, Scalar::I64);
        let columns = self.slot(first + 4, Scalar::U32);
        let place = [
            base, at.batch, of_batch, at.head, of_head, at.query, pitch, at.key, columns,
        ];
        let address = self.apply("blocks_cell", &place)?;
        let cell = self.body.load(address, 1);
        let shown = shown.unwrap_or_else(|| self.body.constant(1, Scalar::U32));
        Ok(Some(self.apply("blocks_show", &[cell, shown])?))
    }
}

/// What a description says of a mask, before its tiles are known.
pub(super) fn describe(mask: &BlockMask) -> BlocksDesc {
    BlocksDesc {
        has_function: mask.function.is_some(),
        reads_cells: false,
        has_heads: mask.shape.heads > 1,
        function: mask.function.as_ref().map_or([0; 2], |of| {
            let [fragment, derivative, ..] = of.key();
            [fragment, derivative]
        }),
    }
}
