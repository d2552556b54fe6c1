//! Kernels that must run without a report.

use super::common::Case;

/// Runs a case with one buffer and compares every word.
fn check(case: &Case, want: impl Fn(u32) -> u32) {
    let ran = case.run();
    if let Err(error) = &ran.result {
        panic!("{}: {error}", case.path.display());
    }
    let out = ran.buffers.first().expect("the case has a buffer");
    for (i, got) in out.iter().enumerate() {
        assert_eq!(*got, want(i as u32), "word {i} of {}", case.path.display());
    }
}

fn collatz(mut n: u32) -> u32 {
    let mut steps = 0;
    while n > 1 {
        n = if n.is_multiple_of(2) {
            n / 2
        } else {
            3 * n + 1
        };
        steps += 1;
    }
    steps
}

#[test]
fn loops_of_different_lengths_give_each_lane_its_own_result() {
    for threads in [1, 31, 32, 33, 100, 1024] {
        let words = 3 * threads as usize;
        let case = Case::new("pass", "nested_divergence", 3, threads).zeros(words);
        check(&case, |i| collatz(i + 1));
    }
}

#[test]
fn registers_that_are_unwritten_where_it_does_not_matter() {
    // On one thread, so that the second block finds the registers as the first left them.
    let mut case = Case::new("pass", "unwritten_registers", 2, 32).zeros(64);
    case.config.threads = Some(1);
    check(&case, |i| {
        let lane = i % 32;
        let by_parity = if lane % 2 == 0 {
            10 + lane + 200
        } else {
            100 + 100
        };
        by_parity + 3 + 1 + 2
    });
}

#[test]
fn payloads_that_are_unwritten_where_the_flag_says_so() {
    let case = Case::new("pass", "unwritten_payloads", 1, 32)
        .zeros(32)
        .uninitialized(32 * 4);
    check(&case, |lane| {
        let own = if lane % 2 == 0 {
            3 * 3 * lane + lane
        } else {
            0
        };
        own + lane + 1 + 4 * lane
    });
    // What is unwritten has all bits set, for hosts that compare.
    let case = Case::new("pass", "unwritten_output", 1, 32).uninitialized(64);
    check(&case, |word| match (word % 2, word / 2 % 2) {
        (0, _) => word / 2 % 2,
        (_, 0) => 3 * (word / 2),
        _ => u32::MAX,
    });
}

#[test]
fn lanes_of_a_warp_pass_a_lock_on() {
    check(
        &Case::new("pass", "lock_within_a_warp", 1, 64).zeros(64),
        |_| 64,
    );
}

#[test]
fn a_lane_that_spins_lets_the_others_run() {
    check(
        &Case::new("pass", "lane_waits_for_lane", 1, 32).zeros(32),
        |i| {
            if i == 0 { 77 } else { i }
        },
    );
}

#[test]
fn recursion_of_divergent_depth() {
    let fibonacci = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34];
    check(&Case::new("pass", "recursion", 1, 45).zeros(45), |i| {
        fibonacci[i as usize % 10]
    });
}

#[test]
fn lanes_call_different_functions_through_one_register() {
    check(&Case::new("pass", "indirect_call", 1, 32).zeros(32), |i| {
        if i % 2 == 1 { 2 * i } else { i * i }
    });
}

#[test]
fn named_barriers_hand_tiles_over() {
    check(
        &Case::new("pass", "producer_consumer", 1, 64).zeros(32),
        |i| 1000 + 5 * i,
    );
}

#[test]
fn blocks_of_odd_sizes_meet_at_barriers() {
    for threads in [1, 7, 32, 41, 63, 97, 1000] {
        let mut case = Case::new("pass", "odd_block_sum", 3, threads).zeros(3);
        case.shape.shared_bytes = 4 * threads;
        check(&case, |_| threads * (threads - 1) / 2);
    }
}

#[test]
fn reductions_at_barriers() {
    check(
        &Case::new("pass", "barrier_reductions", 1, 70).zeros(70),
        |_| 150,
    );
}

#[test]
fn shuffles_votes_and_matches() {
    let case = Case::new("pass", "warp_collectives", 1, 32).zeros(32 * 12);
    check(&case, |word| {
        let (lane, field) = (word / 12, word % 12);
        let (up, down) = (lane >= 1, lane <= 29);
        match field {
            0 => 3 * if up { lane - 1 } else { lane },
            1 => u32::from(up),
            2 => 3 * if down { lane + 2 } else { lane },
            3 => u32::from(down),
            4 => 3 * (lane ^ 16),
            // Segments of 8 lanes: lane 5 of each segment.
            5 => 3 * (lane & 0x18 | 5),
            6 => !0x3ff,
            7 => 0x1111_1111 << (lane % 4),
            8 => 1,
            _ => 0,
        }
    });
}

/// What a lane gets from one that does not take part is undefined: it depends on the seed, and shows
/// only in results that depend on it.
#[test]
fn undefined_results_of_shuffles_differ_between_seeds() {
    let under = |name: &str, seed| {
        let mut case = Case::new("pass", name, 1, 40).zeros(40);
        case.config.seed = seed;
        let ran = case.run();
        assert!(ran.result.is_ok(), "{:?}", ran.result);
        ran.buffers[0].clone()
    };
    let plain = under("shuffle_from_no_thread", 0);
    let one = under("shuffle_from_no_thread", 1);
    assert_eq!(one, under("shuffle_from_no_thread", 1));
    for (thread, (plain, one)) in plain.iter().zip(&one).enumerate() {
        assert_eq!(plain != one, thread >= 32, "thread {thread}");
    }
    let thrown_away = "shuffle_from_no_thread_thrown_away";
    let want: Vec<u32> = (0..40)
        .map(|i| {
            if i < 16 {
                i + 16
            } else if i < 24 {
                i
            } else {
                0
            }
        })
        .collect();
    for seed in 0..4 {
        assert_eq!(under(thrown_away, seed), want, "seed {seed}");
    }
}

#[test]
fn atomics_of_all_blocks_add_up_and_give_every_ticket_once() {
    let ran = Case::new("pass", "histogram", 40, 96)
        .zeros(17)
        .zeros(40 * 96)
        .run();
    ran.result.expect("the kernel runs");
    assert!(
        ran.buffers[0][..16]
            .iter()
            .all(|count| *count == 40 * 96 / 16)
    );
    let mut tickets = ran.buffers[1].clone();
    tickets.sort_unstable();
    assert!(
        tickets
            .iter()
            .enumerate()
            .all(|(i, ticket)| i == *ticket as usize)
    );
}

#[test]
fn blocks_that_wait_for_later_blocks_come_to_an_end() {
    check(&Case::new("pass", "grid_barrier", 50, 1).zeros(51), |_| 50);
}

#[test]
fn a_warp_of_which_some_lanes_poll_does_not_use_up_its_turn() {
    let ran = Case::new("pass", "some_lanes_poll", 50, 32).zeros(51).run();
    let stats = ran.result.expect("the last block ends the wait");
    assert_eq!(ran.buffers[0], [50; 51]);
    // Some hundred a block; a turn is 65,536.
    let instructions = stats.warp_instructions;
    assert!(instructions < 50 * 4096, "{instructions}");
}

#[test]
fn generic_addresses_reach_every_space() {
    check(
        &Case::new("pass", "generic_addresses", 1, 32).zeros(33),
        |i| match i {
            0 => 100,
            i => [100, 207, 300][(i as usize - 1) % 3],
        },
    );
}

#[test]
fn jump_tables_part_and_join_lanes() {
    check(&Case::new("pass", "jump_table", 1, 32).zeros(32), |i| {
        10 * (i % 4 + 1)
    });
}

#[test]
fn bytes_and_halves_are_merged_into_words() {
    let case = Case::new("pass", "narrow_stores", 1, 37)
        .zeros(37)
        .uninitialized(64);
    check(&case, |i| {
        (i32::from((i + 200) as u8 as i8) - i as i32) as u32
    });
}

#[test]
fn carries_and_packed_moves() {
    let case = Case::new("pass", "wide_arithmetic", 1, 32).zeros(32);
    // Without a carry (thread 0) the upper word is 0.
    check(&case, |i| 0x0003_0007 + u32::from(i != 0));
}

#[test]
fn variables_of_the_module_have_their_values() {
    check(
        &Case::new("pass", "module_variables", 1, 32).zeros(32),
        |i| 13 + i % 4,
    );
}

#[test]
fn same_bits_and_counts_whatever_the_number_of_threads() {
    for name in ["nested_divergence", "grid_barrier"] {
        let run = |threads| {
            let mut case = Case::new("pass", name, 50, 1).zeros(51);
            case.config.threads = Some(threads);
            let ran = case.run();
            (ran.result.expect("the kernel runs"), ran.buffers)
        };
        assert_eq!(run(1), run(2), "{name}");
        assert_eq!(run(1), run(5), "{name}");
    }
}

#[test]
fn llc_made_vector_add() {
    let ran = Case::new("pass", "vector_add", 8, 128)
        .zeros(1000)
        .zeros(1000)
        .uninitialized(1000)
        .scalar(1000)
        .run();
    let stats = ran.result.expect("the kernel runs");
    assert!(ran.buffers[2].iter().all(|word| *word == 0));
    // All threads run 6 instructions and `ret`, 1000 of them 11 more, the others the branch.
    assert_eq!(stats.lane_instructions, 1024 * 7 + 1000 * 11 + 24);
}

#[test]
fn additions_read_the_flag_of_subtractions() {
    check(&Case::new("pass", "carry_flag", 1, 1).zeros(4), |i| {
        [1, 0, 0, 6][i as usize]
    });
}

#[test]
fn registers_of_several_parts() {
    let case = Case::new("pass", "vector_registers", 1, 32).zeros(32 * 8);
    check(&case, |word| {
        let (i, part) = (word / 8, word as usize % 8);
        let own = [i, i + 10, i + 20, i + 40];
        match part {
            0..4 => own[part],
            4 => own[2] + 1,
            5 => own[3],
            _ => own[part - 6],
        }
    });
}

#[test]
fn atomics_on_vectors_and_on_128_bits() {
    let ran = Case::new("pass", "vector_atomics", 2, 32).zeros(84).run();
    ran.result.expect("the kernel runs");
    let words = &ran.buffers[0];
    let sums = |i: usize| f32::from_bits(words[i]);
    assert_eq!([sums(0), sums(1)], [64.0, 128.0]);
    assert_eq!(
        words[2..4],
        [0x5800_5400, 0x5800_5400],
        "halves: 64 and 128"
    );
    assert_eq!([4, 5, 6, 7].map(sums), [64.0, 128.0, 64.0, 128.0]);
    assert_eq!(words[8..10], [0x4300_4280; 2], "brain floats: 64 and 128");
    // 64 threads counted one half up and the other half down.
    assert_eq!(words[12..16], [64, 0, (-64i32) as u32, u32::MAX]);
    assert_eq!(words[16..20], [7, 0, 8, 0]);
    assert!(words[20..].iter().copied().eq(0..64));
}

#[test]
fn parameters_in_registers() {
    let case = Case::new("pass", "register_parameters", 1, 32).zeros(32);
    check(&case, |i| {
        let more = if i > 20 { 0 } else { 1000 };
        2 * (i + 3 + more + 3 * i)
    });
}

#[test]
fn stacks_grow_and_are_given_back() {
    check(&Case::new("pass", "dynamic_stack", 1, 40).zeros(40), |i| {
        (i..i + 20).map(|n| n * n.saturating_sub(1) / 2).sum()
    });
}
