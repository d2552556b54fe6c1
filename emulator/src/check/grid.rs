//! Races between the clusters of a launch, in global memory.
//!
//! Where clusters cannot wait for each other, every two accesses of different clusters to the same
//! bytes race when one is a write: what each cluster touched is compared, in the clusters' order,
//! when it has ended, so that the report does not depend on the number of host threads. In a
//! kernel with atomics or strong loads each access is compared when it happens, with what its warp
//! has learnt through flags. Of each kind of access the shadow keeps one for each granule, the
//! first that is not known to have happened before; so of many it may miss one.

use std::collections::HashMap;
use std::sync::Arc;

use super::shadow::{CHUNK_BYTES, Cell, Kind, Shadow, Span, WORD_SHIFT};

/// Clusters that a warp can know of one by one; when there are more, it counts as knowing all.
const MOST_KNOWN: usize = 4096;

/// What is known of other clusters: of each, the epochs of its agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Knowledge {
    all: bool,
    of: Arc<HashMap<u32, Arc<Vec<u32>>>>,
}

impl Knowledge {
    fn knows(&self, cell: &GridCell) -> bool {
        let known = self.of.get(&cell.cluster);
        self.all
            || known.is_some_and(|epochs| {
                let epoch = epochs.get(usize::from(cell.agent));
                epoch.is_some_and(|epoch| *epoch >= cell.epoch)
            })
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.all && self.of.is_empty()
    }

    /// Takes up what another knows.
    pub(super) fn join(&mut self, other: &Self) {
        if other.is_empty() || self.all || Arc::ptr_eq(&self.of, &other.of) {
            self.all |= other.all;
            return;
        }
        if self.of.is_empty() {
            *self = other.clone();
            return;
        }
        self.all |= other.all;
        for (cluster, epochs) in &*other.of {
            self.learn(*cluster, epochs);
        }
    }

    /// Learns the epochs of a cluster's agents.
    pub(super) fn learn(&mut self, cluster: u32, epochs: &Arc<Vec<u32>>) {
        if let Some(known) = self.of.get(&cluster)
            && (Arc::ptr_eq(known, epochs) || known == epochs)
        {
            return;
        }
        if self.of.len() >= MOST_KNOWN {
            self.all = true;
            self.of = Arc::default();
            return;
        }
        let known = Arc::make_mut(&mut self.of).entry(cluster).or_default();
        let longer = known.len().max(epochs.len());
        let at = |epochs: &[u32], i: usize| epochs.get(i).copied().unwrap_or(0);
        *known = Arc::new(
            (0..longer)
                .map(|i| at(known, i).max(at(epochs, i)))
                .collect(),
        );
    }
}

/// An access by a cluster; no epoch means none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GridCell {
    pub(crate) cluster: u32,
    pub(super) epoch: u32,
    pub(crate) cell: u32,
    pub(super) agent: u16,
    /// Warp in the cluster.
    pub(crate) warp: u16,
}

impl GridCell {
    pub(crate) fn pc(&self) -> u32 {
        self.cell >> 10
    }

    pub(crate) fn lane(&self) -> u32 {
        self.cell & 31
    }
}

/// Two accesses of different clusters that nothing orders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GridHit {
    pub(crate) allocation: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) first: (Kind, GridCell),
    pub(crate) second: (Kind, GridCell),
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    /// log2 of the bytes of a granule.
    shift: u8,
    /// By kind of access.
    planes: [Vec<GridCell>; 4],
}

impl Chunk {
    fn refine(&mut self, shift: u8) {
        let copies = 1 << (self.shift - shift);
        for plane in &mut self.planes {
            let finer = plane
                .iter()
                .flat_map(|cell| std::iter::repeat_n(*cell, copies));
            *plane = finer.collect();
        }
        self.shift = shift;
    }

    /// Checks and records an access of a granule; the earlier access if the two race.
    #[inline]
    fn visit(
        &mut self,
        granule: usize,
        kind: Kind,
        cell: GridCell,
        known: &Knowledge,
    ) -> Option<(Kind, GridCell)> {
        let open = |other: &GridCell| {
            other.epoch != 0 && other.cluster != cell.cluster && !known.knows(other)
        };
        for other in Kind::ALL {
            let before = self.planes[other as usize].get(granule);
            if kind.conflicts(other)
                && let Some(before) = before
                && open(before)
            {
                return Some((other, *before));
            }
        }
        let own = &mut self.planes[kind as usize];
        if own.is_empty() {
            own.resize((CHUNK_BYTES >> self.shift) as usize, GridCell::default());
        }
        if !open(&own[granule]) {
            own[granule] = cell;
        }
        None
    }
}

/// The accesses of all clusters of a launch to global memory.
#[derive(Debug, Default)]
pub(crate) struct GridOrder {
    chunks: HashMap<(u32, u32), Chunk>,
    /// What those handed over that wrote a word of an allocation.
    flags: HashMap<(usize, u64), Knowledge>,
}

impl GridOrder {
    /// An access of a cluster that others may have handed work to.
    pub(super) fn access(
        &mut self,
        allocation: usize,
        span: &Span,
        kind: Kind,
        cell: GridCell,
        known: &Knowledge,
    ) -> Result<(), GridHit> {
        let (mut from, end) = (span.offset, span.offset + span.bytes);
        while from < end {
            let to = end.min((from / CHUNK_BYTES + 1) * CHUNK_BYTES);
            let narrowest = (from | to).trailing_zeros().min(span.unit) as u8;
            let chunk = self.chunk(allocation, (from / CHUNK_BYTES) as u32, narrowest);
            let shift = chunk.shift;
            for at in (from..to).step_by(1 << shift) {
                let lane = u32::from(span.lanes.0) + ((at - span.offset) >> span.unit) as u32;
                let cell = GridCell {
                    cell: cell.cell & !31 | lane,
                    ..cell
                };
                let granule = ((at % CHUNK_BYTES) >> shift) as usize;
                if let Some(before) = chunk.visit(granule, kind, cell, known) {
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

    fn chunk(&mut self, allocation: usize, index: u32, narrowest: u8) -> &mut Chunk {
        let chunk = self
            .chunks
            .entry((allocation as u32, index))
            .or_insert_with(|| Chunk {
                shift: WORD_SHIFT,
                ..Chunk::default()
            });
        if chunk.shift > narrowest {
            chunk.refine(narrowest);
        }
        chunk
    }

    /// What those knew that wrote a word.
    pub(super) fn flag(&self, allocation: usize, word: u64) -> Option<&Knowledge> {
        self.flags.get(&(allocation, word))
    }

    /// A strong write to a word: `known` goes to those who read it. An atomic adds to what was
    /// there.
    pub(super) fn set_flag(
        &mut self,
        allocation: usize,
        word: u64,
        known: Option<&Knowledge>,
        atomic: bool,
    ) {
        match known {
            Some(known) if atomic => self
                .flags
                .entry((allocation, word))
                .or_default()
                .join(known),
            Some(known) => {
                self.flags.insert((allocation, word), known.clone());
            }
            None if !atomic => {
                self.flags.remove(&(allocation, word));
            }
            None => {}
        }
    }

    /// Adds what a cluster touched that has ended, and that others could not wait for.
    ///
    /// # Errors
    /// The first two accesses that race, by address.
    pub(crate) fn merge(&mut self, touched: &Touched) -> Result<(), GridHit> {
        let nobody = Knowledge::default();
        let mut worst: Option<GridHit> = None;
        touched
            .shadow
            .each_plane(|table, index, shift, kind, agent, cells| {
                let Some(allocation) = table.checked_sub(touched.ranks) else {
                    return;
                };
                let chunk = self.chunk(allocation, index, shift);
                let warp = touched.warps.get(usize::from(agent)).copied().unwrap_or(0);
                // The chunk may be finer than the cluster saw it.
                let copies = 1usize << (shift - chunk.shift);
                for (i, cell) in cells.iter().enumerate() {
                    if *cell == Cell::default() {
                        continue;
                    }
                    let own = GridCell {
                        cluster: touched.cluster,
                        epoch: cell.epoch(),
                        cell: cell.pc() << 10 | u32::from(cell.lanes().0),
                        agent,
                        warp,
                    };
                    for granule in i * copies..(i + 1) * copies {
                        let Some(before) = chunk.visit(granule, kind, own, &nobody) else {
                            continue;
                        };
                        let hit = GridHit {
                            allocation,
                            offset: u64::from(index) * CHUNK_BYTES
                                + ((granule as u64) << chunk.shift),
                            bytes: 1 << chunk.shift,
                            first: (kind, own),
                            second: before,
                        };
                        let at = |hit: &GridHit| (hit.allocation, hit.offset);
                        if worst.as_ref().is_none_or(|worst| at(&hit) < at(worst)) {
                            worst = Some(hit);
                        }
                    }
                }
            });
        worst.map_or(Ok(()), Err)
    }
}

/// What a cluster touched.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(super) shadow: Shadow,
    pub(super) cluster: u32,
    /// Blocks of the cluster: regions of the shadow that are shared memory.
    pub(super) ranks: usize,
    /// Warp of each agent.
    pub(super) warps: Vec<u16>,
}
