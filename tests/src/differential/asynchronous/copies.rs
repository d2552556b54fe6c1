//! Steps that copy: `cp.async`, bulk and tensor copies, stores to other blocks.

use super::text::{Builder, OF_ALL, Wait};
use super::{BUFFER_BYTES, INPUT_WORDS, OUTPUT_BYTES, ROW_WORDS};

const BULK: &str = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
const TENSOR: &str =
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes";

impl Builder {
    /// Each thread copies its part of a buffer by `cp.async`.
    pub(super) fn group_copy(&mut self, buffer: usize) {
        self.name_step("cp.async");
        self.settle(buffer, true);
        let bytes = *self.random.choose(&[4, 8, 16, 16]);
        let cache = if bytes == 16 && self.once_in(2) {
            "cg"
        } else {
            "ca"
        };
        let from = 16 * self.random.below(INPUT_WORDS / 4 - 256);
        self.line("mul.wide.u32 %d0, %thread, 16;\n\tadd.u64 %d0, %in, %d0;");
        for at in (0..16).step_by(bytes) {
            let to = buffer * BUFFER_BYTES + at;
            // The bytes that are not read are zero.
            let read = match self.once_in(3) {
                true => format!(", {}", self.random.below(bytes + 1)),
                false => String::new(),
            };
            self.line(&format!(
                "cp.async.{cache}.shared.global [%own+{to}], [%d0+{}], {bytes}{read};",
                from + at
            ));
        }
        if self.once_in(3) && !self.is_used(OF_ALL) {
            self.line(&format!(
                "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%bars+{}];",
                8 * OF_ALL
            ));
            self.begins(Wait::Barrier(OF_ALL), buffer);
        } else {
            self.line("cp.async.commit_group;");
            self.begins(Wait::Group(self.groups), buffer);
            self.groups += 1;
        }
        self.soils_when_over();
    }

    /// Opens a part for one thread; the label ends it.
    pub(super) fn one_thread(&mut self, thread: usize) -> String {
        let end = self.label();
        self.line(&format!(
            "setp.ne.u32 %p1, %thread, {thread};\n\t@%p1 bra {end};"
        ));
        end
    }

    /// The one arrival at an mbarrier, with the bytes that it waits for.
    pub(super) fn expect(&mut self, bar: usize, bytes: usize) {
        let at = 8 * bar;
        if self.once_in(3) {
            self.line(&format!(
                "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%bars+{at}], {bytes};"
            ));
            self.line(&format!("mbarrier.arrive.shared::cta.b64 _, [%bars+{at}];"));
        } else {
            self.line(&format!(
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bars+{at}], {bytes};"
            ));
        }
    }

    /// Pieces of a buffer: offset and bytes. They need not cover it.
    fn pieces(&mut self) -> Vec<(usize, usize)> {
        let mut pieces = Vec::new();
        let mut at = 16 * self.random.below(8);
        while at < BUFFER_BYTES && pieces.len() < 4 {
            let bytes = 16 * (1 + self.random.below((BUFFER_BYTES - at) / 16));
            pieces.push((at, bytes));
            at += bytes + 16 * self.random.below(4);
        }
        pieces
    }

    /// An address in the input, in `%d0`, that a bulk copy of a buffer may start at.
    fn source(&mut self) {
        let from = 16 * self.random.below((4 * INPUT_WORDS - 8 * BUFFER_BYTES) / 16);
        match self.once_in(2) {
            true => self.line(&format!("mad.lo.u32 %t0, %rank, {BUFFER_BYTES}, {from};")),
            false => self.line(&format!("mov.u32 %t0, {from};")),
        }
        self.line("cvt.u64.u32 %d0, %t0;\n\tadd.u64 %d0, %in, %d0;");
    }

    pub(super) fn bulk_load(&mut self, buffer: usize) {
        self.name_step("bulk load");
        self.settle(buffer, true);
        self.clean(&[buffer]);
        let (bar, pieces) = (self.barrier(), self.pieces());
        let thread = self.random.below(128);
        self.source();
        let end = self.one_thread(thread);
        self.expect(bar, pieces.iter().map(|(_, bytes)| bytes).sum());
        for (at, bytes) in pieces {
            let to = buffer * BUFFER_BYTES + at;
            self.line(&format!(
                "{BULK} [%space+{to}], [%d0+{at}], {bytes}, [%bars+{}];",
                8 * bar
            ));
        }
        self.place(&end);
        self.begins(Wait::Barrier(bar), buffer);
    }

    /// Coordinates of a box, in `%t0` and `%t1`, which may lie outside of the tensor of the input.
    fn corner(&mut self) {
        let (width, height) = (self.boxes.0[0] as i64, self.boxes.0[1] as i64);
        let rows = (INPUT_WORDS / ROW_WORDS) as i64;
        let mut between =
            |low: i64, high: i64| low + self.random.below((high - low) as usize) as i64;
        // The hardware begins at multiples of 16 bytes.
        let x = 4 * between(-width / 4, ROW_WORDS as i64 / 4 + 1);
        let y = between(-height, rows + 2);
        let line = match self.once_in(2) {
            true => format!("mad.lo.s32 %t1, %rank, 3, {y};"),
            false => format!("mov.b32 %t1, {y};"),
        };
        self.line(&format!("mov.b32 %t0, {x};\n\t{line}"));
    }

    fn box_bytes(&self) -> usize {
        4 * (self.boxes.0[0] * self.boxes.0[1]) as usize
    }

    pub(super) fn tensor_load(&mut self, buffer: usize) {
        self.name_step("tensor load");
        self.settle(buffer, true);
        self.clean(&[buffer]);
        let (bar, to) = (self.barrier(), buffer * BUFFER_BYTES);
        let thread = self.random.below(128);
        self.corner();
        let end = self.one_thread(thread);
        let bytes = self.box_bytes();
        self.expect(bar, bytes);
        self.line(&format!(
            "{TENSOR} [%space+{to}], [%from, {{%t0, %t1}}], [%bars+{}];",
            8 * bar
        ));
        self.place(&end);
        self.begins(Wait::Barrier(bar), buffer);
    }

    /// One block loads into a buffer of all blocks of its cluster.
    pub(super) fn multicast(&mut self, buffer: usize) {
        self.name_step("multicast");
        self.settle(buffer, true);
        self.clean(&[buffer]);
        let (bar, to) = (self.barrier(), buffer * BUFFER_BYTES);
        let is_tensor = self.once_in(2);
        let bytes = if is_tensor {
            self.box_bytes()
        } else {
            BUFFER_BYTES
        };
        self.cluster_sync();
        self.source();
        if is_tensor {
            self.corner();
        }
        let end = self.one_thread(0);
        self.expect(bar, bytes);
        let (rank, mask) = (
            self.random.below(self.cluster as usize),
            (1 << self.cluster) - 1,
        );
        self.line(&format!(
            "setp.ne.u32 %p2, %rank, {rank};\n\t@%p2 bra {end};"
        ));
        let line = match is_tensor {
            true => format!(
                "{TENSOR}.multicast::cluster [%space+{to}], [%from, {{%t0, %t1}}], [%bars+{}], {mask};",
                8 * bar
            ),
            false => format!(
                "{BULK}.multicast::cluster [%space+{to}], [%d0], {bytes}, [%bars+{}], {mask};",
                8 * bar
            ),
        };
        self.line(&line);
        self.place(&end);
        self.begins(Wait::Barrier(bar), buffer);
    }

    /// `st.async` to another block.
    pub(super) fn send(&mut self, buffer: usize) {
        self.name_step("st.async");
        self.settle(buffer, true);
        let (bar, to) = (self.barrier(), buffer * BUFFER_BYTES);
        self.line("fence.proxy.async;");
        self.cluster_sync();
        let end = self.one_thread(0);
        self.expect(bar, BUFFER_BYTES);
        self.place(&end);
        self.map("%own", "%t1");
        self.line(&format!(
            "add.u32 %t3, %bars, {};\n\tmapa.shared::cluster.u32 %t3, %t3, %t2;",
            8 * bar
        ));
        let word = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes";
        match self.random.below(3) {
            0 => self.line(&format!(
                "{word}.v4.b32 [%t1+{to}], {{%a0, %a1, %a2, %a3}}, [%t3];"
            )),
            1 => {
                self.line(&format!("{word}.v2.b32 [%t1+{to}], {{%a2, %a1}}, [%t3];"));
                self.line(&format!(
                    "{word}.v2.b32 [%t1+{}], {{%a0, %a3}}, [%t3];",
                    to + 8
                ));
            }
            _ => (0..4).for_each(|i| {
                self.line(&format!("{word}.b32 [%t1+{}], %a{i}, [%t3];", to + 4 * i));
            }),
        }
        self.begins(Wait::Barrier(bar), buffer);
        self.soils_when_over();
    }

    /// A bulk copy of a buffer to another block. The source is in use until all have arrived.
    pub(super) fn copy_across(&mut self, source: usize) {
        self.name_step("copy across");
        let target = (source + 1 + self.random.below(super::BUFFERS - 1)) % super::BUFFERS;
        self.settle(source, false);
        self.settle(target, true);
        self.clean(&[source, target]);
        let (bar, pieces) = (self.barrier(), self.pieces());
        self.cluster_sync();
        let end = self.one_thread(0);
        self.expect(bar, pieces.iter().map(|(_, bytes)| bytes).sum());
        self.map("%space", "%t1");
        self.line(&format!(
            "add.u32 %t3, %bars, {};\n\tmapa.shared::cluster.u32 %t3, %t3, %t2;",
            8 * bar
        ));
        for (at, bytes) in pieces {
            let (from, to) = (source * BUFFER_BYTES + at, target * BUFFER_BYTES + at);
            self.line(&format!(
                "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%t1+{to}], \
                 [%space+{from}], {bytes}, [%t3];"
            ));
        }
        self.place(&end);
        self.begins(Wait::Barrier(bar), target);
        self.settle(target, true);
        self.cluster_sync();
    }

    /// Stores a buffer to the block's output, or combines it with what is there.
    pub(super) fn bulk_store(&mut self, buffer: usize) {
        self.name_step("bulk store");
        self.settle(buffer, false);
        self.clean(&[buffer]);
        self.settle_output();
        let (pieces, reduces) = (self.pieces(), self.once_in(2));
        let to = 16 * self.random.below((OUTPUT_BYTES - BUFFER_BYTES) / 16);
        let operations = [
            "add.u32", "add.s32", "add.u64", "min.u32", "max.s32", "min.s64", "inc.u32", "dec.u32",
            "and.b32", "or.b64", "xor.b32",
        ];
        let word = match reduces {
            true => format!(
                "cp.reduce.async.bulk.global.shared::cta.bulk_group.{}",
                self.one_of(&operations)
            ),
            false => "cp.async.bulk.global.shared::cta.bulk_group".to_owned(),
        };
        let end = self.one_thread(0);
        self.line(&format!("mad.lo.u32 %t0, %block, {OUTPUT_BYTES}, {to};"));
        self.line("cvt.u64.u32 %d0, %t0;\n\tadd.u64 %d0, %out, %d0;");
        for (at, bytes) in pieces {
            let from = buffer * BUFFER_BYTES + at;
            self.line(&format!("{word} [%d0+{at}], [%space+{from}], {bytes};"));
        }
        self.commit(&end, buffer);
    }

    /// Stores a box to the block's rows of the output, or combines it with what is there.
    pub(super) fn tensor_store(&mut self, buffer: usize) {
        self.name_step("tensor store");
        self.settle(buffer, false);
        self.clean(&[buffer]);
        self.settle_output();
        let height = self.boxes.1[1] as usize;
        let rows = OUTPUT_BYTES / 4 / ROW_WORDS;
        // Not before the first column: an H200 ends such stores with an illegal instruction.
        let x = 4 * self.random.below(ROW_WORDS / 4);
        let y = self.random.below(rows - height + 1);
        let operations = ["add", "min", "max", "and", "or", "xor", "inc", "dec"];
        let word = match self.once_in(2) {
            true => format!(
                "cp.reduce.async.bulk.tensor.2d.global.shared::cta.{}.tile.bulk_group",
                self.one_of(&operations)
            ),
            false => "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group".to_owned(),
        };
        let end = self.one_thread(0);
        self.line(&format!(
            "mov.b32 %t0, {x};\n\tmad.lo.u32 %t1, %block, {rows}, {y};"
        ));
        self.line(&format!(
            "{word} [%to, {{%t0, %t1}}], [%space+{}];",
            buffer * BUFFER_BYTES
        ));
        self.commit(&end, buffer);
    }

    fn commit(&mut self, end: &str, buffer: usize) {
        self.place(end);
        // Of all threads: only the first has a group that is not empty.
        self.line("cp.async.bulk.commit_group;");
        self.begins(Wait::Store(self.stores), buffer);
        self.stores += 1;
    }
}
