//! What the emulator counts of the kernels with tensor cores: what is read, and bank conflicts.

use half::bf16;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::{Attention, Device, Tensor};

#[test]
fn queries_are_read_once_keys_once_a_tile_of_queries_and_no_bank_twice() {
    let config = EmulatorConfig {
        profile: true,
        ..EmulatorConfig::default()
    };
    let device = Device::emulator_with(config).expect("an emulator");
    let stream = device.stream().expect("a stream");
    for head_dim in [64, 128, 256] {
        let (heads_q, heads_kv, seqlen) = (2, 1, 256);
        let tensor = |heads: usize| {
            Tensor::full(&stream, &[1, seqlen, heads, head_dim], bf16::ONE).expect("a tensor")
        };
        let (q, kv) = (tensor(heads_q), tensor(heads_kv));
        let name = format!("flash_fwd_sm80_bf16_d{head_dim}");
        let attention = Attention::new(&q, &kv, &kv).with_kernel(&name);
        let plan = attention.plan(&stream).expect("a plan");
        let [tile_m, _] = plan.chosen().expect("a kernel").tile;
        attention.run(&stream).expect("attention");
        let launch = device.last_launch().expect("a launch");
        let counters = launch.counters();
        let bytes = |positions: usize, heads: usize| (positions * heads * head_dim * 2) as u64;
        let m_tiles = seqlen / tile_m as usize;
        let want = bytes(seqlen, heads_q) + bytes(m_tiles * 2 * seqlen, heads_q);
        assert_eq!(counters.global.copies_in.bytes, want, "{name}");
        assert_eq!(counters.shared.bank_conflicts, 0, "{name}");
    }
}

/// Hopper's kernels bring queries, keys and values by tensor copies and read them by wgmma; what
/// threads do in shared memory (tickets, cleared rows) meets no bank twice.
#[test]
fn hopper_reads_queries_once_keys_once_a_tile_of_queries_and_no_bank_twice() {
    let config = EmulatorConfig {
        profile: true,
        ..EmulatorConfig::default()
    };
    let device = Device::emulator_with(config).expect("an emulator");
    let stream = device.stream().expect("a stream");
    for (head_dim, head_dim_v) in [(64, 64), (128, 128), (192, 128), (256, 256)] {
        let (heads_q, heads_kv, seqlen) = (2, 1, 384);
        let tensor = |heads: usize, head_dim: usize| {
            Tensor::full(&stream, &[1, seqlen, heads, head_dim], bf16::ONE).expect("a tensor")
        };
        let (q, k) = (tensor(heads_q, head_dim), tensor(heads_kv, head_dim));
        let v = tensor(heads_kv, head_dim_v);
        let attention = Attention::new(&q, &k, &v);
        let plan = attention.plan(&stream).expect("a plan");
        let chosen = plan.chosen().expect("a kernel");
        assert!(chosen.name.starts_with("flash_fwd_sm90_bf16"), "{plan}");
        attention.run(&stream).expect("attention");
        let launch = device.last_launch().expect("a launch");
        let counters = launch.counters();
        let bytes = |positions: usize, head_dim: usize| (positions * heads_q * head_dim * 2) as u64;
        let keys = seqlen / chosen.tile[0] as usize * seqlen;
        let want = bytes(seqlen + keys, head_dim) + bytes(keys, head_dim_v);
        assert_eq!(counters.global.copies_in.bytes, want, "{}", chosen.name);
        assert_eq!(counters.shared.bank_conflicts, 0, "{}", chosen.name);
    }
}
