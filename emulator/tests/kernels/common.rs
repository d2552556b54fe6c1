//! Runs one kernel on buffers of 32-bit words.

use std::path::PathBuf;

use warpsmith_emulator::{Emulator, EmulatorConfig, LaunchConfig, LaunchError, LaunchStats};

/// A launch of the first kernel of a file.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) path: PathBuf,
    pub(crate) shape: LaunchConfig,
    pub(crate) config: EmulatorConfig,
    /// Length in words and initial value of each buffer, which precede the scalars; `None` leaves
    /// it uninitialised.
    pub(crate) buffers: Vec<(usize, Option<u32>)>,
    pub(crate) scalars: Vec<u32>,
}

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) result: Result<LaunchStats, LaunchError>,
    /// The buffers, as words.
    pub(crate) buffers: Vec<Vec<u32>>,
}

impl Case {
    /// A case of `folder/name.ptx` with `blocks` blocks of `threads` threads.
    pub(crate) fn new(folder: &str, name: &str, blocks: u32, threads: u32) -> Self {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests");
        Self {
            path: root.join(folder).join(name).with_extension("ptx"),
            shape: LaunchConfig {
                grid: [blocks, 1, 1],
                block: [threads, 1, 1],
                shared_bytes: 0,
                cluster: None,
            },
            config: EmulatorConfig {
                threads: Some(2),
                ..EmulatorConfig::default()
            },
            buffers: Vec::new(),
            scalars: Vec::new(),
        }
    }

    /// Adds a zeroed buffer of `words`.
    pub(crate) fn zeros(mut self, words: usize) -> Self {
        self.buffers.push((words, Some(0)));
        self
    }

    /// Adds a buffer that is not initialised.
    pub(crate) fn uninitialized(mut self, words: usize) -> Self {
        self.buffers.push((words, None));
        self
    }

    /// Adds a 32-bit parameter.
    pub(crate) fn scalar(mut self, value: u32) -> Self {
        self.scalars.push(value);
        self
    }

    /// Loads and runs on a new emulator, so that addresses are always the same.
    pub(crate) fn run(&self) -> Ran {
        let text = std::fs::read_to_string(&self.path)
            .unwrap_or_else(|error| panic!("{}: {error}", self.path.display()));
        let emulator = Emulator::new(self.config.clone());
        let module = emulator
            .load(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", self.path.display()));
        let mut addresses = Vec::new();
        for (words, fill) in &self.buffers {
            let bytes = 4 * *words as u64;
            let address = emulator.alloc(bytes).expect("memory suffices");
            if let Some(value) = fill {
                let image: Vec<u8> = (0..*words).flat_map(|_| value.to_le_bytes()).collect();
                emulator.write(address, &image).expect("the buffer is live");
            }
            addresses.push(address);
        }
        let mut params: Vec<Vec<u8>> = addresses
            .iter()
            .map(|address| address.to_le_bytes().to_vec())
            .collect();
        params.extend(
            self.scalars
                .iter()
                .map(|value| value.to_le_bytes().to_vec()),
        );
        let params: Vec<&[u8]> = params.iter().map(Vec::as_slice).collect();
        let kernel = module.kernels().first().map(|name| (*name).to_owned());
        let kernel = kernel.expect("the file has a kernel");
        let result = emulator.launch(&module, &kernel, &self.shape, &params);
        let buffers = self
            .buffers
            .iter()
            .zip(&addresses)
            .map(|((words, _), address)| {
                let mut bytes = vec![0; 4 * words];
                emulator
                    .read(*address, &mut bytes)
                    .expect("the buffer is live");
                bytes
                    .chunks_exact(4)
                    .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
                    .collect()
            })
            .collect();
        Ran { result, buffers }
    }
}
