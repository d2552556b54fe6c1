//! Races between the clusters of a launch, in global memory.
//!
//! If clusters cannot wait for each other, any two accesses to the same bytes by different clusters
//! race if one is a write. The accesses of a cluster are compared when the cluster has ended, in
//! the clusters' order. So the report does not depend on the number of host threads.
//!
//! In a kernel with atomics or strong loads, each access is compared when it takes place, against
//! what its warp has learnt through flags. For each granule, the shadow keeps only one access of
//! each kind: the first that is not known to have happened before the later ones. So in such a
//! kernel a race with another of several accesses may be missed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::cell::{Cell, Kind};
use super::grid_plane::{GridCell, GridPlane, Run};
use super::knowledge::Knowledge;
use super::shadow::{CHUNK_BYTES, Shadow, Span, WHAT, WORD_SHIFT};
use crate::memory::host::{Starved, has_room, lacks, zeroed};
use crate::program::Scope;

/// Two unordered accesses by different clusters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GridHit {
    pub(crate) allocation: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) first: (Kind, GridCell),
    pub(crate) second: (Kind, GridCell),
}

impl GridHit {
    fn place(&self) -> (usize, u64) {
        (self.allocation, self.offset)
    }
}

/// What a strong write releases to other clusters.
#[derive(Clone, Debug, Default)]
pub(super) struct Released {
    pub(super) known: Knowledge,
    /// What it would release if the scopes of its writer's fence and of itself included them.
    pub(super) left_out: Knowledge,
}

impl Released {
    fn is_empty(&self) -> bool {
        self.known.is_empty() && self.left_out.is_empty()
    }

    fn join(&mut self, other: &Self) {
        self.known.join(&other.known);
        self.left_out.join(&other.left_out);
    }
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    /// log2 of the granule's size in bytes.
    shift: u8,
    /// One for each kind of access.
    planes: [GridPlane; 4],
}

impl Chunk {
    /// Makes the granules smaller. Without host memory for that it keeps them, and the launch is
    /// starved.
    fn refine(&mut self, shift: u8, starved: &Starved) {
        let copies = 1 << (self.shift - shift);
        for plane in &mut self.planes {
            let granules = CHUNK_BYTES as usize >> self.shift;
            if plane.spread(granules, copies).is_none() {
                return lacks(starved, WHAT, CHUNK_BYTES * size_of::<GridCell>() as u64);
            }
        }
        self.shift = shift;
    }

    /// Checks an access to a granule and records it. Returns the earlier access if the two race.
    fn visit(
        &mut self,
        granule: usize,
        kind: Kind,
        cell: GridCell,
        known: &Knowledge,
        starved: &Starved,
    ) -> Option<(Kind, GridCell)> {
        let open = |other: &GridCell| {
            other.epoch != 0 && other.cluster != cell.cluster && !known.knows(other)
        };
        for other in Kind::BETWEEN {
            if kind.conflicts(other, || Scope::Device) {
                let before = self.planes[other.number()].get(granule);
                if open(&before) {
                    return Some((other, before));
                }
            }
        }
        let own = &mut self.planes[kind.number()];
        let granules = CHUNK_BYTES as usize >> self.shift;
        if !open(&own.get(granule)) && own.set(granule, cell, granules).is_none() {
            lacks(starved, WHAT, (granules * size_of::<GridCell>()) as u64);
        }
        None
    }

    /// Records a whole run, if no granule has to be looked at by itself; false if one has.
    fn takes_run(&mut self, kind: Kind, run: Run) -> bool {
        let looks = |other: &Kind| {
            kind.conflicts(*other, || Scope::Device) && !self.planes[other.number()].is_empty()
        };
        if Kind::BETWEEN.iter().any(looks) {
            return false;
        }
        match &self.planes[kind.number()] {
            GridPlane::Empty => {
                self.planes[kind.number()] = GridPlane::Run(run);
                true
            }
            GridPlane::Run(own) => own.from <= run.from && run.to <= own.to,
            GridPlane::Cells(_) => false,
        }
    }
}

/// The accesses to global memory by all clusters of a launch.
#[derive(Debug, Default)]
pub(crate) struct GridOrder {
    /// For each chunk of an allocation, its index in `chunks` plus one; 0 if there is none.
    tables: Vec<Box<[u32]>>,
    chunks: Vec<Chunk>,
    /// For each word of an allocation, what its strong writers have released.
    flags: HashMap<(usize, u64), Released>,
    /// Where a lack of host memory is recorded.
    starved: Arc<Starved>,
}

impl GridOrder {
    /// Without accesses.
    pub(crate) fn new(starved: &Arc<Starved>) -> Self {
        Self {
            starved: starved.clone(),
            ..Self::default()
        }
    }

    /// An access in a kernel whose clusters may communicate.
    pub(super) fn access(
        &mut self,
        (allocation, len): (usize, u64),
        span: &Span,
        kind: Kind,
        cell: GridCell,
        known: &Knowledge,
    ) -> Result<(), GridHit> {
        let (mut from, end) = (span.offset, span.offset + span.bytes);
        while from < end {
            let to = end.min((from / CHUNK_BYTES + 1) * CHUNK_BYTES);
            let narrowest = (from | to).trailing_zeros().min(span.unit) as u8;
            let chunks = len.div_ceil(CHUNK_BYTES) as usize;
            let index = (from / CHUNK_BYTES) as u32;
            let starved = self.starved.clone();
            let Some(chunk) = self.chunk(allocation, chunks, index, narrowest) else {
                return Ok(());
            };
            let shift = chunk.shift;
            for at in (from..to).step_by(1 << shift) {
                let lane = u32::from(span.lanes.0) + ((at - span.offset) >> span.unit) as u32;
                let cell = GridCell {
                    cell: cell.cell & !31 | lane,
                    ..cell
                };
                let granule = ((at % CHUNK_BYTES) >> shift) as usize;
                if let Some(before) = chunk.visit(granule, kind, cell, known, &starved) {
                    return Err(GridHit {
                        allocation,
                        offset: at,
                        bytes: 1 << shift,
                        first: (kind, cell),
                        second: before,
                    });
                }
            }
            from = to;
        }
        Ok(())
    }

    /// The chunk with an index; `None` if the host has no memory for it, which starves the launch.
    fn chunk(
        &mut self,
        allocation: usize,
        chunks: usize,
        index: u32,
        narrowest: u8,
    ) -> Option<&mut Chunk> {
        if self.tables.len() <= allocation {
            self.tables.resize(allocation + 1, Box::default());
        }
        let table = &mut self.tables[allocation];
        if table.is_empty() {
            let Some(fresh) = zeroed(chunks as u64) else {
                lacks(&self.starved, WHAT, 4 * chunks as u64);
                return None;
            };
            *table = fresh;
        }
        let place = &mut table[index as usize];
        if *place == 0 {
            if !has_room(&mut self.chunks, 1, &self.starved, WHAT) {
                return None;
            }
            self.chunks.push(Chunk {
                shift: WORD_SHIFT,
                ..Chunk::default()
            });
            *place = self.chunks.len() as u32;
        }
        let chunk = &mut self.chunks[*place as usize - 1];
        if chunk.shift > narrowest {
            chunk.refine(narrowest, &self.starved);
        }
        Some(chunk)
    }

    /// What the strong writers of a word have released.
    pub(super) fn flag(&self, allocation: usize, word: u64) -> Option<&Released> {
        self.flags.get(&(allocation, word))
    }

    /// A strong write to a word: what it releases goes to those who read it. An atomic adds it to
    /// what was there.
    pub(super) fn set_flag(&mut self, at: (usize, u64), released: Released, atomic: bool) {
        if atomic {
            if !released.is_empty() {
                self.flags.entry(at).or_default().join(&released);
            }
        } else if released.is_empty() {
            self.flags.remove(&at);
        } else {
            self.flags.insert(at, released);
        }
    }

    /// Adds what an ended cluster touched, in a launch whose clusters cannot communicate. Returns
    /// the races: of each instruction, the one at the lowest address, which is their order too.
    pub(crate) fn merge(&mut self, touched: &Touched) -> Vec<GridHit> {
        let nobody = Knowledge::default();
        let starved = self.starved.clone();
        let mut hits = BTreeMap::<u32, GridHit>::new();
        touched
            .shadow
            .each_plane(|region, index, shift, kind, agent, cells| {
                let Some(allocation) = region.table.checked_sub(touched.ranks) else {
                    return;
                };
                let Some(chunk) = self.chunk(allocation, region.chunks, index, shift) else {
                    return;
                };
                let kind = kind.between_clusters();
                let warp = touched.warps.get(usize::from(agent)).copied().unwrap_or(0);
                let named = |cell: &Cell| GridCell {
                    cluster: touched.cluster,
                    epoch: cell.epoch(),
                    cell: cell.pc() << 10 | u32::from(cell.lanes().0),
                    agent,
                    warp,
                };
                if shift == chunk.shift
                    && let Some(run) = Run::of(cells, named)
                    && chunk.takes_run(kind, run)
                {
                    return;
                }
                // The chunk may have smaller granules than the cluster's shadow had; larger ones only
                // if it is starved.
                let Some(finer) = shift.checked_sub(chunk.shift) else {
                    return;
                };
                let copies = 1usize << finer;
                for (i, cell) in cells.iter().enumerate() {
                    if *cell == Cell::default() {
                        continue;
                    }
                    let own = named(cell);
                    for granule in i * copies..(i + 1) * copies {
                        let Some(before) = chunk.visit(granule, kind, own, &nobody, &starved)
                        else {
                            continue;
                        };
                        let at = u64::from(index) * CHUNK_BYTES;
                        let hit = GridHit {
                            allocation,
                            offset: at + ((granule as u64) << chunk.shift),
                            bytes: 1 << chunk.shift,
                            first: (kind, own),
                            second: before,
                        };
                        let first = hits.entry(own.pc()).or_insert(hit);
                        if hit.place() < first.place() {
                            *first = hit;
                        }
                    }
                }
            });
        let mut hits: Vec<GridHit> = hits.into_values().collect();
        hits.sort_by_key(GridHit::place);
        hits
    }
}

/// What a cluster touched.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(super) shadow: Shadow,
    pub(super) cluster: u32,
    /// Number of blocks in the cluster; so many regions of the shadow are shared memory.
    pub(super) ranks: usize,
    /// The warp behind each agent.
    pub(super) warps: Vec<u16>,
}
