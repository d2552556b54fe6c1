//! Planted races, and the same kernels with what orders the accesses.

use std::path::Path;

use warpsmith_emulator::{
    FaultKind, Fill, LaunchError, LaunchStats, Swizzle, TensorMapDesc, TensorMapType,
};

use super::common::Case;
use super::fail::{check, compare};
use super::machine::{Machine, shape};

/// `fail/race_<name>` must be reported; `pass/ordered_<name>` must run, whatever the seed.
fn twins(name: &str, case: impl Fn(Case) -> Case) {
    let planted = case(Case::new("fail", &format!("race_{name}"), 1, 64));
    check(&planted, FaultKind::DataRace);
    for seed in 0..8 {
        let mut correct = case(Case::new("pass", &format!("ordered_{name}"), 1, 64));
        correct.config.seed = seed;
        if let Err(error) = correct.run().result {
            panic!("{} under seed {seed}: {error}", correct.path.display());
        }
    }
}

macro_rules! twins {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                twins(stringify!($name), |case| case.zeros(64));
            }
        )*
    };
}

twins!(
    shared_read_before_barrier,
    shared_write_write,
    tile_reused_too_early,
    lanes_without_syncwarp,
    lanes_overwrite_without_syncwarp,
    lanes_of_one_store,
    byte_in_a_word,
    atomic_and_plain_read,
    named_barrier_of_two_ids,
    non_coherent_read,
);

#[test]
fn fragment_load_before_barrier() {
    twins("fragment_load_before_barrier", |case| case.zeros(512));
}

#[test]
fn fragment_store_before_barrier() {
    twins("fragment_store_before_barrier", |case| case.zeros(256));
}

/// The same with four blocks.
macro_rules! twins_of_blocks {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                twins(stringify!($name), |mut case| {
                    case.shape.grid[0] = 4;
                    case.zeros(2048)
                });
            }
        )*
    };
}

twins_of_blocks!(
    blocks_write_write,
    neighbours_halo,
    flag_without_fence,
    flag_read_without_fence,
    relaxed_flag,
    plain_read_of_an_atomic,
    last_block_without_fence,
);

#[test]
fn races_of_blocks_do_not_depend_on_the_number_of_threads() {
    for threads in [1, 2, 3, 7] {
        let mut case = Case::new("fail", "race_blocks_write_write", 1, 64).zeros(2048);
        case.shape.grid[0] = 4;
        case.config.threads = Some(threads);
        check(&case, FaultKind::DataRace);
    }
}

/// Runs a kernel with a tensor map, if it takes one, and a buffer of words.
fn with_map(
    folder: &str,
    name: &str,
    seed: u64,
    (cluster, threads, map): (u32, u32, bool),
) -> Result<LaunchStats, LaunchError> {
    let machine = Machine::new(folder, name, seed);
    let address = machine.buffer(&[1; 1024]);
    let tensor = TensorMapDesc {
        data_type: TensorMapType::U32,
        address,
        dims: vec![32, 8],
        strides_bytes: vec![128],
        box_dims: vec![32, 8],
        element_strides: vec![1, 1],
        swizzle: Swizzle::None,
        fill: Fill::Zeros,
    };
    let mut params = vec![tensor.encode().expect("the map is valid").to_vec()];
    if !map {
        params.clear();
    }
    params.push(machine.buffer(&[0; 1024]).to_le_bytes().to_vec());
    machine.launch("k", &shape(cluster, threads, 0), &params)
}

/// Twins with asynchronous work: blocks per cluster, threads, and whether they take a map.
macro_rules! twins_of_copies {
    ($($name:ident: $shape:expr),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                let planted = concat!("race_", stringify!($name));
                let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fail");
                let result = with_map("fail", planted, 0, $shape);
                compare(&root.join(planted), result, FaultKind::DataRace);
                let correct = concat!("ordered_", stringify!($name));
                for seed in 0..8 {
                    if let Err(error) = with_map("pass", correct, seed, $shape) {
                        panic!("{correct} under seed {seed}: {error}");
                    }
                }
            }
        )*
    };
}

twins_of_copies!(
    tile_read_before_full: (1, 64, true),
    stage_overwritten_before_release: (1, 64, true),
    store_without_proxy_fence: (1, 64, true),
    store_without_barrier: (1, 64, true),
    source_overwritten_before_wait_group: (1, 64, true),
    copy_over_words_just_read: (1, 64, false),
    wgmma_operands_overwritten: (1, 128, false),
    wgmma_without_proxy_fence: (1, 128, false),
    peer_read_without_cluster_barrier: (2, 64, false),
);

/// Only a release orders accesses, but a block that waits for an arrival exits after it.
#[test]
fn a_relaxed_arrival_keeps_a_block_from_its_exit() {
    for seed in 0..8 {
        let name = "ordered_peer_read_before_relaxed_arrival";
        if let Err(error) = with_map("pass", name, seed, (2, 64, false)) {
            panic!("under seed {seed}: {error}");
        }
    }
}
