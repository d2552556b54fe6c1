//! The text of a program: its frame, and what waits for what.

use super::{ACCUMULATORS, BUFFER_BYTES, BUFFERS, Random, SAVED_WORDS, THREADS};

/// mbarriers of one arrival, one for each copy in flight.
pub(super) const BARRIERS: usize = 4;
/// The mbarrier at which all threads of a block arrive.
pub(super) const OF_ALL: usize = BARRIERS;
/// Stages of pipelines; each has a full and an empty mbarrier.
pub(super) const STAGES: usize = 3;
/// The full mbarriers, then the empty ones.
pub(super) const FULL: usize = OF_ALL + 1;
pub(super) const EMPTY: usize = FULL + STAGES;

/// How to wait for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// For the `cp.async` group with this number.
    Group(usize),
    /// For a phase of an mbarrier.
    Barrier(usize),
    /// For the bulk group with this number, which reads shared memory.
    Store(usize),
}

/// A copy in flight, and its buffer.
#[derive(Clone, Copy, Debug)]
struct Pending {
    wait: Wait,
    buffer: usize,
    /// Whether the generic proxy writes the buffer.
    soils: bool,
}

/// Writes a program.
pub(super) struct Builder {
    seed: u64,
    pub(super) text: String,
    pub(super) random: Random,
    /// Blocks of a cluster, a power of two.
    pub(super) cluster: u32,
    /// Boxes of the tensor maps: words of a row, rows.
    pub(super) boxes: ([u32; 2], [u32; 2]),
    labels: usize,
    pending: Vec<Pending>,
    /// Groups committed so far: of `cp.async`, and bulk groups.
    pub(super) groups: usize,
    pub(super) stores: usize,
    /// Whether bulk stores may still write the block's output.
    stored: bool,
    /// Whether threads have read the block's output since the last proxy fence of all memory.
    pub(super) output_read: bool,
    /// Buffers that the generic proxy has written since the last proxy fence.
    dirty: [bool; BUFFERS],
    /// Times that each stage of the pipelines was filled.
    pub(super) fills: [usize; STAGES],
    /// Arrivals that empty a stage: one of each thread of the consumers, or of each warp.
    pub(super) per_warp: bool,
    pub(super) in_loop: bool,
    steps: Vec<&'static str>,
}

impl Builder {
    pub(super) fn new(
        seed: u64,
        cluster: u32,
        boxes: ([u32; 2], [u32; 2]),
        mut random: Random,
    ) -> Self {
        let per_warp = random.below(2) == 0;
        Self {
            seed,
            text: String::new(),
            random,
            cluster,
            boxes,
            labels: 0,
            pending: Vec::new(),
            groups: 0,
            stores: 0,
            stored: false,
            output_read: false,
            dirty: [false; BUFFERS],
            fills: [0; STAGES],
            per_warp,
            in_loop: false,
            steps: Vec::new(),
        }
    }

    /// The whole kernel, and the names of its steps.
    pub(super) fn program(mut self) -> (String, Vec<&'static str>) {
        self.open();
        let steps = 8 + self.random.below(16);
        for _ in 0..steps {
            self.step();
        }
        self.close();
        (self.text, self.steps)
    }

    pub(super) fn line(&mut self, line: &str) {
        self.text.push('\t');
        self.text.push_str(line);
        self.text.push('\n');
    }

    pub(super) fn place(&mut self, label: &str) {
        self.text.push_str(label);
        self.text.push_str(":\n");
    }

    pub(super) fn label(&mut self) -> String {
        self.labels += 1;
        format!("$L{}", self.labels)
    }

    pub(super) fn name_step(&mut self, name: &'static str) {
        self.steps.push(name);
    }

    pub(super) fn once_in(&mut self, n: usize) -> bool {
        self.random.below(n) == 0
    }

    pub(super) fn buffer(&mut self) -> usize {
        self.random.below(BUFFERS)
    }

    pub(super) fn one_of(&mut self, words: &[&'static str]) -> &'static str {
        words[self.random.below(words.len())]
    }

    fn open(&mut self) {
        let (seed, cluster) = (self.seed, self.cluster);
        let empty = if self.per_warp { 3 } else { 96 };
        self.text = format!(
            ".visible .entry async_{seed}(.param .u64 input, .param .u64 output, .param .u64 saved, \
             .param .align 64 .b8 from[128], .param .align 64 .b8 to[128])\n.reqntid {THREADS}, 1, 1\n\
             .reqnctapercluster {cluster}, 1, 1\n{{\n"
        );
        self.line(".reg .pred %p<4>;\n\t.reg .b32 %t<12>, %a<4>, %parity<5>, %n<2>;");
        self.line(".reg .b32 %thread, %rank, %block, %space, %own, %bars;");
        self.line(".reg .b64 %d<8>, %in, %out, %saved, %from, %to;");
        self.line(&format!(
            ".shared .align 1024 .b8 space[{}];",
            BUFFERS * BUFFER_BYTES
        ));
        self.line(&format!(".shared .align 8 .b64 bars[{}];", EMPTY + STAGES));
        self.line("mov.u32 %thread, %tid.x;\n\tmov.u32 %rank, %cluster_ctarank;\n\tmov.u32 %block, %ctaid.x;");
        self.line(
            "mov.u32 %space, space;\n\tmov.u32 %bars, bars;\n\tmad.lo.u32 %own, %thread, 16, %space;",
        );
        for (register, name) in [("in", "input"), ("out", "output"), ("saved", "saved")] {
            self.line(&format!("ld.param.u64 %{register}, [{name}];"));
            self.line(&format!("cvta.to.global.u64 %{register}, %{register};"));
        }
        for name in ["from", "to"] {
            self.line(&format!(
                "mov.b64 %{name}, {name};\n\tcvta.param.u64 %{name}, %{name};"
            ));
        }
        self.line("setp.ne.u32 %p0, %thread, 0;\n\t@%p0 bra $READY;");
        for bar in 0..EMPTY + STAGES {
            let count = match bar {
                OF_ALL => THREADS,
                EMPTY.. => empty,
                _ => 1,
            };
            self.line(&format!(
                "mbarrier.init.shared::cta.b64 [%bars+{}], {count};",
                8 * bar
            ));
        }
        self.line("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async;");
        self.place("$READY");
        for parity in 0..5 {
            self.line(&format!("mov.u32 %parity{parity}, 0;"));
        }
        self.line("mad.lo.u32 %t0, %block, 128, %thread;\n\tmul.wide.u32 %d0, %t0, 16;");
        self.line("add.u64 %d0, %in, %d0;\n\tld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%d0];");
        self.cluster_sync();
        for buffer in 0..BUFFERS {
            self.mix();
            self.write(buffer);
        }
    }

    fn close(&mut self) {
        self.settle_all();
        self.line("cp.async.bulk.wait_group 0;");
        self.cluster_sync();
        self.line("mad.lo.u32 %t0, %block, 128, %thread;");
        self.line(&format!(
            "mul.wide.u32 %d0, %t0, {};\n\tadd.u64 %d0, %saved, %d0;",
            4 * SAVED_WORDS
        ));
        self.line("st.global.v4.b32 [%d0], {%a0, %a1, %a2, %a3};");
        for buffer in 0..BUFFERS {
            self.line(&format!(
                "ld.shared.v4.b32 {{%t0, %t1, %t2, %t3}}, [%own+{}];",
                buffer * BUFFER_BYTES
            ));
            self.line(&format!(
                "st.global.v4.b32 [%d0+{}], {{%t0, %t1, %t2, %t3}};",
                4 * ACCUMULATORS + 16 * buffer
            ));
        }
        self.line("ret;");
        self.text.push_str("}\n");
    }

    /// A barrier of the block.
    pub(super) fn sync(&mut self) {
        let forms = [
            "bar.sync 0;",
            "barrier.sync 0;",
            "barrier.cta.sync.aligned 0, 128;",
        ];
        let line = self.one_of(&forms);
        self.line(line);
    }

    /// A barrier of the cluster.
    pub(super) fn cluster_sync(&mut self) {
        let arrive = [
            "barrier.cluster.arrive.aligned;",
            "barrier.cluster.arrive.release;",
        ];
        let wait = [
            "barrier.cluster.wait.aligned;",
            "barrier.cluster.wait.acquire;",
        ];
        let (arrive, wait) = (self.one_of(&arrive), self.one_of(&wait));
        self.line(arrive);
        self.line(wait);
    }

    /// A copy to or from a buffer has begun.
    pub(super) fn begins(&mut self, wait: Wait, buffer: usize) {
        self.stored |= matches!(wait, Wait::Store(_));
        self.pending.push(Pending {
            wait,
            buffer,
            soils: false,
        });
    }

    /// The copy that began last writes as ordinary code does.
    pub(super) fn soils_when_over(&mut self) {
        if let Some(copy) = self.pending.last_mut() {
            copy.soils = true;
        }
    }

    /// An mbarrier of one arrival that nothing waits for.
    pub(super) fn barrier(&mut self) -> usize {
        let used = |bar| {
            self.pending
                .iter()
                .any(|copy| copy.wait == Wait::Barrier(bar))
        };
        let first = (0..BARRIERS).find(|bar| !used(*bar));
        first.unwrap_or_else(|| {
            // The oldest copy with an mbarrier of its own ends.
            let is_own =
                |copy: &&Pending| matches!(copy.wait, Wait::Barrier(bar) if bar < BARRIERS);
            let oldest = self
                .pending
                .iter()
                .find(is_own)
                .map_or(0, |copy| copy.buffer);
            self.settle(oldest, true);
            self.barrier()
        })
    }

    pub(super) fn is_used(&self, barrier: usize) -> bool {
        self.pending
            .iter()
            .any(|copy| copy.wait == Wait::Barrier(barrier))
    }

    /// Waits for the copies of a buffer before it is written or read. Reads do not wait for copies
    /// that only read it.
    pub(super) fn settle(&mut self, buffer: usize, is_write: bool) {
        let (over, rest): (Vec<_>, Vec<_>) = self.pending.iter().copied().partition(|copy| {
            copy.buffer == buffer && (is_write || !matches!(copy.wait, Wait::Store(_)))
        });
        self.pending = rest;
        for copy in &over {
            self.wait(copy.wait);
            self.dirty[copy.buffer] |= copy.soils;
        }
        if !over.is_empty() {
            self.sync();
        }
    }

    pub(super) fn settle_all(&mut self) {
        for buffer in 0..BUFFERS {
            self.settle(buffer, true);
        }
    }

    /// All bulk stores have written, and what they wrote is visible.
    pub(super) fn settle_stores(&mut self) {
        if std::mem::take(&mut self.stored) {
            self.pending
                .retain(|copy| !matches!(copy.wait, Wait::Store(_)));
            self.line("cp.async.bulk.wait_group 0;");
            self.sync();
        }
    }

    /// Before a store to the output: earlier stores have written, and earlier reads are over.
    pub(super) fn settle_output(&mut self) {
        self.settle_stores();
        if std::mem::take(&mut self.output_read) {
            self.line("fence.proxy.async;");
            self.sync();
        }
    }

    fn wait(&mut self, wait: Wait) {
        match wait {
            Wait::Group(number) => {
                let younger = self.groups - number - 1;
                let line = match younger {
                    0 if self.once_in(2) => "cp.async.wait_all;".to_owned(),
                    _ => format!("cp.async.wait_group {younger};"),
                };
                self.line(&line);
            }
            Wait::Store(number) => {
                let read = if self.once_in(2) { ".read" } else { "" };
                let younger = self.stores - number - 1;
                self.line(&format!("cp.async.bulk.wait_group{read} {younger};"));
            }
            Wait::Barrier(bar) => {
                let forms = [
                    "mbarrier.try_wait.parity.shared::cta.b64",
                    "mbarrier.test_wait.parity.shared::cta.b64",
                    "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64",
                ];
                let form = self.one_of(&forms);
                let parity = format!("%parity{bar}");
                self.poll(form, bar, &parity);
                self.line(&format!("xor.b32 {parity}, {parity}, 1;"));
            }
        }
    }

    /// Waits for a phase of an mbarrier.
    pub(super) fn poll(&mut self, form: &str, bar: usize, parity: &str) {
        let again = self.label();
        self.place(&again);
        self.line(&format!("{form} %p0, [%bars+{}], {parity};", 8 * bar));
        self.line(&format!("@!%p0 bra {again};"));
    }

    /// The generic proxy has written a buffer.
    pub(super) fn soils(&mut self, buffer: usize) {
        self.dirty[buffer] = true;
    }

    /// Makes what the generic proxy has written visible to the async proxy.
    pub(super) fn clean(&mut self, buffers: &[usize]) {
        if buffers.iter().any(|buffer| self.dirty[*buffer]) {
            self.dirty = [false; BUFFERS];
            let forms = ["fence.proxy.async;", "fence.proxy.async.shared::cta;"];
            let line = self.one_of(&forms);
            self.line(line);
            self.sync();
        }
    }
}
