//! Random programs of asynchronous work: `cp.async`, bulk and tensor copies, mbarriers, clusters with
//! distributed shared memory, pipelines of producers and consumers. A seed always gives the same
//! program.
//!
//! The blocks of a program have [`BUFFERS`] buffers in shared memory, 16 bytes of each for each
//! thread. A program is a sequence of steps that fill buffers, mix their words into the
//! accumulators of the threads, and store them. A copy may stay in flight over later steps, until a
//! step needs its buffer. Whatever the timing, the results are the same.

mod copies;
mod pipeline;
mod steps;
mod text;

use warpsmith::{
    Device, DeviceBuffer, LaunchConfig, Result, TensorMap, TensorMapDesc, TensorMapFill,
    TensorMapSwizzle, TensorMapType,
};

use super::kernel::HEADER;
use super::operands::Random;

/// Threads of a block.
pub const THREADS: u32 = 128;
/// Buffers of a block.
pub const BUFFERS: usize = 4;
/// Bytes of a buffer.
pub const BUFFER_BYTES: usize = 16 * THREADS as usize;
/// Words that all programs read.
pub const INPUT_WORDS: usize = 1 << 14;
/// Bytes of global memory that a block stores to; it is a tensor of rows of 64 words.
pub const OUTPUT_BYTES: usize = BUFFERS * BUFFER_BYTES;
/// Accumulators of a thread.
pub const ACCUMULATORS: usize = 4;
/// Words that a thread saves at the end: its accumulators, and its part of each buffer.
pub const SAVED_WORDS: usize = ACCUMULATORS + 4 * BUFFERS;

/// A program and what its launch needs.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its seed.
    pub seed: u64,
    /// The kernel `async_SEED(input, output, saved, from, to)`, without a module header. The last
    /// two are tensor maps.
    pub ptx: String,
    /// Blocks of a cluster.
    pub cluster: u32,
    /// Blocks of the grid.
    pub blocks: u32,
    /// Box and swizzle of the map over the input, which has rows of 64 words.
    pub from: ([u32; 2], TensorMapSwizzle),
    /// Box of the map over the output.
    pub to: [u32; 2],
    /// Names of its steps, for statistics.
    pub steps: Vec<&'static str>,
}

/// Words of a row of both tensors.
const ROW_WORDS: usize = 64;

/// Generates the program of a seed.
#[must_use]
pub fn generate(seed: u64) -> Program {
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9) ^ 0xa57c);
    let cluster = *random.choose(&[1, 2, 2, 4]);
    let blocks = cluster * (1 + random.below(2) as u32);
    // A box fits in a buffer, and its rows in the span of its swizzle.
    let swizzles = [
        (TensorMapSwizzle::None, 64),
        (TensorMapSwizzle::B32, 8),
        (TensorMapSwizzle::B64, 16),
        (TensorMapSwizzle::B128, 32),
    ];
    let (swizzle, span) = *random.choose(&swizzles);
    let mut shape = |most: usize| {
        let words = [4, 8, 16, 32, 64]
            .into_iter()
            .filter(|words| *words <= most);
        let words = *random.choose(&words.collect::<Vec<_>>());
        // Rows shorter than the span lie a span apart.
        let apart = if most == 64 { words } else { most };
        let rows = 1 + random.below((BUFFER_BYTES / 4 / apart).min(16));
        [words as u32, rows as u32]
    };
    let (from, to) = ((shape(span), swizzle), shape(64));
    let builder = text::Builder::new(seed, cluster, (from.0, to), random);
    let (ptx, steps) = builder.program();
    Program {
        seed,
        ptx,
        cluster,
        blocks,
        from,
        to,
        steps,
    }
}

/// A module with these programs.
#[must_use]
pub fn module(programs: &[Program]) -> String {
    let texts = programs.iter().map(|program| program.ptx.as_str());
    std::iter::once(HEADER).chain(texts).collect()
}

/// What all programs read.
#[must_use]
pub fn input() -> Vec<u32> {
    let mut random = Random::new(7);
    (0..INPUT_WORDS).map(|_| random.bits() as u32).collect()
}

/// The answers of a device: what the threads save, then what the blocks stored.
pub fn run(device: &Device, programs: &[Program]) -> Result<Vec<Vec<u64>>> {
    let module = device.load_ptx(&module(programs))?;
    let input = DeviceBuffer::from_slice(device, &input())?;
    let one = |program: &Program| {
        let kernel = module.kernel(&format!("async_{}", program.seed))?;
        run_one(device, &kernel, program, &input)
    };
    programs.iter().map(one).collect()
}

fn run_one(
    device: &Device,
    kernel: &warpsmith::Kernel,
    program: &Program,
    input: &DeviceBuffer<u32>,
) -> Result<Vec<u64>> {
    let stream = device.stream()?;
    let (blocks, threads) = (program.blocks as usize, THREADS as usize);
    let words = blocks * OUTPUT_BYTES / 4;
    let initial: Vec<u32> = (0..words as u32)
        .map(|at| at.wrapping_mul(0x9e37_79b9))
        .collect();
    let mut output = DeviceBuffer::from_slice(device, &initial)?;
    let mut saved = DeviceBuffer::<u32>::zeros(&stream, blocks * threads * SAVED_WORDS)?;
    let map = |buffer: &DeviceBuffer<u32>, of: [u32; 2], swizzle| -> Result<TensorMap> {
        let rows = (buffer.len() / ROW_WORDS) as u64;
        let dims = [ROW_WORDS as u64, rows];
        let strides = [4 * ROW_WORDS as u64];
        TensorMapDesc::new(TensorMapType::U32, &dims, &strides, &of)
            .swizzle(swizzle)
            .fill(TensorMapFill::Zeros)
            .encode(buffer)
    };
    let from = map(input, program.from.0, program.from.1)?;
    let to = map(&output, program.to, TensorMapSwizzle::None)?;
    let config = LaunchConfig {
        grid: [program.blocks, 1, 1],
        block: [THREADS, 1, 1],
        shared_bytes: 0,
        cluster: Some([program.cluster, 1, 1]),
    };
    let arguments = (input, &mut output, &mut saved, &from, &to);
    // SAFETY: the kernel reads the input and writes within its block's part of the output and its
    // threads' parts of what is saved. Buffers and maps live until the stream is synchronised.
    unsafe { kernel.launch(&stream, config, arguments)? };
    stream.synchronize()?;
    let words = [saved.to_vec()?, output.to_vec()?].concat();
    Ok(words
        .chunks(2)
        .map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32)
        .collect())
}
