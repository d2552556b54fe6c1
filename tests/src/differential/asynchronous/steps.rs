//! Steps of ordinary code: computing, shared memory of the own block and of others, loops.

use super::text::{Builder, OF_ALL};
use super::{BUFFER_BYTES, OUTPUT_BYTES};

impl Builder {
    /// A random step. All threads of the cluster run it together.
    pub(super) fn step(&mut self) {
        let buffer = self.buffer();
        let clusters = self.cluster > 1;
        if self.once_in(2) {
            self.mix();
        }
        match self.random.below(20) {
            0 => self.write(buffer),
            1 | 2 => self.read(buffer),
            3 | 4 => self.group_copy(buffer),
            5 | 6 => self.bulk_load(buffer),
            7 | 8 => self.tensor_load(buffer),
            9 => self.bulk_store(buffer),
            10 => self.tensor_store(buffer),
            11 => self.read_output(),
            12 if clusters => self.remote_read(buffer),
            13 if clusters => self.remote_write(buffer),
            14 if clusters => self.remote_atomic(buffer),
            15 if clusters => self.multicast(buffer),
            16 if clusters => self.send(buffer),
            17 if clusters => self.copy_across(buffer),
            18 if !self.in_loop => self.repeat(),
            19 if !self.in_loop => self.pipeline(),
            _ => self.read(buffer),
        }
    }

    /// Computes with the accumulators.
    pub(super) fn mix(&mut self) {
        for _ in 0..=self.random.below(3) {
            let [d, a, b] = [(); 3].map(|()| self.random.below(4));
            let odd = self.random.bits() as u32 | 1;
            let line = match self.random.below(5) {
                0 => format!("mad.lo.u32 %a{d}, %a{a}, {odd}, %a{b};"),
                1 => format!("xor.b32 %a{d}, %a{a}, %a{b};"),
                2 => format!("shf.l.wrap.b32 %a{d}, %a{a}, %a{b}, {};", odd % 32),
                3 => format!("prmt.b32 %a{d}, %a{a}, %a{b}, {};", odd & 0x7777),
                _ => format!("add.u32 %a{d}, %a{a}, {odd};"),
            };
            self.line(&line);
        }
    }

    /// Mixes the words in `%t4` to `%t7` into the accumulators.
    pub(super) fn absorb(&mut self) {
        let odd = self.random.bits() as u32 | 1;
        for at in 0..4 {
            self.line(&format!("mad.lo.u32 %a{at}, %a{at}, {odd}, %t{};", 4 + at));
        }
    }

    /// Each thread writes its part of a buffer.
    pub(super) fn write(&mut self, buffer: usize) {
        self.name_step("write");
        self.settle(buffer, true);
        self.store("st.shared", "%own", buffer);
        self.soils(buffer);
        self.sync();
    }

    /// 16 bytes of accumulators, at an address that belongs to the thread.
    fn store(&mut self, store: &str, base: &str, buffer: usize) {
        let at = buffer * BUFFER_BYTES;
        match self.random.below(3) {
            0 => self.line(&format!(
                "{store}.v4.b32 [{base}+{at}], {{%a0, %a1, %a2, %a3}};"
            )),
            1 => {
                self.line(&format!("{store}.v2.b32 [{base}+{at}], {{%a0, %a1}};"));
                self.line(&format!(
                    "{store}.v2.b32 [{base}+{}], {{%a3, %a2}};",
                    at + 8
                ));
            }
            _ => (0..4).for_each(|i| {
                self.line(&format!(
                    "{store}.b32 [{base}+{}], %a{i};",
                    at + 4 * (i ^ 1)
                ));
            }),
        }
    }

    /// The place in a buffer of another thread with the same number in any order, in `%t0`.
    fn other_place(&mut self) {
        let by = self.random.below(128);
        let word = self.one_of(&["xor.b32", "add.u32"]);
        self.line(&format!(
            "{word} %t0, %thread, {by};\n\tand.b32 %t0, %t0, 127;"
        ));
        self.line("mad.lo.u32 %t0, %t0, 16, %space;");
    }

    /// The address in `%t0`, or `%own`, of another block of the cluster, in `%t1`.
    pub(super) fn map(&mut self, of: &str, target: &str) {
        let by = 1 + self.random.below(self.cluster as usize - 1);
        self.line(&format!(
            "add.u32 %t2, %rank, {by};\n\tand.b32 %t2, %t2, {};",
            self.cluster - 1
        ));
        self.line(&format!("mapa.shared::cluster.u32 {target}, {of}, %t2;"));
    }

    /// Each thread reads another thread's part of a buffer.
    pub(super) fn read(&mut self, buffer: usize) {
        self.name_step("read");
        self.settle(buffer, false);
        self.other_place();
        self.load("ld.shared", "%t0", buffer);
        self.sync();
    }

    fn load(&mut self, load: &str, base: &str, buffer: usize) {
        let at = buffer * BUFFER_BYTES;
        match self.random.below(2) {
            0 => self.line(&format!(
                "{load}.v4.b32 {{%t4, %t5, %t6, %t7}}, [{base}+{at}];"
            )),
            _ => (0..4).for_each(|i| {
                self.line(&format!("{load}.b32 %t{}, [{base}+{}];", 4 + i, at + 4 * i));
            }),
        }
        self.absorb();
    }

    pub(super) fn remote_read(&mut self, buffer: usize) {
        self.name_step("remote read");
        self.settle(buffer, false);
        self.cluster_sync();
        self.other_place();
        self.map("%t0", "%t1");
        self.load("ld.shared::cluster", "%t1", buffer);
        self.cluster_sync();
    }

    /// Each thread writes its part of a buffer of another block, and signals that by the barrier of
    /// the cluster, or by the other block's mbarrier.
    pub(super) fn remote_write(&mut self, buffer: usize) {
        self.name_step("remote write");
        self.settle(buffer, true);
        self.cluster_sync();
        self.map("%own", "%t1");
        self.store("st.shared::cluster", "%t1", buffer);
        self.line("fence.proxy.async;");
        if self.once_in(2) && !self.is_used(OF_ALL) {
            self.line(&format!("add.u32 %t3, %bars, {};", 8 * OF_ALL));
            self.line("mapa.shared::cluster.u32 %t3, %t3, %t2;");
            self.line("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%t3];");
            let parity = format!("%parity{OF_ALL}");
            self.poll(
                "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64",
                OF_ALL,
                &parity,
            );
            self.line(&format!("xor.b32 {parity}, {parity}, 1;"));
            self.sync();
        } else {
            self.cluster_sync();
        }
    }

    /// All threads change a few words of another block by one commutative operation.
    pub(super) fn remote_atomic(&mut self, buffer: usize) {
        self.name_step("remote atomic");
        self.settle(buffer, true);
        self.cluster_sync();
        self.line("and.b32 %t0, %thread, 7;\n\tmad.lo.u32 %t0, %t0, 4, %space;");
        self.map("%t0", "%t1");
        let operations = [
            "add.u32", "xor.b32", "and.b32", "or.b32", "max.u32", "min.s32",
        ];
        let operation = self.one_of(&operations);
        let word = self.one_of(&["red", "red.relaxed.cluster"]);
        let at = buffer * BUFFER_BYTES;
        self.line(&format!(
            "{word}.shared::cluster.{operation} [%t1+{at}], %a0;"
        ));
        self.line("fence.proxy.async;");
        self.cluster_sync();
    }

    /// Threads read what the block has stored.
    pub(super) fn read_output(&mut self) {
        self.name_step("read output");
        self.settle_stores();
        let by = 16 * self.random.below(OUTPUT_BYTES / 16 - 128);
        self.line(&format!("mad.lo.u32 %t0, %thread, 16, {by};"));
        self.line(&format!("mad.lo.u32 %t0, %block, {OUTPUT_BYTES}, %t0;"));
        self.line("cvt.u64.u32 %d0, %t0;\n\tadd.u64 %d0, %out, %d0;");
        self.line("ld.global.v4.b32 {%t4, %t5, %t6, %t7}, [%d0];");
        self.absorb();
        self.output_read = true;
        self.sync();
    }

    /// A loop over some steps.
    fn repeat(&mut self) {
        self.name_step("loop");
        self.settle_all();
        self.settle_stores();
        self.in_loop = true;
        let (start, count) = (self.label(), 2 + self.random.below(2));
        self.line(&format!("mov.u32 %n0, {count};"));
        self.place(&start);
        for _ in 0..2 + self.random.below(3) {
            self.step();
        }
        self.settle_all();
        self.settle_stores();
        self.line("fence.proxy.async;");
        self.sync();
        self.line("sub.u32 %n0, %n0, 1;\n\tsetp.ne.u32 %p1, %n0, 0;");
        self.line(&format!("@%p1 bra {start};"));
        self.in_loop = false;
    }
}
