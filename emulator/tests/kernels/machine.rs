//! An emulator with one loaded file, for kernels that need more than buffers of words.

use std::path::PathBuf;

use warpsmith_emulator::{
    Emulator, EmulatorConfig, LaunchConfig, LaunchError, LaunchStats, Module,
};

/// An emulator and a module.
pub(crate) struct Machine {
    pub(crate) emulator: Emulator,
    pub(crate) module: Module,
}

impl Machine {
    /// Loads `folder/name.ptx` on a new emulator with a seed.
    pub(crate) fn new(folder: &str, name: &str, seed: u64) -> Self {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests");
        let path = root.join(folder).join(name).with_extension("ptx");
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let emulator = Emulator::new(EmulatorConfig {
            threads: Some(1),
            seed,
            ..EmulatorConfig::default()
        });
        let module = emulator
            .load(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { emulator, module }
    }

    /// A buffer with these bytes.
    pub(crate) fn buffer(&self, bytes: &[u8]) -> u64 {
        let address = self.emulator.alloc(bytes.len() as u64);
        let address = address.expect("memory suffices");
        self.emulator
            .write(address, bytes)
            .expect("the buffer is live");
        address
    }

    /// The bytes of a buffer.
    pub(crate) fn bytes(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.emulator
            .read(address, &mut bytes)
            .expect("the buffer is live");
        bytes
    }

    /// Launches a kernel.
    pub(crate) fn launch(
        &self,
        kernel: &str,
        shape: &LaunchConfig,
        params: &[Vec<u8>],
    ) -> Result<LaunchStats, LaunchError> {
        let params: Vec<&[u8]> = params.iter().map(Vec::as_slice).collect();
        self.emulator.launch(&self.module, kernel, shape, &params)
    }
}

/// A launch of one cluster of `cluster` blocks.
pub(crate) fn shape(cluster: u32, threads: u32, shared_bytes: u32) -> LaunchConfig {
    LaunchConfig {
        grid: [cluster, 1, 1],
        block: [threads, 1, 1],
        shared_bytes,
        cluster: (cluster > 1).then_some([cluster, 1, 1]),
    }
}
