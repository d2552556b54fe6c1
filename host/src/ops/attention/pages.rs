//! Paged keys and values: pools of pages, and a table of the pages of each sequence.

use super::Attention;
use super::call::Memory;
use crate::ops::check;
use crate::ops::indices::Indices;
use crate::{Element, Error, Float, Result, Stream, Tensor};

/// Pools of pages and their table, as in [`abi::attention::FlashFwdPages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::ops) struct PagesDesc {
    /// Pages of each pool.
    pub(in crate::ops) count: u32,
    /// Positions of a page.
    pub(in crate::ops) page_size: u32,
    /// Elements between the rows of the table.
    pub(in crate::ops) row: i64,
}

impl PagesDesc {
    /// Of a table with a row for each sequence, and of pools of `count` pages of `page_size`.
    pub(super) fn new(table: Indices<'_>, (count, page_size): (usize, usize)) -> Result<Self> {
        let row = match (dense(table).map(Tensor::strides), table.shape()) {
            (Some(&[row, _]), _) => row,
            (_, &[_, columns]) => columns as i64,
            _ => return Err(Error::Bug("a table of pages that has no rows")),
        };
        Ok(Self {
            count: check::extent("pages", count)?,
            page_size: check::extent("page_size", page_size)?,
            row,
        })
    }
}

impl<T: Float, Out: Float, Kv: Element> Attention<'_, T, Out, Kv> {
    /// Checks the table, for a batch of `batch`, and that no option contradicts it. Returns the
    /// positions that a sequence has room for, in pages of `page_size`, of which there are `count`.
    pub(super) fn paged_positions(
        &self,
        batch: usize,
        (count, page_size): (usize, usize),
        stream: &Stream,
    ) -> Result<Option<usize>> {
        let Some(table) = self.options.pages else {
            return Ok(None);
        };
        for (option, is_set) in [
            ("cu_seqlens_k", self.options.cu_seqlens_k.is_some()),
            ("leftpad_k", self.options.leftpad_k.is_some()),
        ] {
            if is_set {
                return Err(Error::unsupported(
                    format!("{option} beside pages"),
                    "lengths of paged keys by seqused_k",
                ));
            }
        }
        table.check_device("pages", stream)?;
        let columns = match table.shape() {
            &[rows, columns] if rows == batch => columns,
            _ => {
                let want = format!("[{batch}, n], a row for each sequence of q");
                return Err(Error::shape("pages", table.shape(), want));
            }
        };
        // No sequence has a key in a pool that has no page.
        let columns = if count == 0 { 0 } else { columns };
        Ok(Some(columns.saturating_mul(page_size)))
    }

    /// The memory of the table, with the rows of [`PagesDesc::new`].
    pub(super) fn pages_memory(&self, stream: &Stream) -> Result<Option<Memory>> {
        let Some(table) = self.options.pages else {
            return Ok(None);
        };
        Ok(Some(match dense(table) {
            Some(table) => Memory::of(table),
            None => Memory::of(&table.to_i32(stream)?.contiguous(stream)?),
        }))
    }
}

/// The table, if kernels can read it as it is: rows of i32 without gaps.
fn dense(table: Indices<'_>) -> Option<&Tensor<i32>> {
    let Indices::I32(table) = table else {
        return None;
    };
    let has_one = table.shape().last().is_some_and(|&columns| columns <= 1);
    (has_one || table.strides().last() == Some(&1)).then_some(table)
}
