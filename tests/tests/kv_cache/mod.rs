//! `KvCache`: what it writes is what `Rotary` gives, generation with it has the bits of full attention
//! whatever is forked, truncated and evicted meanwhile, and misuse is refused.

mod generation;
mod narrow;
mod refused;

use half::{bf16, f16};
use ndarray::{ArrayD, Axis, Slice};
use warpsmith::{
    Device, Float, KvCache, KvCacheShape, ParamElement, Result, Rotary, Stream, Tensor,
};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::on_every_device;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::output::same_bits;
use warpsmith_tests::values::Values;

const SHAPE: KvCacheShape = KvCacheShape {
    layers: 2,
    pages: 7,
    page_size: 5,
    heads_kv: 3,
    head_dim: 14,
    head_dim_v: 9,
};

fn drawn<T: TestElement>(device: &Device, shape: &[usize], view: View, seed: u64) -> Tensor<T> {
    let drawn = Operand::draw(device, shape, Values::Uniform, view, seed);
    drawn.expect("an operand").tensor
}

/// Rows `first..first + len` of a pool's sequence that has these pages.
fn gathered<T: TestElement>(
    pool: &Tensor<T>,
    pages: &[usize],
    rows: std::ops::Range<usize>,
) -> ArrayD<T> {
    let pool = pool.to_ndarray().expect("a pool");
    let pages: Vec<_> = pages
        .iter()
        .map(|&page| pool.index_axis(Axis(0), page))
        .collect();
    let all = ndarray::concatenate(Axis(0), &pages).expect("pages alike");
    all.slice_axis(Axis(0), Slice::from(rows)).to_owned()
}

fn check_writes<T, C>(device: &Device, stream: &Stream) -> Result<()>
where
    T: Float + TestElement,
    C: ParamElement<T> + TestElement,
{
    for (view, half, is_interleaved) in [
        (View::Contiguous, 7, false),
        (View::Padded, 3, true),
        (View::Sliced, 5, false),
        (View::Transposed, 7, true),
    ] {
        let mut cache = KvCache::<T>::new(stream, SHAPE)?;
        let (a, b) = (cache.insert(), cache.insert());
        let [cos, sin] = [1, 2].map(|seed| drawn::<C>(device, &[20, half], view, seed));
        let turned = |k: &Tensor<T>, first: usize| {
            let rotary = Rotary::new(k, &cos, &sin).offset(first);
            match is_interleaved {
                true => rotary.interleaved().run(stream),
                false => rotary.run(stream),
            }
        };
        // Two steps of both sequences: 4 and 8 tokens, then 3 and 0.
        for (counts, firsts, pages) in [
            ([4, 8], [0, 0], [vec![0], vec![1, 2]]),
            ([3, 0], [4, 8], [vec![0, 3], vec![1, 2]]),
        ] {
            let tokens = counts[0] + counts[1];
            let k = drawn::<T>(device, &[tokens, 3, 14], view, 3);
            let v = drawn::<T>(device, &[tokens, 3, 9], view, 4);
            let step = cache.append(&[(a, counts[0]), (b, counts[1])], stream)?;
            assert_eq!(
                (step.tokens(), step.cu_seqlens()[1]),
                (tokens, counts[0] as i32)
            );
            let write = step.write(1, &k, &v).rotary(&cos, &sin);
            match is_interleaved {
                true => write.interleaved().run(stream)?,
                false => write.run(stream)?,
            }
            let [pool_k, pool_v] = step.pools(1)?;
            let mut first = 0;
            for i in 0..2 {
                let of = first..first + counts[i];
                let rows = firsts[i]..firsts[i] + counts[i];
                first += counts[i];
                if of.is_empty() {
                    continue;
                }
                let want = turned(&k.slice(0, of.clone())?, firsts[i])?.to_ndarray()?;
                let got = gathered(pool_k, &pages[i], rows.clone());
                same_bits(&got, &want).expect("keys");
                let want = v.slice(0, of)?.to_ndarray()?;
                same_bits(&gathered(pool_v, &pages[i], rows), &want).expect("values");
            }
        }
        // Without tables: copies, also of tokens that lie by sequences.
        let (k, v) = (
            drawn::<T>(device, &[2, 2, 3, 14], view, 5),
            drawn::<T>(device, &[2, 2, 3, 9], view, 6),
        );
        let step = cache.append(&[(a, 2), (b, 2)], stream)?;
        step.write(0, &k, &v).run(stream)?;
        let [pool_k, _] = step.pools(0)?;
        let want = k.index_axis(0, 1)?.to_ndarray()?;
        same_bits(&gathered(pool_k, &[1, 2], 8..10), &want).expect("copied keys");
    }
    Ok(())
}

#[test]
fn keys_are_written_as_rotary_turns_them_and_values_as_they_are() {
    on_every_device(|device, stream| {
        check_writes::<f32, f32>(device, stream).expect("f32");
        check_writes::<f16, f32>(device, stream).expect("f16");
        check_writes::<f16, f16>(device, stream).expect("f16 by f16");
        check_writes::<bf16, f32>(device, stream).expect("bf16");
        check_writes::<bf16, bf16>(device, stream).expect("bf16 by bf16");
    });
}

#[test]
fn positions_beyond_the_tables_are_nan() {
    on_every_device(|device, stream| {
        let mut cache = KvCache::<f32>::new(stream, SHAPE).expect("a cache");
        let a = cache.insert();
        let table = Tensor::full(stream, &[2, 7], 0.5_f32).expect("a table");
        let (k, v) = (
            drawn::<f32>(device, &[3, 3, 14], View::Contiguous, 1),
            drawn::<f32>(device, &[3, 3, 9], View::Contiguous, 2),
        );
        let step = cache.append(&[(a, 3)], stream).expect("room");
        let write = step.write(0, &k, &v).rotary(&table, &table);
        write.run(stream).expect("a launch");
        let [pool, _] = step.pools(0).expect("a layer");
        let keys = gathered(pool, &[0], 0..3);
        let nan = |at: usize| keys.index_axis(Axis(0), at).iter().all(|x| x.is_nan());
        assert!(!nan(0) && !nan(1) && nan(2));
    });
}

#[test]
fn a_forked_page_is_copied_before_another_sequence_writes_to_it() {
    on_every_device(|device, stream| {
        let mut cache = KvCache::<f32>::new(stream, SHAPE).expect("a cache");
        let new = |n: usize, value: f32| {
            let k = Tensor::full(stream, &[n, 3, 14], value).expect("k");
            let v = Tensor::full(stream, &[n, 3, 9], value).expect("v");
            (k, v)
        };
        let a = cache.insert();
        let (k, v) = new(7, 1.0);
        let step = cache.append(&[(a, 7)], stream).expect("room");
        for layer in 0..2 {
            step.write(layer, &k, &v).run(stream).expect("written");
        }
        let b = cache.fork(a).expect("a fork");
        let c = cache.fork_prefix(a, 5).expect("a prefix");
        assert_eq!(cache.free_pages(), 5);
        // Both continue in the page that is not full: one copy. A full page is not copied.
        let (k, v) = new(3, 2.0);
        let step = cache
            .append(&[(a, 1), (b, 1), (c, 1)], stream)
            .expect("room");
        for layer in 0..2 {
            step.write(layer, &k, &v).run(stream).expect("written");
        }
        let table = step.table().to_ndarray().expect("a table");
        assert_eq!(table.as_slice(), Some(&[0, 2, 0, 1, 0, 3][..]));
        for layer in 0..2 {
            let [pool, _] = step.pools(layer).expect("a layer");
            for page in [1, 2] {
                let rows = gathered(pool, &[page], 0..3);
                let row = |at: usize| rows[[at, 2, 13]];
                assert_eq!([row(0), row(1), row(2)], [1.0, 1.0, 2.0]);
            }
        }
        assert_eq!(cache.free_pages(), 3);
        assert_eq!(cache.truncate(a, 5).expect("shorter"), 1);
        assert_eq!(cache.evict(b).expect("b"), 1);
        assert_eq!(cache.evict(a).expect("a"), 0);
        assert_eq!(cache.sequences().collect::<Vec<_>>(), [c]);
        assert_eq!(cache.evict(c).expect("c"), 2);
        assert_eq!(cache.free_pages(), 7);
        let _ = device;
    });
}
