//! Which blocks of a kernel's code all threads pass alike: all of a warp, of a block of threads, or
//! of the grid.
//!
//! A branch parts threads if its condition may differ between them: if it comes of `%tid`, of
//! memory that is written, of another lane. The code behind such a branch, up to where all of its
//! ways have met again, is divergent. A register that is written there may hold different values in
//! different threads. Numbers of blocks, parameters and constants are the same in all threads, and
//! what is computed of them. A value that all lanes read of one lane is the same in a warp.
//!
//! Where there is doubt, a block is divergent.

use std::collections::BTreeSet;
use std::fmt;

use ptx_syntax::ast::{Instruction, Operand};
use ptx_syntax::isa::{Effect, Opcode};

use crate::graph::{Graph, ends_block};

/// Special registers that are the same in all threads of a grid, without their dimension.
const SAME_IN_GRID: [&str; 8] = [
    "%nctaid",
    "%ntid",
    "%nclusterid",
    "%cluster_nctaid",
    "%cluster_nctarank",
    "%gridid",
    "%envreg1",
    "%envreg2",
];

/// Further ones that are the same in all threads of a block.
const SAME_IN_BLOCK: [&str; 4] = ["%ctaid", "%clusterid", "%cluster_ctaid", "%cluster_ctarank"];

/// Threads that come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// Those of a warp.
    OfWarp,
    /// Those of a block.
    OfBlock,
    /// Those of all blocks.
    OfGrid,
}

impl fmt::Display for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OfWarp => "warp",
            Self::OfBlock => "block",
            Self::OfGrid => "grid",
        })
    }
}

impl Threads {
    /// Whether a special register is the same in all of them.
    fn have_the_same(self, register: &str) -> bool {
        let name = register.split('.').next().unwrap_or(register);
        SAME_IN_GRID.contains(&name) || self != Self::OfGrid && SAME_IN_BLOCK.contains(&name)
    }
}

/// What of a kernel may differ between threads.
pub(crate) struct Divergence<'a> {
    /// For each block of the graph, what keeps threads from passing it alike.
    pub(crate) blocks: Vec<Option<Cause<'a>>>,
    /// Names of which threads may hold different values.
    varying: BTreeSet<&'a str>,
}

/// What keeps threads from passing a block alike.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cause<'a> {
    /// No way leads from there to the kernel's end, so that there is no place where ways meet.
    Endless,
    /// A branch, or an end, that not all threads take.
    Branch(&'a Instruction),
}

impl<'a> Divergence<'a> {
    pub(crate) fn of(graph: &Graph<'a>, threads: Threads) -> Self {
        let ways = Ways::of(graph);
        let branches: Vec<(&Instruction, BTreeSet<usize>)> = (0..graph.blocks.len())
            .filter_map(|block| {
                let jump = graph.blocks[block].last().filter(|last| ends_block(last))?;
                Some((*jump, ways.until_they_meet(block)))
            })
            .collect();
        let endless = |ends: &bool| (!ends).then_some(Cause::Endless);
        let mut all = Self {
            blocks: ways.ends.iter().map(endless).collect(),
            varying: unknown(graph, threads),
        };
        loop {
            let before = all.size();
            for (branch, region) in &branches {
                if all.varies(branch) {
                    for block in region {
                        all.blocks[*block].get_or_insert(Cause::Branch(branch));
                    }
                }
            }
            for (block, instruction) in graph.instructions() {
                let agree = threads == Threads::OfWarp && all.is_one_lanes(instruction);
                if all.blocks[block].is_some()
                    || !agree && (!is_function(instruction) || all.varies(instruction))
                {
                    all.varying.extend(results(instruction));
                }
            }
            if before == all.size() {
                return all;
            }
        }
    }

    /// Whether an instruction reads what may differ between threads.
    pub(crate) fn varies(&self, instruction: &Instruction) -> bool {
        let mut sources = sources(instruction).into_iter();
        sources.any(|name| self.varying.contains(name))
    }

    /// Whether all lanes get the value of one lane, the same for all.
    fn is_one_lanes(&self, instruction: &Instruction) -> bool {
        let lane = instruction.operands.get(2);
        let mut names = lane.map(Operand::names).into_iter().flatten();
        instruction.known() == Some(Opcode::Shfl)
            && instruction.has("idx")
            && !names.any(|name| self.varying.contains(name))
    }

    fn size(&self) -> (usize, usize) {
        let divergent = self.blocks.iter().filter(|cause| cause.is_some()).count();
        (divergent, self.varying.len())
    }
}

/// Special registers that may differ between threads: names with a `%` that nothing writes.
fn unknown<'a>(graph: &Graph<'a>, threads: Threads) -> BTreeSet<&'a str> {
    let written: BTreeSet<&str> = graph.instructions().flat_map(|(_, i)| results(i)).collect();
    graph
        .instructions()
        .flat_map(|(_, instruction)| sources(instruction))
        .filter(|name| {
            name.starts_with('%') && !written.contains(name) && !threads.have_the_same(name)
        })
        .collect()
}

/// Whether the result of an instruction is a function of its operands alone.
fn is_function(instruction: &Instruction) -> bool {
    let constant = ["param", "param::entry", "const", "nc"];
    match instruction.facts().effect {
        Effect::Reads => constant.iter().any(|space| instruction.has(space)),
        effect => effect == Effect::Nothing,
    }
}

/// All names that an instruction may read, its guard's among them.
fn sources(instruction: &Instruction) -> Vec<&str> {
    let mut names = instruction.names();
    names.extend(
        instruction
            .guard
            .iter()
            .map(|guard| guard.register.as_str()),
    );
    names
}

/// The names that an instruction writes.
fn results(instruction: &Instruction) -> Vec<&str> {
    instruction.result().map(Operand::names).unwrap_or_default()
}

/// The ways from blocks to the end of a kernel. Those that end in a trap end all threads, so nothing
/// waits for them.
struct Ways<'a> {
    graph: &'a Graph<'a>,
    /// Whether a block has a way to the end.
    ends: Vec<bool>,
    /// For each block, those with a way to the end that does not pass it.
    around: Vec<Vec<bool>>,
}

impl<'a> Ways<'a> {
    fn of(graph: &'a Graph<'a>) -> Self {
        let blocks = 0..graph.blocks.len();
        Self {
            graph,
            ends: reach_an_end(graph, None),
            around: blocks
                .map(|block| reach_an_end(graph, Some(block)))
                .collect(),
        }
    }

    /// The blocks on the ways from `block` to the first that all of them pass.
    fn until_they_meet(&self, block: usize) -> BTreeSet<usize> {
        let meets = |at: usize| at != block && !self.around[at][block];
        let mut region = BTreeSet::new();
        let mut open = vec![block];
        while let Some(next) = open.pop() {
            for &to in &self.graph.successors[next] {
                if self.ends[to] && !meets(to) && region.insert(to) {
                    open.push(to);
                }
            }
        }
        region
    }
}

/// The blocks from which a way leads to the kernel's end and does not pass `without`.
fn reach_an_end(graph: &Graph<'_>, without: Option<usize>) -> Vec<bool> {
    let mut reach = vec![false; graph.blocks.len()];
    let passes = |block: usize| Some(block) != without;
    loop {
        let mut changed = false;
        for block in (0..reach.len()).rev().filter(|&block| passes(block)) {
            let mut successors = graph.successors[block].iter();
            if !reach[block] && (graph.is_end(block) || successors.any(|&to| reach[to])) {
                (reach[block], changed) = (true, true);
            }
        }
        if !changed {
            return reach;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the barriers of a kernel with this body are in divergent blocks, in the text's order.
    fn barriers(body: &str) -> Vec<bool> {
        barriers_for(Threads::OfBlock, body)
    }

    fn barriers_for(threads: Threads, body: &str) -> Vec<bool> {
        let text = format!(
            ".version 7.8\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u32 n)\n{{\n\
             .reg .pred p<9>;\n.reg .b32 r<9>;\n.reg .b64 D<9>;\n{body}\nret;\n}}\n"
        );
        let module = ptx_syntax::parse(&text).expect("the fixture is valid PTX");
        let graph = Graph::of(&module.functions[0]);
        let divergence = Divergence::of(&graph, threads);
        let barriers = graph
            .instructions()
            .filter(|(_, instruction)| instruction.collective().is_some());
        barriers
            .map(|(block, _)| divergence.blocks[block].is_some())
            .collect()
    }

    const BARRIER: &str = "@!p0 bra $a;\nbar.sync 0;\n$a:";

    #[test]
    fn conditions_of_blocks_and_parameters_part_no_threads() {
        for condition in [
            "ld.param.u32 r0,[n];\nsetp.lt.u32 p0,r0,8;",
            "mov.u32 r0,%ctaid.x;\nand.b32 r1,r0,1;\nsetp.eq.b32 p0,r1,1;",
            "mov.b64 D0,n;\nld.param.u32 r2,[D0+4];\nsetp.eq.u32 p0|p1,r2,%nctaid.y;",
            // A counter.
            "mov.u32 r0,0;\n$b:\nadd.u32 r0,r0,1;\nsetp.lt.u32 p0,r0,8;\n@p0 bra $b;",
            "ld.global.nc.u32 r0,[D0];\nsetp.lt.u32 p0,r0,8;",
        ] {
            assert_eq!(
                barriers(&format!("{condition}\n{BARRIER}")),
                [false],
                "{condition}"
            );
        }
    }

    #[test]
    fn conditions_of_threads_memory_and_lanes_do() {
        for condition in [
            "setp.lt.u32 p0,%tid.x,8;",
            "mov.u32 r0,%laneid;\nmov.u32 r1,7;\n@p1 mov.u32 r1,r0;\nsetp.lt.u32 p0,r1,8;",
            "ld.global.u32 r0,[D0];\nsetp.lt.u32 p0,r0,8;",
            "ld.shared.v2.u32 {r0,r1},[D0];\nsetp.lt.u32 p0,r1,8;",
            "shfl.sync.bfly.b32 r0|p1,r2,1,31,-1;\nsetp.lt.u32 p0,r0,8;",
            "setp.lt.u32 p1,%tid.x,8;\nmov.u32 r0,1;\n@p1 mov.u32 r0,2;\nsetp.lt.u32 p0,r0,2;",
            "setp.lt.u32 p1,%tid.x,8;\nmov.u32 r0,1;\n@p1 bra $b;\nmov.u32 r0,2;\n$b:\n\
             setp.lt.u32 p0,r0,2;",
            // How often it counts differs.
            "mov.u32 r0,0;\n$b:\nadd.u32 r0,r0,1;\nsetp.lt.u32 p1,r0,%tid.x;\n@p1 bra $b;\n\
             setp.lt.u32 p0,r0,2;",
            "{ .reg .pred q; mbarrier.try_wait.parity.shared::cta.b64 q,[r1],r2;\n\
             selp.u32 r0,1,0,q; }\nsetp.lt.u32 p0,r0,2;",
        ] {
            assert_eq!(
                barriers(&format!("{condition}\n{BARRIER}")),
                [true],
                "{condition}"
            );
        }
    }

    #[test]
    fn what_all_lanes_read_of_one_parts_no_warp() {
        let uniform = "shfl.sync.idx.b32 r0|p1,r2,0,31,-1;\nsetp.eq.b32 p0,r0,1;";
        for (threads, lane, parts) in [
            (Threads::OfWarp, "0", false),
            (Threads::OfWarp, "r2", true),
            (Threads::OfBlock, "0", true),
        ] {
            let condition = uniform.replace(",0,31", &format!(",{lane},31"));
            let got = barriers_for(
                threads,
                &format!("mov.u32 r2,%tid.x;\n{condition}\n{BARRIER}"),
            );
            assert!(
                got.contains(&parts) && got.len() <= 2,
                "{threads} {lane}: {got:?}"
            );
        }
    }

    #[test]
    fn ways_that_have_met_again_and_traps_part_none() {
        let body = "setp.lt.u32 p0,%tid.x,8;\n@p0 bra $a;\nbra $b;\n$a:\nbar.sync 1;\n$b:\nbar.sync 0;\n\
                    @p0 bra $t;\nbra $c;\n$t:\ntrap;\n$c:\nbar.sync 0;";
        assert_eq!(barriers(body), [true, false, false]);
        // Threads that have returned are not there.
        let body = "setp.lt.u32 p0,%tid.x,8;\n@p0 ret;\nbar.sync 0;";
        assert_eq!(barriers(body), [true]);
        let body = "setp.lt.u32 p0,%tid.x,8;\n$a:\nbar.sync 0;\n@p0 bra $a;";
        assert_eq!(barriers(body), [true]);
        let body = "$a:\nbar.sync 0;\nbra $a;";
        assert_eq!(barriers(body), [true]);
    }
}
