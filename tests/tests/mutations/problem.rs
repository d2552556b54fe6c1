//! A launch with its inputs, and the check of its results.

use std::fmt;

use warpsmith_emulator::{
    Checks, Emulator, EmulatorConfig, LaunchConfig, LaunchError, Report, TensorMapDesc,
};

/// Warp instructions of one warp after which a mutated kernel counts as looping forever.
const BUDGET: u64 = 20_000_000;

/// The inputs of a launch, and the check of its outputs.
pub(crate) struct Problem {
    pub(crate) shape: LaunchConfig,
    pub(crate) buffers: Vec<Vec<u8>>,
    pub(crate) args: Vec<Arg>,
    pub(crate) judge: Judge,
}

/// Examines all buffers after the launch; the error says what is wrong.
pub(crate) type Judge = Box<dyn Fn(&[Vec<u8>]) -> Result<(), String> + Send + Sync>;

/// One parameter.
pub(crate) enum Arg {
    /// The address of a buffer, by index.
    Buffer(usize),
    /// A tensor map over a buffer (by index), whose address is filled in at launch.
    Map(usize, TensorMapDesc),
    /// The same, as a parameter of 128 bytes.
    MapValue(usize, TensorMapDesc),
    /// Bytes by value.
    Value(Vec<u8>),
    /// The address of a buffer (by index) and bytes, by value.
    Behind(usize, Vec<u8>),
}

/// How a run ended.
pub(crate) enum Outcome {
    /// No report, and the results are right.
    Clean,
    /// No report, but a wrong result.
    Wrong(String),
    /// The kernel hit a fault.
    Fault(Box<Report>),
    /// The module or the launch was refused.
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
    /// Loads `ptx` and runs it with all checks, on a separate emulator with one host thread.
    pub(crate) fn run(&self, ptx: &str, seed: u64) -> Outcome {
        self.run_on(ptx, seed, Some(1))
    }

    /// The same with a number of host threads; `None` means all.
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

/// Copies bytes to a new allocation.
fn place(emulator: &Emulator, bytes: &[u8]) -> u64 {
    let address = emulator
        .alloc(bytes.len() as u64)
        .expect("the tests' buffers fit");
    emulator.write(address, bytes).expect("it was just placed");
    address
}

/// The map over memory at `address`.
fn encoded(map: &TensorMapDesc, address: u64) -> Vec<u8> {
    let map = TensorMapDesc {
        address,
        ..map.clone()
    };
    map.encode()
        .expect("the tests' maps keep the rules")
        .to_vec()
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
                let encoded = encoded(map, addresses[*number]);
                place(emulator, &encoded).to_le_bytes().to_vec()
            }
            Self::MapValue(number, map) => encoded(map, addresses[*number]),
            Self::Value(bytes) => bytes.clone(),
            Self::Behind(number, bytes) => [&addresses[*number].to_le_bytes(), &bytes[..]].concat(),
        }
    }
}
