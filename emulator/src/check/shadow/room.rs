//! How the shadow grows. Each step returns `None` if the host has no memory for it: then the launch
//! is starved, and the access is not recorded.

use super::{CHUNK_BYTES, Chunk, NONE, Plane, RECENT, Shadow, Table, Visitor, WHAT, WORD_SHIFT};
use crate::check::cell::Cell;
use crate::memory::host::{has_room, lacks, zeroed};

impl Shadow {
    #[cold]
    pub(super) fn new_chunk(&mut self, table: usize, len: u64, index: u64) -> Option<usize> {
        let starved = &*self.starved;
        let has_room = has_room(&mut self.chunks, 1, starved, WHAT)
            && has_room(&mut self.touched, 1, starved, WHAT);
        if !has_room {
            return None;
        }
        if self.tables.len() <= table {
            self.tables.resize(table + 1, Table::default());
            self.written.resize(table + 1, false);
        }
        let entries = &mut self.tables[table].0;
        if entries.is_empty() {
            let chunks = len.div_ceil(CHUNK_BYTES);
            let Some(fresh) = zeroed(chunks) else {
                lacks(starved, WHAT, chunks.saturating_mul(4));
                return None;
            };
            *entries = fresh;
        }
        entries[index as usize] = self.chunks.len() as u32 + 1;
        self.touched.push((table as u32, index as u32));
        self.chunks.push(Chunk {
            first: NONE,
            first_write: NONE,
            recent: [NONE; RECENT],
            shift: WORD_SHIFT,
        });
        Some(self.chunks.len() - 1)
    }

    /// Makes room for so many more cells.
    fn room_for(&mut self, cells: usize) -> Option<()> {
        if self.cells.len() + cells > u32::MAX as usize {
            // More than a plane can name.
            lacks(&self.starved, WHAT, (cells * size_of::<Cell>()) as u64);
            return None;
        }
        has_room(&mut self.cells, cells, &self.starved, WHAT).then_some(())
    }

    /// The planes of a chunk.
    fn planes_of(&self, chunk: usize) -> impl Iterator<Item = u32> {
        let known = |at: u32| (at != NONE).then_some(at);
        std::iter::successors(known(self.chunks[chunk].first), move |at| {
            known(self.planes[*at as usize].next)
        })
    }

    /// Makes the granules of a chunk smaller.
    #[cold]
    pub(super) fn refine(&mut self, chunk: usize, shift: u8) -> Option<()> {
        let planes = self.planes_of(chunk).count();
        self.room_for(planes * (CHUNK_BYTES >> shift) as usize)?;
        let old = std::mem::replace(&mut self.chunks[chunk].shift, shift);
        let copies = 1 << (old - shift);
        let mut at = self.chunks[chunk].first;
        while at != NONE {
            let plane = &mut self.planes[at as usize];
            let from = plane.cells as usize;
            plane.cells = self.cells.len() as u32;
            at = plane.next;
            for i in from..from + (CHUNK_BYTES >> old) as usize {
                let cell = self.cells[i];
                self.cells.extend(std::iter::repeat_n(cell, copies));
            }
        }
        Some(())
    }

    pub(super) fn new_plane(&mut self, chunk: usize, visitor: &Visitor<'_>) -> Option<u32> {
        let Chunk {
            first,
            first_write,
            shift,
            ..
        } = self.chunks[chunk];
        self.room_for((CHUNK_BYTES >> shift) as usize)?;
        if !has_room(&mut self.planes, 1, &self.starved, WHAT) {
            return None;
        }
        let plane = self.planes.len() as u32;
        self.planes.push(Plane {
            agent: visitor.agent,
            kind: visitor.kind,
            latest: 0,
            cells: self.cells.len() as u32,
            next: first,
            next_write: first_write,
        });
        let cells = self.cells.len() + (CHUNK_BYTES >> shift) as usize;
        self.cells.resize(cells, Cell::default());
        self.chunks[chunk].first = plane;
        if visitor.kind.writes() {
            self.chunks[chunk].first_write = plane;
            self.written[self.touched[chunk].0 as usize] = true;
        }
        Some(plane)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::check::cell::Kind;
    use crate::check::shadow::Span;
    use crate::memory::host::Starved;

    fn write(shadow: &mut Shadow, len: u64, offset: u64) {
        let visitor = Visitor {
            agent: 0,
            warp: true,
            kind: Kind::Write,
            cell: Cell::new(1, 7),
            known: &[],
            known_writes: &[],
            synced: &[0; 32],
            block: (0, 1),
            warps: 1,
        };
        let span = Span {
            offset,
            bytes: 4,
            lanes: (0, 0),
            unit: Span::ONE_LANE,
        };
        let done = shadow.access(0, len, span, &visitor, &|_| false);
        assert!(done.is_ok(), "one access alone is no race");
    }

    #[test]
    fn a_region_for_which_the_host_has_no_memory_starves_the_launch() {
        let starved = Arc::<Starved>::default();
        let mut shadow = Shadow::new(&starved);
        write(&mut shadow, 4096, 128);
        assert!(shadow.write_at(0, 128).is_some());
        assert_eq!(starved.get(), None);
        let mut shadow = Shadow::new(&starved);
        write(&mut shadow, u64::MAX / 2, 128);
        assert!(shadow.write_at(0, 128).is_none());
        let shortage = starved.get().expect("no host has so much");
        assert_eq!((shortage.what, shortage.bytes), (WHAT, (1 << 63) / 128 * 4));
    }
}
