//! Random programs: straight lines, branches, loops, predicates, and the exchange of values between
//! the threads of a block, made from a seed and always the same for it.
//!
//! A program reads each register's first value from memory, computes, and writes all registers
//! back, so that nothing it does is lost. It uses what PTX defines, and what PTX leaves open but
//! hardware does the same in every place. Where the order of operands decides (the payload of an
//! f64 NaN, the NaN of `neg` and `abs`), it makes the NaN one fixed value.

mod exchange;
mod statement;

use std::collections::BTreeMap;
use std::fmt::Write;

use super::forms::{self, Form};
use super::operands::{Kind, Random};

/// Threads in a block.
pub const BLOCK: u32 = 96;
/// Blocks.
pub const GRID: u32 = 2;

/// The register pools: kind, and how many.
const POOLS: [(Kind, usize); 9] = [
    (Kind::I16, 4),
    (Kind::I32, 6),
    (Kind::I64, 4),
    (Kind::F16, 3),
    (Kind::Bf16, 3),
    (Kind::F16x2, 3),
    (Kind::Bf16x2, 3),
    (Kind::F32, 6),
    (Kind::F64, 4),
];

/// The one f64 NaN that programs know.
const NAN_F64: u64 = 0x7ff8_0000_0000_0000;

/// Registers of a thread, each 64 bits in memory.
#[must_use]
pub fn registers() -> usize {
    POOLS.iter().map(|(_, count)| count).sum()
}

/// Threads of a launch.
#[must_use]
pub fn threads() -> usize {
    (BLOCK * GRID) as usize
}

/// One program and the values that its registers start with.
#[derive(Clone, Debug)]
pub struct Program {
    /// The module, with the kernel `program(inputs, outputs)`.
    pub ptx: String,
    /// Element `thread * registers() + register` is a register's first value.
    pub inputs: Vec<u64>,
}

/// The single instructions, by mnemonic, that programs are made of.
#[derive(Clone, Debug)]
pub struct Vocabulary(BTreeMap<String, Vec<Form>>);

impl Vocabulary {
    /// All forms with defined bits.
    #[must_use]
    pub fn new() -> Self {
        let mut words: BTreeMap<String, Vec<Form>> = BTreeMap::new();
        for form in forms::all().into_iter().filter(|form| !form.approximate) {
            let word = form.name.split('.').next().unwrap_or_default().to_owned();
            words.entry(word).or_default().push(form);
        }
        Self(words)
    }

    /// A form: each mnemonic as likely as any other, `cvt` ten times that.
    fn choose(&self, random: &mut Random) -> &Form {
        let index = random.below(self.0.len() + 9);
        let forms = self.0.values().nth(index).unwrap_or_else(|| &self.0["cvt"]);
        random.choose(forms)
    }
}

impl Default for Vocabulary {
    fn default() -> Self {
        Self::new()
    }
}

/// The program of a seed.
#[must_use]
pub fn generate(seed: u64, vocabulary: &Vocabulary) -> Program {
    let mut builder = Builder {
        text: String::new(),
        random: Random::new(seed.wrapping_mul(0x9e37_79b9) ^ 0x5bd1_e995),
        vocabulary,
        labels: 0,
        counters: 0,
    };
    let statements = 30 + builder.random.below(50);
    builder.block(statements, 0, true);
    let body = std::mem::take(&mut builder.text);
    let counters = builder.counters;
    let mut random = builder.random;
    let inputs = (0..threads()).flat_map(|_| initial(&mut random)).collect();
    Program {
        ptx: module(&body, counters),
        inputs,
    }
}

/// First values of one thread's registers, a quarter of them special.
fn initial(random: &mut Random) -> Vec<u64> {
    let mut values = Vec::with_capacity(registers());
    for (kind, count) in POOLS {
        let specials = kind.specials();
        for _ in 0..count {
            let value = match random.below(4) {
                0 => *random.choose(&specials),
                _ => kind.random(random),
            };
            let is_nan = kind == Kind::F64 && f64::from_bits(value).is_nan();
            values.push(if is_nan { NAN_F64 } else { value });
        }
    }
    values
}

/// A register's name.
fn register(kind: Kind, index: usize) -> String {
    let prefix = match kind {
        Kind::I16 => "i16_",
        Kind::I64 => "i64_",
        Kind::F16 => "f16_",
        Kind::Bf16 => "bf16_",
        Kind::F16x2 => "f16x2_",
        Kind::Bf16x2 => "bf16x2_",
        Kind::F32 => "f32_",
        Kind::F64 => "f64_",
        _ => "i32_",
    };
    format!("%{prefix}{index}")
}

/// The module around a body.
fn module(body: &str, counters: usize) -> String {
    let mut text = super::kernel::HEADER.to_owned();
    text.push_str(".visible .entry program(.param .u64 inputs, .param .u64 outputs)\n{\n");
    text.push_str("\t.reg .pred %p<4>, %g<4>, %q<2>;\n\t.reg .b16 %h<16>;\n");
    let _ = writeln!(
        text,
        "\t.reg .b32 %r<24>, %n<{}>;\n\t.reg .b64 %d<24>;",
        counters + 1
    );
    for (kind, count) in POOLS {
        let name = register(kind, 0);
        let prefix = name.trim_end_matches('0');
        let _ = writeln!(text, "\t.reg .b{} {prefix}<{count}>;", kind.bits());
    }
    let _ = writeln!(text, "\t.shared .align 16 .b8 exchange[{}];", 16 * BLOCK);
    text.push_str("\t.local .align 8 .b8 scratch[64];\n");
    text.push_str("\tld.param.u64 %d0, [inputs];\n\tld.param.u64 %d1, [outputs];\n");
    text.push_str("\tcvta.to.global.u64 %d0, %d0;\n\tcvta.to.global.u64 %d1, %d1;\n");
    text.push_str("\tmov.u32 %r0, %tid.x;\n\tmov.u32 %r1, %ctaid.x;\n");
    let _ = writeln!(text, "\tmad.lo.u32 %r1, %r1, {BLOCK}, %r0;");
    let _ = writeln!(text, "\tmul.wide.u32 %d2, %r1, {};", 8 * registers());
    text.push_str("\tadd.u64 %d0, %d0, %d2;\n\tadd.u64 %d1, %d1, %d2;\n");
    text.push_str("\tmov.u32 %r3, exchange;\n\tshl.b32 %r2, %r0, 4;\n\tadd.u32 %r2, %r3, %r2;\n");
    text.push_str("\tmov.u64 %d3, scratch;\n");
    for i in 0..8 {
        let _ = writeln!(text, "\tst.local.u64 [scratch+{}], {};", 8 * i, i * 0x0101);
    }
    let all = POOLS
        .iter()
        .flat_map(|(kind, count)| (0..*count).map(move |i| (*kind, i)));
    for (slot, (kind, index)) in all.clone().enumerate() {
        let (bits, name) = (kind.bits(), register(kind, index));
        let _ = writeln!(text, "\tld.global.b{bits} {name}, [%d0+{}];", 8 * slot);
    }
    for guard in 0..4 {
        let name = register(Kind::I32, guard);
        let _ = writeln!(text, "\tsetp.lt.s32 %g{guard}, {name}, 0;");
    }
    text.push_str(body);
    for (slot, (kind, index)) in all.enumerate() {
        let (bits, name) = (kind.bits(), register(kind, index));
        if bits < 64 {
            let _ = writeln!(text, "\tcvt.u64.u{bits} %d4, {name};");
            let _ = writeln!(text, "\tst.global.u64 [%d1+{}], %d4;", 8 * slot);
        } else {
            let _ = writeln!(text, "\tst.global.u64 [%d1+{}], {name};", 8 * slot);
        }
    }
    text.push_str("\tret;\n}\n");
    text
}

/// Writes a body.
struct Builder<'a> {
    text: String,
    random: Random,
    vocabulary: &'a Vocabulary,
    labels: usize,
    counters: usize,
}

impl Builder<'_> {
    fn line(&mut self, line: &str) {
        self.text.push('\t');
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// A register of a kind; amounts and places come from the 32-bit integers.
    fn pick(&mut self, kind: Kind) -> String {
        let pool = match kind {
            Kind::Amount | Kind::Place => Kind::I32,
            Kind::Fp8x2 => Kind::I16,
            other => other,
        };
        let count = POOLS
            .iter()
            .find(|(k, _)| *k == pool)
            .map_or(1, |(_, count)| *count);
        register(pool, self.random.below(count))
    }

    fn guard(&mut self) -> String {
        format!("%g{}", self.random.below(4))
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!("$L{}", self.labels)
    }
}
