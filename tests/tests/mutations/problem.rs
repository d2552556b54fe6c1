//! A launch with its inputs, and the judgement of what it wrote.

use std::fmt;

use warpsmith_emulator::{
    Checks, Emulator, EmulatorConfig, LaunchConfig, LaunchError, Report, TensorMapDesc,
};

/// Warp instructions after which a mutated kernel is taken to loop for ever.
const BUDGET: u64 = 20_000_000;

/// What a kernel is given, and what it has to give back.
pub(crate) struct Problem {
    pub(crate) shape: LaunchConfig,
    pub(crate) buffers: Vec<Vec<u8>>,
    pub(crate) args: Vec<Arg>,
    pub(crate) judge: Judge,
}

/// Looks at all buffers after the launch; says what is wrong.
pub(crate) type Judge = Box<dyn Fn(&[Vec<u8>]) -> Result<(), String> + Send + Sync>;

/// One parameter.
pub(crate) enum Arg {
    /// The address of a buffer, by its number.
    Buffer(usize),
    /// The address of a tensor map over a buffer, whose address the map is given.
    Map(usize, TensorMapDesc),
    /// Bytes by value.
    Value(Vec<u8>),
}

/// How a run ended.
pub(crate) enum Outcome {
    /// No report, and the results hold.
    Clean,
    /// No report, but a result that does not hold.
    Wrong(String),
    /// The kernel ran into a fault.
    Fault(Box<Report>),
    /// The text was not loaded, or the launch not begun.
    Refused(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clean => f.write_str("clean"),
            Self::Wrong(why) => write!(f, "wrong result: {why}"),
            Self::Fault(report) => report.fmt(f),
            Self::Refused(why) => write!(f, "refused: {why}"),
        }
    }
}

impl Problem {
    /// Loads `ptx` and runs it with all checks, on an emulator of its own and one host thread.
    pub(crate) fn run(&self, ptx: &str, seed: u64) -> Outcome {
        self.run_on(ptx, seed, Some(1))
    }

    /// The same on so many host threads; on all there are where it does not say.
    pub(crate) fn run_on(&self, ptx: &str, seed: u64, threads: Option<usize>) -> Outcome {
        let emulator = Emulator::new(EmulatorConfig {
            threads,
            seed,
            checks: Checks::ALL,
            instruction_budget: Some(BUDGET),
            ..EmulatorConfig::default()
        });
        let module = match emulator.load(ptx) {
            Ok(module) => module,
            Err(error) => return Outcome::Refused(error.to_string()),
        };
        let addresses: Vec<u64> = self
            .buffers
            .iter()
            .map(|bytes| place(&emulator, bytes))
            .collect();
        let params: Vec<Vec<u8>> = self
            .args
            .iter()
            .map(|arg| arg.bytes(&emulator, &addresses))
            .collect();
        let params: Vec<&[u8]> = params.iter().map(Vec::as_slice).collect();
        let kernels = module.kernels();
        let [kernel] = kernels[..] else {
            return Outcome::Refused(format!("a module of one kernel, not {kernels:?}"));
        };
        match emulator.launch(&module, kernel, &self.shape, &params) {
            Ok(_) => {}
            Err(LaunchError::Fault(report)) => return Outcome::Fault(report),
            Err(error) => return Outcome::Refused(error.to_string()),
        }
        let mut after = self.buffers.clone();
        for (bytes, address) in after.iter_mut().zip(addresses) {
            emulator
                .read(address, bytes)
                .expect("the buffer is as long as its allocation");
        }
        match (self.judge)(&after) {
            Ok(()) => Outcome::Clean,
            Err(why) => Outcome::Wrong(why),
        }
    }
}

/// Puts bytes into memory of their own.
fn place(emulator: &Emulator, bytes: &[u8]) -> u64 {
    let address = emulator
        .alloc(bytes.len() as u64)
        .expect("the tests' buffers fit");
    emulator.write(address, bytes).expect("it was just placed");
    address
}

impl Arg {
    /// An unsigned parameter of 32 bits.
    pub(crate) fn u32(value: u32) -> Self {
        Self::Value(value.to_le_bytes().to_vec())
    }

    fn bytes(&self, emulator: &Emulator, addresses: &[u64]) -> Vec<u8> {
        match self {
            Self::Buffer(number) => addresses[*number].to_le_bytes().to_vec(),
            Self::Map(number, map) => {
                let map = TensorMapDesc {
                    address: addresses[*number],
                    ..map.clone()
                };
                let encoded = map.encode().expect("the tests' maps keep the rules");
                place(emulator, &encoded).to_le_bytes().to_vec()
            }
            Self::Value(bytes) => bytes.clone(),
        }
    }
}
