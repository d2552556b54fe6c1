//! Planted races, and the same kernels with what orders the accesses.

use warpsmith_emulator::FaultKind;

use crate::common::Case;
use crate::fail::check;

/// `fail/race_<name>` must be reported, `pass/ordered_<name>` must run, whatever the seed.
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
);

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
