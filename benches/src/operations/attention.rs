//! Attention, compared with FlashAttention-3, cuDNN and FlashAttention-2.

use half::{bf16, f16};
use serde_json::{Value, json};
use warpsmith::{Attention, Float, Stream, Tensor};

use super::{Case, Operation, OperationOptions, Prepared, Set, Work};
use crate::error::Result;
use crate::inputs::{Sample, normal_copies, unwritten_copies};
use crate::results::Unit;

/// Forward attention.
pub static ATTENTION: Operation = Operation {
    name: "attention",
    sets: &[
        Set::new(
            "squares",
            "bf16, head_dim 64, 128, 256, seqlen 512 to 16384, full and causal",
        )
        .reaching(Some(0.95), Some(1.05)),
        Set::new("squares_f16", "the same in f16, beside cuDNN").reaching(None, Some(1.05)),
        Set::new(
            "gqa",
            "64 query heads on 8, head_dim 128, causal, seqlen 2048 to 32768",
        )
        .reaching(None, Some(1.05)),
        Set::new(
            "decode",
            "64 and 32 query heads on 8, head_dim 128, 1 to 64 queries to 2048 to 131072 keys",
        )
        .reaching(None, Some(1.0)),
        Set::new(
            "paged",
            "64 and 32 query heads on 8, head_dim 128, 1 query to 8192 and 32768 keys in pages",
        )
        .reaching(None, Some(1.0)),
        Set::new("window", "1024 keys back, at seqlen 16384").reaching(Some(1.0), None),
        Set::new("varlen", "packed prompts of uneven lengths, causal").reaching(Some(1.0), None),
        Set::new(
            "sm80",
            "the kernels for Ampere beside torch's FlashAttention-2",
        )
        .reaching(Some(1.0), None),
        Set::new("tiny", "for the emulator"),
    ],
    unit: Unit::Flops,
    cases,
};

/// Total number of positions of all sequences of a batch.
const POSITIONS: usize = 16_384;
/// `heads * head_dim`.
const WIDTH: usize = 2048;
/// Sequence lengths of the squares.
const SEQLENS: [usize; 6] = [512, 1024, 2048, 4096, 8192, 16_384];
/// Queries per sequence in a decoding step: one, a few for speculative decoding, a chunk of a
/// prompt.
const DECODE_QUERIES: [usize; 4] = [1, 4, 16, 64];
/// Number of sequences, and keys of each: up to 512 Ki keys in all, 2 GiB of keys and values.
const DECODE_KEYS: [(usize, usize); 9] = [
    (1, 2048),
    (1, 8192),
    (1, 32_768),
    (1, 131_072),
    (4, 32_768),
    (16, 2048),
    (16, 8192),
    (64, 2048),
    (64, 8192),
];
/// Number of sequences, and keys of each, where keys are paged.
const PAGED_KEYS: [(usize, usize); 4] = [(1, 8192), (1, 32_768), (16, 8192), (16, 32_768)];
/// Positions of a page.
const PAGE_SIZES: [usize; 3] = [16, 64, 256];
/// Sequence lengths that show where the kernels for Ampere stand.
const SM80_SEQLENS: [usize; 3] = [512, 4096, 16_384];
/// Prompt lengths as a server sees them: a few long ones, many short ones.
pub(super) const PROMPTS: [usize; 11] = [37, 512, 129, 2048, 811, 4096, 77, 1500, 333, 6000, 841];

/// The shape and mask of a case.
#[derive(Clone, Debug)]
struct Shape {
    head_dim: usize,
    heads_q: usize,
    heads_kv: usize,
    /// The number of keys of each sequence.
    seqlens: Vec<usize>,
    /// The number of queries of each sequence, if it differs from that of keys.
    queries: Option<usize>,
    /// Positions of a page, if keys are paged.
    page_size: Option<usize>,
    /// Whether the sequences are packed one after the other (variable length).
    is_packed: bool,
    is_causal: bool,
    /// Sliding window: how many keys before its own position a query sees.
    window: Option<usize>,
    /// Prefix of our kernel's name.
    kernel: Option<String>,
    peers: &'static [&'static str],
}

impl Shape {
    /// As many sequences of `seqlen` as make up [`POSITIONS`].
    fn square(head_dim: usize, seqlen: usize, is_causal: bool) -> Self {
        let heads = WIDTH / head_dim;
        Self {
            head_dim,
            heads_q: heads,
            heads_kv: heads,
            seqlens: vec![seqlen; (POSITIONS / seqlen).max(1)],
            queries: None,
            page_size: None,
            is_packed: false,
            is_causal,
            window: None,
            kernel: None,
            peers: &["fa3", "cudnn"],
        }
    }

    /// Decoding: a few queries attend to all keys of each sequence. It is not causal, because torch
    /// would align the first query with the first key.
    fn decode(heads_q: usize, queries: usize, (batch, seqlen): (usize, usize)) -> Self {
        Self {
            heads_q,
            heads_kv: 8,
            seqlens: vec![seqlen; batch],
            queries: Some(queries),
            peers: &["fa3", "fa3_split", "cudnn", "flash"],
            ..Self::square(128, seqlen, false)
        }
    }

    /// The same with one query, and keys in pages.
    fn paged(heads_q: usize, keys: (usize, usize), page_size: usize) -> Self {
        Self {
            page_size: Some(page_size),
            peers: &["fa3_paged"],
            ..Self::decode(heads_q, 1, keys)
        }
    }

    /// Causal attention on packed sequences of different lengths.
    fn packed(head_dim: usize, seqlens: &[usize]) -> Self {
        Self {
            seqlens: seqlens.to_vec(),
            is_packed: true,
            peers: &["fa3", "cudnn", "flash"],
            ..Self::square(head_dim, POSITIONS, true)
        }
    }

    /// The number of pairs of a query and a key that it sees, for one head.
    fn visible(&self) -> f64 {
        let of_sequence = |&seqlen: &usize| {
            let (seqlen, left) = (seqlen as f64, self.window.map(|left| left as f64));
            match (self.is_causal, left) {
                (false, _) => self.queries.map_or(seqlen, |queries| queries as f64) * seqlen,
                // The first queries have fewer keys before them.
                (true, Some(left)) if left < seqlen => {
                    seqlen * (left + 1.0) - left * (left + 1.0) / 2.0
                }
                (true, _) => seqlen * (seqlen + 1.0) / 2.0,
            }
        };
        self.seqlens.iter().map(of_sequence).sum()
    }

    fn longest(&self) -> usize {
        self.seqlens.iter().copied().max().unwrap_or_default()
    }

    /// Extents of q.
    fn extents_q(&self) -> Vec<usize> {
        let mut extents = self.extents(self.heads_q);
        if let Some(queries) = self.queries {
            extents[1] = queries;
        }
        extents
    }

    /// Extents of k and v, or of a tensor like them with `heads` heads.
    fn extents(&self, heads: usize) -> Vec<usize> {
        match self.is_packed {
            true => vec![self.seqlens.iter().sum(), heads, self.head_dim],
            false => vec![self.seqlens.len(), self.longest(), heads, self.head_dim],
        }
    }

    /// Extents of k and v, or of the pools of their pages.
    fn extents_k(&self) -> Vec<usize> {
        let mut extents = self.extents(self.heads_kv);
        if let Some(size) = self.page_size {
            extents[0] *= extents[1].div_ceil(size);
            extents[1] = size;
        }
        extents
    }

    /// The pages of each sequence, in no order, and the extents of that table.
    fn table(&self) -> ([usize; 2], Vec<i32>) {
        let pages = self.page_size.map_or(0, |_| self.extents_k()[0]);
        let extents = [self.seqlens.len(), pages / self.seqlens.len()];
        // By steps of a prime that divides no number of pages here: each page is there once.
        (
            extents,
            (0..pages).map(|idx| (idx * 7919 % pages) as i32).collect(),
        )
    }

    fn work<T: Float>(&self) -> Work {
        let scores = self.visible() * self.heads_q as f64;
        let [of_q, of_k] = [self.extents_q(), self.extents(self.heads_kv)];
        let elements = 2 * (of_q.iter().product::<usize>() + of_k.iter().product::<usize>());
        Work {
            flops: 4.0 * scores * self.head_dim as f64,
            bytes: (elements * size_of::<T>()) as f64,
            exponentials: scores,
            tensor_input: Some(T::DTYPE),
        }
    }

    fn name(&self) -> String {
        let mask = match (self.is_causal, self.window) {
            (_, Some(left)) => format!("window{left}"),
            (true, None) => "causal".to_owned(),
            (false, None) => "full".to_owned(),
        };
        let heads = match self.heads_q == self.heads_kv {
            true => String::new(),
            false => format!("h{}x{}/", self.heads_q, self.heads_kv),
        };
        let seqlens = match self.is_packed {
            true => format!("packed{}", self.seqlens.len()),
            false => match self.queries {
                Some(queries) => format!("b{}/q{queries}/s{}", self.seqlens.len(), self.longest()),
                None => format!("s{}", self.longest()),
            },
        };
        let pages = self
            .page_size
            .map_or(String::new(), |size| format!("/p{size}"));
        format!("{mask}/d{}/{heads}{seqlens}{pages}", self.head_dim)
    }

    fn description(&self) -> Value {
        json!({
            "causal": self.is_causal,
            "window": self.window,
            "max_seqlen": self.longest(),
            "packed": self.is_packed,
            "peers": self.peers,
        })
    }
}

fn cases(set: &Set, options: &OperationOptions) -> Vec<Case> {
    let mut shapes = shapes(set.name);
    for shape in &mut shapes {
        shape.kernel = options.kernel.clone().or(shape.kernel.take());
    }
    let shapes = shapes.into_iter();
    match set.name {
        "squares_f16" => shapes.map(|shape| case::<f16>(shape, -9)).collect(),
        _ => shapes.map(|shape| case::<bf16>(shape, -6)).collect(),
    }
}

fn shapes(set: &str) -> Vec<Shape> {
    let mut shapes = Vec::new();
    match set {
        "squares" | "squares_f16" | "sm80" => {
            let seqlens = match set {
                "sm80" => &SM80_SEQLENS[..],
                _ => &SEQLENS,
            };
            for head_dim in [64, 128, 256] {
                for is_causal in [false, true] {
                    let square = |&seqlen| Shape::square(head_dim, seqlen, is_causal);
                    shapes.extend(seqlens.iter().map(square));
                }
            }
        }
        "gqa" => shapes.extend([2048, 4096, 8192, 16_384, 32_768].map(|seqlen| Shape {
            heads_q: 64,
            heads_kv: 8,
            ..Shape::square(128, seqlen, true)
        })),
        "decode" => {
            for heads_q in [64, 32] {
                for queries in DECODE_QUERIES {
                    let of = |&keys: &(usize, usize)| Shape::decode(heads_q, queries, keys);
                    shapes.extend(DECODE_KEYS.iter().map(of));
                }
            }
        }
        "paged" => {
            for heads_q in [64, 32] {
                for keys in PAGED_KEYS {
                    shapes.extend(PAGE_SIZES.map(|size| Shape::paged(heads_q, keys, size)));
                }
            }
        }
        "window" => shapes.extend([64, 128, 256].map(|head_dim| Shape {
            window: Some(1024),
            peers: &["fa3", "cudnn", "flash"],
            ..Shape::square(head_dim, POSITIONS, true)
        })),
        "varlen" => {
            // Two hundred short prompts of 16 to 143 positions, in no particular order.
            let short: Vec<usize> = (0..200).map(|idx| 16 + idx * 37 % 128).collect();
            for seqlens in [&PROMPTS[..], &short] {
                shapes.extend([64, 128].map(|head_dim| Shape::packed(head_dim, seqlens)));
            }
            shapes.push(Shape {
                heads_q: 64,
                heads_kv: 8,
                ..Shape::packed(128, &PROMPTS)
            });
        }
        _ => {
            let tiny = Shape {
                heads_q: 1,
                heads_kv: 1,
                seqlens: vec![40],
                ..Shape::square(64, POSITIONS, true)
            };
            shapes.push(Shape {
                seqlens: vec![5, 20],
                is_packed: true,
                ..tiny.clone()
            });
            shapes.push(Shape {
                queries: Some(2),
                page_size: Some(8),
                is_causal: false,
                peers: &["fa3_paged"],
                ..tiny.clone()
            });
            shapes.push(tiny);
        }
    }
    for shape in &mut shapes {
        match set {
            "squares_f16" => shape.peers = &["cudnn"],
            "sm80" => {
                shape.peers = &["flash"];
                shape.kernel = Some("flash_fwd_sm80".to_owned());
            }
            _ => {}
        }
    }
    shapes
}

/// Two correct results may differ by `2^allowed`, because each rounds the probabilities and the
/// result.
fn case<T: Float + Sample>(shape: Shape, allowed: i32) -> Case {
    Case {
        name: format!("attention/{}/{}", T::DTYPE, shape.name()),
        work: shape.work::<T>(),
        description: shape.description(),
        difference_allowed: 2.0_f64.powi(allowed),
        prepare: Box::new(move |stream, copies| prepared::<T>(&shape, stream, copies)),
    }
}

/// The operands of one launch.
struct Copy<T: Float> {
    q: Tensor<T>,
    k: Tensor<T>,
    v: Tensor<T>,
    o: Tensor<T>,
}

/// What all launches share: the bounds of packed sequences, and the table of pages.
struct Lists {
    bounds: Tensor<i32>,
    pages: Tensor<i32>,
}

fn prepared<T: Float + Sample>(shape: &Shape, stream: &Stream, copies: usize) -> Result<Prepared> {
    let [of_q, of_k] = [shape.extents_q(), shape.extents_k()];
    let q = normal_copies::<T>(stream, &of_q, 1, copies)?;
    let k = normal_copies::<T>(stream, &of_k, 2, copies)?;
    let v = normal_copies::<T>(stream, &of_k, 3, copies)?;
    let o = unwritten_copies::<T>(stream, &of_q, copies)?;
    let mut prepared = Prepared::new();
    for (name, copies) in [("q", &q), ("k", &k), ("v", &v)] {
        prepared.operand(name, copies);
    }
    prepared.answer("o", &o[0], stream)?;
    let mut bounds = vec![0];
    for &seqlen in &shape.seqlens {
        bounds.push(bounds.last().copied().unwrap_or(0) + seqlen as i32);
    }
    let bounds = Tensor::from_slice(stream.device(), &[bounds.len()], &bounds)?;
    prepared.operand("cu_seqlens", std::slice::from_ref(&bounds));
    let (extents, table) = shape.table();
    let pages = Tensor::from_slice(stream.device(), &extents, &table)?;
    if shape.page_size.is_some() {
        prepared.operand("pages", std::slice::from_ref(&pages));
    }
    let lists = Lists { bounds, pages };
    let operands = q.into_iter().zip(k).zip(v).zip(o);
    let operands: Vec<Copy<T>> = operands
        .map(|(((q, k), v), o)| Copy { q, k, v, o })
        .collect();
    let plan = attention(shape, &operands[0], &lists).plan_into(&operands[0].o, stream)?;
    let begin = shape.kernel.as_deref();
    let kernel = begin.map(|begin| {
        let mut candidates = plan.candidates().iter();
        let found = candidates.find(|candidate| candidate.name.starts_with(begin));
        // An unknown name is refused when it is launched, with a list of the known ones.
        found.map_or(begin.to_owned(), |candidate| candidate.name.clone())
    });
    let chosen = plan.chosen().map(|candidate| candidate.name.clone());
    let (shape, stream) = (shape.clone(), stream.clone());
    prepared.ours(kernel.clone().or(chosen), move |copy| {
        let copy = &operands[copy];
        let attention = attention(&shape, copy, &lists);
        let attention = match &kernel {
            Some(kernel) => attention.with_kernel(kernel),
            None => attention,
        };
        Ok(attention.run_into(&copy.o, &stream)?)
    });
    Ok(prepared)
}

/// The operation as a user would write it.
fn attention<'a, T: Float>(
    shape: &Shape,
    Copy { q, k, v, .. }: &Copy<T>,
    Lists { bounds, pages }: &'a Lists,
) -> Attention<'a, T> {
    let mut attention = Attention::new(q, k, v);
    if shape.is_packed {
        let longest = shape.longest();
        attention = attention
            .cu_seqlens(bounds, bounds)
            .max_seqlens(longest, longest);
    }
    if shape.page_size.is_some() {
        attention = attention.pages(pages);
    }
    if let Some(left) = shape.window {
        attention = attention.window(left as u32, 0);
    }
    match shape.is_causal {
        true => attention.causal(),
        false => attention,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_as_one_by_one() {
        for seqlen in [1, 2, 7, 30] {
            for window in [None, Some(0), Some(3), Some(40)] {
                let shape = Shape {
                    seqlens: vec![seqlen],
                    window,
                    ..Shape::square(64, 512, true)
                };
                let of_query = |query: usize| query.min(window.unwrap_or(query)) + 1;
                let pairs: usize = (0..seqlen).map(of_query).sum();
                assert_eq!(shape.visible(), pairs as f64, "{seqlen} {window:?}");
            }
        }
        assert_eq!(Shape::square(64, 512, false).visible(), 512.0 * 16_384.0);
    }

    #[test]
    fn few_queries_read_all_keys() {
        let shape = Shape::decode(64, 4, (16, 2048));
        assert_eq!(shape.name(), "full/d128/h64x8/b16/q4/s2048");
        assert_eq!(shape.visible(), 16.0 * 4.0 * 2048.0);
        let bytes = 2.0 * 128.0 * 2.0 * 16.0 * (4.0 * 64.0 + 2048.0 * 8.0);
        assert_eq!(shape.work::<bf16>().bytes, bytes);
    }

    #[test]
    fn each_page_is_of_one_sequence() {
        for shape in shapes("paged") {
            let ([_, pages], mut table) = shape.table();
            assert_eq!(shape.page_size.unwrap_or(0) * pages, shape.longest());
            table.sort_unstable();
            assert!((0..).zip(&table).all(|(idx, &page)| idx == page));
        }
    }

    #[test]
    fn prompts_fill_a_batch() {
        assert_eq!(PROMPTS.iter().sum::<usize>(), POSITIONS);
    }
}
