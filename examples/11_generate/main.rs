//! Generation with a paged cache of keys and values: a prompt, two continuations that share its pages,
//! and a proof that the cache changes nothing. The model is a transformer of two layers with random
//! weights. All operations are batch-invariant, so one pass over a whole sequence without a cache has
//! the same logits, bit for bit, as the steps that made it.
//!
//! ```text
//! cargo run --release --example 11_generate
//! ```

use anyhow::{Result, ensure};
use warpsmith::{
    Activation, Attention, Device, Gemm, KvCache, KvCacheShape, RmsNorm, Rotary, SequenceId,
    Stream, Take, Tensor, ops,
};

const VOCABULARY: usize = 48;
const WIDTH: usize = 32;
const HEADS: usize = 4;
const HEADS_KV: usize = 2;
const HEAD_DIM: usize = 8;
const LAYERS: usize = 2;
const LONGEST: usize = 64;

/// The weights of a layer, `[inputs, outputs]`.
struct Layer {
    q: Tensor<f32>,
    k: Tensor<f32>,
    v: Tensor<f32>,
    o: Tensor<f32>,
    up: Tensor<f32>,
    down: Tensor<f32>,
}

struct Model {
    embeddings: Tensor<f32>,
    layers: Vec<Layer>,
    cos: Tensor<f32>,
    sin: Tensor<f32>,
}

/// `x @ weights`, whose rows do not depend on each other.
fn product(x: &Tensor<f32>, weights: &Tensor<f32>, stream: &Stream) -> Result<Tensor<f32>> {
    Ok(Gemm::new(x, weights).batch_invariant(true).run(stream)?)
}

fn normalized(x: &Tensor<f32>, stream: &Stream) -> Result<Tensor<f32>> {
    Ok(RmsNorm::new(x).batch_invariant(true).run(stream)?)
}

impl Model {
    fn random(device: &Device) -> Result<Self> {
        let mut state = 1_u64;
        let mut draw = |rows: usize, columns: usize| {
            let scale = 2.0 / (rows as f32).sqrt();
            let mut next = || {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                ((state >> 40) as f32 / (1 << 24) as f32 - 0.5) * scale
            };
            let values: Vec<f32> = (0..rows * columns).map(|_| next()).collect();
            Tensor::from_slice(device, &[rows, columns], &values)
        };
        let embeddings = draw(VOCABULARY, WIDTH)?;
        let mut layer = || -> Result<Layer> {
            Ok(Layer {
                q: draw(WIDTH, HEADS * HEAD_DIM)?,
                k: draw(WIDTH, HEADS_KV * HEAD_DIM)?,
                v: draw(WIDTH, HEADS_KV * HEAD_DIM)?,
                o: draw(HEADS * HEAD_DIM, WIDTH)?,
                up: draw(WIDTH, 2 * WIDTH)?,
                down: draw(2 * WIDTH, WIDTH)?,
            })
        };
        let layers = (0..LAYERS).map(|_| layer()).collect::<Result<_>>()?;
        let half = HEAD_DIM / 2;
        let table = |of: fn(f32) -> f32| {
            let angle =
                |at: usize| (at / half) as f32 * 100_f32.powf(-((at % half) as f32) / half as f32);
            let values: Vec<f32> = (0..LONGEST * half).map(|at| of(angle(at))).collect();
            Tensor::from_slice(device, &[LONGEST, half], &values)
        };
        Ok(Self {
            embeddings,
            layers,
            cos: table(f32::cos)?,
            sin: table(f32::sin)?,
        })
    }

    /// The logits of tokens, whose attention in layer `i` is `attend(i, q, k, v)`, with heads that are
    /// not turned.
    fn logits(
        &self,
        tokens: &[i32],
        attend: impl Fn(usize, [Tensor<f32>; 3]) -> Result<Tensor<f32>>,
        stream: &Stream,
    ) -> Result<Tensor<f32>> {
        let count = tokens.len();
        let tokens = Tensor::from_slice(stream.device(), &[count], tokens)?;
        let mut x = Take::new(&self.embeddings, &tokens).run(stream)?;
        for (idx, layer) in self.layers.iter().enumerate() {
            let h = normalized(&x, stream)?;
            let heads = |weights: &Tensor<f32>, heads: usize| -> Result<Tensor<f32>> {
                Ok(product(&h, weights, stream)?.reshape(&[count, heads, HEAD_DIM])?)
            };
            let qkv = [
                heads(&layer.q, HEADS)?,
                heads(&layer.k, HEADS_KV)?,
                heads(&layer.v, HEADS_KV)?,
            ];
            let o = attend(idx, qkv)?.reshape(&[count, HEADS * HEAD_DIM])?;
            x = ops::add(&x, &product(&o, &layer.o, stream)?, stream)?;
            let up = Gemm::new(&normalized(&x, stream)?, &layer.up)
                .activation(Activation::Silu)
                .batch_invariant(true)
                .run(stream)?;
            x = ops::add(&x, &product(&up, &layer.down, stream)?, stream)?;
        }
        product(&normalized(&x, stream)?, &self.embeddings.t(), stream)
    }

    /// One pass without a cache.
    fn by_full_attention(&self, tokens: &[i32], stream: &Stream) -> Result<Tensor<f32>> {
        let bounds = [0, tokens.len() as i32];
        let attend = |_: usize, [q, k, v]: [Tensor<f32>; 3]| -> Result<Tensor<f32>> {
            let turned = |x: &Tensor<f32>| Rotary::new(x, &self.cos, &self.sin).run(stream);
            let attention = Attention::new(&turned(&q)?, &turned(&k)?, &v);
            let attention = attention.causal().cu_seqlens(&bounds, &bounds);
            Ok(attention.batch_invariant(true).run(stream)?)
        };
        self.logits(tokens, attend, stream)
    }
}

fn main() -> Result<()> {
    let device = Device::auto()?;
    let stream = device.stream()?;
    let model = Model::random(&device)?;
    let mut cache = KvCache::<f32>::new(
        &stream,
        KvCacheShape {
            layers: LAYERS,
            pages: 12,
            page_size: 8,
            heads_kv: HEADS_KV,
            head_dim: HEAD_DIM,
            head_dim_v: HEAD_DIM,
        },
    )?;

    // Logits of the new tokens of some sequences: in each layer keys are turned and written, then all are
    // attended to.
    let step = |cache: &mut KvCache<f32>, new: &[(SequenceId, &[i32])]| -> Result<Tensor<f32>> {
        let counts: Vec<_> = new.iter().map(|(id, tokens)| (*id, tokens.len())).collect();
        let tokens: Vec<i32> = new
            .iter()
            .flat_map(|(_, tokens)| *tokens)
            .copied()
            .collect();
        let step = cache.append(&counts, &stream)?;
        let attend = |layer: usize, [q, k, v]: [Tensor<f32>; 3]| -> Result<Tensor<f32>> {
            let write = step.write(layer, &k, &v).rotary(&model.cos, &model.sin);
            write.run(&stream)?;
            let q = Rotary::new(&q, &model.cos, &model.sin).positions(step.positions());
            let attention = step.attention(layer, &q.run(&stream)?)?;
            Ok(attention.batch_invariant(true).run(&stream)?)
        };
        model.logits(&tokens, attend, &stream)
    };
    let best = |logits: &Tensor<f32>| -> Result<Vec<i32>> {
        let best = ops::argmax(logits, Some(-1), &stream)?.to_vec()?;
        Ok(best.into_iter().map(|token| token as i32).collect())
    };

    // A prompt, and a second continuation of it that begins with another token.
    let prompt: Vec<i32> = (0..13).map(|i| i * 17 % VOCABULARY as i32).collect();
    let first = cache.insert();
    let mut logits = vec![step(&mut cache, &[(first, &prompt[..])])?.to_vec()?; 2];
    let after = best(&Tensor::from_slice(&device, &[13, VOCABULARY], &logits[0])?)?[12];
    let second = cache.fork(first)?;
    let other = (after + 1) % VOCABULARY as i32;
    let mut texts = [
        [&prompt[..], &[after]].concat(),
        [&prompt[..], &[other]].concat(),
    ];
    for _ in 0..20 {
        let [a, b] = [0, 1].map(|i| *texts[i].last().unwrap_or(&0));
        let new = step(&mut cache, &[(first, &[a][..]), (second, &[b][..])])?;
        for (i, token) in best(&new)?.into_iter().enumerate() {
            texts[i].push(token);
            logits[i].extend(new.index_axis(0, i)?.to_vec()?);
        }
    }
    let pages = 12 - cache.free_pages();
    for (text, logits) in texts.iter().zip(&logits) {
        // The last token is not in the cache yet.
        let full = model.by_full_attention(&text[..text.len() - 1], &stream)?;
        ensure!(full.to_vec()? == *logits, "the cache has other logits");
        ensure!(best(&full)?[13..] == text[14..], "and other tokens");
    }
    cache.evict(first)?;
    cache.evict(second)?;
    ensure!(cache.free_pages() == 12, "a page is lost");
    println!(
        "two texts of {} tokens from {pages} pages on {device}",
        texts[0].len()
    );
    println!("{:?}", &texts[0][13..]);
    println!("{:?}", &texts[1][13..]);
    Ok(())
}
