//! Stream-K: work is cut into equal shares, which may begin and end anywhere in a tile's k.
//!
//! Tiles seldom divide evenly among the blocks that run at the same time: 80 tiles leave 52 of 132
//! SMs idle. So the k steps of the first `shared` tiles are strung together and cut into one
//! *share* for each block; their lengths differ by one step at most. The other tiles go to the
//! blocks whole, in turn:
//!
//! ```text
//! tiles      |----- 0 -----|----- 1 -----|----- 2 -----|   shared, 4 blocks; then 3, 4, 5, 6 whole
//! shares     |--- 0 ---|--- 1 ----|--- 2 ---|--- 3 ----|
//! ```
//!
//! The block with the end of a tile's k **owns** the tile. To its own partial sums it adds those of
//! the blocks before it, whose shares have the rest of that k, in the order of the blocks. A block
//! computes in this order:
//! 1. The part of a tile that it does not own, if its share ends inside a tile. There is at most
//!    one. It comes first, so that its owner does not wait for long.
//! 2. Its whole tiles.
//! 3. The tile that its share begins inside of. For this it waits for blocks of *lower* index only.
//!
//! There is no deadlock, however many of the blocks run at the same time: blocks start in the order
//! of their indices, and what is waited for is the first thing that a block does.
//!
//! **Workspace.** Partial sums pass through global memory, aligned to 16 bytes. First there are
//! [`FLAGS`] 32-bit flags, [`FLAGS_PER_BLOCK`] for each block, which are 0 before and after each
//! launch. Then there are as many f32 for each block as a tile has results, in the order of the
//! threads' accumulators. Launches that may run at the same time need workspaces of their own.

use super::raster::divided;

/// Most blocks of a launch that cuts tiles.
pub const BLOCKS_MAX: u32 = 256;
/// Flags of a block: one for each consumer warp.
pub const FLAGS_PER_BLOCK: u32 = 8;
/// Flags of a workspace.
pub const FLAGS: u32 = BLOCKS_MAX * FLAGS_PER_BLOCK;

/// Bytes of a workspace for launches of `blocks` blocks, with `results` results a tile.
pub const fn workspace_bytes(blocks: u32, results: u32) -> u64 {
    4 * (FLAGS as u64 + blocks as u64 * results as u64)
}

/// Fewest k steps of a share; a shorter one is not worth its hand-over.
const LEAST_STEPS: u32 = 4;

/// How a launch cuts its tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of tiles that are cut, the first ones.
    pub shared: u32,
    /// Blocks of the launch.
    pub blocks: u32,
}

impl Cut {
    /// Whether every tile is cut at the same k.
    pub const fn is_even(self) -> bool {
        self.blocks.is_multiple_of(self.shared)
    }

    /// How to keep as many SMs as possible busy to the end, with `tiles` tiles of `k_steps` k
    /// steps. `None` if whole tiles do so, or if tiles are too short to be cut.
    ///
    /// If there are more tiles than SMs, the last wave and the one before are cut: a share is then
    /// longer than a tile, so that no tile has parts in more than two blocks.
    pub const fn of(tiles: u32, k_steps: u32, multiprocessors: u32) -> Option<Self> {
        let most = if multiprocessors < BLOCKS_MAX {
            multiprocessors
        } else {
            BLOCKS_MAX
        };
        let (waves, rest) = divided(tiles, most);
        if most == 0 || rest == 0 {
            return None;
        }
        if waves > 0 {
            let shared = rest + most;
            return if shared.checked_mul(k_steps).is_some() {
                Some(Self {
                    shared,
                    blocks: most,
                })
            } else {
                None
            };
        }
        // The same number of blocks for each tile, if that leaves few SMs idle: their shares then
        // begin at the same k, which they load from L2 together.
        let each = most / tiles * tiles;
        let even = if each * 16 >= most * 15 { each } else { most };
        let Some(steps) = tiles.checked_mul(k_steps) else {
            return None;
        };
        let worth = steps / LEAST_STEPS;
        let blocks = if worth < even { worth } else { even };
        if blocks <= tiles {
            return None;
        }
        Some(Self {
            shared: tiles,
            blocks,
        })
    }
}

/// What a block computes at a time: a tile, or a part of its k. All in k steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The tile's index: see [`TileOrder`](super::sm90::TileOrder).
    pub tile: u32,
    /// The first step.
    pub k_begin: u32,
    /// The step after the last.
    pub k_end: u32,
}

impl Unit {
    /// Steps.
    #[inline(always)]
    pub const fn len(&self) -> u32 {
        self.k_end - self.k_begin
    }

    /// Whether there is nothing to compute: never in a [`StreamK`].
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.k_begin == self.k_end
    }
}

/// The units of one block, in the order in which it computes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamK {
    /// Number of units.
    pub count: u32,
    /// k steps of a tile.
    k_steps: u32,
    block: u32,
    blocks: u32,
    /// Number of tiles that are cut.
    shared: u32,
    /// Begin and end of the block's share, each as a tile and a k step in it.
    begin: (u32, u32),
    end: (u32, u32),
    /// 1 if the share ends inside a tile, else 0.
    handed_over: u32,
    /// Number of tiles that the block computes whole, apart from its share.
    whole: u32,
    /// Least length of a share, and how many shares, the first ones, are longer by one.
    share: (u32, u32),
}

impl StreamK {
    /// The units of block `block` of `blocks`, for `tiles` tiles of `k_steps` k steps each, of
    /// which the first `shared` are cut. The cut tiles have fewer than 2^32 k steps in all.
    #[inline(always)]
    pub const fn new(tiles: u32, shared: u32, k_steps: u32, block: u32, blocks: u32) -> Self {
        let share = divided(shared * k_steps, blocks);
        let begin = divided(first_step(share, block), k_steps);
        let end = divided(first_step(share, block + 1), k_steps);
        // The last share ends at a tile's end; an empty share hands nothing over.
        let is_cut = end.1 > 0 && (begin.0 != end.0 || begin.1 != end.1);
        let handed_over = if is_cut { 1 } else { 0 };
        let after = shared + block;
        let whole = if after < tiles {
            divided(tiles - after + blocks - 1, blocks).0
        } else {
            0
        };
        Self {
            count: handed_over + whole + (end.0 - begin.0),
            k_steps,
            block,
            blocks,
            shared,
            begin,
            end,
            handed_over,
            whole,
            share,
        }
    }

    /// The unit of number `index`, which is less than `count`. The order is: the part that is
    /// handed over, whole tiles, then the tiles whose end is in the block's share, backwards. Of
    /// the last of these the block may have only the end of its k.
    #[inline(always)]
    pub const fn unit(&self, index: u32) -> Unit {
        let (mut tile, mut k_begin, mut k_end) = (self.end.0, 0, self.k_steps);
        if index < self.handed_over {
            k_end = self.end.1;
        } else if index < self.handed_over + self.whole {
            tile = self.shared + self.block + (index - self.handed_over) * self.blocks;
        } else {
            tile = self.end.0 - 1 - (index - self.handed_over - self.whole);
        }
        if tile == self.begin.0 {
            k_begin = self.begin.1;
        }
        Unit {
            tile,
            k_begin,
            k_end,
        }
    }

    /// Whether this block owns the tile of `unit`, one of its own.
    #[inline(always)]
    pub const fn owns(&self, unit: &Unit) -> bool {
        unit.k_end == self.k_steps
    }

    /// The first block that has some of the k of a tile that is cut. All blocks from there to the
    /// owner have some.
    #[inline(always)]
    pub const fn first_block(&self, tile: u32) -> u32 {
        let step = tile * self.k_steps;
        let (least, longer) = self.share;
        let of_longer = longer * (least + 1);
        if step < of_longer {
            divided(step, least + 1).0
        } else {
            longer + divided(step - of_longer, least).0
        }
    }
}

/// The k step at which the share of `block` begins.
#[inline(always)]
const fn first_step((least, longer): (u32, u32), block: u32) -> u32 {
    block * least + if block < longer { block } else { longer }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::HashMap;
    use std::vec;
    use std::vec::Vec;

    use super::*;

    fn units(work: &StreamK) -> Vec<Unit> {
        (0..work.count).map(|index| work.unit(index)).collect()
    }

    /// Everything that there is to hold of one schedule.
    fn check([tiles, shared, k_steps, blocks]: [u32; 4]) {
        let what = std::format!("{tiles} tiles, {shared} shared, {k_steps} steps, {blocks} blocks");
        let mut times = vec![0; (tiles * k_steps) as usize];
        let mut owners = HashMap::new();
        // Who handed over a part of a tile.
        let mut parts: HashMap<u32, Vec<u32>> = HashMap::new();
        let mut lengths = Vec::new();
        for block in 0..blocks {
            let work = StreamK::new(tiles, shared, k_steps, block, blocks);
            let units = units(&work);
            for (index, unit) in units.iter().enumerate() {
                assert!(!unit.is_empty() && unit.tile < tiles, "{what}: {unit:?}");
                for step in unit.k_begin..unit.k_end {
                    times[(unit.tile * k_steps + step) as usize] += 1;
                }
                if work.owns(unit) {
                    assert_eq!(owners.insert(unit.tile, block), None, "{what}: {unit:?}");
                    let is_whole = unit.k_begin == 0;
                    assert!(is_whole || index + 1 == units.len(), "{what}: {units:?}");
                } else {
                    assert_eq!(index, 0, "{what}: {units:?}");
                    parts.entry(unit.tile).or_default().push(block);
                }
            }
            let of_share = units.iter().filter(|unit| unit.tile < shared);
            lengths.push(of_share.map(Unit::len).sum::<u32>());
        }
        assert!(times.iter().all(|&times| times == 1), "{what}");
        let (least, most) = (lengths.iter().min(), lengths.iter().max());
        assert!(most.unwrap() - least.unwrap() <= 1, "{what}: {lengths:?}");
        for tile in 0..tiles {
            let owner = owners[&tile];
            let work = StreamK::new(tiles, shared, k_steps, owner, blocks);
            let owned = units(&work)
                .into_iter()
                .find(|unit| unit.tile == tile && work.owns(unit));
            let want: Vec<u32> = match owned {
                Some(unit) if unit.k_begin > 0 => (work.first_block(tile)..owner).collect(),
                _ => Vec::new(),
            };
            assert_eq!(
                parts.remove(&tile).unwrap_or_default(),
                want,
                "{what}: {tile}"
            );
        }
    }

    #[test]
    fn every_step_is_one_blocks_and_every_tile_has_one_owner_after_its_parts() {
        for blocks in 1..=9 {
            for tiles in 0..=20 {
                for k_steps in 1..=7 {
                    for shared in [0, tiles.min(blocks), tiles / 2, tiles] {
                        check([tiles, shared, k_steps, blocks]);
                    }
                }
            }
        }
    }

    #[test]
    fn products_of_models_are_covered_too() {
        for tiles in [32, 48, 64, 80, 112, 224] {
            for k_steps in [64, 128, 224, 448] {
                check([tiles, tiles, k_steps, 132]);
            }
        }
        check([1024, 232, 64, 132]);
        check([7, 7, 1, 132]);
    }

    #[test]
    fn a_cut_leaves_whole_waves_and_few_multiprocessors_without_work() {
        for tiles in 1..500 {
            for k_steps in [1, 3, 4, 16, 64] {
                let Some(cut) = Cut::of(tiles, k_steps, 132) else {
                    let few_are_idle = tiles % 132 == 0 || (124..132).contains(&tiles);
                    assert!(
                        few_are_idle || k_steps < 2 * LEAST_STEPS,
                        "{tiles} of {k_steps}"
                    );
                    continue;
                };
                let Cut { shared, blocks } = cut;
                assert!(blocks <= 132 && shared <= tiles && (tiles - shared) % blocks == 0);
                assert!(
                    shared * k_steps >= LEAST_STEPS * blocks || tiles > 132,
                    "{cut:?}"
                );
                if k_steps == 64 && tiles > 9 {
                    assert!(blocks >= 124, "{tiles}: {cut:?}");
                    check([tiles, shared, k_steps, blocks]);
                }
            }
        }
        let cut = |shared, blocks| Some(Cut { shared, blocks });
        assert_eq!(Cut::of(32, 64, 132), cut(32, 128));
        assert_eq!(Cut::of(80, 128, 132), cut(80, 132));
        assert_eq!(Cut::of(1024, 64, 132), cut(232, 132));
        assert_eq!(Cut::of(264, 64, 132), None);
        assert_eq!(Cut::of(u32::MAX, u32::MAX, 132), None);
        assert_eq!(Cut::of(10, 64, 0), None);
    }
}
