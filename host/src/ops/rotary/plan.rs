//! The kernels of a rotation, and the choice between them. All of them give the same bits.

use crate::ops::plan::{Desc, Machine, MachineModel, Ruled, costs};
use crate::{DType, DeviceInfo, LaunchConfig};
use abi::rotary::{HEADS, MAX_THREADS, RotaryEntry, THREADS, Variant};
use std::fmt;

costs! {
    /// Rotations.
    RotaryCosts {
        /// Elements for each multiprocessor up to which heads are turned pair by pair. A thread by
        /// vectors has 32 elements, one after the other, so most of the device would have none
        /// (docs/rotary.md).
        few_elements: u64 = 2_048,
    }
}

/// Heads with elements that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RotaryDesc {
    pub(super) dtype: DType,
    /// Dtype of the tables.
    pub(super) table: DType,
    pub(super) tokens: u64,
    /// Heads of a token.
    pub(super) heads: u32,
    /// Elements of all heads.
    pub(super) elements: u64,
    /// Pairs of a head.
    pub(super) half: u32,
    /// Elements of a head that are written.
    pub(super) written: u32,
    pub(super) is_interleaved: bool,
    /// Whether all heads and rows of the tables are whole vectors that begin at multiples of 16 bytes.
    pub(super) is_of_vectors: bool,
}

impl fmt::Display for RotaryDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            dtype,
            table,
            tokens,
            heads,
            elements,
            half,
            written,
            ..
        } = self;
        write!(
            f,
            "{dtype} by {table}: tokens{tokens} heads{heads} elements{elements}"
        )?;
        write!(f, " pairs{half} written{written}")?;
        for (name, is_set) in [
            ("interleaved", self.is_interleaved),
            ("vectors", self.is_of_vectors),
        ] {
            if is_set {
                write!(f, " {name}")?;
            }
        }
        Ok(())
    }
}

/// One way to turn heads.
pub(super) type Candidate = Ruled<RotaryEntry, ()>;

impl RotaryDesc {
    /// The entries that can turn these heads, the one by vectors first.
    fn entries(&self) -> impl Iterator<Item = RotaryEntry> {
        let by_vectors = match self.is_interleaved {
            true => Variant::Interleaved,
            false => Variant::Halves,
        };
        let variants = [
            self.is_of_vectors.then_some(by_vectors),
            Some(Variant::Strided),
        ];
        let (dtype, table) = (self.dtype, self.table);
        let variants = variants.into_iter().flatten();
        variants.filter_map(move |variant| RotaryEntry::of(dtype, table, variant))
    }

    /// Threads for the heads of a token.
    pub(super) fn threads(&self, entry: RotaryEntry) -> u64 {
        let slots = entry.slots(self.half, self.written);
        u64::from(slots) * u64::from(self.heads.div_ceil(HEADS))
    }

    /// The fewest threads that a kernel takes for the heads of a token.
    pub(super) fn least_threads(&self) -> u64 {
        let threads = self.entries().map(|entry| self.threads(entry));
        threads.min().unwrap_or(0)
    }

    /// Bytes that are read and written.
    pub(super) fn bytes(&self) -> u64 {
        self.elements
            .saturating_mul(2 * self.dtype.size_bytes() as u64)
    }
}

impl Desc for RotaryDesc {
    const OPERATION: &'static str = "rotary";

    type Candidate = Candidate;

    fn candidates(
        &self,
        device: &DeviceInfo,
        model: &MachineModel,
        offer: &mut dyn FnMut(Candidate),
    ) {
        let machine = Machine::of(device, model);
        let few = model.rotary.few_elements * u64::from(machine.multiprocessors);
        let pays = self.is_of_vectors && self.elements > few;
        for entry in self.entries() {
            let threads = self.threads(entry);
            if threads > MAX_THREADS {
                continue;
            }
            let tokens = self.tokens.min(MAX_THREADS / threads);
            let config = LaunchConfig::for_elements(threads * tokens, THREADS);
            let is_by_vectors = entry.variant != Variant::Strided;
            offer(Ruled {
                entry,
                option: "",
                split: 1,
                config,
                decision: (),
                is_first: pays == is_by_vectors,
                estimated_ns: machine.moving_ns(self.bytes() as f64, config.grid[0].into()),
            });
        }
    }

    fn supported(&self) -> String {
        "fewer than 2^30 threads for a token's heads".into()
    }
}
