//! A step: positions that are reserved, and their places on the device.

use super::write::KvWrite;
use super::{KvCache, NAME, SequenceId};
use crate::error::named;
use crate::ops::attention::Attention;
use crate::ops::check;
use crate::{Element, Error, Float, Result, Stream, Tensor};

/// A step of a [`KvCache`]: new positions of some sequences. The cache cannot change while it is there.
#[derive(Debug)]
#[must_use = "the positions that it reserved are not written yet"]
pub struct KvAppend<'c, T: Float, S: Element = T> {
    pub(super) cache: &'c KvCache<T, S>,
    /// Of each new token, its position in its sequence.
    pub(super) positions: Tensor<i32>,
    /// Of each new token, its row of a pool.
    pub(super) rows: Tensor<i32>,
    /// The pages of each sequence, `[sequences, n]`; -1 beyond the last one.
    table: Tensor<i32>,
    /// The length of each sequence.
    lengths: Tensor<i32>,
    /// The first new token of each sequence, and the end of the last one.
    bounds: Vec<i32>,
}

impl<'c, T: Float, S: Element> KvAppend<'c, T, S> {
    /// The last positions of these sequences, which were reserved.
    pub(super) fn new(
        cache: &'c KvCache<T, S>,
        sequences: &[(SequenceId, usize)],
        stream: &Stream,
    ) -> Result<Self> {
        let page_size = cache.shape.page_size;
        let (mut positions, mut rows, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        let mut bounds = vec![0];
        let of = |&(id, _): &(SequenceId, usize)| cache.sequence(id);
        let all = sequences.iter().map(of).collect::<Result<Vec<_>>>()?;
        let columns = all.iter().map(|of| of.pages.len()).max().unwrap_or(0);
        let mut table = vec![-1; sequences.len() * columns];
        for (idx, (of, &(_, count))) in all.iter().zip(sequences).enumerate() {
            for position in of.len - count..of.len {
                let page = of.pages[position / page_size] as usize;
                positions.push(position as i32);
                rows.push((page * page_size + position % page_size) as i32);
            }
            let entries = &mut table[idx * columns..];
            for (entry, &page) in entries.iter_mut().zip(&of.pages) {
                *entry = page as i32;
            }
            lengths.push(of.len as i32);
            bounds.push(positions.len() as i32);
        }
        // One upload for all.
        let ends = [&positions, &rows, &lengths, &table].map(Vec::len);
        let joined = [positions, rows, lengths, table].concat();
        let joined = Tensor::from_slice(stream.device(), &[joined.len()], &joined)?;
        let mut first = 0;
        let [positions, rows, lengths, table] = ends.map(|len| {
            first += len;
            joined.slice(0, first - len..first)
        });
        Ok(Self {
            cache,
            positions: positions?,
            rows: rows?,
            table: table?.reshape(&[sequences.len(), columns])?,
            lengths: lengths?,
            bounds,
        })
    }

    /// Number of new tokens of all sequences.
    pub fn tokens(&self) -> usize {
        self.positions.len()
    }

    /// Of each new token its position in its sequence, `[tokens]`: for
    /// [`Rotary::positions`](crate::Rotary::positions) of the queries.
    pub fn positions(&self) -> &Tensor<i32> {
        &self.positions
    }

    /// The pages of each sequence, `[sequences, n]`, for [`Attention::pages`].
    pub fn table(&self) -> &Tensor<i32> {
        &self.table
    }

    /// The length of each sequence with its new tokens, `[sequences]`, for [`Attention::seqused_k`].
    pub fn lengths(&self) -> &Tensor<i32> {
        &self.lengths
    }

    /// The first new token of each sequence and the end of the last one, `sequences + 1` numbers, for
    /// [`Attention::cu_seqlens_q`].
    pub fn cu_seqlens(&self) -> &[i32] {
        &self.bounds
    }

    /// The pools of a layer: keys `[pages, page_size, heads_kv, head_dim]`, and values
    /// `[pages, page_size, heads_kv, head_dim_v]`.
    ///
    /// # Errors
    /// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds).
    pub fn pools(&self, layer: usize) -> Result<&'c [Tensor<S>; 2]> {
        let layers = &self.cache.layers;
        let out_of_bounds =
            || Error::out_of_bounds("layer", layer as u64, self.cache.shape.layers as u64);
        named(NAME, || layers.get(layer).ok_or_else(out_of_bounds))
    }

    /// Writes the keys `[tokens, heads_kv, head_dim]` and values `[tokens, heads_kv, head_dim_v]` of the
    /// new tokens into a layer, one sequence after the other. If all sequences have as many, they may
    /// also be `[sequences, n, heads_kv, ..]`. They may have any strides.
    pub fn write<'a>(
        &'a self,
        layer: usize,
        k: &'a Tensor<T>,
        v: &'a Tensor<T>,
    ) -> KvWrite<'a, T, f32, S> {
        KvWrite::new(self, layer, k, v)
    }

    /// Causal attention of the new queries to all keys of their sequences in a layer; further options
    /// may be set. `q` is `[tokens, heads_q, head_dim]`, and so is the result. If all sequences have as
    /// many new tokens, it may also be `[sequences, n, heads_q, head_dim]`.
    ///
    /// # Errors
    /// [`ShapeError::Mismatch`](crate::ShapeError::Mismatch) for another number of tokens,
    /// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) for a layer that is not there.
    pub fn attention(&self, layer: usize, q: &Tensor<T>) -> Result<Attention<'_, T, T, S>> {
        let [k, v] = self.pools(layer)?;
        named(NAME, || {
            self.check_tokens("q", q)?;
            let mut attention = Attention::of(q, k, v).causal();
            if let Some([of_k, of_v]) = self.cache.scales.get(layer) {
                attention = attention.with_scales(of_k, of_v);
            }
            let attention = attention.pages(&self.table).seqused_k(&self.lengths);
            Ok(match q.rank() {
                3 => attention.cu_seqlens_q(&self.bounds[..]),
                _ => attention,
            })
        })
    }

    /// Checks that a tensor has the new tokens, `[tokens, ..]` or `[sequences, n, ..]`.
    pub(super) fn check_tokens(&self, operand: &'static str, x: &Tensor<T>) -> Result<()> {
        let sequences = self.bounds.len() - 1;
        let is_right = match *x.shape() {
            [tokens, _, _] => tokens == self.tokens(),
            [batch, each, _, _] => {
                let is_each = |pair: &[i32]| pair[1] - pair[0] == each as i32;
                batch == sequences && self.bounds.windows(2).all(is_each)
            }
            _ => false,
        };
        if is_right {
            return Ok(());
        }
        let want = format!(
            "[{}, heads, head_dim], or [{sequences}, n, heads, head_dim] with n new tokens of each",
            self.tokens()
        );
        Err(check::shape_mismatch(operand, x, want))
    }
}
