//! Loads a file of the corpus and launches its kernels on typed buffers.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use half::{bf16, f16};
use warpsmith_emulator::{
    Checks, Emulator, EmulatorConfig, LaunchConfig, LaunchError, LaunchStats, Module, Output,
};

/// Folder with the PTX of the corpus.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus/ptx")
}

/// Every file of the corpus, in order.
pub(crate) fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).expect("the corpus is there");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "ptx"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// Runs `test` on the PTX compiled from `source`, for each architecture.
pub(crate) fn each(source: &str, test: impl Fn(&Gpu)) {
    each_with(Checks::ALL, source, test);
}

/// The same with a choice of checks.
pub(crate) fn each_with(checks: Checks, source: &str, test: impl Fn(&Gpu)) {
    let of_source = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.split('.').next() == Some(source))
    };
    let files: Vec<_> = files().into_iter().filter(of_source).collect();
    assert!(!files.is_empty(), "no PTX of {source}");
    for file in files {
        for seed in seeds() {
            test(&Gpu::load(&file, seed, checks));
        }
    }
}

/// Seeds (orders of warps and completions) to run with: two, or as many as `CORPUS_SEEDS` says.
fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("CORPUS_SEEDS").map_or(Ok(2), |count| count.parse());
    0..count.expect("CORPUS_SEEDS is a number")
}

/// An emulator with one module.
pub(crate) struct Gpu {
    pub(crate) file: PathBuf,
    pub(crate) emulator: Emulator,
    pub(crate) module: Module,
    printed: Arc<Mutex<Vec<u8>>>,
}

/// A buffer of `len` elements in global memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    pub(crate) address: u64,
    len: usize,
}

impl Gpu {
    fn load(file: &Path, seed: u64, checks: Checks) -> Self {
        let text = std::fs::read_to_string(file).expect("the file can be read");
        let (output, printed) = Output::buffer();
        let emulator = Emulator::new(EmulatorConfig {
            threads: Some(2),
            seed,
            instruction_budget: Some(50_000_000),
            output,
            checks,
            ..EmulatorConfig::default()
        });
        let module = emulator
            .load(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Self {
            file: file.to_owned(),
            emulator,
            module,
            printed,
        }
    }

    /// A buffer with these values.
    pub(crate) fn put<T: Element>(&self, values: &[T]) -> Buffer {
        let buffer = self.room::<T>(values.len());
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.bytes()).collect();
        self.emulator
            .write(buffer.address, &bytes)
            .expect("the buffer is live");
        buffer
    }

    /// A buffer that is not initialised.
    pub(crate) fn room<T: Element>(&self, len: usize) -> Buffer {
        let bytes = (len * T::BYTES) as u64;
        let address = self.emulator.alloc(bytes.max(1)).expect("memory suffices");
        Buffer { address, len }
    }

    /// The contents of a buffer.
    pub(crate) fn get<T: Element>(&self, buffer: Buffer) -> Vec<T> {
        let mut bytes = vec![0; buffer.len * T::BYTES];
        self.emulator
            .read(buffer.address, &mut bytes)
            .expect("the buffer is live");
        bytes.chunks_exact(T::BYTES).map(T::of).collect()
    }

    /// What the kernels printed.
    pub(crate) fn printed(&self) -> String {
        let bytes = self.printed.lock().expect("no writer panicked").clone();
        String::from_utf8(bytes).expect("the kernels print ASCII")
    }

    /// Launches with dynamic shared memory, and returns the emulator's result.
    pub(crate) fn try_launch(
        &self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        args: &[Arg],
    ) -> Result<LaunchStats, LaunchError> {
        let shape = LaunchConfig {
            grid,
            block,
            shared_bytes,
            cluster: None,
        };
        let args: Vec<Vec<u8>> = args.iter().map(Arg::bytes).collect();
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        self.emulator.launch(&self.module, kernel, &shape, &args)
    }

    /// Launches `blocks` blocks of `threads` threads; the launch must succeed.
    pub(crate) fn launch(&self, kernel: &str, blocks: u32, threads: u32, args: &[Arg]) {
        self.launch_in(kernel, [blocks, 1, 1], [threads, 1, 1], 0, args);
    }

    /// The same in three dimensions, with dynamic shared memory.
    pub(crate) fn launch_in(
        &self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        args: &[Arg],
    ) {
        if let Err(error) = self.try_launch(kernel, grid, block, shared_bytes, args) {
            panic!("{}, {kernel}: {error}", self.file.display());
        }
    }

    /// Launches a Triton kernel with `warps` warps; two scratch pointers follow its arguments.
    pub(crate) fn launch_triton(&self, kernel: &str, grid: [u32; 3], warps: u32, args: &[Arg]) {
        let dynamic = self
            .module
            .shared_bytes(kernel)
            .expect("the kernel is there");
        assert_eq!(dynamic, 0, "Triton asks for dynamic shared memory only");
        let mut args = args.to_vec();
        args.extend([Arg::U64(0), Arg::U64(0)]);
        self.launch_in(kernel, grid, [32 * warps, 1, 1], 96 << 10, &args);
    }
}

/// An argument of a kernel.
#[derive(Clone, Debug)]
pub(crate) enum Arg {
    I32(i32),
    F32(f32),
    U64(u64),
    At(Buffer),
    Bytes(Vec<u8>),
}

impl Arg {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::I32(value) => value.to_le_bytes().to_vec(),
            Self::F32(value) => value.to_le_bytes().to_vec(),
            Self::U64(value) => value.to_le_bytes().to_vec(),
            Self::At(buffer) => buffer.address.to_le_bytes().to_vec(),
            Self::Bytes(bytes) => bytes.clone(),
        }
    }
}

/// An element type of buffers.
pub(crate) trait Element: Copy {
    const BYTES: usize;
    fn bytes(self) -> Vec<u8>;
    fn of(bytes: &[u8]) -> Self;
}

macro_rules! elements {
    ($($ty:ty),*) => {
        $(impl Element for $ty {
            const BYTES: usize = size_of::<$ty>();
            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
            fn of(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("a chunk is one element"))
            }
        })*
    };
}
elements!(u8, u16, u32, u64, i32, i64, f16, bf16, f32, f64);

/// Values of a linear congruential generator.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1)
    }

    pub(crate) fn bits(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    /// Uniform below `end`.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        ((u64::from(self.bits()) * u64::from(end)) >> 32) as u32
    }

    /// Uniform in -1..1, in steps of 2^-16.
    pub(crate) fn signed(&mut self) -> f32 {
        (self.bits() >> 15) as f32 / 65536.0 - 1.0
    }

    pub(crate) fn floats(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.signed()).collect()
    }

    pub(crate) fn ints(&mut self, len: usize, end: u32) -> Vec<i32> {
        (0..len).map(|_| self.below(end) as i32).collect()
    }

    pub(crate) fn words(&mut self, len: usize) -> Vec<u32> {
        (0..len).map(|_| self.bits()).collect()
    }
}

/// Compares with a reference in f64: `|got - want| <= relative * |want| + absolute`.
#[track_caller]
pub(crate) fn close<T: Into<f64> + Copy>(
    gpu: &Gpu,
    got: &[T],
    want: &[f64],
    relative: f64,
    absolute: f64,
) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let got: f64 = (*got).into();
        let same = got.is_nan() && want.is_nan() || got == *want;
        assert!(
            same || (got - want).abs() <= relative * want.abs() + absolute,
            "{}: element {i}: {got} instead of {want}",
            gpu.file.display()
        );
    }
}

/// Compares exactly.
#[track_caller]
pub(crate) fn equal<T: PartialEq + std::fmt::Debug>(gpu: &Gpu, got: &[T], want: &[T]) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert_eq!(got, want, "{}: element {i}", gpu.file.display());
    }
}
