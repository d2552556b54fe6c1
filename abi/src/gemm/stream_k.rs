//! Stream-K: work is cut into equal shares, which may begin and end anywhere in a tile's k.
//!
//! Tiles seldom divide evenly among the blocks that run at the same time. 80 tiles leave 52 of 132
//! SMs idle, and 136 tiles leave 128 of them idle for half of the time. So the k steps of the last
//! tiles are strung together and cut into one *share* for each of the first blocks, the *sharers*.
//! Their lengths differ by one step at most. The other tiles go to the blocks whole, in turn:
//!
//! ```text
//! tiles      |----- 4 -----|----- 5 -----|----- 6 -----|   shared, 4 sharers; before, 0 to 3 whole
//! shares     |--- 0 ---|--- 1 ----|--- 2 ---|--- 3 ----|
//! ```
//!
//! The block with the end of a tile's k **owns** the tile. To its own partial sums it adds those of
//! the blocks before it, whose shares have the rest of that k, in the order of the blocks. A block
//! computes in this order:
//! 1. Its whole tiles. All blocks are then at the same k, and so read each other's operands from
//!    L2.
//! 2. The part of a tile that it does not own, if its share ends inside a tile. There is at most
//!    one.
//! 3. The tiles whose end is in its share. For the one that its share begins inside of, the last,
//!    it waits for blocks of *lower* index only.
//!
//! There is no deadlock, however many of the blocks run at the same time. Blocks start in the order
//! of their indices, and a block computes what others wait for before it waits itself.
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

/// What an additional part costs the owner of a tile, which adds its sums, in k steps. Fitted to
/// five GEMMs by tiles of 128 × 128: 2 is a tenth of a percent slower.
const STEPS_OF_SPLIT: u32 = 5;

/// How a launch cuts its tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of tiles that are cut, the last ones.
    pub shared: u32,
    /// Blocks that have a share of them, the first ones.
    pub sharers: u32,
    /// Blocks of the launch.
    pub blocks: u32,
}

impl Cut {
    /// Whether every tile is cut at the same k.
    pub const fn is_even(self) -> bool {
        self.sharers.is_multiple_of(self.shared)
    }

    /// How to keep as many SMs as possible busy to the end, with `tiles` tiles of `k_steps` k
    /// steps. `None` if whole tiles do so, or if tiles are too short to be cut.
    ///
    /// If there are more tiles than SMs, those of the last wave are cut, if they occupy less than
    /// half of it. A wave that is fuller is not. Its shares would be longer than a tile, begin
    /// anywhere, and find little in L2 that others have read. (16384 × 4096 × 4096 takes 9 % longer
    /// so.)
    pub const fn of(tiles: u32, k_steps: u32, multiprocessors: u32) -> Option<Self> {
        let most = least(multiprocessors, BLOCKS_MAX);
        let (waves, rest) = divided(tiles, most);
        if most == 0 || rest == 0 {
            return None;
        }
        let Some(steps) = rest.checked_mul(k_steps) else {
            return None;
        };
        if waves > 0 {
            let splits = splits(k_steps, most / rest);
            return if splits > 1 {
                Some(Self {
                    shared: rest,
                    sharers: rest * splits,
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
        let blocks = least(steps / LEAST_STEPS, even);
        if blocks <= tiles {
            return None;
        }
        Some(Self {
            shared: tiles,
            sharers: blocks,
            blocks,
        })
    }
}

/// The number of parts, at most `most`, with which a tile of `k_steps` is complete soonest. The
/// parts are computed at the same time, and their sums are then added one after the other.
const fn splits(k_steps: u32, most: u32) -> u32 {
    let most = least(k_steps / LEAST_STEPS, most);
    let mut splits = 1;
    // One more saves `k_steps / (splits * (splits + 1))` steps.
    while splits < most && STEPS_OF_SPLIT * splits * (splits + 1) < k_steps {
        splits += 1;
    }
    splits
}

/// What a block computes at a time: a tile, or a part of its k. All in k steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkTile {
    /// The tile's index: see [`TileOrder`](super::sm90::TileOrder).
    pub tile: u32,
    /// The first step.
    pub k_begin: u32,
    /// The step after the last.
    pub k_end: u32,
}

impl WorkTile {
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

/// The work tiles of one block, in the order in which it computes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamK {
    /// Number of work tiles.
    pub count: u32,
    /// k steps of a tile.
    k_steps: u32,
    block: u32,
    blocks: u32,
    /// The first tile that is cut.
    first_shared: u32,
    /// Begin and end of the block's share, each as a tile that is cut and a k step in it.
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
    /// The work tiles of block `block` of those that `cut` says, for `tiles` tiles of `k_steps` k
    /// steps each. The tiles that are cut have fewer than 2^32 k steps in all.
    #[inline(always)]
    pub const fn new(tiles: u32, cut: Cut, k_steps: u32, block: u32) -> Self {
        let share = divided(cut.shared * k_steps, cut.sharers);
        let begin = divided(first_step(share, least(block, cut.sharers)), k_steps);
        let end = divided(first_step(share, least(block + 1, cut.sharers)), k_steps);
        // The last share ends at a tile's end; an empty share hands nothing over.
        let is_cut = end.1 > 0 && (begin.0 != end.0 || begin.1 != end.1);
        let handed_over = if is_cut { 1 } else { 0 };
        let first_shared = tiles - cut.shared;
        let whole = if block < first_shared {
            divided(first_shared - block + cut.blocks - 1, cut.blocks).0
        } else {
            0
        };
        Self {
            count: whole + handed_over + (end.0 - begin.0),
            k_steps,
            block,
            blocks: cut.blocks,
            first_shared,
            begin,
            end,
            handed_over,
            whole,
            share,
        }
    }

    /// The work tile of number `index`, which is less than `count`. The order is: whole tiles, the
    /// part that is handed over, then the tiles whose end is in the block's share, backwards. Of
    /// the last of these the block may have only the end of its k.
    #[inline(always)]
    pub const fn work_tile(&self, index: u32) -> WorkTile {
        if index < self.whole {
            return WorkTile {
                tile: self.block + index * self.blocks,
                k_begin: 0,
                k_end: self.k_steps,
            };
        }
        let (mut shared, mut k_begin, mut k_end) = (self.end.0, 0, self.k_steps);
        if index < self.whole + self.handed_over {
            k_end = self.end.1;
        } else {
            shared -= 1 + (index - self.whole - self.handed_over);
        }
        if shared == self.begin.0 {
            k_begin = self.begin.1;
        }
        WorkTile {
            tile: self.first_shared + shared,
            k_begin,
            k_end,
        }
    }

    /// Whether this block owns the tile of `work_tile`, one of its own.
    #[inline(always)]
    pub const fn owns(&self, work_tile: &WorkTile) -> bool {
        work_tile.k_end == self.k_steps
    }

    /// The first block that has some of the k of a tile that is cut. All blocks from there to the
    /// owner have some.
    #[inline(always)]
    pub const fn first_block(&self, tile: u32) -> u32 {
        let step = (tile - self.first_shared) * self.k_steps;
        let (least, longer) = self.share;
        let of_longer = longer * (least + 1);
        if step < of_longer {
            divided(step, least + 1).0
        } else {
            longer + divided(step - of_longer, least).0
        }
    }
}

/// The lesser of two numbers: `Ord::min` is not const.
#[inline(always)]
const fn least(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
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

    fn work_tiles(work: &StreamK) -> Vec<WorkTile> {
        (0..work.count).map(|index| work.work_tile(index)).collect()
    }

    /// Everything that there is to hold of one schedule.
    fn check(tiles: u32, cut: Cut, k_steps: u32) {
        let what = std::format!("{tiles} tiles of {k_steps} steps, {cut:?}");
        let mut times = vec![0; (tiles * k_steps) as usize];
        let mut owners = HashMap::new();
        // Who handed over a part of a tile.
        let mut splits: HashMap<u32, Vec<u32>> = HashMap::new();
        let mut lengths = Vec::new();
        for block in 0..cut.blocks {
            let work = StreamK::new(tiles, cut, k_steps, block);
            let work_tiles = work_tiles(&work);
            for (index, work_tile) in work_tiles.iter().enumerate() {
                assert!(
                    !work_tile.is_empty() && work_tile.tile < tiles,
                    "{what}: {work_tile:?}"
                );
                for step in work_tile.k_begin..work_tile.k_end {
                    times[(work_tile.tile * k_steps + step) as usize] += 1;
                }
                if work.owns(work_tile) {
                    assert_eq!(
                        owners.insert(work_tile.tile, block),
                        None,
                        "{what}: {work_tile:?}"
                    );
                    let is_whole = work_tile.k_begin == 0;
                    assert!(
                        is_whole || index + 1 == work_tiles.len(),
                        "{what}: {work_tiles:?}"
                    );
                } else {
                    // Its owner waits for it, so the block must not have waited before.
                    let waits =
                        |work_tile: &WorkTile| work.owns(work_tile) && work_tile.k_begin > 0;
                    assert!(
                        !work_tiles[..index].iter().any(waits),
                        "{what}: {work_tiles:?}"
                    );
                    splits.entry(work_tile.tile).or_default().push(block);
                }
            }
            let of_share = work_tiles
                .iter()
                .filter(|work_tile| work_tile.tile >= tiles - cut.shared);
            let length = of_share.map(WorkTile::len).sum::<u32>();
            if block < cut.sharers {
                lengths.push(length);
            } else {
                assert_eq!(length, 0, "{what}: {work_tiles:?}");
            }
        }
        assert!(times.iter().all(|&times| times == 1), "{what}");
        let (least, most) = (lengths.iter().min(), lengths.iter().max());
        assert!(most.unwrap() - least.unwrap() <= 1, "{what}: {lengths:?}");
        for tile in 0..tiles {
            let owner = owners[&tile];
            let work = StreamK::new(tiles, cut, k_steps, owner);
            let owned = work_tiles(&work)
                .into_iter()
                .find(|work_tile| work_tile.tile == tile && work.owns(work_tile));
            let want: Vec<u32> = match owned {
                Some(work_tile) if work_tile.k_begin > 0 => {
                    (work.first_block(tile)..owner).collect()
                }
                _ => Vec::new(),
            };
            assert_eq!(
                splits.remove(&tile).unwrap_or_default(),
                want,
                "{what}: {tile}"
            );
        }
    }

    #[test]
    fn every_step_is_one_blocks_and_every_tile_has_one_owner_after_its_splits() {
        for blocks in 1..=9 {
            for tiles in 0..=20 {
                for k_steps in 1..=7 {
                    for shared in [0, tiles.min(blocks), tiles / 2, tiles] {
                        for sharers in [1, blocks / 2, blocks] {
                            let cut = Cut {
                                shared,
                                sharers: sharers.max(1),
                                blocks,
                            };
                            check(tiles, cut, k_steps);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn products_of_models_are_covered_too() {
        for tiles in [32, 48, 64, 80, 112, 224] {
            for k_steps in [64, 128, 224, 448] {
                let cut = Cut {
                    shared: tiles,
                    sharers: 132,
                    blocks: 132,
                };
                check(tiles, cut, k_steps);
            }
        }
        for (tiles, k_steps) in [(4096, 64), (4096, 224), (8192, 128), (7, 8)] {
            check(tiles, Cut::of(tiles, k_steps, 132).unwrap(), k_steps);
        }
    }

    #[test]
    fn a_cut_leaves_whole_waves_and_few_multiprocessors_without_work() {
        for tiles in 1..500 {
            for k_steps in [1, 3, 4, 16, 64] {
                let Some(cut) = Cut::of(tiles, k_steps, 132) else {
                    let rest = tiles % 132;
                    let few_are_idle = rest == 0 || rest > if tiles < 132 { 123 } else { 66 };
                    assert!(
                        few_are_idle || k_steps < 2 * LEAST_STEPS,
                        "{tiles} of {k_steps}"
                    );
                    continue;
                };
                assert!(cut.blocks <= 132 && cut.shared <= tiles, "{cut:?}");
                assert!(cut.shared * k_steps >= LEAST_STEPS * cut.sharers, "{cut:?}");
                assert!((tiles - cut.shared).is_multiple_of(cut.blocks), "{cut:?}");
                assert!(cut.sharers <= cut.blocks && (tiles < 132 || cut.is_even()));
                if k_steps == 64 && (10..132).contains(&tiles) {
                    assert!(cut.blocks >= 124, "{tiles}: {cut:?}");
                }
                if k_steps == 64 && tiles > 9 {
                    check(tiles, cut, k_steps);
                }
            }
        }
        let cut = |shared, sharers, blocks| {
            Some(Cut {
                shared,
                sharers,
                blocks,
            })
        };
        assert_eq!(Cut::of(32, 64, 132), cut(32, 128, 128));
        assert_eq!(Cut::of(80, 128, 132), cut(80, 132, 132));
        assert_eq!(Cut::of(1024, 64, 132), None);
        assert_eq!(Cut::of(4096, 64, 132), cut(4, 16, 132));
        assert_eq!(Cut::of(4096, 224, 132), cut(4, 28, 132));
        assert_eq!(Cut::of(8192, 128, 132), cut(8, 40, 132));
        assert_eq!(Cut::of(264, 64, 132), None);
        assert_eq!(Cut::of(u32::MAX, u32::MAX, 132), None);
        assert_eq!(Cut::of(10, 64, 0), None);
    }
}
