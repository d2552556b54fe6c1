//! A producer of one warp and three consumers, with stages that are full or empty.

use super::BUFFER_BYTES;
use super::INPUT_WORDS;
use super::text::{Builder, EMPTY, FULL, STAGES};

/// Where a stage's `fill`-th use begins: the parity of the phase before it.
fn parity(fill: usize) -> usize {
    fill & 1
}

impl Builder {
    /// Warp 0 loads tiles; the other warps mix them into their accumulators.
    pub(super) fn pipeline(&mut self) {
        self.name_step("pipeline");
        for stage in 0..STAGES {
            self.settle(stage, true);
        }
        self.clean(&[0, 1, 2]);
        self.sync();
        let tiles = 2 + self.random.below(6);
        let stages = 1 + self.random.below(STAGES);
        let from: Vec<usize> = (0..tiles)
            .map(|_| 16 * self.random.below((4 * INPUT_WORDS - BUFFER_BYTES) / 16))
            .collect();
        let before = self.fills;
        let (consumers, end) = (self.label(), self.label());
        self.line(&format!(
            "setp.ge.u32 %p1, %thread, 32;\n\t@%p1 bra {consumers};"
        ));
        self.line(&format!("setp.ne.u32 %p1, %thread, 0;\n\t@%p1 bra {end};"));
        for (tile, from) in from.iter().enumerate() {
            let stage = tile % stages;
            let fill = self.fills[stage];
            if fill > 0 {
                let form = "mbarrier.try_wait.parity.shared::cta.b64";
                self.poll(form, EMPTY + stage, &parity(fill - 1).to_string());
            }
            self.fills[stage] += 1;
            self.expect(FULL + stage, BUFFER_BYTES);
            self.line(&format!("add.u64 %d0, %in, {from};"));
            self.line(&format!(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%space+{}], [%d0], \
                 {BUFFER_BYTES}, [%bars+{}];",
                stage * BUFFER_BYTES,
                8 * (FULL + stage)
            ));
        }
        self.line(&format!("bra {end};"));
        self.place(&consumers);
        self.fills = before;
        for tile in 0..tiles {
            let stage = tile % stages;
            let fill = self.fills[stage];
            self.fills[stage] += 1;
            let form = "mbarrier.try_wait.parity.shared::cta.b64";
            self.poll(form, FULL + stage, &parity(fill).to_string());
            let by = self.random.below(128);
            self.line(&format!(
                "xor.b32 %t0, %thread, {by};\n\tmad.lo.u32 %t0, %t0, 16, %space;"
            ));
            self.line(&format!(
                "ld.shared.v4.b32 {{%t4, %t5, %t6, %t7}}, [%t0+{}];",
                stage * BUFFER_BYTES
            ));
            self.absorb();
            let at = 8 * (EMPTY + stage);
            if self.per_warp {
                self.line(
                    "bar.warp.sync -1;\n\tand.b32 %t1, %thread, 31;\n\tsetp.eq.u32 %p2, %t1, 0;",
                );
                self.line(&format!(
                    "@%p2 mbarrier.arrive.shared::cta.b64 _, [%bars+{at}];"
                ));
            } else {
                self.line(&format!("mbarrier.arrive.shared::cta.b64 _, [%bars+{at}];"));
            }
        }
        self.place(&end);
        self.line("bar.warp.sync -1;");
        self.sync();
    }
}
