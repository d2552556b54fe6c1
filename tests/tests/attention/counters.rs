//! Counters of the tensor-core kernels on the emulator: bytes read, and bank conflicts.

use half::{bf16, f16};
use warpsmith::{Attention, Error, KernelError, Tensor};
use warpsmith_tests::profiled;

#[test]
fn queries_are_read_once_keys_once_a_tile_of_queries_and_no_bank_twice() {
    let device = profiled();
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
        let [tile_m, ..] = plan.chosen().expect("a kernel").tile;
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

/// Hopper's kernels load queries, keys and values by tensor copies and read them by wgmma. Accesses
/// of threads to shared memory (tickets, cleared rows) have no bank conflicts.
#[test]
fn hopper_reads_queries_once_keys_once_a_tile_of_queries_and_no_bank_twice() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    for (head_dim, head_dim_v) in [(64, 64), (128, 128), (192, 128), (256, 256)] {
        let (heads_q, heads_kv, seqlen) = (2, 1, 384);
        let tensor = |heads: usize, head_dim: usize| {
            Tensor::full(&stream, &[1, seqlen, heads, head_dim], bf16::ONE).expect("a tensor")
        };
        let (q, k) = (tensor(heads_q, head_dim), tensor(heads_kv, head_dim));
        let v = tensor(heads_kv, head_dim_v);
        // The plan would share keys where the machine has many cores, which are its multiprocessors.
        let attention = Attention::new(&q, &k, &v).pack_heads(false).key_splits(1);
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

/// Masks and lengths make blocks end early and clear rows: still without bank conflicts.
#[test]
fn hopper_meets_no_bank_twice_where_keys_are_masked_or_end() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    for head_dim in [64, 128, 256] {
        let x = Tensor::full(&stream, &[300, 2, head_dim], bf16::ONE).expect("a tensor");
        let packed = Attention::new(&x, &x, &x).cu_seqlens(&[0, 70, 300], &[0, 70, 300]);
        for (mask, attention) in [
            ("full", packed.clone()),
            ("causal", packed.clone().causal()),
            ("window", packed.window(20, 30)),
        ] {
            let plan = attention.plan(&stream).expect("a plan");
            let name = &plan.chosen().expect("a kernel").name;
            assert!(name.starts_with("flash_fwd_sm90_bf16"), "{plan}");
            attention.run(&stream).expect("attention");
            let launch = device.last_launch().expect("a launch");
            let conflicts = launch.counters().shared.bank_conflicts;
            assert_eq!(conflicts, 0, "{name}, {mask}");
        }
    }
}

/// What the driver's compiler made of the kernels, on a GPU: no local memory, and the registers of
/// a block fit. (Spills and warnings C75.. already fail the build of the kernels.)
#[test]
fn kernels_keep_everything_in_registers() {
    let manifest = warpsmith::builtin_manifest().expect("a manifest");
    for device in warpsmith::testing::devices() {
        if device.is_emulator() {
            continue;
        }
        let kernels = manifest.modules.iter().flat_map(|module| &module.kernels);
        let mut loaded = 0;
        for entry in kernels.filter(|kernel| kernel.name.starts_with("flash_fwd")) {
            let name = &entry.name;
            let kernel = match device.builtin_kernel(name) {
                Err(Error::Kernel(KernelError::Missing { .. })) => continue,
                kernel => kernel.expect(name),
            };
            loaded += 1;
            assert_eq!(kernel.local_bytes(), 0, "{name} on {device}");
            let registers = kernel.registers().expect("a GPU counts registers");
            let threads = entry.max_threads.expect("launch bounds");
            assert!(
                registers * threads <= 65_536,
                "{name}: {registers} x {threads}"
            );
        }
        assert!(loaded >= 3, "{device} runs the portable kernels at least");
    }
}

#[test]
fn turing_multiplies_f16_by_its_tensor_cores_and_meets_no_bank_twice() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    for head_dim in [64, 128] {
        let x = Tensor::full(&stream, &[1, 200, 2, head_dim], f16::ONE).expect("a tensor");
        let name = format!("flash_fwd_sm75_f16_d{head_dim}");
        let attention = Attention::new(&x, &x, &x).causal().with_kernel(&name);
        let o = attention.run(&stream).and_then(|o| o.to_vec());
        assert!(o.expect("attention").iter().all(|&o| o == f16::ONE));
        let launch = device.last_launch().expect("a launch");
        assert_eq!(launch.counters().shared.bank_conflicts, 0, "{name}");
    }
}
