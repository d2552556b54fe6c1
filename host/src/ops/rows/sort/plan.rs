//! The kernels that sort rows, and the choice between them. All of them give the same bits.
//!
//! | rows | first choice |
//! |---|---|
//! | up to [`TILE`](abi::sort::TILE) elements | a block sorts a row, or several, by all digits |
//! | longer ones | a count of all digits, and a launch for each of them |

use crate::ops::plan::{Desc, Machine, MachineModel, Ruled, costs};
use crate::{DType, DeviceInfo, LaunchConfig};
use abi::sort::{DIGITS, SortEntry, Step, THREADS, TICKETS, TILE};
use std::fmt;

costs! {
    /// Sorts (docs/sort.md).
    SortCosts {
        /// Blocks for each multiprocessor that count digits.
        count_blocks: u64 = 4,
        /// Most rows of up to a tile for which passes are a candidate: each row has a tile of its own.
        short_rows: u64 = 256,
    }
}

/// Rows with elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::ops::rows) struct SortDesc {
    pub(super) dtype: DType,
    pub(super) rows: u64,
    /// Elements of a row.
    pub(super) n: u32,
    pub(super) has_values: bool,
    pub(super) has_indices: bool,
}

impl fmt::Display for SortDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows{} n{}", self.dtype, self.rows, self.n)?;
        f.write_str(match (self.has_values, self.has_indices) {
            (true, true) => " values indices",
            (true, false) => " values",
            (false, _) => " indices",
        })
    }
}

/// How launches share out the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops::rows) struct Decision {
    pub(super) desc: SortDesc,
    pub(super) work: Work,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// So many rows in a block.
    Block { rows: u32 },
    /// A block counts so many elements of a row, and so many do so for a row. Then passes follow.
    Passes { part: u32, parts: u32 },
}

/// One way to sort.
pub(in crate::ops::rows) type Candidate = Ruled<SortEntry, Decision>;

impl SortDesc {
    /// Bytes of an element.
    pub(super) fn bytes(&self) -> u64 {
        self.dtype.size_bytes() as u64
    }

    /// Rows that a block sorts by all digits, if it can.
    pub(super) fn rows_of_block(&self) -> Option<u32> {
        (self.n <= TILE).then(|| TILE / self.n)
    }

    /// Tiles of a row.
    pub(super) fn tiles(&self) -> u32 {
        self.n.div_ceil(TILE)
    }

    /// Digits of a key.
    pub(super) fn digits(&self) -> u64 {
        self.bytes()
    }

    /// Words of 32 bits of all rows' counts of digits.
    pub(super) fn count_words(&self) -> usize {
        (self.rows * self.digits()) as usize * DIGITS as usize
    }

    /// Words of 64 bits that blocks publish.
    pub(super) fn status_words(&self) -> usize {
        TICKETS + self.rows as usize * self.tiles() as usize * DIGITS as usize
    }

    /// Most rows that a launch can have.
    pub(super) fn most_rows(&self) -> u64 {
        let blocks = i32::MAX as u64;
        match self.rows_of_block() {
            Some(rows) => blocks * u64::from(rows),
            None => blocks / u64::from(self.tiles()),
        }
    }

    fn block(&self) -> Option<(Decision, LaunchConfig)> {
        // No more rows than there are, so that their numbers have few digits.
        let rows = u64::from(self.rows_of_block()?).min(self.rows) as u32;
        let decision = Decision {
            desc: *self,
            work: Work::Block { rows },
        };
        let blocks = self.rows.div_ceil(u64::from(rows)) as u32;
        Some((decision, LaunchConfig::linear(blocks, THREADS)))
    }

    fn passes(&self, costs: &SortCosts, multiprocessors: u32) -> Option<(Decision, LaunchConfig)> {
        if self.n <= TILE && self.rows > costs.short_rows {
            return None;
        }
        let tiles = u32::try_from(self.rows * u64::from(self.tiles())).ok();
        let tiles = tiles.filter(|&tiles| tiles <= i32::MAX as u32)?;
        let blocks = costs.count_blocks * u64::from(multiprocessors);
        let of_row = blocks.div_ceil(self.rows).min(self.tiles().into());
        let part = self.tiles().div_ceil(of_row as u32) * TILE;
        let decision = Decision {
            desc: *self,
            work: Work::Passes {
                part,
                parts: self.n.div_ceil(part),
            },
        };
        Some((decision, LaunchConfig::linear(tiles, THREADS)))
    }

    /// Bytes that passes move: elements and their indices, of which there are none before the first.
    fn bytes_of_passes(&self) -> f64 {
        let elements = self.rows as f64 * f64::from(self.n);
        let index = if self.has_indices { 4 } else { 0 };
        let moved = 2 * (self.bytes() + index) * self.digits() + self.bytes();
        elements * moved as f64
    }
}

impl Desc for SortDesc {
    const OPERATION: &'static str = "sort";

    type Candidate = Candidate;

    fn candidates(
        &self,
        device: &DeviceInfo,
        model: &MachineModel,
        offer: &mut dyn FnMut(Candidate),
    ) {
        let machine = Machine::of(device, model);
        let elements = self.rows as f64 * f64::from(self.n);
        let index = if self.has_indices { 8 } else { 0 };
        let once = elements * (2 * self.bytes() + index) as f64;
        let block = self.block().map(|by| (Step::Block, by, once, 0.0));
        let passes = self.passes(&model.sort, machine.multiprocessors);
        let launches = self.digits() as f64;
        let passes = passes.map(|by| (Step::Pass, by, self.bytes_of_passes(), launches));
        let all = block.into_iter().chain(passes);
        for (idx, (step, (decision, config), bytes, launches)) in all.enumerate() {
            let Some(entry) = SortEntry::of(step, self.dtype) else {
                continue;
            };
            let blocks: u32 = config.grid.iter().product();
            offer(Ruled {
                entry,
                option: "",
                split: match decision.work {
                    Work::Block { .. } => 1,
                    Work::Passes { .. } => self.tiles(),
                },
                config,
                decision,
                is_first: idx == 0,
                estimated_ns: machine.moving_ns(bytes, blocks.into()) + launches * model.launch_ns,
            });
        }
    }

    fn supported(&self) -> String {
        "as many rows as a grid has blocks".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desc(rows: u64, n: u32) -> SortDesc {
        SortDesc {
            dtype: DType::F32,
            rows,
            n,
            has_values: true,
            has_indices: true,
        }
    }

    #[test]
    fn blocks_have_as_many_rows_as_fit() {
        for (rows, n, want) in [
            (5, TILE, Some((1, 5))),
            (5, TILE / 2, Some((2, 3))),
            (5, 1, Some((5, 1))),
            (1 << 20, 1, Some((TILE, 256))),
            (5, TILE + 1, None),
        ] {
            let of_block = desc(rows, n).block().map(|(by, config)| match by.work {
                Work::Block { rows } => (rows, config.grid[0]),
                Work::Passes { .. } => (0, 0),
            });
            assert_eq!(of_block, want, "{rows} x {n}");
        }
    }

    #[test]
    fn parts_cover_rows() {
        for rows in [1, 3, 1000] {
            for n in [1, TILE, TILE + 1, 1 << 20, i32::MAX as u32] {
                let desc = desc(rows, n);
                let Some((by, config)) = desc.passes(&SortCosts::H200, 132) else {
                    assert!(rows > desc.most_rows().min(SortCosts::H200.short_rows));
                    continue;
                };
                let Work::Passes { part, parts } = by.work else {
                    panic!("{by:?}");
                };
                assert!(u64::from(part) * u64::from(parts) >= n.into());
                assert!(u64::from(part) * u64::from(parts - 1) < n.into());
                assert_eq!(u64::from(config.grid[0]), rows * u64::from(desc.tiles()));
            }
        }
    }
}
