//! Generation with prefixes that are forked, truncated and evicted at random.
//!
//! The model is attention alone: a token's query, key and value are random numbers of the token, and the
//! next token is a hash of the bits of the result. So a single bit that differs from full attention
//! gives other tokens.

use half::bf16;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use warpsmith::{
    Attention, Device, Float, KvCache, KvCacheShape, Result, Rotary, SequenceId, Stream, Tensor,
};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::on_every_device;
use warpsmith_tests::values::Values;

const VOCABULARY: usize = 61;
const HEADS: usize = 4;
const HEADS_KV: usize = 2;

/// The random numbers of each token, and the tables of the rotation.
struct Model<T: Float> {
    q: Vec<T>,
    k: Vec<T>,
    v: Vec<T>,
    cos: Tensor<f32>,
    sin: Tensor<f32>,
    head_dim: usize,
}

/// A sequence of the cache.
#[derive(Clone)]
struct Track {
    id: SequenceId,
    tokens: Vec<usize>,
    /// Of each token that is in the cache, the hash of its result.
    hashes: Vec<u64>,
}

impl<T: Float + TestElement> Model<T> {
    fn new(device: &Device, head_dim: usize, longest: usize) -> Result<Self> {
        let draw = |heads: usize, seed| {
            let values = Values::Normal.draw(&[VOCABULARY * heads * head_dim], seed);
            values.iter().map(|&x| T::nearest(x)).collect::<Vec<T>>()
        };
        let half = head_dim / 2;
        let angle = |at: usize| {
            let frequency = 10_000_f32.powf(-((at % half) as f32) / half as f32);
            (at / half) as f32 * frequency
        };
        let table = |of: fn(f32) -> f32| {
            let values: Vec<f32> = (0..longest * half).map(|at| of(angle(at))).collect();
            Tensor::from_slice(device, &[longest, half], &values)
        };
        Ok(Self {
            q: draw(HEADS, 1),
            k: draw(HEADS_KV, 2),
            v: draw(HEADS_KV, 3),
            cos: table(f32::cos)?,
            sin: table(f32::sin)?,
            head_dim,
        })
    }

    /// Queries, keys and values of these tokens, `[tokens, heads, head_dim]`, not turned.
    fn embed(&self, device: &Device, tokens: &[usize]) -> Result<[Tensor<T>; 3]> {
        let of = |table: &[T], heads: usize| {
            let len = heads * self.head_dim;
            let rows = tokens
                .iter()
                .flat_map(|&token| &table[token * len..][..len]);
            let rows: Vec<T> = rows.copied().collect();
            Tensor::from_slice(device, &[tokens.len(), heads, self.head_dim], &rows)
        };
        Ok([
            of(&self.q, HEADS)?,
            of(&self.k, HEADS_KV)?,
            of(&self.v, HEADS_KV)?,
        ])
    }

    /// The hash of each token's result.
    fn hashes(&self, o: &Tensor<T>) -> Result<Vec<u64>> {
        let hash = |row: &[T]| {
            row.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, x| {
                (hash ^ x.bits()).wrapping_mul(0x0100_0000_01b3)
            })
        };
        let values = o.to_vec()?;
        Ok(values.chunks(HEADS * self.head_dim).map(hash).collect())
    }

    /// Puts the tokens of these sequences that are not in the cache yet into it, and adds the next one.
    fn step(
        &self,
        cache: &mut KvCache<T>,
        tracks: &mut [&mut Track],
        stream: &Stream,
    ) -> Result<()> {
        let new = |track: &Track| track.tokens[track.hashes.len()..].to_vec();
        let counts: Vec<_> = tracks
            .iter()
            .map(|track| (track.id, new(track).len()))
            .collect();
        let tokens: Vec<usize> = tracks.iter().flat_map(|track| new(track)).collect();
        let step = cache.append(&counts, stream)?;
        let [q, k, v] = self.embed(stream.device(), &tokens)?;
        step.write(0, &k, &v)
            .rotary(&self.cos, &self.sin)
            .run(stream)?;
        let q = Rotary::new(&q, &self.cos, &self.sin)
            .positions(step.positions())
            .run(stream)?;
        let attention = step.attention(0, &q)?.batch_invariant(true);
        let mut hashes = self.hashes(&attention.run(stream)?)?.into_iter();
        for (track, (_, count)) in tracks.iter_mut().zip(counts) {
            track.hashes.extend(hashes.by_ref().take(count));
            let last = track.hashes.last().copied().unwrap_or(0);
            track.tokens.push((last % VOCABULARY as u64) as usize);
        }
        Ok(())
    }

    /// The hashes of all tokens by attention without a cache.
    fn by_full_attention(&self, tokens: &[usize], stream: &Stream) -> Result<Vec<u64>> {
        let [q, k, v] = self.embed(stream.device(), tokens)?;
        let turned = |x: &Tensor<T>| Rotary::new(x, &self.cos, &self.sin).run(stream);
        let (q, k) = (turned(&q)?, turned(&k)?);
        let all = [0, tokens.len() as i32];
        let attention = Attention::new(&q, &k, &v).causal().cu_seqlens(&all, &all);
        self.hashes(&attention.batch_invariant(true).run(stream)?)
    }

    /// The same as the prompt of a new sequence.
    fn as_prompt(
        &self,
        cache: &mut KvCache<T>,
        tokens: &[usize],
        stream: &Stream,
    ) -> Result<Vec<u64>> {
        let mut prompt = Track {
            id: cache.insert(),
            tokens: tokens.to_vec(),
            hashes: Vec::new(),
        };
        self.step(cache, &mut [&mut prompt], stream)?;
        cache.evict(prompt.id)?;
        Ok(prompt.hashes)
    }
}

/// What full attention is compared by.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// Attention to keys that are not paged.
    Dense,
    /// All tokens as one prompt, whose kernel is that of the steps.
    Prompt,
}

/// Generates `count` tokens in all, and compares every sequence that ends.
fn generate<T: Float + TestElement>(
    stream: &Stream,
    head_dim: usize,
    (count, by): (usize, By),
    seed: u64,
) -> Result<()> {
    let shape = KvCacheShape {
        layers: 1,
        pages: 64,
        page_size: 16,
        heads_kv: HEADS_KV,
        head_dim,
        head_dim_v: head_dim,
    };
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let model = Model::<T>::new(stream.device(), head_dim, 1024)?;
    let mut cache = KvCache::<T>::new(stream, shape)?;
    let mut tracks: Vec<Track> = Vec::new();
    let compare = |cache: &mut KvCache<T>, track: &Track| -> Result<()> {
        let tokens = &track.tokens[..track.hashes.len()];
        let want = match by {
            By::Dense => model.by_full_attention(tokens, stream)?,
            By::Prompt => model.as_prompt(cache, tokens, stream)?,
        };
        assert_eq!(track.hashes, want, "{} tokens", tokens.len());
        Ok(())
    };
    let mut generated = 0;
    while generated < count {
        if tracks.len() < 2 || rng.random_ratio(1, 40) {
            let prompt = (0..rng.random_range(1..40)).map(|_| rng.random_range(0..VOCABULARY));
            tracks.push(Track {
                id: cache.insert(),
                tokens: prompt.collect(),
                hashes: Vec::new(),
            });
        }
        let at = rng.random_range(0..tracks.len());
        let known = tracks[at].hashes.len();
        match rng.random_range(0..40) {
            0 if known > 0 => {
                let id = cache.fork(tracks[at].id)?;
                // Another continuation.
                let mut track = Track {
                    id,
                    ..tracks[at].clone()
                };
                if let Some(last) = track.tokens.last_mut() {
                    *last = (*last + 1) % VOCABULARY;
                }
                tracks.push(track);
            }
            1 if known > 0 => {
                let len = rng.random_range(0..known);
                let id = cache.fork_prefix(tracks[at].id, len)?;
                let mut tokens = tracks[at].tokens[..len].to_vec();
                tokens.push(rng.random_range(0..VOCABULARY));
                let hashes = tracks[at].hashes[..len].to_vec();
                tracks.push(Track { id, tokens, hashes });
            }
            2 if known > 4 => {
                let len = known - rng.random_range(1..4);
                cache.truncate(tracks[at].id, len)?;
                tracks[at].tokens.truncate(len + 1);
                tracks[at].hashes.truncate(len);
            }
            _ => {}
        }
        if tracks.len() > 5 || cache.free_pages() < 24 {
            let track = tracks.swap_remove(rng.random_range(0..tracks.len()));
            compare(&mut cache, &track)?;
            cache.evict(track.id)?;
            continue;
        }
        let mut chosen: Vec<&mut Track> = tracks.iter_mut().collect();
        chosen.retain(|_| rng.random_ratio(3, 4));
        generated += chosen.len();
        model.step(&mut cache, &mut chosen, stream)?;
    }
    for track in tracks {
        compare(&mut cache, &track)?;
        cache.evict(track.id)?;
    }
    assert_eq!(cache.free_pages(), shape.pages, "every page is free again");
    Ok(())
}

#[test]
fn a_thousand_tokens_by_the_cache_are_those_of_full_attention() {
    on_every_device(|_, stream| {
        generate::<f32>(stream, 8, (1000, By::Dense), 1).expect("f32");
    });
}

#[test]
fn tokens_of_bf16_by_the_cache_are_those_of_the_same_prompts() {
    on_every_device(|_, stream| {
        generate::<bf16>(stream, 64, (300, By::Prompt), 2).expect("bf16");
    });
}
