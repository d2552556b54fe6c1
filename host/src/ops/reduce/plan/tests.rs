use super::layout::LINE_VECTORS;
use super::*;
use crate::fitting::h200;
use abi::reduce::THREADS;

const COSTS: ReduceCosts = ReduceCosts::H200;

/// The first choice for a sum-like operation of a family over a contiguous tensor `[outer, n, inner]`.
fn first(
    family: Family,
    dtype: DType,
    [outer, n, inner]: [u64; 3],
    is_aligned: bool,
) -> ReducePlan {
    let desc = desc(family, dtype, [outer, n, inner], is_aligned);
    let mut layouts = desc.layouts(&COSTS);
    layouts
        .find(|(_, pays)| *pays)
        .expect("the general kernel")
        .0
}

fn desc(family: Family, dtype: DType, extents: [u64; 3], is_aligned: bool) -> ReduceDesc {
    let [outer, n, inner] = extents;
    ReduceDesc {
        op: match family {
            Family::Arg => ReduceOp::Argmax,
            Family::Count => ReduceOp::Any,
            Family::Lse => ReduceOp::Logsumexp,
            Family::Moments => ReduceOp::Variance,
            Family::Value | Family::Extreme => ReduceOp::Sum,
        },
        dtype,
        entry: ReduceEntry::of(family, dtype, false).expect("an entry"),
        view: ReduceView::contiguous(outer, n, inner),
        is_aligned,
    }
}

/// The layout of the general kernel for a contiguous tensor, in vectors of so many elements.
fn general([outer, n, inner]: [u64; 3], lanes: u64) -> ReducePlan {
    let view = &ReduceView::contiguous(outer, n, inner);
    let costs = &COSTS;
    Cutter { view, lanes, costs }.general()
}

/// The entry names of a description's candidates on a device of this compute capability, the first
/// choice first.
fn names(desc: &ReduceDesc, arch: (u32, u32)) -> Vec<&'static str> {
    let device = DeviceInfo { arch, ..h200() };
    let mut all = Vec::new();
    desc.candidates(&device, &MachineModel::H200, &mut |by| all.push(by));
    all.sort_by_key(|by| !by.is_first);
    assert_eq!(all.iter().filter(|by| by.is_first).count(), 1);
    all.iter().map(|by| by.entry.name()).collect()
}

#[test]
fn chunks_cover_the_axis_and_none_is_empty() {
    for n in [0, 1, 255, 256, 257, 16_384, 16_385, 1 << 33] {
        for (outer, inner) in [(1, 1), (3, 64), (5000, 1), (1, 100_000), (7, 3)] {
            for lanes in [2, 4, 8] {
                let plan = general([outer, n, inner], lanes);
                assert!(plan.chunks * plan.chunk_len >= n, "{plan:?}");
                assert!(n == 0 || (plan.chunks - 1) * plan.chunk_len < n, "{plan:?}");
                assert!(plan.blocks >= 1 && u64::from(plan.blocks) <= COSTS.blocks);
                assert!(plan.along * plan.across <= THREADS, "{plan:?}");
                assert!(plan.along.is_power_of_two() && plan.across.is_power_of_two());
                let is_whole = plan.along * plan.across == THREADS;
                assert!(is_whole || !plan.is_cut(), "{plan:?}");
                assert!(plan.width <= u64::from(THREADS) && plan.width.is_power_of_two());
            }
        }
    }
}

#[test]
fn errors_do_not_grow_with_length() {
    let additions = |n, inner| general([1, n, inner], 4).additions();
    assert!(additions(1 << 36, 1) <= additions(1 << 24, 1) + 2);
    assert!(additions(1 << 36, 1) < 100, "{}", additions(1 << 36, 1));
    assert!(additions(1 << 30, 64) < 400, "{}", additions(1 << 30, 64));
    assert!(additions(64, 1) < 60);
}

/// The same for the plans that aligned tensors of f32 and bf16 have.
#[test]
fn errors_of_whole_vectors_do_not_grow_with_length() {
    for dtype in [DType::F32, DType::Bf16] {
        for family in [Family::Value, Family::Moments, Family::Lse] {
            let additions =
                |outer, n, inner| first(family, dtype, [outer, n, inner], true).additions();
            assert!(additions(1, 64, 1) < 60);
            for outer in [1, 16, 16_384] {
                for n_log2 in 10..=36 {
                    let of = additions(outer, 1 << n_log2, 1);
                    assert!(of < 160, "{family:?} {dtype}, {outer} of 2^{n_log2}: {of}");
                }
            }
            // The parts of a column are few, or several threads merge them.
            for inner in [64, 256, 16_384] {
                for n_log2 in 4..=30 {
                    let of = additions(1, 1 << n_log2, inner);
                    assert!(of < 400, "{family:?} {dtype}, 2^{n_log2} by {inner}: {of}");
                }
            }
        }
    }
}

#[test]
fn small_inputs_take_one_block_and_large_ones_many() {
    let plan = |outer, n, inner, is_aligned| {
        let plan = first(Family::Value, DType::F32, [outer, n, inner], is_aligned);
        (plan.variant, plan.blocks)
    };
    assert_eq!(plan(1, 4, 1, true), (Variant::Small, 1));
    assert_eq!(plan(1, 4096, 1, true), (Variant::Small, 1));
    assert_eq!(plan(1, 4100, 1, true), (Variant::Long, 1));
    assert_eq!(plan(1, 16_384, 1, true), (Variant::Long, 1));
    assert_eq!(plan(1, 16_388, 1, true), (Variant::Long, 4));
    assert_eq!(plan(1, 65_536, 1, true), (Variant::Long, 8));
    assert_eq!(plan(1, 65_540, 1, true), (Variant::Long, 16));
    assert_eq!(plan(1, 8192, 1, false), (Variant::General, 1));
    assert_eq!(plan(1, 7, 1, true), (Variant::General, 1));
    assert_eq!(plan(1, 0, 1, true), (Variant::General, 1));
    assert_eq!(plan(1, 1 << 18, 1, true), (Variant::Long, 16));
    assert_eq!(plan(1, (1 << 18) + 4, 1, true), (Variant::Long, 65));
    assert_eq!(plan(1, 1 << 28, 1, true), (Variant::Long, 8192));
    assert_eq!(plan(1, 1 << 30, 1, true), (Variant::Long, 32_768)); // in sections: parts of 128 KiB
    assert_eq!(plan(16, 1 << 24, 1, true), (Variant::Long, 8192));
    assert_eq!(plan(16_384, 16_384, 1, true), (Variant::Long, 16_384));
    assert_eq!(plan(16_384, 32_768, 1, true), (Variant::Long, 16_384));
    assert_eq!(plan(16_385, 32_768, 1, true), (Variant::Long, 16_385));
    assert_eq!(plan(16_384, 1024, 1, true).0, Variant::General);
    assert_eq!(plan(1 << 24, 16, 1, true).0, Variant::Short);
    assert_eq!(plan(1, 16_384, 16_384, true), (Variant::Columns, 256));
    assert_eq!(plan(1, 16_384, 12_288, true), (Variant::Columns, 384));
    assert_eq!(plan(1, 16, 1 << 24, true), (Variant::Columns, 16_384));
    assert_eq!(plan(1, 1 << 24, 16, true).0, Variant::General);
    let blocks = |n| general([1, n, 1], 4).blocks;
    assert_eq!((blocks(1), blocks(256), blocks(16_384)), (1, 1, 1));
    assert_eq!(blocks(1 << 18), 32);
    assert!((500..=528).contains(&blocks(1 << 30)));
}

#[test]
fn columns_are_whole_or_have_few_parts() {
    let plan = |dtype, n, inner| {
        let plan = first(Family::Value, dtype, [1, n, inner], true);
        assert_eq!(plan.variant, Variant::Columns);
        assert!(plan.width <= u64::from(THREADS), "{plan:?}");
        (plan.across, plan.parts)
    };
    let (f32, bf16) = (DType::F32, DType::Bf16);
    assert_eq!(plan(f32, 16_384, 16_384), (16, 1));
    assert_eq!(plan(bf16, 16_384, 16_384), (8, 1));
    assert_eq!(plan(f32, 32_768, 8192), (8, 1));
    assert_eq!(plan(bf16, 32_768, 8192), (32, 8));
    assert_eq!(plan(bf16, 1 << 17, 2048), (16, 16));
    assert_eq!(plan(f32, 1 << 20, 256), (8, 33));
    assert_eq!(plan(bf16, 1 << 20, 256), (8, 66));
    // Too short to be whole by so many threads.
    assert_eq!(plan(bf16, 256, 16_384).0, 32);
}

#[test]
fn indices_of_long_rows_of_f32_have_a_form_of_their_own() {
    let variant = |dtype, n| first(Family::Arg, dtype, [16_384, n, 1], true).variant;
    assert_eq!(variant(DType::F32, 16_384), Variant::Long);
    assert_eq!(variant(DType::F32, 1024), Variant::General);
    assert_eq!(variant(DType::Bf16, 16_384), Variant::General);
}

#[test]
fn long_rows_have_tickets_for_all_their_sections() {
    for dtype in [DType::F32, DType::Bf16] {
        for family in [Family::Value, Family::Moments] {
            for outer in [1, 2, 7, 100, 2047, 2048, 16_384, 16_385] {
                for n_log2 in 14..38 {
                    let n = 1_u64 << n_log2;
                    if outer * n > 1 << 37 {
                        continue;
                    }
                    let plan = first(family, dtype, [outer, n, 1], true);
                    assert!(plan.chunks * plan.chunk_len >= n, "{plan:?}");
                    assert!((plan.chunks - 1) * plan.chunk_len < n, "{plan:?}");
                    assert!(
                        !plan.is_cut() || plan.tickets() <= TICKETS as u64,
                        "{plan:?}"
                    );
                    assert!(plan.variant == Variant::General || plan.partials() < 1 << 23);
                }
            }
        }
    }
}

#[test]
fn single_rows_of_medium_length_have_parts_for_a_cluster() {
    for (dtype, of_long, of_cluster) in [
        (
            DType::F32,
            "reduce_value_f32_long",
            "reduce_value_f32_cluster",
        ),
        (
            DType::Bf16,
            "reduce_value_bf16_long",
            "reduce_value_bf16_cluster",
        ),
    ] {
        let (alone, most) = (COSTS.alone_vectors, COSTS.cluster_vectors);
        let lanes = 16 / dtype.size_bytes() as u64;
        for vectors in alone..=most + 1 {
            let desc = desc(Family::Value, dtype, [1, vectors * lanes, 1], true);
            let is_medium = vectors > alone && vectors <= most;
            let first = |arch| names(&desc, arch)[0];
            assert_eq!(first((9, 0)) == of_cluster, is_medium, "{vectors}");
            assert_eq!(first((8, 9)), of_long, "{vectors}");
            if !is_medium {
                continue;
            }
            let (plan, _) = desc.layouts(&COSTS).find(|(_, pays)| *pays).unwrap();
            assert!([4, 8, 16].contains(&plan.parts), "{plan:?}");
            let is_portable = first((12, 0)) == of_cluster;
            assert_eq!(is_portable, plan.parts <= 8, "{plan:?}");
            assert!(
                plan.chunk_len >= COSTS.cluster_part_vectors * lanes,
                "{plan:?}"
            );
            let n = desc.view.n;
            assert!((plan.parts - 1) * plan.chunk_len < n, "{plan:?}");
            assert!(plan.parts * plan.chunk_len >= n, "{plan:?}");
            assert!(plan.chunk_len.is_multiple_of(LINE_VECTORS * lanes));
        }
    }
    let rows = desc(Family::Value, DType::F32, [2, 1 << 16, 1], true);
    assert_eq!(names(&rows, (9, 0))[0], "reduce_value_f32_long");
}

#[test]
fn small_rows_have_as_many_threads_as_take_four_vectors_each() {
    let plan = |outer, vectors: u64, is_aligned| {
        first(
            Family::Value,
            DType::F32,
            [outer, 4 * vectors, 1],
            is_aligned,
        )
    };
    for vectors in 1..=1024 {
        let small = plan(7, vectors, true);
        assert_eq!(
            (small.variant, small.blocks),
            (Variant::Small, 7),
            "{small:?}"
        );
        let threads = u64::from(small.threads());
        assert!(threads >= 32 && threads.is_power_of_two(), "{small:?}");
        assert!(vectors <= 4 * threads, "{small:?}");
        assert!(threads == 32 || vectors > 2 * threads, "{small:?}");
    }
    assert_eq!(plan(1, 1025, true).variant, Variant::Long);
    assert_eq!(plan(1056, 1024, true).variant, Variant::Small);
    assert_ne!(plan(1057, 64, true).variant, Variant::Small);
    assert_eq!(plan(1024, 16, true).variant, Variant::Short);
    assert_eq!(plan(1, 64, false).variant, Variant::General);
}

#[test]
fn extremes_of_bf16_go_in_pairs_from_ampere_on() {
    let extreme = ReduceDesc {
        op: ReduceOp::Max,
        ..desc(Family::Value, DType::Bf16, [3, 1 << 16, 1], true)
    };
    let single = ["reduce_value_bf16_long", "reduce_value_bf16"];
    assert_eq!(names(&extreme, (7, 5)), single);
    assert_eq!(names(&extreme, (8, 0))[0], "reduce_extreme_bf16_long");
    assert_eq!(names(&extreme, (8, 0))[1..], single);
}
