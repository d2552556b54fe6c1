//! Shadow memory: which agent accessed which bytes last.
//!
//! Memory is covered by chunks of 128 bytes, created when they are first touched. A chunk holds a
//! *plane* for each agent and kind of access: one cell per granule, with the epoch of the agent's
//! last such access. A granule is a 4-byte word, or smaller in a chunk with narrower accesses, so
//! that neighbours within a word are told apart. An access examines only planes with an epoch that
//! its agent does not know of; right after a barrier there are none.

use std::sync::Arc;

use super::cell::{Cell, Kind};
use crate::memory::host::Starved;
use crate::program::Scope;

mod room;

/// Bytes of a chunk: what a warp touches with one word per lane.
pub(super) const CHUNK_BYTES: u64 = 128;
/// log2 of the granule's size in bytes, in a chunk with accesses to whole words only.
pub(super) const WORD_SHIFT: u8 = 2;
/// What the host memory is for.
pub(super) const WHAT: &str = "the check for races";
/// Stands for no plane.
const NONE: u32 = u32::MAX;
/// Planes of a chunk that are found at once.
const RECENT: usize = 8;

/// The accesses of one kind by one agent to a chunk.
#[derive(Clone, Copy, Debug)]
struct Plane {
    agent: u16,
    kind: Kind,
    /// The greatest epoch of its cells.
    latest: u32,
    /// Index of its first cell.
    cells: u32,
    /// The plane that was made before it.
    next: u32,
    /// The last before it that writes.
    next_write: u32,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    /// The plane that was made last.
    first: u32,
    /// The last that writes.
    first_write: u32,
    /// Those that were accessed last, each where [`Visitor::recent`] says: their agents will likely
    /// come again.
    recent: [u32; RECENT],
    /// log2 of the bytes of a granule.
    shift: u8,
}

/// For each chunk of a region, its index in `chunks` plus one; 0 if there is none.
#[derive(Clone, Debug, Default)]
struct Table(Box<[u32]>);

/// A region of memory: the shared memory of a block, or an allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub(super) table: usize,
    /// Number of chunks that cover it.
    pub(super) chunks: usize,
}

/// The bytes that one agent accesses, and by which lanes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// First lane, and the last that accesses the same bytes.
    pub(super) lanes: (u8, u8),
    /// log2 of the bytes per lane if the lanes access consecutive bytes; else [`Span::ONE_LANE`].
    pub(super) unit: u32,
}

impl Span {
    /// More than the log2 of any span: every byte belongs to the first lane.
    pub(super) const ONE_LANE: u32 = 63;
}

/// The maker of an access, its kind, and what it knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visitor<'a> {
    pub(super) agent: u16,
    /// Whether the agent is a warp. Only barriers order the lanes of a warp among themselves.
    pub(super) warp: bool,
    pub(super) kind: Kind,
    pub(super) cell: Cell,
    /// For each agent, the epoch up to which the visitor knows of its accesses.
    pub(super) known: &'a [u32],
    /// The same for earlier writes, which may need a proxy fence before the visitor sees them.
    pub(super) known_writes: &'a [u32],
    /// For its own warp: per lane, the epoch that began with its last `bar.warp.sync`.
    pub(super) synced: &'a [u32; 32],
    /// The first warp of its block, and the one after the last.
    pub(super) block: (u16, u16),
    /// Number of warps of the cluster.
    pub(super) warps: u16,
}

impl Visitor<'_> {
    /// Its place among the recent planes of a chunk.
    #[inline(always)]
    fn recent(&self) -> usize {
        (2 * usize::from(self.agent) + usize::from(self.kind.writes())) % RECENT
    }

    #[inline(always)]
    fn knows(&self, agent: u16, kind: Kind) -> u32 {
        let known = if kind.writes() {
            self.known_writes
        } else {
            self.known
        };
        known.get(usize::from(agent)).copied().unwrap_or(0)
    }

    /// How far the thread behind an agent of the cluster is. Asynchronous work counts as near, which
    /// may hide a race but never reports a false one.
    fn distance(&self, agent: u16) -> Scope {
        let (first, after) = self.block;
        match (first..after).contains(&agent) || agent >= self.warps {
            true => Scope::Block,
            false => Scope::Cluster,
        }
    }

    /// Whether an earlier access by the visitor's own warp is ordered before one by `lane`. That
    /// includes what the lane read in one instruction together with other lanes: no compiler or GPU
    /// lets converged lanes of a warp run ahead of each other there.
    fn lane_knows(&self, cell: Cell, lane: u8, kind: Kind) -> bool {
        let (first, last) = cell.lanes();
        if !kind.writes() && first < last && (first..=last).contains(&lane) {
            return true;
        }
        let after = |lane: u8| self.synced[usize::from(lane)] > cell.epoch();
        [first, last]
            .into_iter()
            .all(|other| other == lane || after(other) && after(lane))
    }
}

/// An earlier access that is not ordered before this one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) agent: u16,
    pub(super) kind: Kind,
    pub(super) cell: Cell,
    /// The bytes that both access.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// The lane of the present access.
    pub(super) lane: u8,
}

/// The shadow of all memory that one cluster touches.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    tables: Vec<Table>,
    chunks: Vec<Chunk>,
    planes: Vec<Plane>,
    cells: Vec<Cell>,
    /// For each chunk, its table and its index there.
    touched: Vec<(u32, u32)>,
    /// For each table, whether anything has written there.
    written: Vec<bool>,
    /// Where a lack of host memory is recorded.
    starved: Arc<Starved>,
}

impl Shadow {
    /// A shadow without accesses.
    pub(super) fn new(starved: &Arc<Starved>) -> Self {
        Self {
            starved: starved.clone(),
            ..Self::default()
        }
    }

    /// Forgets all accesses, but keeps the host memory.
    pub(super) fn clear(&mut self) {
        for (table, index) in self.touched.drain(..) {
            self.tables[table as usize].0[index as usize] = 0;
        }
        self.chunks.clear();
        self.planes.clear();
        self.cells.clear();
        self.written.fill(false);
    }

    /// Calls `f` for each plane of each chunk: region, index of the chunk, log2 of the granule's
    /// size, kind, agent, cells.
    pub(super) fn each_plane(&self, mut f: impl FnMut(Region, u32, u8, Kind, u16, &[Cell])) {
        for (chunk, (table, index)) in self.chunks.iter().zip(&self.touched) {
            let table = *table as usize;
            let region = Region {
                table,
                chunks: self.tables[table].0.len(),
            };
            let mut at = chunk.first;
            while at != NONE {
                let plane = &self.planes[at as usize];
                let start = plane.cells as usize;
                let cells = &self.cells[start..start + (CHUNK_BYTES >> chunk.shift) as usize];
                f(region, *index, chunk.shift, plane.kind, plane.agent, cells);
                at = plane.next;
            }
        }
    }

    /// Whether anything has written to region `table`.
    #[inline]
    pub(super) fn has_writes(&self, table: usize) -> bool {
        self.written.get(table).is_some_and(|written| *written)
    }

    /// A write that covers a byte of region `table`: its agent, kind and cell.
    pub(super) fn write_at(&self, table: usize, offset: u64) -> Option<(u16, Kind, Cell)> {
        let place = *self
            .tables
            .get(table)?
            .0
            .get((offset / CHUNK_BYTES) as usize)?;
        let chunk = self.chunks.get((place as usize).checked_sub(1)?)?;
        let granule = (offset % CHUNK_BYTES) as usize >> chunk.shift;
        let mut at = chunk.first_write;
        while at != NONE {
            let plane = &self.planes[at as usize];
            let cell = self.cells[plane.cells as usize + granule];
            if cell != Cell::default() {
                return Some((plane.agent, plane.kind, cell));
            }
            at = plane.next_write;
        }
        None
    }

    /// Checks and records an access to region `table` of `len` bytes. `excused` tells whether an
    /// earlier write is not a conflict (it wrote the same value). Without host memory to record it,
    /// the launch is starved.
    #[inline(always)]
    pub(super) fn access(
        &mut self,
        table: usize,
        len: u64,
        span: Span,
        visitor: &Visitor<'_>,
        excused: &dyn Fn(&Hit) -> bool,
    ) -> Result<(), Hit> {
        let (mut from, end) = (span.offset, span.offset + span.bytes);
        while from < end {
            let to = end.min((from / CHUNK_BYTES + 1) * CHUNK_BYTES);
            let Some(chunk) = self.chunk(table, len, from / CHUNK_BYTES) else {
                return Ok(());
            };
            let narrowest = (from | to).trailing_zeros().min(span.unit) as u8;
            if self.chunks[chunk].shift > narrowest && self.refine(chunk, narrowest).is_none() {
                return Ok(());
            }
            self.visit(chunk, from, to, span, visitor, excused)?;
            from = to;
        }
        Ok(())
    }

    #[inline(always)]
    fn chunk(&mut self, table: usize, len: u64, index: u64) -> Option<usize> {
        let found = self
            .tables
            .get(table)
            .and_then(|table| table.0.get(index as usize));
        match found {
            Some(&place) if place != 0 => Some(place as usize - 1),
            _ => self.new_chunk(table, len, index),
        }
    }

    /// Checks and records the part of an access that lies in one chunk.
    #[inline(always)]
    fn visit(
        &mut self,
        chunk: usize,
        from: u64,
        to: u64,
        span: Span,
        visitor: &Visitor<'_>,
        excused: &dyn Fn(&Hit) -> bool,
    ) -> Result<(), Hit> {
        let Chunk {
            first,
            first_write,
            shift,
            ..
        } = self.chunks[chunk];
        let part = Part {
            from: ((from % CHUNK_BYTES) >> shift) as usize,
            count: ((to - from) >> shift) as usize,
            start: from,
            shift,
            span,
        };
        // Reads race with writes alone, of which there are fewest: the other planes of most chunks
        // are those of every warp that reads it.
        let writes = visitor.kind.writes();
        let mut at = if writes { first } else { first_write };
        while at != NONE {
            let plane = &self.planes[at as usize];
            if visitor
                .kind
                .conflicts(plane.kind, || visitor.distance(plane.agent))
                && plane.latest > visitor.knows(plane.agent, plane.kind)
                && let Some(hit) = self.conflict(plane, &part, visitor, excused)
            {
                return Err(hit);
            }
            at = if writes { plane.next } else { plane.next_write };
        }
        if let Some(own) = self.own_plane(chunk, visitor) {
            self.record(own, &part, visitor);
        }
        Ok(())
    }

    /// The plane of the visitor's accesses of this kind.
    #[inline(always)]
    fn own_plane(&mut self, chunk: usize, visitor: &Visitor<'_>) -> Option<u32> {
        let Chunk { first, recent, .. } = &self.chunks[chunk];
        let (first, recent) = (*first, recent[visitor.recent()]);
        let is_own = |plane: &Plane| plane.agent == visitor.agent && plane.kind == visitor.kind;
        if recent != NONE && is_own(&self.planes[recent as usize]) {
            return Some(recent);
        }
        let mut at = first;
        while at != NONE {
            let plane = &self.planes[at as usize];
            if is_own(plane) {
                break;
            }
            at = plane.next;
        }
        let own = match at {
            NONE => self.new_plane(chunk, visitor)?,
            own => own,
        };
        self.chunks[chunk].recent[visitor.recent()] = own;
        Some(own)
    }

    /// The first granule of a plane that holds an access not ordered before this one.
    fn conflict(
        &self,
        plane: &Plane,
        part: &Part,
        visitor: &Visitor<'_>,
        excused: &dyn Fn(&Hit) -> bool,
    ) -> Option<Hit> {
        let known = visitor.knows(plane.agent, plane.kind);
        let own = plane.agent == visitor.agent && visitor.warp;
        let start = plane.cells as usize + part.from;
        for (i, cell) in self.cells[start..start + part.count].iter().enumerate() {
            if cell.epoch() <= known {
                continue;
            }
            let (first, last) = part.lanes(i);
            if own
                && visitor.lane_knows(*cell, first, plane.kind)
                && (first == last || visitor.lane_knows(*cell, last, plane.kind))
            {
                continue;
            }
            let hit = Hit {
                agent: plane.agent,
                kind: plane.kind,
                cell: *cell,
                offset: part.start + ((i as u64) << part.shift),
                bytes: 1 << part.shift,
                lane: if own && cell.lanes() == (first, first) {
                    last
                } else {
                    first
                },
            };
            if !excused(&hit) {
                return Some(hit);
            }
        }
        None
    }

    #[inline(always)]
    fn record(&mut self, own: u32, part: &Part, visitor: &Visitor<'_>) {
        let plane = &mut self.planes[own as usize];
        // Whether the plane has accesses that are not ordered before this one: lanes are then kept
        // apart.
        let apart = visitor.warp && plane.latest > visitor.knows(visitor.agent, visitor.kind);
        plane.latest = visitor.cell.epoch();
        let start = plane.cells as usize + part.from;
        let cells = &mut self.cells[start..start + part.count];
        if !apart && part.span.unit == Span::ONE_LANE {
            let (first, last) = part.span.lanes;
            cells.fill(visitor.cell.with_lanes(first, last));
            return;
        }
        if !apart {
            for (i, cell) in cells.iter_mut().enumerate() {
                let (first, last) = part.lanes(i);
                *cell = visitor.cell.with_lanes(first, last);
            }
            return;
        }
        let known = visitor.knows(visitor.agent, visitor.kind);
        for (i, cell) in cells.iter_mut().enumerate() {
            let (first, last) = part.lanes(i);
            let (a, b) = cell.lanes();
            let other = if a == first { b } else { a };
            // A lane that has since taken part in a `bar.warp.sync` may be ordered before what
            // comes.
            let open = cell.epoch() > known && visitor.synced[usize::from(other)] <= cell.epoch();
            *cell = if first == last && other != first && open {
                visitor.cell.with_lanes(other.max(first), other.min(first))
            } else {
                visitor.cell.with_lanes(first, last)
            };
        }
    }
}

/// The part of a span that lies in one chunk.
struct Part {
    /// Index of the first granule in the chunk, and their number.
    from: usize,
    count: usize,
    /// Offset of the first granule.
    start: u64,
    shift: u8,
    span: Span,
}

impl Part {
    /// First and last lane that access granule `i` of the part.
    #[inline(always)]
    fn lanes(&self, i: usize) -> (u8, u8) {
        // Nothing overflows; it wraps so that a build with overflow checks has vectors too.
        let within = self.start.wrapping_sub(self.span.offset);
        let at = within.wrapping_add((i as u64).wrapping_shl(self.shift.into()));
        let next = at.wrapping_shr(self.span.unit) as u8;
        let (first, last) = self.span.lanes;
        (first.wrapping_add(next), last.wrapping_add(next))
    }
}
