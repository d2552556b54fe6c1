//! The kernels of a scan, and the choice between them. All of them give the same bits.

use crate::ops::plan::{Desc, Machine, MachineModel, Ruled, costs};
use crate::{DType, DeviceInfo, LaunchConfig};
use abi::scan::{GROUP, ScanEntry, ScanPlan, THREADS, VECTORS};
use std::fmt;

costs! {
    /// Scans: numbers of blocks and threads.
    ScanCosts {
        /// Most blocks of a grid over tiles; each takes tiles until there are none.
        blocks: u64 = 1_056,
        /// Most blocks of a grid over rows; with more rows, they loop.
        blocks_of_rows: u64 = 1 << 20,
        /// Fewest threads that read neighbouring vectors, if a row has at least twice as many vectors:
        /// 128 bytes at a time.
        neighbours: u64 = 8,
        /// How far behind a block's tile the tile is that it prefetches into L2 while it scans its own,
        /// in tiles for two SMs.
        ahead: u64 = 3,
    }
}

/// Rows with elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ScanDesc {
    pub(super) dtype: DType,
    /// Whether it is [`ScanOp::Logsumexp`](abi::scan::ScanOp::Logsumexp).
    pub(super) is_lse: bool,
    pub(super) rows: u64,
    /// Elements of a row.
    pub(super) n: u64,
    /// Whether each row begins at a multiple of 16 bytes. Otherwise its first tile may begin up to a
    /// vector before it.
    pub(super) is_aligned: bool,
}

impl fmt::Display for ScanDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lse = if self.is_lse { "lse " } else { "" };
        let aligned = if self.is_aligned { " aligned" } else { "" };
        let Self { dtype, rows, n, .. } = self;
        write!(f, "{lse}{dtype} rows{rows} n{n}{aligned}")
    }
}

/// How a launch goes through the rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Decision {
    pub(super) layout: ScanPlan,
    /// Whether a block takes the next tile before it looks back for the last one.
    pub(super) is_late: bool,
    /// Distance in rows and tiles to the tile that a block prefetches.
    pub(super) ahead: [u64; 2],
}

/// One way to scan.
pub(super) type Candidate = Ruled<ScanEntry, Decision>;

impl ScanDesc {
    /// Threads, tiles and blocks.
    pub(super) fn layout(&self, costs: &ScanCosts) -> ScanPlan {
        let lanes = 16 / self.dtype.size_bytes() as u64;
        let before = if self.is_aligned { 0 } else { lanes - 1 };
        let vectors = self.n.saturating_add(before).div_ceil(lanes);
        let (block, of_thread) = (u64::from(THREADS), VECTORS as u64);
        let most = block * of_thread;
        let along = match vectors >= most {
            true => block,
            false => {
                let least = vectors.div_ceil(2).min(costs.neighbours);
                vectors.div_ceil(of_thread).max(least).next_power_of_two()
            }
        };
        let tiles = if self.n == 0 {
            1
        } else {
            vectors.div_ceil(most)
        };
        let blocks = match tiles {
            1 => self.rows.div_ceil(block / along).min(costs.blocks_of_rows),
            _ => self.rows.saturating_mul(tiles).min(costs.blocks),
        };
        ScanPlan {
            along: along as u32,
            tile_len: along * of_thread * lanes,
            tiles,
            groups: tiles.div_ceil(GROUP),
            blocks: blocks.max(1) as u32,
        }
    }

    /// Bytes that are read and written.
    pub(super) fn bytes(&self) -> u64 {
        let elements = self.rows.saturating_mul(self.n);
        elements.saturating_mul(2 * self.dtype.size_bytes() as u64)
    }
}

impl Desc for ScanDesc {
    const OPERATION: &'static str = "scan";

    type Candidate = Candidate;

    /// The kernel that rounds by an instruction goes before the portable one, and of both the one that
    /// looks back late, where shared memory has room for two tiles.
    fn candidates(
        &self,
        device: &DeviceInfo,
        model: &MachineModel,
        offer: &mut dyn FnMut(Candidate),
    ) {
        let machine = Machine::of(device, model);
        let layout = self.layout(&model.scan);
        let tiles = u64::from(machine.multiprocessors) * model.scan.ahead / 2;
        let has_room = ScanPlan::shared_bytes(true) <= machine.shared_bytes;
        let of = |is_sm80| ScanEntry::of(self.dtype, self.is_lse, is_sm80);
        let newer = (device.arch.0 >= 8).then(|| of(true));
        let entries = [newer.flatten(), of(false)];
        let mut is_first = true;
        for entry in entries.into_iter().flatten() {
            for is_late in [true, false] {
                if is_late && !(layout.tiles > 1 && has_room) {
                    continue;
                }
                let config = LaunchConfig::linear(layout.blocks, THREADS);
                offer(Ruled {
                    entry,
                    option: if is_late { "+late" } else { "" },
                    split: u32::try_from(layout.tiles).unwrap_or(u32::MAX),
                    config: config.shared_bytes(ScanPlan::shared_bytes(is_late)),
                    decision: Decision {
                        layout,
                        is_late,
                        ahead: [tiles / layout.tiles, tiles % layout.tiles],
                    },
                    is_first,
                    estimated_ns: machine.moving_ns(self.bytes() as f64, layout.blocks.into()),
                });
                is_first = false;
            }
        }
    }

    fn supported(&self) -> String {
        "f32, f16, bf16, f64, i32 and i64".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::reduce::DTYPES;

    const COSTS: ScanCosts = ScanCosts::H200;

    fn layout(rows: u64, n: u64, dtype: DType, is_aligned: bool) -> ScanPlan {
        let desc = ScanDesc {
            dtype,
            is_lse: false,
            rows,
            n,
            is_aligned,
        };
        desc.layout(&COSTS)
    }

    #[test]
    fn tiles_cover_rows() {
        for n in [0, 1, 4096, 4097, 1 << 33] {
            for dtype in DTYPES {
                for is_aligned in [false, true] {
                    let plan = layout(3, n, dtype, is_aligned);
                    assert!(plan.tiles * plan.tile_len >= n);
                    assert!(plan.groups * GROUP >= plan.tiles);
                    assert!(plan.along.is_power_of_two() && plan.along <= THREADS);
                    assert!(plan.tiles == 1 || plan.along == THREADS);
                    assert!(plan.blocks >= 1 && u64::from(plan.blocks) <= COSTS.blocks);
                }
            }
        }
    }

    #[test]
    fn rows_have_as_many_threads_as_they_need() {
        let plan = |n, is_aligned| layout(1, n, DType::F32, is_aligned);
        assert_eq!((plan(4, true).along, plan(32, true).along), (1, 4));
        assert_eq!((plan(256, true).along, plan(257, true).along), (8, 16));
        assert_eq!(plan(256, false).along, 16);
        assert_eq!((plan(8192, true).tiles, plan(8193, true).tiles), (1, 2));
        assert_eq!(plan(8192, false).tiles, 2);
    }
}
