//! The accesses of one kind, by any cluster, to a chunk of global memory.

use super::cell::Cell;

/// An access by a cluster; epoch 0 means none.
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

/// Consecutive granules that one lane, or consecutive lanes of one instruction, accessed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    first: GridCell,
    /// Lanes from one granule to the next.
    step: u32,
    /// First granule, and the one after the last.
    pub(super) from: u8,
    pub(super) to: u8,
}

impl Run {
    /// If the cells that hold an access form a run: that run.
    pub(super) fn of(cells: &[Cell], named: impl Fn(&Cell) -> GridCell) -> Option<Self> {
        let from = cells.iter().position(|cell| *cell != Cell::default())?;
        let after = cells[from..]
            .iter()
            .position(|cell| *cell == Cell::default());
        let to = after.map_or(cells.len(), |len| from + len);
        if cells[to..].iter().any(|cell| *cell != Cell::default()) {
            return None;
        }
        let lane = |at: usize| u32::from(cells[at].lanes().0);
        let step = match to - from {
            1 => 0,
            _ => lane(from + 1).wrapping_sub(lane(from)),
        };
        let next = |i: usize| {
            cells[i].pc() == cells[from].pc()
                && lane(i) == lane(from).wrapping_add(step * (i - from) as u32)
        };
        (step <= 1 && (from..to).all(next)).then(|| Self {
            first: named(&cells[from]),
            step,
            from: from as u8,
            to: to as u8,
        })
    }

    fn get(&self, granule: usize) -> GridCell {
        let at = granule.wrapping_sub(usize::from(self.from));
        if at >= usize::from(self.to - self.from) {
            return GridCell::default();
        }
        GridCell {
            cell: self.first.cell + self.step * at as u32,
            ..self.first
        }
    }
}

/// For each granule, at most one access.
#[derive(Clone, Debug, Default)]
pub(super) enum GridPlane {
    #[default]
    Empty,
    Run(Run),
    Cells(Vec<GridCell>),
}

impl GridPlane {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    pub(super) fn get(&self, granule: usize) -> GridCell {
        match self {
            Self::Empty => GridCell::default(),
            Self::Run(run) => run.get(granule),
            Self::Cells(cells) => cells[granule],
        }
    }

    /// Replaces the cell of one of `granules` granules; `None` if the host has no memory for it.
    pub(super) fn set(&mut self, granule: usize, cell: GridCell, granules: usize) -> Option<()> {
        self.spread(granules, 1)?;
        match self {
            Self::Cells(cells) => cells[granule] = cell,
            _ => {
                let mut cells = with_room(granules)?;
                cells.resize(granules, GridCell::default());
                cells[granule] = cell;
                *self = Self::Cells(cells);
            }
        }
        Some(())
    }

    /// Replaces each of `granules` cells by `copies` of it; `None`, and nothing is changed, if the
    /// host has no memory for them.
    pub(super) fn spread(&mut self, granules: usize, copies: usize) -> Option<()> {
        let many = |cell| std::iter::repeat_n(cell, copies);
        match self {
            Self::Empty => {}
            Self::Run(run) => {
                let mut cells = with_room(granules * copies)?;
                cells.extend((0..granules).flat_map(|i| many(run.get(i))));
                *self = Self::Cells(cells);
            }
            Self::Cells(_) if copies == 1 => {}
            Self::Cells(before) => {
                let mut cells = with_room(granules * copies)?;
                cells.extend(before.iter().flat_map(|cell| many(*cell)));
                *before = cells;
            }
        }
        Some(())
    }
}

/// Room for so many cells; `None` if the host has no memory for it.
fn with_room(cells: usize) -> Option<Vec<GridCell>> {
    let mut room = Vec::new();
    room.try_reserve_exact(cells).ok()?;
    Some(room)
}
