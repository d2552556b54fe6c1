//! An estimate of the registers per thread; only ptxas knows the real number.
//!
//! A PTX register is live from the first position in the text that names it to the last, and to the
//! end of every loop that it is carried through. The estimate is the largest number of 32-bit
//! registers that are live at once. A 64-bit register counts as two, predicates do not count. For
//! calls, the largest number of any called function is added. Further work of ptxas (reordering,
//! rematerialisation, temporaries) is not modelled.

use std::collections::HashMap;

use crate::program::{Op, Program, Width};

/// Registers of a thread are allocated in multiples of this.
const UNIT: u32 = 8;
/// Bounds of the estimate.
const LEAST: u32 = 16;
const MOST: u32 = 255;

/// Estimated registers per thread of the kernel.
pub(super) fn estimate(program: &Program) -> u32 {
    let mut entries: Vec<usize> = program.functions.iter().map(|f| f.entry as usize).collect();
    entries.push(program.code.len());
    entries.sort_unstable();
    let most = |range: (usize, usize)| most_live(program, range.0, range.1);
    let kernel = most((entries[0], entries[1]));
    // The caller's registers stay live during a call.
    let called = entries[1..]
        .windows(2)
        .map(|pair| most((pair[0], pair[1])))
        .max();
    (kernel + called.unwrap_or(0))
        .next_multiple_of(UNIT)
        .clamp(LEAST, MOST)
}

/// The most 32-bit registers that are live at once in the code from `start` to `end`.
fn most_live(program: &Program, start: usize, end: usize) -> u32 {
    let mut lives: HashMap<(Width, usize), (usize, usize)> = HashMap::new();
    for pc in start..end {
        for reg in program.touched.get(pc).into_iter().flatten() {
            if let Some(index) = reg.slot.in_register() {
                lives.entry((reg.width, index)).or_insert((pc, pc)).1 = pc;
            }
        }
    }
    let mut lives: Vec<_> = lives
        .into_iter()
        .map(|((width, _), life)| (width, life))
        .collect();
    extend_over_loops(program, start, end, &mut lives);
    let mut change = vec![0_i64; end - start + 1];
    for (width, (first, last)) in &lives {
        let words = match width {
            Width::Pred => 0,
            Width::B16 | Width::B32 => 1,
            Width::B64 => 2,
        };
        change[first - start] += words;
        change[last + 1 - start] -= words;
    }
    let mut live = 0;
    let mut most = 0;
    for step in change {
        live += step;
        most = most.max(live);
    }
    most as u32
}

/// A register that is live on entry to a loop and named in it is live until the end of the loop.
fn extend_over_loops(
    program: &Program,
    start: usize,
    end: usize,
    lives: &mut [(Width, (usize, usize))],
) {
    let mut loops: Vec<(usize, usize)> = Vec::new();
    for pc in start..end {
        match &program.code[pc].op {
            Op::Branch { target } => loops.push((*target as usize, pc)),
            Op::BranchIndexed { targets, .. } => {
                loops.extend(targets.iter().map(|target| (*target as usize, pc)));
            }
            _ => {}
        }
    }
    loops.retain(|(target, branch)| target <= branch);
    // Inner loops first, so that outer loops see live ranges that inner loops have extended.
    loops.sort_by_key(|(target, branch)| branch - target);
    for (target, branch) in loops {
        for (_, (first, last)) in lives.iter_mut() {
            if *first < target && (target..branch).contains(last) {
                *last = branch;
            }
        }
    }
}
