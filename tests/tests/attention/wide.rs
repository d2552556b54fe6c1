//! Wide heads: head_dim up to 576, head_dim_v up to 512, and values that are the first elements of keys.

use half::{bf16, f16};
use warpsmith::{Attention, DType, Device, Float, Stream, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::output::same_bits;
use warpsmith_tests::values::Values;
use warpsmith_tests::{on_every_device, refused};

use super::case::Case;
use super::check::check;

fn is_hopper(device: &Device) -> bool {
    device.arch().0 == 9
}

#[test]
fn attention_of_wide_heads_matches_its_reference() {
    let case = |dtype, seqlens, [d, d_v]: [usize; 2], group| Case {
        head_dim_v: d_v,
        group,
        splits: Some(2),
        causal: true,
        ..Case::plain(dtype, seqlens, d)
    };
    let cases = [
        case(DType::Bf16, [1, 150], [576, 512], 16),
        case(DType::F16, [3, 100], [512, 512], 7),
        Case {
            page_size: Some(64),
            used_k: Some(vec![70, 0, 128]),
            batch: 3,
            ..case(DType::Bf16, [2, 128], [576, 512], 32)
        },
        Case {
            page_size: Some(5),
            used_k: Some(vec![63, 91]),
            batch: 2,
            softcap: Some(3.0),
            sink: true,
            out: Some(DType::F32),
            ..case(DType::F16, [1, 95], [264, 136], 128)
        },
        Case {
            page_size: Some(16),
            used_k: Some(vec![80]),
            heads_kv: 2,
            left: Some(40),
            ..case(DType::Bf16, [70, 80], [192, 128], 3)
        },
        Case {
            packed_q: Some(vec![5, 0, 66]),
            packed_k: Some(vec![30, 9, 70]),
            ..case(DType::Bf16, [0, 0], [320, 8], 1)
        },
    ];
    on_every_device(|device, _| {
        if is_hopper(device) {
            for (idx, case) in cases.iter().enumerate() {
                check(case, device).unwrap_or_else(|error| panic!("case {idx}: {error}"));
            }
        }
    });
}

/// Keys whose first elements are the values, dense and in pages, with the bits of values of their own.
#[test]
fn values_that_are_parts_of_keys_have_the_bits_of_others() {
    fn of<T: Float + TestElement>(device: &Device, stream: &Stream) {
        let draw = |shape: &[usize], seed| {
            let drawn = Operand::<T>::draw(device, shape, Values::Uniform, View::Contiguous, seed);
            drawn.expect("an operand").tensor
        };
        let (q, k) = (draw(&[2, 2, 24, 576], 1), draw(&[2, 192, 1, 576], 2));
        let v = k.slice(3, ..512).expect("a view");
        let copy = v.contiguous(stream).expect("a copy");
        let pool = |x: &Tensor<T>| {
            let d = x.shape()[3];
            x.reshape(&[6, 64, 1, d])
        };
        let table = Tensor::from_slice(device, &[2, 3], &[0, 1, -1, 3, 4, 5]).expect("a table");
        let pool_k = pool(&k).expect("pages");
        let pool_v = pool_k.slice(3, ..512).expect("a view");
        let run = |k: &Tensor<T>, v: &Tensor<T>, is_paged: bool, splits| {
            let mut attention = Attention::new(&q, k, v).causal().key_splits(splits);
            attention = attention.seqused_k(&[128, 130]);
            if is_paged {
                attention = attention.pages(&table);
            }
            let o = attention.run(stream).expect("attention");
            o.to_ndarray().expect("o")
        };
        for splits in [1, 3] {
            let want = run(&k, &copy, false, splits);
            for (k, v, is_paged) in [
                (&k, &v, false),
                (&pool_k, &pool_v, true),
                (&pool_k, &pool(&copy).expect("pages"), true),
            ] {
                let got = run(k, v, is_paged, splits);
                same_bits(&got, &want).expect("the bits of other values");
            }
        }
    }
    on_every_device(|device, stream| {
        if is_hopper(device) {
            of::<bf16>(device, stream);
            of::<f16>(device, stream);
        }
    });
}

#[test]
fn wide_heads_that_no_kernel_has_are_refused() {
    on_every_device(|_, stream| {
        let x = |d| Tensor::<f32>::zeros(stream, &[1, 2, 1, d]).expect("a tensor");
        refused!(
            Attention::new(&x(512), &x(512), &x(512)).run(stream)
            => Argument::Unsupported, "head_dim above 256 in f16 and bf16 on sm_90"
        );
        refused!(
            Attention::new(&x(584), &x(584), &x(8)).run(stream)
            => Argument::Unsupported, "head_dim up to 576 and head_dim_v up to 512"
        );
    });
}
