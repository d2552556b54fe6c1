//! Orders that are explored: how many there are, and what they lead to.

use std::collections::BTreeSet;

use warpsmith_emulator::{
    Emulator, EmulatorConfig, Explorer, FaultKind, LaunchConfig, LaunchError,
};

/// What the orders of a kernel led to.
struct Explored {
    orders: u64,
    /// The words of the buffer at the end of each order.
    results: BTreeSet<Vec<u32>>,
    /// The fault that ended the search.
    fault: Option<FaultKind>,
}

/// Runs `body` in every order, in `blocks` blocks of `warps` warps, of which one lane goes on. `%x` is
/// a buffer of 8 words, `%w` the number of the warp in the grid, `bar` an mbarrier.
fn explore(blocks: u32, warps: u32, body: &str) -> Explored {
    let text = format!(
        ".version 8.0 .target sm_90 .address_size 64
         .visible .entry k(.param .u64 x)
         {{
             .shared .align 8 .b64 bar;
             .shared .align 4 .b32 word;
             .reg .u64 %x, %y; .reg .u32 %t, %w, %b, %n, %r<8>; .reg .pred %p<4>;
             ld.param.u64 %x, [x];
             mov.u32 %t, %tid.x;
             shr.u32 %w, %t, 5;
             mov.u32 %b, %ctaid.x;
             mov.u32 %n, {warps};
             mad.lo.u32 %w, %b, %n, %w;
             mad.wide.u32 %y, %w, 4, %x;
             and.b32 %t, %t, 31;
             setp.ne.u32 %p0, %t, 0;
             {body}
             ret;
         }}"
    );
    let explorer = Explorer::new();
    let mut results = BTreeSet::new();
    let mut fault = None;
    while !explorer.is_complete() && fault.is_none() {
        assert!(explorer.orders() < 2000, "too many orders");
        let emulator = Emulator::new(EmulatorConfig {
            explorer: Some(explorer.clone()),
            ..EmulatorConfig::default()
        });
        let module = emulator.load(&text).expect("the module loads");
        let x = emulator.alloc(32).expect("memory suffices");
        emulator.fill(x, 0, 32).expect("it is live");
        let shape = LaunchConfig {
            grid: [blocks, 1, 1],
            block: [32 * warps, 1, 1],
            shared_bytes: 0,
            cluster: None,
        };
        match emulator.launch(&module, "k", &shape, &[&x.to_le_bytes()]) {
            Ok(_) if explorer.was_cut_off() => {}
            Ok(_) => {
                let mut bytes = [0; 32];
                emulator.read(x, &mut bytes).expect("it is live");
                let words = bytes.chunks_exact(4);
                let word = |word: &[u8]| u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                results.insert(words.map(word).collect());
            }
            Err(LaunchError::Fault(report)) => fault = Some(report.kind),
            Err(other) => panic!("{other}"),
        }
    }
    Explored {
        orders: explorer.orders(),
        results,
        fault,
    }
}

/// Words 0 of all results.
fn first(found: &Explored) -> Vec<u32> {
    let words: BTreeSet<u32> = found.results.iter().map(|words| words[0]).collect();
    words.into_iter().collect()
}

#[test]
fn tickets_are_drawn_in_each_order_once() {
    let body = "@%p0 exit; atom.global.add.u32 %r0, [%x+28], 1; st.global.u32 [%y], %r0;";
    for (blocks, warps, orders) in [(1, 2, 2), (1, 3, 6), (3, 1, 6), (2, 2, 24)] {
        let found = explore(blocks, warps, body);
        assert_eq!(found.fault, None);
        assert_eq!(found.orders, orders, "{blocks} blocks of {warps} warps");
        assert_eq!(found.results.len() as u64, orders);
    }
}

#[test]
fn accesses_of_other_words_and_barriers_have_one_order() {
    let own = "@%p0 exit; atom.global.add.u32 %r0, [%y], 1; atom.global.add.u32 %r0, [%y], 2;";
    assert_eq!(explore(2, 2, own).orders, 1);
    let meet = "bar.sync 0; bar.sync 1; bar.sync 0; @!%p0 st.global.u32 [%y], %w;";
    assert_eq!(explore(2, 2, meet).orders, 1);
    let ordered = "setp.ne.u32 %p1, %w, 0; @%p1 bra MEET; @!%p0 st.relaxed.gpu.global.u32 [%x], 5;
        MEET: bar.sync 0;
        ld.relaxed.gpu.global.u32 %r0, [%x]; @!%p0 st.global.u32 [%y+4], %r0;";
    let found = explore(1, 2, ordered);
    assert_eq!((found.orders, found.fault), (1, None));
}

#[test]
fn increments_that_are_not_atomic_get_lost_in_all_ways() {
    let body = "@%p0 exit; ld.relaxed.gpu.global.u32 %r0, [%x]; add.u32 %r0, %r0, 1;
        st.relaxed.gpu.global.u32 [%x], %r0;";
    let found = explore(2, 2, body);
    assert_eq!((first(&found), found.fault), (vec![1, 2, 3, 4], None));
    let found = explore(1, 2, body);
    assert_eq!(first(&found), [1, 2]);
    // Of 6 interleavings, two pairs are the same.
    assert_eq!(found.orders, 4);
}

#[test]
fn a_fault_of_one_order_is_found() {
    // Warp 0 writes two words; warp 1 reads them the other way round.
    let body = "@%p0 exit; setp.ne.u32 %p1, %w, 0; @%p1 bra READ;
        st.relaxed.gpu.global.u32 [%x], 1; st.relaxed.gpu.global.u32 [%x+4], 1; ret;
        READ: ld.relaxed.gpu.global.u32 %r0, [%x+4]; ld.relaxed.gpu.global.u32 %r1, [%x];
        setp.ne.u32 %p2, %r0, WANT; @%p2 exit; setp.eq.u32 %p3, %r1, 0; @%p3 trap;";
    let both = explore(1, 2, &body.replace("WANT", "0"));
    assert_eq!(both.fault, Some(FaultKind::Trap));
    let none = explore(1, 2, &body.replace("WANT", "1"));
    assert_eq!((none.fault, none.orders), (None, 3));
}

#[test]
fn locks_are_taken_in_each_order_and_deadlocks_are_found() {
    let lock = |at: u32, name: &str| {
        format!(
            "{name}: atom.global.cas.b32 %r0, [%x+{at}], 0, 1;
        setp.ne.u32 %p2, %r0, 0; @%p2 bra {name};"
        )
    };
    let count =
        "ld.volatile.global.u32 %r1, [%x]; add.u32 %r1, %r1, 1; st.volatile.global.u32 [%x], %r1;";
    let body = format!(
        "@%p0 exit; {} {count} atom.global.exch.b32 %r0, [%x+16], 0;",
        lock(16, "A")
    );
    for (blocks, warps) in [(1, 2), (2, 1), (1, 3)] {
        let found = explore(blocks, warps, &body);
        assert_eq!((first(&found), found.fault), (vec![blocks * warps], None));
    }
    let both = format!(
        "@%p0 exit; setp.ne.u32 %p1, %w, 0; @%p1 bra OTHER; {} {} bra DONE; OTHER: {} {} DONE:
         atom.global.exch.b32 %r0, [%x+16], 0; atom.global.exch.b32 %r0, [%x+20], 0;",
        lock(16, "A"),
        lock(20, "B"),
        lock(20, "C"),
        lock(16, "D")
    );
    assert_eq!(explore(1, 2, &both).fault, Some(FaultKind::Deadlock));
}

#[test]
fn a_phase_that_runs_ahead_of_a_waiter_is_found() {
    // Warp 1 arrives `count` times. Warp 0 waits for the phase of parity 0.
    let body = |count: u32| {
        let arrive = "mbarrier.arrive.shared.b64 _, [bar];".repeat(count as usize);
        format!(
            "setp.ne.u32 %p1, %w, 0; or.pred %p2, %p0, %p1;
             @!%p2 mbarrier.init.shared.b64 [bar], 1;
             bar.sync 0; @%p0 exit; @%p1 bra ARRIVE;
             WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra WAIT; ret;
             ARRIVE: {arrive}"
        )
    };
    let once = explore(1, 2, &body(1));
    assert_eq!(once.fault, None);
    assert_eq!(explore(1, 2, &body(2)).fault, Some(FaultKind::Deadlock));
}
