//! Description of what a call does to scores.

use super::function::MOST_STEPS;
use crate::DType;
use std::fmt;

/// Everything that the text of a kernel depends on, without addresses, strides and numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::ops) struct ScoreDesc {
    /// Whether all scores are changed, which then includes scale and soft cap; else there is only a
    /// block mask.
    pub(in crate::ops) changes: bool,
    /// Whether there is a soft cap.
    pub(super) softcap: bool,
    /// The steps of the function; zeros if there is none.
    pub(super) function: [u64; 2 * MOST_STEPS],
    pub(super) bias: Option<TensorDesc>,
    pub(super) alibi: bool,
    /// Whether all positions of ALiBi are numbers that f32 has.
    pub(super) is_near: bool,
    pub(super) mask: Option<TensorDesc>,
    /// The fragment that is the mask; zeros if there is none.
    pub(super) mask_function: [u64; 2],
    /// Whether the gradient of the bias is written.
    pub(in crate::ops) d_bias: bool,
    pub(in crate::ops) blocks: Option<BlocksDesc>,
    /// Whether probabilities are dropped.
    pub(in crate::ops) dropout: bool,
}

/// A block mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::ops) struct BlocksDesc {
    /// Whether a function says what partial blocks show.
    pub(super) has_function: bool,
    /// The fragment that it is.
    pub(super) function: [u64; 2],
    /// Whether scores of visited blocks depend on the cell that they are in.
    pub(super) reads_cells: bool,
    /// Whether it differs between heads.
    pub(in crate::ops) has_heads: bool,
}

impl BlocksDesc {
    /// Whether pairs of visited blocks may be hidden.
    pub(super) const fn hides(&self) -> bool {
        self.has_function || self.reads_cells
    }
}

/// A tensor that is read for each score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TensorDesc {
    pub(super) dtype: DType,
    /// Whether neighbouring keys are neighbours in memory.
    pub(super) dense: bool,
    /// Whether they are 16 bits each, and an even key and the next are one aligned word.
    pub(super) paired: bool,
}

/// Words of a [`ScoreDesc::key`].
pub(super) const KEY: usize = 1 + 2 * MOST_STEPS + 4;

impl ScoreDesc {
    /// Whether the derivative of a score with respect to the scaled product is 1 wherever a key is
    /// seen.
    pub(in crate::ops) fn is_affine(&self) -> bool {
        !self.softcap && self.function[0] == 0
    }

    /// Whether a block mask hides pairs of visited blocks.
    pub(super) fn hides(&self) -> bool {
        self.blocks.is_some_and(|blocks| blocks.hides())
    }

    /// A key that is unique among descriptions.
    pub(super) fn key(&self) -> [u64; KEY] {
        let tensor = |desc: Option<TensorDesc>| {
            desc.map_or(0, |desc| {
                let lies = u64::from(desc.dense) << 1 | u64::from(desc.paired) << 2;
                1 | lies | (desc.dtype as u64) << 3
            })
        };
        let flags = u64::from(self.softcap)
            | u64::from(self.alibi) << 1
            | u64::from(self.d_bias) << 2
            | tensor(self.bias) << 8
            | tensor(self.mask) << 24
            | u64::from(self.changes) << 40
            | u64::from(self.dropout) << 43
            | u64::from(self.is_near) << 44
            | (self.blocks).map_or(0, |blocks| 1 | u64::from(blocks.reads_cells) << 1) << 41;
        let mut key = [0; KEY];
        key[0] = flags;
        key[1..=2 * MOST_STEPS].copy_from_slice(&self.function);
        key[1 + 2 * MOST_STEPS..KEY - 2].copy_from_slice(&self.mask_function);
        key[KEY - 2..].copy_from_slice(&self.blocks.map_or([0; 2], |blocks| blocks.function));
        key
    }
}

impl fmt::Display for ScoreDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, tensor) in [("bias", self.bias), ("mask", self.mask)] {
            if let Some(TensorDesc {
                dtype,
                dense,
                paired,
            }) = tensor
            {
                let gaps = if dense { "" } else { "+gaps" };
                let pairs = if paired { "+pairs" } else { "" };
                write!(f, " {name}={dtype}{gaps}{pairs}")?;
            }
        }
        for (name, is_there) in [
            ("alibi", self.alibi),
            ("softcap", self.softcap),
            ("score", self.function[0] != 0),
            ("mask_function", self.mask_function[0] != 0),
            ("d_bias", self.d_bias),
            ("block_mask", self.blocks.is_some()),
            ("dropout", self.dropout),
        ] {
            if is_there {
                write!(f, " {name}")?;
            }
        }
        Ok(())
    }
}
