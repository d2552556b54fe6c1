//! Random programs: straight-line code, branches, loops, calls, predicates, memory, and
//! communication between the threads of a block. A seed always gives the same program.
//!
//! A program loads each register's initial value from memory, computes, and stores all registers,
//! so that no result is lost. It uses what PTX defines, and what PTX leaves open but hardware does
//! consistently. If the order of operands would decide a result (the payload of an f64 NaN, the NaN
//! of `neg` and `abs`), the program replaces the NaN by a fixed one.

mod atomic;
mod control;
mod exchange;
mod function;
mod memory;
mod module;
mod statement;
mod vocabulary;

use super::operands::{Kind, Random};

pub use module::PREAMBLE;
pub use vocabulary::Vocabulary;

/// Threads per block.
pub const BLOCK: u32 = 96;
/// Blocks of a launch.
pub const GRID: u32 = 2;
/// Number of programs with a committed answer.
pub const PROGRAMS: u64 = 4160;

/// What most statements of a program are: one section of the table, or a mixture. Program `n` has
/// category `n % CATEGORIES.len()`.
pub const CATEGORIES: [&str; 13] = [
    "integer", "bits", "select", "compare", "float", "half", "convert", "memory", "atomic", "warp",
    "block", "control", "mixed",
];

/// The register pools: kind, and number of registers.
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

/// Special registers whose values are determined by the launch.
pub const SPECIAL: [&str; 18] = [
    "%tid.x",
    "%tid.y",
    "%tid.z",
    "%ntid.x",
    "%ntid.y",
    "%ntid.z",
    "%ctaid.x",
    "%ctaid.y",
    "%ctaid.z",
    "%nctaid.x",
    "%nctaid.y",
    "%nctaid.z",
    "%laneid",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
];

/// The fixed f64 NaN of all programs.
const NAN_F64: u64 = 0x7ff8_0000_0000_0000;

/// Bytes of global memory that belong to one thread.
const OWN_BYTES: usize = 64;
/// Words in global and in shared memory, each for one commutative operation by all threads.
const CELLS: usize = 32;

/// Registers of a thread; each takes 64 bits in memory.
#[must_use]
pub fn registers() -> usize {
    POOLS.iter().map(|(_, count)| count).sum()
}

/// Words of a thread's row of results: its registers, one of the block's cells, and an unused word.
#[must_use]
pub fn row_words() -> usize {
    registers() + 2
}

/// Threads of a launch.
#[must_use]
pub fn threads() -> usize {
    (BLOCK * GRID) as usize
}

/// A program and its initial values.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its seed.
    pub seed: u64,
    /// The kernel `program_SEED(inputs, outputs, memory, block)` and its functions, without a
    /// module header.
    pub ptx: String,
    /// Element `thread * row_words() + register` is the register's initial value.
    pub inputs: Vec<u64>,
    /// Memory that the program changes: each thread's own, then the cells of the grid.
    pub memory: Vec<u64>,
    /// The by-value parameter.
    pub block: [u64; 8],
}

impl Program {
    /// Name of its kernel.
    #[must_use]
    pub fn kernel(&self) -> String {
        format!("program_{}", self.seed)
    }

    /// Its category: what most of its statements are.
    #[must_use]
    pub fn category(&self) -> &'static str {
        category(self.seed)
    }
}

/// The category of the program with this seed.
#[must_use]
pub fn category(seed: u64) -> &'static str {
    CATEGORIES[(seed % CATEGORIES.len() as u64) as usize]
}

/// Generates the program of a seed.
#[must_use]
pub fn generate(seed: u64, vocabulary: &Vocabulary) -> Program {
    let mut builder = Builder {
        seed,
        text: String::new(),
        functions: Vec::new(),
        random: Random::new(seed.wrapping_mul(0x9e37_79b9) ^ 0x5bd1_e995),
        vocabulary,
        category: category(seed),
        labels: 0,
        counters: 0,
        in_function: false,
        around: Vec::new(),
        ways: 0,
        calls: 0,
    };
    let statements = 40 + builder.random.below(50);
    builder.block(statements, 0, true);
    let ptx = builder.kernel();
    let mut random = builder.random;
    let inputs = (0..threads()).flat_map(|_| initial(&mut random)).collect();
    let words = threads() * OWN_BYTES / 8 + CELLS;
    let memory = (0..words).map(|_| random.bits()).collect();
    let block = std::array::from_fn(|_| random.bits());
    Program {
        seed,
        ptx,
        inputs,
        memory,
        block,
    }
}

/// Initial values of one thread's row, a quarter of them special.
fn initial(random: &mut Random) -> Vec<u64> {
    let mut values = Vec::with_capacity(row_words());
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
    values.resize(row_words(), 0);
    values
}

/// Name of a register.
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

/// All registers of the pools.
fn all_registers() -> impl Iterator<Item = (Kind, usize)> {
    POOLS
        .iter()
        .flat_map(|(kind, count)| (0..*count).map(move |i| (*kind, i)))
}

/// Writes the body of a program.
struct Builder<'a> {
    seed: u64,
    text: String,
    /// Texts of the functions that the body calls.
    functions: Vec<String>,
    random: Random,
    vocabulary: &'a Vocabulary,
    category: &'static str,
    labels: usize,
    counters: usize,
    /// Whether a function is being written: it has no memory of its own and calls nothing but
    /// itself.
    in_function: bool,
    /// Guards of the enclosing branches.
    around: Vec<String>,
    /// Number of branches, loops and calls so far, and of calls among them.
    ways: usize,
    calls: usize,
}

impl Builder<'_> {
    fn line(&mut self, line: &str) {
        self.text.push('\t');
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn place(&mut self, label: &str) {
        self.text.push_str(label);
        self.text.push_str(":\n");
    }

    /// A register of a kind; shift amounts and bit positions use 32-bit integers.
    fn pick(&mut self, kind: Kind) -> String {
        let pool = match kind {
            Kind::Amount | Kind::Place => Kind::I32,
            Kind::Fp8x2 => Kind::I16,
            other => other,
        };
        register(pool, self.random.below(pool_size(pool)))
    }

    /// `count` different registers of a kind.
    fn pick_distinct(&mut self, kind: Kind, count: usize) -> Vec<String> {
        let size = pool_size(kind);
        let first = self.random.below(size);
        (0..count)
            .map(|i| register(kind, (first + i) % size))
            .collect()
    }

    fn guard(&mut self) -> String {
        format!("%g{}", self.random.below(4))
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!("$L{}", self.labels)
    }

    /// True with probability 1 / `n`.
    fn once_in(&mut self, n: usize) -> bool {
        self.random.below(n) == 0
    }
}

fn pool_size(kind: Kind) -> usize {
    POOLS
        .iter()
        .find(|(pool, _)| *pool == kind)
        .map_or(1, |(_, count)| *count)
}
