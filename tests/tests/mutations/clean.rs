//! Unchanged kernels run clean: all checks, several seeds, results within their bounds.

use std::time::{Duration, Instant};

use warpsmith_tests::values::Values;

use super::edit::{self, Edit};
use super::hopper::{self, Product};
use super::problem::{Outcome, Problem};
use super::subjects::Subject;

/// Seeds (schedules) that every kernel is run with.
const SEEDS: [u64; 4] = [0, 1, 2, 3];
/// Time limit of a 512x512x512 GEMM under all checks, with a margin for busy machines.
const PRODUCT_LIMIT: Duration = Duration::from_secs(20);

/// Runs a launch of a subject's kernel with each seed.
fn holds(name: &str, problem: &Problem) {
    let text = Subject::named(name).text();
    for seed in SEEDS {
        match problem.run(&text, seed) {
            Outcome::Clean => {}
            other => panic!("{name} with seed {seed}: {other}"),
        }
    }
}

macro_rules! run_clean {
    ($($test:ident = $name:literal),+ $(,)?) => {
        $(#[test]
        fn $test() {
            holds($name, &Subject::named($name).problem());
        })+
    };
}

run_clean! {
    product_runs_clean = "gemm_plain",
    product_with_tensor_stores_runs_clean = "gemm_tma_store",
    product_in_clusters_runs_clean = "gemm_cluster",
    attention_runs_clean = "attention",
    reduction_runs_clean = "reduce",
    portable_product_runs_clean = "gemm_simt_f32",
    portable_softmax_runs_clean = "softmax_f32",
    portable_sum_runs_clean = "reduce_value_f32",
    portable_copy_runs_clean = "copy_b32",
    portable_transposition_runs_clean = "transpose_b32",
    portable_selection_runs_clean = "take_b128",
    portable_rows_of_few_indices_run_clean = "scatter_few_b128",
    portable_rows_of_many_indices_run_clean = "scatter_b128",
    portable_addition_runs_clean = "scatter_add_f32",
    portable_addition_by_few_runs_clean = "scatter_add_few",
    portable_sort_runs_clean = "scatter_add_sort",
    portable_pass_of_a_sort_runs_clean = "sort_u32_pass",
    portable_rotation_runs_clean = "rotary_f32_f32_halves",
    attention_of_pages_runs_clean = "attention_paged",
    decoding_of_pages_runs_clean = "attention_paged_decode",
    portable_gradients_of_attention_run_clean = "attention_grad",
    gradients_of_sinks_run_clean = "attention_grad_sink",
    gradients_of_attention_by_mma_run_clean = "attention_grad_sm80",
    hopper_gradients_of_attention_run_clean = "attention_grad_sm90",
    grouped_product_runs_clean = "grouped_gemm_f32",
    grouped_product_with_an_end_beyond_its_rows_runs_clean = "grouped_gemm_f32_beyond",
}

/// Extents that are not multiples of a tile: the tensor maps clip the boxes.
const RAGGED: Product = Product {
    m: 200,
    n: 344,
    k: 136,
    blocks: 2,
    cluster: 1,
    values: Values::Uniform,
};

#[test]
fn product_of_ragged_tensors_is_within_its_bound() {
    holds("gemm_tma_store", &RAGGED.problem());
}

#[test]
fn product_of_ragged_tensors_in_clusters_is_within_its_bound() {
    let product = Product {
        cluster: 2,
        blocks: 4,
        ..RAGGED
    };
    holds("gemm_cluster", &product.problem());
}

#[test]
fn product_of_a_short_k_is_within_its_bound() {
    let product = Product {
        m: 128,
        n: 256,
        k: 40,
        blocks: 1,
        ..RAGGED
    };
    holds("gemm_plain", &product.problem());
}

#[test]
fn attention_of_several_heads_is_within_its_bound() {
    holds("attention", &hopper::attend(256, 3));
}

#[test]
fn attention_of_one_block_of_keys_is_within_its_bound() {
    holds("attention", &hopper::attend(128, 1));
}

/// `fence.mbarrier_init` makes up for a first cluster barrier that is relaxed.
#[test]
fn relaxed_cluster_barrier_behind_the_fence_runs_clean() {
    let subject = Subject::named("gemm_cluster");
    let relaxed = Edit {
        find: "barrier.cluster.arrive.release.aligned;".to_owned(),
        nth: vec![1],
        with: "barrier.cluster.arrive.relaxed.aligned;".to_owned(),
    };
    let text = edit::apply(&subject.text(), &[relaxed]).expect("the kernel has the line");
    let problem = subject.problem();
    for seed in SEEDS {
        let outcome = problem.run(&text, seed);
        assert!(matches!(outcome, Outcome::Clean), "seed {seed}: {outcome}");
    }
}

/// To see the time: `cargo test -p warpsmith-tests product_of_512 -- --nocapture`.
#[test]
fn product_of_512_with_all_checks_takes_seconds() {
    let product = Product {
        m: 512,
        n: 512,
        k: 512,
        blocks: 8,
        ..RAGGED
    };
    let problem = product.problem();
    let text = Subject::named("gemm_tma_store").text();
    let start = Instant::now();
    let outcome = problem.run_on(&text, 0, None);
    let took = start.elapsed();
    assert!(matches!(outcome, Outcome::Clean), "{outcome}");
    println!("512x512x512 in bf16 through wgmma, all checks: {took:.2?}");
    assert!(took < PRODUCT_LIMIT, "it took {took:?}");
}
