//! A paged cache of keys and values.

mod append;
mod pages;
mod write;

pub use append::KvAppend;
pub use write::KvWrite;

use self::pages::Pages;
use crate::error::named;
use crate::launch::KernelArg;
use crate::ops::attention::call::Memory;
use crate::ops::check;
use crate::{ArgumentError, E4m3, Element, Error, Float, Result, Stream, Tensor};
use abi::kv_append::KvAppendScales;
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// The operation's name in errors.
const NAME: &str = "kv_cache";

/// A cache of the keys and values of many sequences, in pages: attention reads them where they are.
///
/// | what | shape | dtype |
/// |---|---|---|
/// | keys of a layer | `[pages, page_size, heads_kv, head_dim]` | f32, f16, bf16, or [e4m3](Self::e4m3) |
/// | values of a layer | `[pages, page_size, heads_kv, head_dim_v]` | the same |
///
/// All layers have the same sequences and pages. A sequence is a list of pages and a length. A step of
/// a model has three parts:
///
/// 1. [`append`](Self::append) reserves positions of some sequences, and uploads their places and the
///    tables of pages.
/// 2. In each layer [`KvAppend::write`] writes keys and values there. It turns keys by their
///    positions in the same launch, if [`rotary`](KvWrite::rotary) is set.
/// 3. In each layer [`KvAppend::attention`] is the attention of the new queries to all keys of
///    their sequences.
///
/// # Shared pages
/// [`fork`](Self::fork) makes a sequence that begins with the keys of another one. It shares their
/// pages and copies nothing. Pages are counted: a page is free again after its last sequence is
/// [evicted](Self::evict). When a sequence appends to a page that is not full and that others have too,
/// `append` copies this page first, in all layers (two launches a layer). So no sequence sees what
/// another one appends.
///
/// # Errors
/// [`ArgumentError::OutOfPages`]: too few free pages; then nothing is reserved.
/// [`ArgumentError::UnknownSequence`]: a sequence that was never there, or is evicted. Also
/// [`ShapeError::Mismatch`](crate::ShapeError::Mismatch),
/// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) (a layer that is not there, a length
/// beyond the sequence's), [`ArgumentError::Value`] (an extent of 0, a sequence that is named twice) and
/// [`Error::Device`]. Keys and values of another dtype do not compile.
///
/// # Async
/// Launches are enqueued on `stream`. The cache itself (lengths, pages) changes at once, on the host. All
/// steps of a cache belong on one stream, or on streams that wait for each other.
///
/// # Gradients
/// There are none through a cache: [`AttentionGrad`](crate::AttentionGrad) refuses pages.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{Device, KvCache, KvCacheShape, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let shape = KvCacheShape { layers: 1, pages: 8, page_size: 4, heads_kv: 1, head_dim: 8, head_dim_v: 8 };
/// let mut cache = KvCache::<f32>::new(&stream, shape)?;
///
/// // A prompt of five tokens: two pages.
/// let prompt = cache.insert();
/// let kv = Tensor::full(&stream, &[5, 1, 8], 0.25_f32)?;
/// let step = cache.append(&[(prompt, 5)], &stream)?;
/// step.write(0, &kv, &kv).run(&stream)?;
/// let o = step.attention(0, &Tensor::full(&stream, &[1, 5, 2, 8], 1.0_f32)?)?.run(&stream)?;
/// assert_eq!(o.to_vec()?, [0.25; 80]);
///
/// // Two continuations share it. The second to append gets a copy of the page that is not full.
/// let other = cache.fork(prompt)?;
/// assert_eq!(cache.free_pages(), 6);
/// let step = cache.append(&[(prompt, 1), (other, 1)], &stream)?;
/// let new = Tensor::full(&stream, &[2, 1, 8], 0.25_f32)?;
/// step.write(0, &new, &new).run(&stream)?;
/// let q = Tensor::full(&stream, &[2, 1, 2, 8], 1.0_f32)?;
/// assert_eq!(step.attention(0, &q)?.run(&stream)?.shape(), [2, 1, 2, 8]);
/// assert_eq!((cache.sequence_len(other)?, cache.free_pages()), (6, 5));
/// assert_eq!(cache.evict(prompt)?, 1);
///
/// // In e4m3, half the memory of bf16: with a factor for keys and one for values.
/// let shape = KvCacheShape { page_size: 16, head_dim: 64, head_dim_v: 64, ..shape };
/// let scale = Tensor::full(&stream, &[1], 0.125_f32)?;
/// let mut cache = KvCache::<half::bf16, _>::e4m3(&stream, shape, &[[&scale, &scale]])?;
/// let prompt = cache.insert();
/// let step = cache.append(&[(prompt, 5)], &stream)?;
/// let kv = Tensor::full(&stream, &[5, 1, 64], half::bf16::ONE)?;
/// step.write(0, &kv, &kv).run(&stream)?;
/// assert_eq!(step.attention(0, &kv)?.run(&stream)?.to_vec()?, [half::bf16::ONE; 320]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct KvCache<T: Float, S: Element = T> {
    shape: KvCacheShape,
    /// Keys and values of each layer.
    layers: Vec<[Tensor<S>; 2]>,
    /// Factors of keys and values of each layer, in e4m3 alone.
    scales: Vec<[Tensor<f32>; 2]>,
    pages: Pages,
    sequences: BTreeMap<SequenceId, Sequence>,
    /// The number of the next sequence.
    next: u64,
    /// Of the tokens.
    tokens: PhantomData<T>,
}

/// The extents of a [`KvCache`], all at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KvCacheShape {
    /// Layers, each with keys and values of its own.
    pub layers: usize,
    /// Pages of each layer.
    pub pages: usize,
    /// Positions of a page. Multiples of 16 are fastest: see [`Attention`](crate::Attention).
    pub page_size: usize,
    /// Heads of keys and values.
    pub heads_kv: usize,
    /// Elements of a key.
    pub head_dim: usize,
    /// Elements of a value.
    pub head_dim_v: usize,
}

/// A sequence of a [`KvCache`]. It is never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId(u64);

/// A sequence's keys.
#[derive(Clone, Debug, Default)]
struct Sequence {
    /// Pages in order.
    pages: Vec<u32>,
    /// Positions in use.
    len: usize,
}

impl<T: Float> KvCache<T> {
    /// An empty cache on the stream's device: `2 * layers * pages * page_size` rows of memory.
    ///
    /// # Errors
    /// See [`KvCache`].
    pub fn new(stream: &Stream, shape: KvCacheShape) -> Result<Self> {
        named(NAME, || Self::of(stream, shape, Vec::new()))
    }
}

impl<T: Float> KvCache<T, E4m3> {
    /// The same in e4m3, for f16 and bf16. `scales` has the factors of keys and values of each layer, in
    /// device memory: one element, or `[heads_kv]`. Written elements are divided by them, rounded to
    /// nearest, and saturates at ±448; attention multiplies by them.
    ///
    /// # Errors
    /// See [`KvCache`].
    pub fn e4m3(
        stream: &Stream,
        shape: KvCacheShape,
        scales: &[[&Tensor<f32>; 2]],
    ) -> Result<Self> {
        named(NAME, || {
            if scales.len() != shape.layers {
                return Err(Error::length("scales", scales.len(), shape.layers));
            }
            let mut dense = Vec::new();
            for of_layer in scales {
                for scale in of_layer {
                    check::device("scales", scale, stream)?;
                    if !matches!(*scale.shape(), [] | [1]) && *scale.shape() != [shape.heads_kv] {
                        let want = format!("one element, or [{}]", shape.heads_kv);
                        return Err(check::shape_mismatch("scales", scale, want));
                    }
                }
                dense.push([
                    of_layer[0]
                        .contiguous(stream)?
                        .reshape(&[of_layer[0].len()])?,
                    of_layer[1]
                        .contiguous(stream)?
                        .reshape(&[of_layer[1].len()])?,
                ]);
            }
            Self::of(stream, shape, dense)
        })
    }
}

impl<T: Float, S: Element> KvCache<T, S> {
    fn of(stream: &Stream, shape: KvCacheShape, scales: Vec<[Tensor<f32>; 2]>) -> Result<Self> {
        let KvCacheShape {
            layers,
            pages,
            page_size,
            heads_kv,
            head_dim,
            head_dim_v,
        } = shape;
        for (what, extent) in [
            ("layers", layers),
            ("pages", pages),
            ("page_size", page_size),
            ("heads_kv", heads_kv),
            ("head_dim", head_dim),
            ("head_dim_v", head_dim_v),
        ] {
            if extent == 0 {
                return Err(Error::value(what, "0", "at least 1"));
            }
        }
        // A row's number is an i32.
        let rows = pages.saturating_mul(page_size) as u64;
        if rows > MOST_ROWS {
            return Err(Error::out_of_bounds(
                "pages * page_size",
                rows,
                MOST_ROWS + 1,
            ));
        }
        let pool = |d: usize| Tensor::zeros(stream, &[pages, page_size, heads_kv, d]);
        let layers = (0..layers).map(|_| Ok([pool(head_dim)?, pool(head_dim_v)?]));
        Ok(Self {
            shape,
            layers: layers.collect::<Result<_>>()?,
            pages: Pages::new(check::extent("pages", pages)?),
            sequences: BTreeMap::new(),
            next: 0,
            scales,
            tokens: PhantomData,
        })
    }

    /// What a launch that writes into a layer gets of its factors.
    fn append_scales(&self, layer: usize, stream: &Stream) -> Result<Option<KvAppendScales>> {
        let Some(of_layer) = self.scales.get(layer) else {
            return Ok(None);
        };
        let [(k, of_k), (v, of_v)] = of_layer.each_ref().map(|scale| {
            let address = scale.device_ptr().as_raw() as usize;
            (
                std::ptr::with_exposed_provenance(address),
                u32::from(scale.len() > 1),
            )
        });
        for scale in of_layer {
            (&Memory::of(scale)).use_on(stream)?;
        }
        let strides = [of_k, of_v];
        Ok(Some(KvAppendScales { k, v, strides }))
    }

    /// Its extents.
    pub fn shape(&self) -> KvCacheShape {
        self.shape
    }

    /// Pages that no sequence has.
    pub fn free_pages(&self) -> usize {
        self.pages.free()
    }

    /// The sequences that are there, the oldest first.
    pub fn sequences(&self) -> impl Iterator<Item = SequenceId> {
        self.sequences.keys().copied()
    }

    /// Positions of a sequence that are in use.
    ///
    /// # Errors
    /// [`ArgumentError::UnknownSequence`].
    pub fn sequence_len(&self, sequence: SequenceId) -> Result<usize> {
        named(NAME, || Ok(self.sequence(sequence)?.len))
    }

    /// A new sequence without keys.
    pub fn insert(&mut self) -> SequenceId {
        self.added(Sequence::default())
    }

    /// A new sequence that begins with all keys of `parent`, in the same pages.
    ///
    /// # Errors
    /// [`ArgumentError::UnknownSequence`].
    pub fn fork(&mut self, parent: SequenceId) -> Result<SequenceId> {
        let len = self.sequence_len(parent)?;
        self.fork_prefix(parent, len)
    }

    /// A new sequence that begins with the first `len` keys of `parent`, in the same pages.
    ///
    /// # Errors
    /// [`ArgumentError::UnknownSequence`], and
    /// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) for more keys than there are.
    pub fn fork_prefix(&mut self, parent: SequenceId, len: usize) -> Result<SequenceId> {
        named(NAME, || {
            let from = self.sequence(parent)?;
            from.check_len(len)?;
            let pages = from.pages[..len.div_ceil(self.shape.page_size)].to_vec();
            pages.iter().for_each(|&page| self.pages.share(page));
            Ok(self.added(Sequence { pages, len }))
        })
    }

    /// Forgets the keys of a sequence from position `len` on, such as those of tokens that were not
    /// accepted. Returns the number of pages that became free.
    ///
    /// # Errors
    /// As [`fork_prefix`](Self::fork_prefix).
    pub fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<usize> {
        named(NAME, || {
            let page_size = self.shape.page_size;
            let of = self.sequence_mut(sequence)?;
            of.check_len(len)?;
            of.len = len;
            let left_over = of.pages.split_off(len.div_ceil(page_size));
            Ok(self.released(left_over))
        })
    }

    /// Removes a sequence. Returns the number of pages that became free: those that no other one has.
    ///
    /// # Errors
    /// [`ArgumentError::UnknownSequence`].
    pub fn evict(&mut self, sequence: SequenceId) -> Result<usize> {
        named(NAME, || {
            let evicted = self.sequences.remove(&sequence);
            let evicted = evicted.ok_or_else(|| sequence.unknown())?;
            Ok(self.released(evicted.pages))
        })
    }

    /// Reserves so many positions behind each of these sequences. Pages that others have too are copied
    /// where positions of them are reserved. The sequences of a step are in this order in its tensors.
    ///
    /// A sequence may get no position: its keys are attended to, and nothing is written. Until
    /// [`KvAppend::write`] has written the positions, keys there are not defined.
    ///
    /// # Errors
    /// See [`KvCache`].
    pub fn append(
        &mut self,
        sequences: &[(SequenceId, usize)],
        stream: &Stream,
    ) -> Result<KvAppend<'_, T, S>> {
        named(NAME, || {
            self.reserve(sequences, stream)?;
            KvAppend::new(self, sequences, stream)
        })
    }

    fn reserve(&mut self, sequences: &[(SequenceId, usize)], stream: &Stream) -> Result<()> {
        check::device("cache", &self.layers[0][0], stream)?;
        self.check_reserved(sequences)?;
        for &(id, count) in sequences {
            let page_size = self.shape.page_size;
            let Some(Sequence { pages, len }) = self.sequences.get_mut(&id) else {
                return Err(id.unknown());
            };
            let end = *len + count;
            let begun = (count > 0 && *len % page_size != 0).then_some(*len / page_size);
            if let Some(shared) = begun.filter(|&at| self.pages.owners(pages[at]) > 1) {
                let (from, to) = (pages[shared], self.pages.take()?);
                let used = *len % page_size;
                let page = |pool: &Tensor<S>, page: u32| {
                    pool.index_axis(0, page as usize)?.slice(0, ..used)
                };
                for pool in self.layers.iter().flatten() {
                    page(pool, to)?.assign(&page(pool, from)?, stream)?;
                }
                self.pages.release(from);
                pages[shared] = to;
            }
            while pages.len() * page_size < end {
                pages.push(self.pages.take()?);
            }
            *len = end;
        }
        Ok(())
    }

    /// Checks that all positions can be reserved, before any is.
    fn check_reserved(&self, sequences: &[(SequenceId, usize)]) -> Result<()> {
        let page_size = self.shape.page_size;
        let mut seen = BTreeMap::new();
        // Of shared pages that are copied, how many sequences have left them.
        let mut left = BTreeMap::<u32, u32>::new();
        let mut want = 0;
        for &(id, count) in sequences {
            if seen.insert(id, ()).is_some() {
                return Err(Error::value(
                    "sequences",
                    format!("sequence {} twice", id.0),
                    "each once",
                ));
            }
            let Sequence { pages, len } = self.sequence(id)?;
            let end = len.saturating_add(count).div_ceil(page_size);
            want += end.saturating_sub(pages.len());
            if count > 0 && len % page_size != 0 {
                let page = pages[len / page_size];
                let gone = left.entry(page).or_default();
                if self.pages.owners(page) - *gone > 1 {
                    *gone += 1;
                    want += 1;
                }
            }
        }
        self.pages.check_free(want)
    }

    fn added(&mut self, sequence: Sequence) -> SequenceId {
        let id = SequenceId(self.next);
        self.next += 1;
        self.sequences.insert(id, sequence);
        id
    }

    /// Takes pages from one sequence; how many of them became free.
    fn released(&mut self, pages: Vec<u32>) -> usize {
        let before = self.pages.free();
        pages.into_iter().for_each(|page| self.pages.release(page));
        self.pages.free() - before
    }

    fn sequence(&self, id: SequenceId) -> Result<&Sequence> {
        self.sequences.get(&id).ok_or_else(|| id.unknown())
    }

    fn sequence_mut(&mut self, id: SequenceId) -> Result<&mut Sequence> {
        self.sequences.get_mut(&id).ok_or_else(|| id.unknown())
    }
}

impl SequenceId {
    #[cold]
    fn unknown(self) -> Error {
        ArgumentError::UnknownSequence { sequence: self.0 }.into()
    }
}

impl Sequence {
    fn check_len(&self, len: usize) -> Result<()> {
        match len <= self.len {
            true => Ok(()),
            false => Err(Error::out_of_bounds(
                "length of a sequence",
                len as u64,
                self.len as u64 + 1,
            )),
        }
    }
}

/// Most rows of a pool: their numbers are an i32.
const MOST_ROWS: u64 = i32::MAX as u64;
