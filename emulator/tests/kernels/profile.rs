//! Counters whose values can be worked out by hand.

use warpsmith_emulator::profile::{Class, Counters, OccupancyLimit, Traffic};
use warpsmith_emulator::{Checks, Emulator, EmulatorConfig, LaunchConfig};

/// Runs `body` in `blocks` blocks of `threads` threads with two buffers of 64 KiB, `%x` and `%y`;
/// `%t` is the thread, `%b` the block, `tile` 16 KiB of shared memory.
fn counters(blocks: u32, threads: usize, body: &str) -> Counters {
    let text = format!(
        ".version 8.0 .target sm_90a .address_size 64
         .visible .entry k(.param .u64 x, .param .u64 y)
         {{
             .shared .align 16 .b8 tile[16384];
             .reg .u64 %x, %y, %rd<4>; .reg .u32 %t, %b, %s, %r<8>; .reg .f32 %f<64>;
             .reg .pred %p;
             ld.param.u64 %x, [x];
             ld.param.u64 %y, [y];
             mov.u32 %t, %tid.x;
             mov.u32 %b, %ctaid.x;
             mov.u32 %s, tile;
             {body}
             ret;
         }}"
    );
    let emulator = Emulator::new(EmulatorConfig {
        profile: true,
        threads: Some(threads),
        // Blocks write the same words here on purpose.
        checks: Checks::QUICK,
        ..EmulatorConfig::default()
    });
    let module = emulator.load(&text).expect("the module loads");
    let params = [0; 2].map(|_| {
        let address = emulator.alloc(64 << 10).expect("memory suffices");
        emulator.fill(address, 0, 64 << 10).expect("it is live");
        address.to_le_bytes()
    });
    let shape = LaunchConfig {
        grid: [blocks, 1, 1],
        block: [32, 1, 1],
        shared_bytes: 0,
        cluster: None,
    };
    let params: Vec<&[u8]> = params.iter().map(<[u8; 8]>::as_slice).collect();
    let stats = emulator.launch(&module, "k", &shape, &params);
    stats.expect("the kernel runs").counters().clone()
}

const SIDE_BY_SIDE: &str = "mad.wide.u32 %rd0, %t, 4, %x;
    ld.global.u32 %r0, [%rd0];
    mad.wide.u32 %rd1, %t, 4, %y;
    st.global.u32 [%rd1], %r0;";

#[test]
fn loads_side_by_side_fill_their_sectors_and_repeats_are_not_distinct() {
    let found = counters(3, 1, SIDE_BY_SIDE).global;
    let each = Traffic {
        requests: 3,
        bytes: 3 * 128,
        sectors: 3 * 4,
    };
    assert_eq!((found.loads, found.stores), (each, each));
    assert_eq!((found.distinct_read, found.distinct_written), (128, 128));
    assert_eq!(found.loads.efficiency(), Some(1.0));
    assert_eq!(found.atomics, Traffic::default());
}

#[test]
fn strided_loads_take_a_sector_a_lane_and_broadcasts_one() {
    let strided = counters(
        1,
        1,
        "mad.wide.u32 %rd0, %t, 64, %x; ld.global.u32 %r0, [%rd0];",
    );
    assert_eq!(
        (strided.global.loads.sectors, strided.global.distinct_read),
        (32, 128)
    );
    let broadcast = counters(1, 1, "ld.global.u32 %r0, [%x+4];");
    assert_eq!(
        (
            broadcast.global.loads.sectors,
            broadcast.global.distinct_read
        ),
        (1, 4)
    );
    let guarded = counters(
        1,
        1,
        "setp.lt.u32 %p, %t, 2; @%p ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%x];",
    );
    let want = Traffic {
        requests: 1,
        bytes: 32,
        sectors: 1,
    };
    assert_eq!(
        (guarded.global.loads, guarded.global.distinct_read),
        (want, 16)
    );
}

#[test]
fn atomics_read_and_write() {
    let found = counters(2, 1, "atom.global.add.u32 %r0, [%x], 1;").global;
    let want = Traffic {
        requests: 2,
        bytes: 256,
        sectors: 2,
    };
    assert_eq!(found.atomics, want);
    assert_eq!((found.distinct_read, found.distinct_written), (4, 4));
}

#[test]
fn shared_memory_counts_passes_and_names_the_line_of_a_conflict() {
    let free = counters(1, 1, "mad.lo.u32 %r0, %t, 4, %s; st.shared.u32 [%r0], %t;");
    let shared = free.shared;
    assert_eq!(
        (shared.requests, shared.bytes, shared.wavefronts),
        (1, 128, 1)
    );
    assert_eq!(shared.bank_conflicts, 0);
    // A column of a tile with rows of 32 words: all lanes in one bank.
    let column = counters(
        1,
        1,
        "mad.lo.u32 %r0, %t, 128, %s;\nst.shared.u32 [%r0], %t;",
    );
    assert_eq!(
        (column.shared.wavefronts, column.shared.bank_conflicts),
        (32, 31)
    );
    let line = column.lines.iter().find(|line| line.bank_conflicts > 0);
    let line = line.expect("a line has them");
    assert_eq!(
        (line.ptx_text.as_str(), line.bank_conflicts),
        ("st.shared.u32 [%r0], %t;", 31)
    );
    // One word of padding per row.
    let padded = counters(
        1,
        1,
        "mad.lo.u32 %r0, %t, 132, %s; st.shared.u32 [%r0], %t;",
    );
    assert_eq!(padded.shared.bank_conflicts, 0);
}

#[test]
fn instructions_are_sorted_by_kind_and_lanes() {
    let body = "setp.lt.u32 %p, %t, 8;
        mov.f32 %f0, 0f3F800000;
        @%p fma.rn.f32 %f1, %f0, %f0, %f0;
        add.f32 %f2, %f0, %f0;
        bar.sync 0;";
    let found = counters(2, 1, body);
    let of = |class| {
        let issued = found.instructions.get(&class).copied().unwrap_or_default();
        (issued.warp, issued.lane)
    };
    assert_eq!(of(Class::Fma), (2, 16));
    assert_eq!(of(Class::Float), (2, 64));
    assert_eq!(of(Class::Constant), (4, 128));
    assert_eq!(of(Class::Barrier), (2, 64));
    assert_eq!(of(Class::Global), (0, 0));
    assert_eq!(found.flops.single, 16 * 2 + 64);
    assert_eq!(found.waits.barrier, 2);
    assert_eq!(found.warp_instructions(), 2 * 11);
}

#[test]
fn a_loop_makes_its_lines_hot() {
    let body = "mov.u32 %r0, 0;
    again:
        add.u32 %r0, %r0, 1;
        setp.lt.u32 %p, %r0, 10;
        @%p bra again;";
    let found = counters(1, 1, body);
    let hot: Vec<_> = found
        .hottest(3)
        .iter()
        .map(|line| (line.ptx_text.as_str(), line.issued.warp))
        .collect();
    let want = [
        ("add.u32 %r0, %r0, 1;", 10),
        ("setp.lt.u32 %p, %r0, 10;", 10),
        ("@%p bra again;", 10),
    ];
    assert_eq!(hot, want);
}

#[test]
fn host_threads_do_not_change_a_figure() {
    let one = counters(64, 1, SIDE_BY_SIDE);
    assert_eq!(one.global.loads.requests, 64);
    assert_eq!(counters(64, 5, SIDE_BY_SIDE), one);
}

#[test]
fn nothing_is_counted_unless_asked_for() {
    let emulator = Emulator::new(EmulatorConfig::default());
    let text = ".version 8.0 .target sm_90a .address_size 64 .visible .entry k() { ret; }";
    let module = emulator.load(text).expect("the module loads");
    let shape = LaunchConfig {
        grid: [1; 3],
        block: [32, 1, 1],
        shared_bytes: 0,
        cluster: None,
    };
    let stats = emulator.launch(&module, "k", &shape, &[]).expect("it runs");
    assert_eq!((stats.lane_instructions, stats.counters), (32, None));
}

/// `count` floats that are all loaded before the first is stored.
fn live(count: usize) -> String {
    let loads = (0..count).map(|i| format!("ld.global.f32 %f{i}, [%x+{}];\n", 4 * i));
    let stores = (0..count).map(|i| format!("st.global.f32 [%y+{}], %f{i};\n", 4 * i));
    loads.chain(stores).collect()
}

#[test]
fn registers_are_estimated_by_what_lives_at_once() {
    let registers = |body: &str| {
        let found = counters(1, 1, body).occupancy.expect("it is always there");
        assert!(found.registers_are_estimated);
        found.registers
    };
    // Two addresses take two registers each; registers are allocated in multiples of eight.
    assert_eq!(registers(&live(10)), 16);
    assert_eq!(registers(&live(40)), 48);
    // One after another, they share a register.
    let one = "ld.global.f32 %f0, [%x]; st.global.f32 [%y], %f0;\n";
    assert_eq!(registers(&one.repeat(40)), 16);
    // What a loop uses is live to its end, although the text names it before the others.
    let body = format!(
        "mov.f32 %f63, 0f00000000;
        mov.u32 %r0, 0;
    again:
        add.f32 %f63, %f63, %f63;
        {}
        add.u32 %r0, %r0, 1;
        setp.lt.u32 %p, %r0, 2;
        @%p bra again;",
        live(42)
    );
    assert_eq!(registers(&body), 48);
    assert_eq!(
        registers(&body.replace("add.f32 %f63, %f63, %f63;", "")),
        48
    );
    assert_eq!(registers(&body.replace(&live(42), &live(43))), 56);
}

#[test]
fn occupancy_takes_registers_that_the_ptx_says() {
    let text = ".version 8.0 .target sm_90a .address_size 64
        .visible .entry k() .maxnreg 128 { .shared .b8 tile[1000]; ret; }";
    let emulator = Emulator::new(EmulatorConfig {
        profile: true,
        ..EmulatorConfig::default()
    });
    let module = emulator.load(text).expect("the module loads");
    let shape = LaunchConfig {
        grid: [1; 3],
        block: [256, 1, 1],
        shared_bytes: 24,
        cluster: None,
    };
    let stats = emulator.launch(&module, "k", &shape, &[]).expect("it runs");
    let found = stats.counters().occupancy.clone().expect("it is there");
    assert_eq!(
        (found.registers, found.registers_are_estimated),
        (128, false)
    );
    assert_eq!(
        (found.blocks, found.warps, found.limit),
        (2, 16, OccupancyLimit::Registers)
    );
    assert_eq!(
        found.to_string(),
        "16 of 64 warps in 2 blocks, limited by registers: 128 registers a thread, \
         1024 bytes of shared memory a block (sm_90)"
    );
}
