//! GQA packing (heads side by side in a tile) and split-KV: what is read, what is visible, what is
//! refused, and what the plan chooses.

use half::{bf16, f16};
use warpsmith::{Attention, AttentionOutput, Device, Float, Stream, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::{profiled, refused};

const PACKED: &str = "flash_fwd_sm90_bf16_d128_128x128_packed";

fn filled(stream: &Stream, shape: &[usize]) -> Tensor<bf16> {
    filled_as(stream, shape)
}

fn filled_as<T: TestElement>(stream: &Stream, shape: &[usize]) -> Tensor<T> {
    Tensor::full(stream, shape, T::nearest(1.0)).expect("a tensor")
}

/// Bytes of global memory that copies read in the last launch.
fn copied(device: &Device) -> u64 {
    let launch = device.last_launch().expect("a launch");
    assert_eq!(launch.counters().shared.bank_conflicts, 0);
    launch.counters().global.copies_in.bytes
}

#[test]
fn keys_are_read_once_for_all_heads_that_share_them() {
    let shapes = [(8, 1), (8, 4), (8, 16), (7, 5), (64, 2), (3, 40)];
    reads_keys_once::<bf16>("flash_fwd_sm90_bf16_d128_128x128", 128, &shapes);
    let few = &shapes[3..4];
    reads_keys_once::<bf16>("flash_fwd_sm90_bf16_d256_128x64", 256, few);
    reads_keys_once::<f16>("flash_fwd_sm90_f16_d128_128x128", 128, few);
    reads_keys_once::<f16>("flash_fwd_sm90_f16_d256_128x64", 256, few);
}

/// Checks what `kernel` reads with `_packed` appended to its name (once for all heads), and without
/// it (once for each head). `shapes` are numbers of heads that share keys, and of queries.
fn reads_keys_once<T: Float + TestElement>(
    kernel: &str,
    head_dim: usize,
    shapes: &[(usize, usize)],
) {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    let (heads_kv, seqlen_k) = (2_usize, 256_usize);
    let kv = filled_as::<T>(&stream, &[1, seqlen_k, heads_kv, head_dim]);
    for &(group, seqlen_q) in shapes {
        let q = filled_as::<T>(&stream, &[1, seqlen_q, heads_kv * group, head_dim]);
        let bytes_of = |packs: bool| {
            let name = match packs {
                true => format!("{kernel}_packed"),
                false => kernel.to_owned(),
            };
            let attention = Attention::new(&q, &kv, &kv).key_splits(1).pack_heads(packs);
            let o = attention.with_kernel(&name).run(&stream);
            let o = o.and_then(|o| o.to_vec()).expect("attention");
            assert!(o.iter().all(|o| o.wide() == 1.0));
            copied(&device)
        };
        let of_position = head_dim as u64 * 2;
        let keys = |tiles: usize| (tiles * 2 * seqlen_k) as u64 * of_position;
        // A tile has 128 rows, 64 per warpgroup; with packing, a warpgroup's rows are whole
        // queries. Parts of copies beyond the last query are not read.
        let rows = (heads_kv * group * seqlen_q) as u64 * of_position;
        let tiles = heads_kv * seqlen_q.div_ceil(2 * (64 / group));
        assert_eq!(
            bytes_of(true),
            keys(tiles) + rows,
            "{group} heads side by side, {seqlen_q} queries, {kernel}"
        );
        let tiles = heads_kv * group * seqlen_q.div_ceil(128);
        assert_eq!(bytes_of(false), keys(tiles) + rows);
    }
}

/// Its heads count as queries, for kernels without packing.
#[test]
fn for_a_single_query_every_kernel_reads_keys_once() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    for (head_dim, heads_kv, group) in [(64_usize, 2_usize, 8_usize), (128, 1, 5), (256, 2, 4)] {
        let q = filled(&stream, &[2, 1, heads_kv * group, head_dim]);
        let kv = filled(&stream, &[2, 256, heads_kv, head_dim]);
        let attention = Attention::new(&q, &kv, &kv).causal().key_splits(1);
        for (packs, keys) in [(true, 1), (false, group)] {
            let attention = attention.clone().pack_heads(packs);
            let plan = attention.plan(&stream).expect("a plan");
            for way in plan.candidates() {
                let heads = format!("+heads{group}");
                assert_eq!(way.name.contains(&heads), packs, "{way}");
                let attention = attention.clone().with_kernel(&way.name);
                let o = attention.run(&stream).and_then(|o| o.to_vec());
                assert!(o.expect("attention").iter().all(|&o| o == bf16::ONE));
                if way.name.contains("simt") {
                    continue; // loads, not copies
                }
                // Copies issued by threads are counted also for rows that do not exist.
                let rows = match &*way.name {
                    name if name.contains("decode") => 0, // q is loaded, not copied
                    name if name.contains("sm90") => group,
                    _ => keys * way.tile[0] as usize,
                };
                let want = 2 * heads_kv * (rows + 2 * 256 * keys) * head_dim * 2;
                assert_eq!(copied(&device), want as u64, "{way}");
            }
        }
    }
}

#[test]
fn more_parts_than_blocks_of_keys_change_nothing() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    let q = filled(&stream, &[1, 3, 8, 128]);
    let kv = filled(&stream, &[1, 300, 1, 128]);
    for splits in [2, 3, 7, 128] {
        let attention = Attention::new(&q, &kv, &kv).key_splits(splits).causal();
        let plan = attention.plan(&stream).expect("a plan");
        let chosen = plan.chosen().expect("a kernel");
        assert!(
            chosen.name.ends_with(&format!("+heads8+split{splits}")),
            "{plan}"
        );
        let AttentionOutput { o, lse } = attention.lse().run(&stream).expect("attention");
        assert!(o.to_vec().expect("o").iter().all(|&o| o == bf16::ONE));
        for (at, lse) in lse.to_vec().expect("lse").into_iter().enumerate() {
            let keys = (298 + at % 3) as f32;
            // Every score is 128 before the scale 1 / sqrt(128).
            let want = 128.0_f32.sqrt() + keys.ln();
            assert!((lse - want).abs() < 1e-5 * want, "{lse}, want {want}");
        }
    }
}

/// Which keys each query of each head sees with packed heads, tested with one-hot values.
#[test]
fn masks_go_by_the_query_and_not_by_the_row() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    type Masked = fn(Attention<'static, bf16>) -> Attention<'static, bf16>;
    let pictures: [(&str, Masked); 7] = [
        ("1 1 1 1 0 / 1 1 1 1 1", |a| a.causal()),
        ("1 0 0 0 0 / 1 1 0 0 0", |a| a.causal_top_left()),
        ("0 0 / 1 0 / 1 1", |a| a.causal()),
        ("1 0 / 1 1 / 1 1", |a| a.causal_top_left()),
        ("1 0 0 0 / 1 1 0 0 / 0 1 1 0 / 0 0 1 1", |a| a.window(1, 0)),
        ("0 0 1 1 1 / 0 0 0 1 1", |a| a.window(1, 1)),
        ("1 0 / 0 1 / 0 0 / 0 0", |a| a.window(0, 0).align_top_left()),
    ];
    for (picture, mask) in pictures {
        let want: Vec<Vec<bool>> = picture
            .split('/')
            .map(|line| line.split_whitespace().map(|digit| digit == "1").collect())
            .collect();
        let (seqlen_q, seqlen_k) = (want.len(), want[0].len());
        for (heads, splits) in [(8, 1), (6, 1), (33, 2)] {
            let q = filled(&stream, &[1, seqlen_q, heads, 8]);
            let k = filled(&stream, &[1, seqlen_k, 1, 8]);
            let one_hot = (0..seqlen_k * 8).map(|at| f32::from(u8::from(at / 8 == at % 8)));
            let one_hot: Vec<bf16> = one_hot.map(bf16::from_f32).collect();
            let v = Tensor::from_slice(&device, &[1, seqlen_k, 1, 8], &one_hot).expect("v");
            let attention = Attention::new(&q, &k, &v);
            let attention = mask(attention).key_splits(splits).pack_heads(true);
            let plan = attention.plan(&stream).expect("a plan");
            // The kernel for decoding has room for 32 rows, Hopper's for 128.
            let few = heads * seqlen_q <= 32;
            assert_eq!(plan.candidates().len(), 1 + usize::from(few), "{plan}");
            for way in plan.candidates() {
                let o = attention.clone().with_kernel(&way.name).run(&stream);
                let o = o.and_then(|o| o.to_ndarray()).expect("attention");
                for ((_, query, head, key), o) in o.indexed_iter().map(|(at, o)| {
                    let at = (at[0], at[1], at[2], at[3]);
                    (at, o.wide())
                }) {
                    let is_seen = key < seqlen_k && want[query][key];
                    assert_eq!(o > 0.0, is_seen, "{way}: {picture}, head {head} of {heads}");
                }
            }
        }
    }
}

#[test]
fn what_no_kernel_does_is_refused_with_what_some_do() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    let tensor = |heads: usize, head_dim: usize| filled(&stream, &[1, 2, heads, head_dim]);
    let (q, kv) = (tensor(8, 128), tensor(1, 128));
    let grouped = Attention::new(&q, &kv, &kv);
    for splits in [0, 129] {
        let error = grouped.clone().key_splits(splits).run(&stream);
        let want = format!("key_splits is {splits}, want 1 to 128");
        refused!(error => Argument::Value, &want);
    }
    // One query head per key head; a group that is a large prime; rows that are not aligned.
    for (heads, heads_kv, head_dim) in [(2, 2, 128), (67, 1, 128), (8, 1, 20)] {
        let (q, kv) = (tensor(heads, head_dim), tensor(heads_kv, head_dim));
        let packed = Attention::new(&q, &kv, &kv).pack_heads(true);
        let run = packed.run(&stream);
        refused!(run => Argument::Unsupported, "pack_heads(true)", "multiples of 8", PACKED);
    }
    let plain = grouped.with_kernel("flash_fwd_simt_d128");
    let packed = plain.clone().pack_heads(true).run(&stream);
    refused!(packed => Argument::Unsupported, "flash_fwd_simt_d128", PACKED);
    let split = plain.key_splits(2).run(&stream);
    refused!(split => Argument::Unsupported, "flash_fwd_simt_d128", PACKED);
}

#[test]
fn the_plan_packs_short_queries_and_splits_where_blocks_are_few() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    let chosen = |[seqlen_q, seqlen_k]: [usize; 2], [heads_q, heads_kv]: [usize; 2]| {
        let tensor = |seqlen: usize, heads: usize| filled(&stream, &[1, seqlen, heads, 128]);
        let (q, kv) = (tensor(seqlen_q, heads_q), tensor(seqlen_k, heads_kv));
        let plan = Attention::new(&q, &kv, &kv).causal().plan(&stream);
        plan.expect("a plan").chosen().expect("a kernel").clone()
    };
    for (queries, kernel) in [(1, 16), (2, 16), (3, 32), (4, 32)] {
        let few = chosen([queries, 4096], [64, 8]);
        let kernel = format!("flash_decode_sm80_bf16_d128_m{kernel}");
        assert_eq!(few.entry, kernel, "{few}");
        assert!(few.name.contains("+heads8"), "{few}");
    }
    let more = chosen([5, 4096], [64, 8]);
    assert_eq!(more.entry, PACKED, "{more}");
    assert!(more.name.contains("+heads8"), "{more}");
    let one = chosen([1, 64], [64, 8]);
    assert!(one.name.ends_with("+heads8"), "one block of keys: {one}");
    let long = chosen([1, 32_768], [8, 1]);
    // With a single tile there is work for one SM only.
    assert_eq!(long.split > 1, device.info().multiprocessors > 1, "{long}");
    let prefill = chosen([1024, 1024], [16, 2]);
    assert_eq!(prefill.name, prefill.entry, "neither packed nor split");
}
