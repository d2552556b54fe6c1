//! Extents of an attention, and the checks that its operands match.

use super::lengths::{Lengths, check_each, check_packed};
use super::{Attention, BlockMaskShape, Layout};
use crate::ops::check;
use crate::{Element, Error, Float, Result, Stream, Tensor};
use abi::attention::{Mask, UNLIMITED};

/// Largest head_dim.
const MOST_HEAD_DIM: usize = 576;
/// Largest head_dim_v.
const MOST_HEAD_DIM_V: usize = 512;

/// First length that is too large: positions are 31-bit integers, and are rounded up to whole
/// tiles.
const SEQLEN_LIMIT: usize = i32::MAX as usize - 1023;

/// Extents of a validated attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops) struct Extents {
    pub(in crate::ops) batch: usize,
    /// Queries of the longest sequence.
    pub(in crate::ops) seqlen_q: usize,
    /// Keys of the longest sequence.
    pub(in crate::ops) seqlen_k: usize,
    /// Number of packed queries, if they are packed.
    pub(in crate::ops) total_q: Option<usize>,
    /// Number of packed keys, if they are packed.
    pub(in crate::ops) total_k: Option<usize>,
    /// Pages of k and v and positions of each, if they are paged.
    pub(in crate::ops) pages: Option<(usize, usize)>,
    pub(in crate::ops) heads_q: usize,
    pub(in crate::ops) heads_kv: usize,
    pub(in crate::ops) head_dim: usize,
    pub(in crate::ops) head_dim_v: usize,
    /// Whether every row of o and lse is known to belong to a sequence.
    pub(in crate::ops) all_written: bool,
}

/// q, and k and v.
pub(in crate::ops) type Inputs<T, Kv> = (Tensor<T>, [Tensor<Kv>; 2]);

/// Extents of one tensor: batch (if it is not packed), positions, heads, head_dim.
type Shape = (Option<usize>, usize, usize, usize);

impl Extents {
    /// Shape of o in this layout.
    pub(in crate::ops) fn shape_o(&self, layout: Layout) -> Vec<usize> {
        let positions = self.total_q.unwrap_or(self.seqlen_q);
        let (x, y) = match layout {
            Layout::Bshd => (positions, self.heads_q),
            Layout::Bhsd => (self.heads_q, positions),
        };
        match self.total_q {
            Some(_) => vec![x, y, self.head_dim_v],
            None => vec![self.batch, x, y, self.head_dim_v],
        }
    }

    /// Shape of lse.
    pub(in crate::ops) fn shape_lse(&self) -> Vec<usize> {
        match self.total_q {
            Some(total_q) => vec![self.heads_q, total_q],
            None => vec![self.batch, self.heads_q, self.seqlen_q],
        }
    }

    /// True if there are no queries.
    pub(in crate::ops) fn is_empty(&self) -> bool {
        self.seqlen_q == 0 || self.shape_lse().contains(&0)
    }
}

impl Extents {
    /// Those of which nothing but scores matter.
    pub(super) fn of_scores(shape: &BlockMaskShape) -> Self {
        Self {
            batch: shape.batch,
            seqlen_q: shape.seqlen_q,
            seqlen_k: shape.seqlen_k,
            total_q: None,
            total_k: None,
            pages: None,
            heads_q: shape.heads,
            heads_kv: shape.heads,
            head_dim: 0,
            head_dim_v: 0,
            all_written: true,
        }
    }
}

impl<T: Float, Out: Float, Kv: Element> Attention<'_, T, Out, Kv> {
    /// Checks q, k, v and the lengths against each other; their extents.
    pub(in crate::ops) fn extents(&self, stream: &Stream) -> Result<Extents> {
        let q = self.shape("q", &self.q, self.options.cu_seqlens_q.is_some())?;
        let k = self.shape("k", &self.k, self.options.cu_seqlens_k.is_some())?;
        let v = self.shape("v", &self.v, self.options.cu_seqlens_k.is_some())?;
        let (heads_q, heads_kv, head_dim) = (q.2, k.2, q.3);
        if k.3 != head_dim {
            let want = format!("a head_dim of {head_dim}, as q is {:?}", self.q.shape());
            return Err(check::shape_mismatch("k", &self.k, want));
        }
        let is_paged = self.options.pages.is_some();
        let batch = self.batch(q.0, k.0.filter(|_| !is_paged), stream)?;
        if (v.0, v.1, v.2) != (k.0, k.1, k.2) {
            let want = format!("that of k, {:?}, but for head_dim_v", self.k.shape());
            return Err(check::shape_mismatch("v", &self.v, want));
        }
        if heads_q != 0 && (heads_kv == 0 || heads_q % heads_kv != 0) {
            let want = format!("heads_kv that divides q's {heads_q} heads");
            return Err(check::shape_mismatch("k", &self.k, want));
        }
        if head_dim > MOST_HEAD_DIM || v.3 > MOST_HEAD_DIM_V {
            return Err(Error::unsupported(
                format!("attention with head_dim {head_dim} and head_dim_v {}", v.3),
                format!("head_dim up to {MOST_HEAD_DIM} and head_dim_v up to {MOST_HEAD_DIM_V}"),
            ));
        }
        let pages = (k.0.unwrap_or(0), k.1);
        let positions_k = self.paged_positions(batch, pages, stream)?.unwrap_or(k.1);
        let (longest_q, longest_k) = self.longest(q.1, positions_k)?;
        self.check_lengths(longest_q, longest_k)?;
        for (what, seqlen) in [("seqlen_q", q.1), ("seqlen_k", positions_k)] {
            if seqlen >= SEQLEN_LIMIT {
                return Err(Error::out_of_bounds(
                    what,
                    seqlen as u64,
                    SEQLEN_LIMIT as u64,
                ));
            }
        }
        Ok(Extents {
            batch,
            seqlen_q: longest_q,
            seqlen_k: longest_k,
            total_q: self.options.cu_seqlens_q.map(|_| q.1),
            total_k: self.options.cu_seqlens_k.map(|_| k.1),
            pages: is_paged.then_some(pages),
            heads_q,
            heads_kv,
            head_dim,
            head_dim_v: v.3,
            all_written: self.writes_all(q.1),
        })
    }

    fn shape<E: Element>(
        &self,
        operand: &'static str,
        x: &Tensor<E>,
        is_packed: bool,
    ) -> Result<Shape> {
        let shape = match (is_packed, x.shape()) {
            (false, &[batch, x, y, head_dim]) => (Some(batch), x, y, head_dim),
            (true, &[x, y, head_dim]) => (None, x, y, head_dim),
            _ => {
                let is_paged = self.options.pages.is_some() && operand != "q";
                let bounds = match operand {
                    "q" => "cu_seqlens_q",
                    _ => "cu_seqlens_k",
                };
                let dims = match (is_packed, self.options.layout) {
                    (false, Layout::Bshd) if is_paged => "[pages, page_size, heads, head_dim]",
                    (false, Layout::Bhsd) if is_paged => "[pages, heads, page_size, head_dim]",
                    (false, Layout::Bshd) => "[batch, seqlen, heads, head_dim]",
                    (false, Layout::Bhsd) => "[batch, heads, seqlen, head_dim]",
                    (true, Layout::Bshd) => "[total, heads, head_dim]",
                    (true, Layout::Bhsd) => "[heads, total, head_dim]",
                };
                let want = match (is_packed, is_paged) {
                    (true, _) => format!("{dims}, as {bounds} is given"),
                    (false, true) => dims.to_owned(),
                    (false, false) => format!("{dims}, or packed sequences with {bounds}"),
                };
                return Err(check::shape_mismatch(operand, x, want));
            }
        };
        Ok(match self.options.layout {
            Layout::Bshd => shape,
            Layout::Bhsd => (shape.0, shape.2, shape.1, shape.3),
        })
    }

    /// The batch size, which q, k and all lengths must share.
    fn batch(&self, q: Option<usize>, k: Option<usize>, stream: &Stream) -> Result<usize> {
        let packed = |what, bounds: Option<Lengths<'_>>| match bounds {
            None => Ok(None),
            Some(bounds) => match bounds.count(what, stream)?.checked_sub(1) {
                Some(batch) => Ok(Some(batch)),
                None => Err(bounds_of(what, 0, q.or(k).unwrap_or(0))),
            },
        };
        let of_q = packed("cu_seqlens_q", self.options.cu_seqlens_q)?;
        let of_k = packed("cu_seqlens_k", self.options.cu_seqlens_k)?;
        let batch = q.or(of_q).or(k).or(of_k).unwrap_or(0);
        for (what, bounds) in [("cu_seqlens_q", of_q), ("cu_seqlens_k", of_k)] {
            if let Some(got) = bounds.filter(|&got| got != batch) {
                return Err(bounds_of(what, got + 1, batch));
            }
        }
        if k.is_some_and(|k| k != batch) {
            let want = format!("a batch of {batch}, as q has it");
            return Err(check::shape_mismatch("k", &self.k, want));
        }
        for (what, lengths) in [
            ("seqused_q", self.options.seqused_q),
            ("seqused_k", self.options.seqused_k),
            ("leftpad_k", self.options.leftpad_k),
        ] {
            let Some(lengths) = lengths else { continue };
            let got = lengths.count(what, stream)?;
            if got != batch {
                return Err(Error::length(what, got, batch));
            }
        }
        Ok(batch)
    }

    /// Upper bounds of the queries and keys of a sequence, among this many positions in total.
    fn longest(&self, positions_q: usize, positions_k: usize) -> Result<(usize, usize)> {
        let (said_q, said_k) = self.options.max_seqlens.unwrap_or((usize::MAX, usize::MAX));
        let (bounds_q, bounds_k) = (self.options.cu_seqlens_q, self.options.cu_seqlens_k);
        if self.options.max_seqlens.is_some() && bounds_q.is_none() && bounds_k.is_none() {
            return Err(Error::unsupported(
                format!("max_seqlens of ({said_q}, {said_k}) without packed sequences"),
                "max_seqlens beside cu_seqlens_q, cu_seqlens_k or both",
            ));
        }
        Ok((
            longest(
                ["cu_seqlens_q", "max_seqlens of q"],
                bounds_q,
                positions_q,
                said_q,
            )?,
            longest(
                ["cu_seqlens_k", "max_seqlens of k"],
                bounds_k,
                positions_k,
                said_k,
            )?,
        ))
    }

    /// Checks that lengths on the host do not exceed their sequences.
    fn check_lengths(&self, seqlen_q: usize, seqlen_k: usize) -> Result<()> {
        let host =
            |lengths: Option<Lengths<'_>>| lengths.and_then(Lengths::host).map(<[i32]>::to_vec);
        let positions = |bounds: Option<Lengths<'_>>, longest: usize| {
            let bounds = host(bounds);
            move |idx: usize| match &bounds {
                Some(bounds) => (bounds[idx + 1] - bounds[idx]) as usize,
                None => longest,
            }
        };
        let queries = positions(self.options.cu_seqlens_q, seqlen_q);
        let keys = positions(self.options.cu_seqlens_k, seqlen_k);
        let padding = host(self.options.leftpad_k);
        let used_k = host(self.options.seqused_k);
        if let Some(used) = host(self.options.seqused_q) {
            check_each("seqused_q", &used, |idx| (0, queries(idx)))?;
        }
        if let Some(used) = &used_k {
            check_each("seqused_k", used, |idx| (0, keys(idx)))?;
        }
        if let Some(padding) = padding {
            check_each("leftpad_k", &padding, |idx| {
                (
                    0,
                    used_k
                        .as_ref()
                        .map_or_else(|| keys(idx), |used| used[idx] as usize),
                )
            })?;
        }
        Ok(())
    }

    /// Whether queries and whether keys are packed.
    pub(in crate::ops) fn packs(&self) -> (bool, bool) {
        (
            self.options.cu_seqlens_q.is_some(),
            self.options.cu_seqlens_k.is_some(),
        )
    }

    /// Whether keys are paged.
    pub(in crate::ops) fn has_pages(&self) -> bool {
        self.options.pages.is_some()
    }

    /// Whether sequences have lengths of their own.
    pub(in crate::ops) fn has_lengths(&self) -> bool {
        let used = self
            .options
            .seqused_q
            .or(self.options.seqused_k)
            .or(self.options.leftpad_k);
        used.or(self.options.cu_seqlens_q)
            .or(self.options.cu_seqlens_k)
            .is_some()
    }

    fn writes_all(&self, positions_q: usize) -> bool {
        let is_covered = match self.options.cu_seqlens_q.map(Lengths::host) {
            None => true,
            Some(Some([first, .., last])) => *first == 0 && *last as usize == positions_q,
            Some(_) => positions_q == 0,
        };
        is_covered && self.options.seqused_q.is_none()
    }

    /// How many keys a query sees to the left and to the right of its own.
    pub(super) fn window_of_mask(&self) -> (i32, i32) {
        let keys =
            |keys: Option<u32>| keys.map_or(UNLIMITED, |keys| keys.min(UNLIMITED as u32) as i32);
        let (left, right) = self.options.window;
        (
            keys(left),
            if self.options.causal { 0 } else { keys(right) },
        )
    }

    /// The inputs in order, and the extents. If all sequences have these extents, keys that no query
    /// sees are left out, in front and at the end. Kernels multiply values by masked probabilities,
    /// and 0 times NaN is NaN.
    pub(super) fn seen(&self, extents: &Extents) -> Result<(Inputs<T, Kv>, Extents)> {
        let (q, [k, v]) = self.inputs_in_order()?;
        let options = &self.options;
        let varies = [
            options.cu_seqlens_q,
            options.cu_seqlens_k,
            options.leftpad_k,
        ]
        .into_iter()
        .chain([options.seqused_q, options.seqused_k])
        .any(|lengths| lengths.is_some());
        let is_scored = options.scores.are_placed(); // by the positions of all keys
        if varies || is_scored || options.pages.is_some() || extents.is_empty() {
            return Ok(((q, [k, v]), *extents));
        }
        let (queries, keys) = (extents.seqlen_q as u32, extents.seqlen_k as u32);
        let mask = Mask::new(queries, keys, self.window_of_mask(), options.top_left);
        let first = mask.visible_keys(0).first as usize;
        let end = mask.visible_keys(queries - 1).end as usize;
        let seen = |x: Tensor<Kv>| x.slice(1, first..end);
        let extents = Extents {
            seqlen_k: end - first,
            ..*extents
        };
        Ok(((q, [seen(k)?, seen(v)?]), extents))
    }

    /// `x` in the order batch, position, head; a packed tensor gets a batch of one.
    pub(in crate::ops) fn in_order<E: Element>(
        &self,
        x: &Tensor<E>,
        is_packed: bool,
    ) -> Result<Tensor<E>> {
        let x = if is_packed {
            x.insert_axis(0)?
        } else {
            x.clone()
        };
        match self.options.layout {
            Layout::Bshd => Ok(x),
            Layout::Bhsd => x.permute(&[0, 2, 1, 3]),
        }
    }
}

/// Length of the longest sequence of `names[0]` among `positions`, or the bound `said` that the
/// caller has set.
fn longest(
    names: [&'static str; 2],
    bounds: Option<Lengths<'_>>,
    positions: usize,
    said: usize,
) -> Result<usize> {
    let Some(bounds) = bounds else {
        return Ok(positions);
    };
    let Some(bounds) = bounds.host() else {
        return Ok(positions.min(said));
    };
    let found = check_packed(names[0], bounds, positions)?;
    if said < found {
        return Err(Error::value(
            names[1],
            said.to_string(),
            format!("at least {found}, the longest of {}", names[0]),
        ));
    }
    Ok(found)
}

/// `got` bounds of packed sequences are not one more than a batch of `batch` sequences.
fn bounds_of(what: &'static str, got: usize, batch: usize) -> Error {
    Error::value(
        what,
        format!("{got} bounds"),
        format!("{} bounds, one more than there are sequences", batch + 1),
    )
}
