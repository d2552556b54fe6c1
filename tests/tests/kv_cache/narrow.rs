//! Caches in e4m3: what is written is rounded once, and attention reads it with the factors.

use half::bf16;
use warpsmith::{Attention, Device, E4m3, KvCache, KvCacheShape, Tensor};
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::output::same_bits;
use warpsmith_tests::values::Values;
use warpsmith_tests::{on_every_device, refused};

const SHAPE: KvCacheShape = KvCacheShape {
    layers: 2,
    pages: 6,
    page_size: 16,
    heads_kv: 2,
    head_dim: 64,
    head_dim_v: 32,
};

fn drawn(device: &Device, shape: &[usize], seed: u64) -> Tensor<bf16> {
    let drawn = Operand::draw(device, shape, Values::Uniform, View::Contiguous, seed);
    drawn.expect("an operand").tensor
}

#[test]
fn keys_and_values_are_divided_and_rounded_once() {
    on_every_device(|device, stream| {
        let of_k = Tensor::from_slice(device, &[2], &[0.01_f32, 0.3]).expect("factors");
        let of_v = Tensor::from_slice(device, &[1], &[0.125_f32]).expect("a factor");
        let mut cache = KvCache::<bf16, _>::e4m3(stream, SHAPE, &[[&of_k, &of_v]; 2]).expect("one");
        let mut exact = KvCache::<f32>::new(stream, SHAPE).expect("a cache");
        let (k, v) = (
            drawn(device, &[21, 2, 64], 1),
            drawn(device, &[21, 2, 32], 2),
        );
        let (cos, sin) = (drawn(device, &[32, 16], 3), drawn(device, &[32, 16], 4));
        let wide = |x: &Tensor<bf16>| x.cast::<f32>(stream).expect("f32");
        let (sequence, other) = (cache.insert(), exact.insert());
        let step = cache.append(&[(sequence, 21)], stream).expect("a step");
        let write = step.write(1, &k, &v).rotary(&cos, &sin);
        write.run(stream).expect("written");
        let exact = exact.append(&[(other, 21)], stream).expect("a step");
        let (k32, v32, cos, sin) = (wide(&k), wide(&v), wide(&cos), wide(&sin));
        let write = exact.write(1, &k32, &v32).rotary(&cos, &sin);
        write.run(stream).expect("written");
        let factors = [[0.01, 0.3], [0.125, 0.125]];
        let pools = (
            step.pools(1).expect("pools"),
            exact.pools(1).expect("pools"),
        );
        for (idx, d) in [64, 32].into_iter().enumerate() {
            let got = pools.0[idx].to_vec().expect("a pool");
            let want = pools.1[idx].to_vec().expect("a pool");
            for (at, (got, want)) in got.iter().zip(&want).enumerate() {
                let want = E4m3::from_f32(want / factors[idx][at / d % 2]);
                // A place that nothing was written to has 0.
                assert_eq!(*got, want, "element {at} of pool {idx}");
            }
        }
        if device.arch() < (8, 0) {
            return;
        }
        let q = drawn(device, &[1, 21, 6, 64], 5);
        let o = step.attention(1, &q).expect("attention").run(stream);
        let [k, v] = pools.0;
        let plain = Attention::of_e4m3(&q, k, v)
            .k_scale(&of_k)
            .v_scale(&of_v)
            .causal();
        let plain = plain.pages(step.table()).seqused_k(&[21]).run(stream);
        let array = |o: warpsmith::Result<Tensor<bf16>>| o.and_then(|o| o.to_ndarray()).expect("o");
        same_bits(&array(o), &array(plain)).expect("the same");
    });
}

#[test]
fn factors_that_do_not_fit_are_refused() {
    on_every_device(|_, stream| {
        let one = Tensor::full(stream, &[1], 1.0_f32).expect("a factor");
        let three = Tensor::full(stream, &[3], 1.0_f32).expect("factors");
        refused!(
            KvCache::<bf16, _>::e4m3(stream, SHAPE, &[[&one, &one]])
            => Shape::Length, "scales", "1", "2"
        );
        refused!(
            KvCache::<bf16, _>::e4m3(stream, SHAPE, &[[&one, &three]; 2])
            => Shape::Mismatch, "scales", "[2]"
        );
    });
}
