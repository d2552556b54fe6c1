//! Misuse, which leaves the cache as it was.

use half::bf16;
use warpsmith::{AttentionGrad, KvCache, KvCacheShape, Stream, Tensor};
use warpsmith_tests::{on_every_device, refused};

use super::SHAPE;

fn zeros(stream: &Stream, shape: &[usize]) -> Tensor<f32> {
    Tensor::zeros(stream, shape).expect("a tensor")
}

#[test]
fn what_does_not_fit_is_named_with_what_would() {
    on_every_device(|_, stream| {
        let mut cache = KvCache::<f32>::new(stream, SHAPE).expect("a cache");
        let (a, b) = (cache.insert(), cache.insert());
        refused!(
            cache.append(&[(a, 30), (b, 6)], stream)
            => Argument::OutOfPages, "kv_cache: ", "7 free pages", "want 8"
        );
        assert_eq!((cache.free_pages(), cache.sequence_len(a)), (7, Ok(0)));
        refused!(
            cache.append(&[(a, 1), (a, 1)], stream)
            => Argument::Value, "sequence 0 twice"
        );
        refused!(cache.fork_prefix(a, 1) => Shape::OutOfBounds, "length of a sequence", "1");
        refused!(cache.truncate(a, 1) => Shape::OutOfBounds, "length of a sequence");
        cache.evict(a).expect("a");
        for refused in [
            cache.evict(a).map(drop),
            cache.fork(a).map(drop),
            cache.truncate(a, 0).map(drop),
            cache.sequence_len(a).map(drop),
            cache.append(&[(a, 1)], stream).map(drop),
        ] {
            refused!(refused => Argument::UnknownSequence, "kv_cache: ", "sequence 0");
        }
        let step = cache.append(&[(b, 2)], stream).expect("room");
        let (k, v) = (zeros(stream, &[2, 3, 14]), zeros(stream, &[2, 3, 9]));
        refused!(step.write(2, &k, &v).run(stream) => Shape::OutOfBounds, "layer", "2");
        refused!(step.attention(2, &k) => Shape::OutOfBounds, "layer");
        refused!(
            step.write(0, &v, &v).run(stream)
            => Shape::Mismatch, "`k`", "[2, 3, 9]", "[.., 3, 14]"
        );
        let other = zeros(stream, &[3, 3, 14]);
        refused!(
            step.write(0, &other, &v).run(stream)
            => Shape::Mismatch, "`k`", "[2, heads, head_dim]"
        );
        refused!(step.attention(0, &other) => Shape::Mismatch, "`q`", "[3, 3, 14]");
        let table = zeros(stream, &[4, 8]);
        refused!(
            step.write(0, &k, &v).rotary(&table, &table).run(stream)
            => Shape::Mismatch, "`cos`", "at most 7"
        );
        let shorter = zeros(stream, &[4, 7]);
        refused!(
            step.write(0, &k, &v).rotary(&shorter, &zeros(stream, &[3, 7])).run(stream)
            => Shape::Mismatch, "`sin`"
        );
        let none = KvCacheShape { pages: 0, ..SHAPE };
        refused!(KvCache::<bf16>::new(stream, none) => Argument::Value, "pages", "at least 1");
        let large = KvCacheShape {
            pages: 1 << 31,
            ..SHAPE
        };
        refused!(KvCache::<bf16>::new(stream, large) => Shape::OutOfBounds, "pages * page_size");
    });
}

#[test]
fn gradients_of_pages_are_refused() {
    on_every_device(|_, stream| {
        let q = zeros(stream, &[1, 2, 3, 14]);
        let pool = zeros(stream, &[4, 16, 3, 14]);
        let lse = zeros(stream, &[1, 3, 2]);
        let table = Tensor::<i32>::zeros(stream, &[1, 2]).expect("a table");
        let grad = AttentionGrad::new(&q, &pool, &pool, &q, &lse, &q).pages(&table);
        refused!(
            grad.run(stream)
            => Argument::Unsupported, "gradients of keys in pages", "Take"
        );
    });
}
