//! Block masks: made of lists, of indices on the device and of functions, beside all other options.

use ndarray::{ArrayD, IxDyn};
use proptest::prelude::*;
use serde::Deserialize;
use warpsmith::fuse::Scalar;
use warpsmith::{BlockMask, BlockMaskShape, DType, Device, ScoreFunction, Tensor};
use warpsmith_tests::operand::View;
use warpsmith_tests::property::{Effort, holds};
use warpsmith_tests::say;
use warpsmith_tests::values::Values;

use super::case::{self, Case};
use super::check::check;
use super::functions::mask;
use super::scores::Scores;

/// A block mask of a case.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Blocks {
    /// Queries and keys of a block.
    pub(crate) block: [usize; 2],
    /// Percentage of blocks that are seen.
    pub(crate) percent: u32,
    /// Whether batches and whether heads differ.
    #[serde(default)]
    pub(crate) differs: [bool; 2],
    pub(crate) source: Source,
}

/// What a mask is made from.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    /// Lists.
    Lists,
    /// Lists, of which some are seen in part.
    Partial,
    /// Indices on the device, some repeated or out of range, in no order.
    Indices,
    /// A function.
    Function,
}

/// Keys that a query sees up to its own, by the function.
const WINDOW: u32 = 90;

fn window() -> ScoreFunction {
    let fragment = mask("sliding_window", &[Scalar::U32]);
    ScoreFunction::new().apply(&fragment, [WINDOW.into()])
}

fn window_shows(query: usize, key: usize) -> bool {
    key <= query && query - key < WINDOW as usize
}

impl Blocks {
    /// The mask, and which pairs it shows.
    pub(crate) fn draw(
        &self,
        [batch, heads, seqlen_q, seqlen_k]: [usize; 4],
        seed: u64,
        device: &Device,
    ) -> Result<(BlockMask, ArrayD<bool>), String> {
        let one_or = |differs: bool, all: usize| if differs { all } else { 1 };
        let (batch, heads) = (
            one_or(self.differs[0], batch),
            one_or(self.differs[1], heads),
        );
        let [q, k] = self.block;
        let shape = BlockMaskShape::new(seqlen_q, seqlen_k)
            .batch(batch)
            .heads(heads)
            .blocks(q, k);
        let stream = device.stream().map_err(say)?;
        let (q_blocks, k_blocks) = (shape.q_blocks(), shape.k_blocks());
        let drawn = Values::Uniform.draw(&[batch, heads, q_blocks, k_blocks], seed);
        // Of a hundred: below the percentage seen, and of these every other in part.
        let state = drawn.mapv(|x| {
            let of_hundred = (50.0 * (x + 1.0)) as u32;
            (of_hundred < self.percent, of_hundred.is_multiple_of(2))
        });
        let lists = |wanted: &dyn Fn(bool) -> bool| -> Vec<Vec<u32>> {
            let lines = state.rows().into_iter();
            let of_line = |line: ndarray::ArrayView1<'_, (bool, bool)>| {
                let blocks = line.iter().enumerate();
                let seen = blocks.filter(|(_, (seen, even))| *seen && wanted(*even));
                seen.map(|(block, _)| block as u32).rev().collect()
            };
            lines.map(of_line).collect()
        };
        let is_partial = self.source == Source::Partial;
        let mask = match self.source {
            Source::Lists => BlockMask::from_lists(&shape, &lists(&|_| true), &stream),
            Source::Partial => {
                let (full, partial) = (lists(&|even| !even), lists(&|even| even));
                BlockMask::from_partial_lists(&shape, &full, &partial, &window(), &stream)
            }
            Source::Indices => {
                let lists = lists(&|_| true);
                let most = lists.iter().map(Vec::len).max().unwrap_or(0) + 2;
                let fill = [-1, i32::MAX, k_blocks as i32];
                let mut indices = Vec::new();
                for (line, list) in lists.iter().enumerate() {
                    let first = list.first().map_or(-1, |&block| block as i32);
                    let own = list.iter().map(|&block| block as i32).chain([first]);
                    let padded = own.chain(fill.into_iter().cycle().skip(line % 3));
                    indices.extend(padded.take(most));
                }
                let dims = [batch, heads, q_blocks, most];
                let indices = Tensor::from_slice(device, &dims, &indices).map_err(say)?;
                BlockMask::from_indices(&shape, &indices, &stream)
            }
            Source::Function => BlockMask::from_mask(&shape, &window(), &stream),
        };
        let shown = ArrayD::from_shape_fn(IxDyn(&[batch, heads, seqlen_q, seqlen_k]), |at| {
            let (seen, even) = match self.source {
                Source::Function => (true, true),
                _ => state[[at[0], at[1], at[2] / q, at[3] / k]],
            };
            let by_function = is_partial && even || self.source == Source::Function;
            seen && (!by_function || window_shows(at[2], at[3]))
        });
        let mask = mask.map_err(say)?;
        stream.synchronize().map_err(say)?;
        Ok((mask, shown))
    }
}

pub(crate) fn any() -> impl Strategy<Value = Blocks> {
    let extent = || prop::sample::select(vec![64_usize, 64, 128, 128, 192, 256]);
    let sources = [
        Source::Lists,
        Source::Partial,
        Source::Indices,
        Source::Function,
    ];
    (
        [extent(), extent()],
        prop::sample::select(vec![0_u32, 20, 50, 80, 100]),
        prop::array::uniform2(any_bool()),
        prop::sample::select(sources.to_vec()),
    )
        .prop_map(|(block, percent, differs, source)| Blocks {
            block,
            percent,
            differs,
            source,
        })
}

fn any_bool() -> impl Strategy<Value = bool> {
    proptest::bool::ANY
}

#[test]
fn attention_matches_its_reference_for_block_masks() {
    holds(
        Effort {
            cases: [24, 400],
            largest: [220, 800],
        },
        case::sparse,
        check,
    );
}

/// A case for each source of a mask, and for each head_dim with its blocks of queries and keys.
pub(crate) fn of_every_extent(extents: [(usize, [usize; 2]); 3]) -> Vec<Case> {
    let sources = [
        Source::Lists,
        Source::Partial,
        Source::Indices,
        Source::Function,
    ];
    let of_source = |(idx, source)| {
        extents.map(|(head_dim, block)| Case {
            group: 2,
            views: [View::Aligned; 4],
            scores: Scores {
                blocks: Some(Blocks {
                    block,
                    percent: 50,
                    differs: [false, idx % 2 == 0],
                    source,
                }),
                ..Default::default()
            },
            seed: idx as u64,
            ..Case::plain(DType::Bf16, [200, 270], head_dim)
        })
    };
    sources
        .into_iter()
        .enumerate()
        .flat_map(of_source)
        .collect()
}

/// Every kernel, in blocks of which some tiles have several and others a part.
#[test]
fn attention_matches_its_reference_for_every_extent_of_blocks() {
    for device in warpsmith::testing::devices() {
        for case in of_every_extent([(64, [64, 64]), (128, [128, 64]), (256, [64, 256])]) {
            check(&case, &device).expect("attention");
        }
    }
}
