//! Which bytes of global memory a launch read and wrote.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::exec::row::{Lanes, Row};
use crate::memory::global::Snapshot;
use crate::memory::host::{Starved, lacks, zeroed};
use crate::program::Program;

/// Bytes that one word of a bitmap stands for.
const WORD: u64 = 64;
/// What a lack of memory is for.
const WHAT: &str = "the footprint of a launch";
/// Several instructions accessed the bytes of a word.
const SEVERAL: u32 = u32::MAX;

/// What a launch did to global memory, by kind of access. Each list is sorted by address, and its
/// parts do not overlap. Strong accesses are volatile, relaxed or stronger, or atomic; the write of
/// an atomic stands for the atomic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Plain reads.
    pub reads: Vec<Touched>,
    /// Plain writes.
    pub writes: Vec<Touched>,
    /// Strong reads.
    pub strong_reads: Vec<Touched>,
    /// Strong writes.
    pub strong_writes: Vec<Touched>,
}

/// Bytes of global memory that a launch accessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Their addresses.
    pub bytes: Range<u64>,
    /// The line in the PTX text of the instruction, from 1; `None` if there were several.
    pub line: Option<u32>,
}

/// How bytes are accessed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) writes: bool,
    pub(crate) strong: bool,
}

impl Way {
    fn index(self) -> usize {
        usize::from(self.writes) + 2 * usize::from(self.strong)
    }
}

/// The footprint of a launch that runs.
#[derive(Debug)]
pub(crate) struct Recorder {
    memory: Snapshot,
    starved: Arc<Starved>,
    /// For each way of access, the bitmap of each allocation.
    kinds: [Box<[OnceLock<Bitmap>]>; 4],
}

/// One bit for each byte of an allocation.
#[derive(Debug, Default)]
struct Bitmap {
    words: Box<[AtomicU64]>,
    /// For each word, the position of the instruction plus one.
    sites: Box<[AtomicU32]>,
}

impl Recorder {
    pub(crate) fn new(memory: &Snapshot, starved: &Arc<Starved>) -> Self {
        let none = || memory.iter().map(|_| OnceLock::new()).collect();
        Self {
            memory: memory.clone(),
            starved: starved.clone(),
            kinds: [none(), none(), none(), none()],
        }
    }

    /// Records an access of `bytes` bytes by each lane of `mask`, by the instruction at `pc`.
    pub(crate) fn lanes(
        &self,
        (allocation, pc): (usize, u32),
        way: Way,
        offsets: &Row<u64>,
        mask: u32,
        bytes: u64,
    ) {
        let bitmap = self.bitmap(allocation, way);
        let mut run = 0..0;
        for lane in Lanes(mask) {
            let offset = offsets.0[lane];
            if offset == run.end {
                run.end += bytes;
            } else {
                bitmap.add(run, pc);
                run = offset..offset + bytes;
            }
        }
        bitmap.add(run, pc);
    }

    /// Records an access to a range.
    pub(crate) fn range(&self, (allocation, pc): (usize, u32), way: Way, range: Range<u64>) {
        self.bitmap(allocation, way).add(range, pc);
    }

    fn bitmap(&self, allocation: usize, way: Way) -> &Bitmap {
        self.kinds[way.index()][allocation].get_or_init(|| {
            let words = self.memory[allocation].len.div_ceil(WORD);
            match (zeroed(words), zeroed(words)) {
                (Some(words), Some(sites)) => Bitmap { words, sites },
                _ => {
                    lacks(&self.starved, WHAT, words * 12);
                    Bitmap::default()
                }
            }
        })
    }

    /// All that was recorded.
    pub(crate) fn finish(&self, program: &Program) -> Footprint {
        let list = |writes, strong| {
            let mut all = Vec::new();
            for (allocation, bitmap) in self
                .memory
                .iter()
                .zip(&self.kinds[Way { writes, strong }.index()])
            {
                if let Some(bitmap) = bitmap.get() {
                    bitmap.list(allocation.base, program, &mut all);
                }
            }
            all
        };
        Footprint {
            reads: list(false, false),
            writes: list(true, false),
            strong_reads: list(false, true),
            strong_writes: list(true, true),
        }
    }
}

impl Bitmap {
    fn add(&self, range: Range<u64>, pc: u32) {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / WORD + 1) * WORD);
            let bits = u64::MAX >> (WORD - (end - at)) << (at % WORD);
            let index = (at / WORD) as usize;
            let (Some(word), Some(site)) = (self.words.get(index), self.sites.get(index)) else {
                return;
            };
            if word.load(Ordering::Relaxed) & bits != bits {
                word.fetch_or(bits, Ordering::Relaxed);
            }
            if site.load(Ordering::Relaxed) != pc + 1 {
                let new = |old| if old == 0 { pc + 1 } else { SEVERAL };
                let _ =
                    site.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| Some(new(old)));
            }
            at = end;
        }
    }

    /// Adds the ranges of set bits to a list.
    fn list(&self, base: u64, program: &Program, all: &mut Vec<Touched>) {
        let line = |site: u32| {
            let inst = program.code.get((site.checked_sub(1)?) as usize)?;
            Some(inst.line)
        };
        for (index, (word, site)) in self.words.iter().zip(&self.sites).enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            if bits == 0 {
                continue;
            }
            let line = line(site.load(Ordering::Relaxed));
            let word = base + index as u64 * WORD;
            let mut at = 0;
            while bits != 0 {
                let from = bits.trailing_zeros();
                bits >>= from;
                let len = bits.trailing_ones();
                bits = bits.checked_shr(len).unwrap_or(0);
                at += u64::from(from);
                let bytes = word + at..word + at + u64::from(len);
                at += u64::from(len);
                match all.last_mut() {
                    Some(last) if last.bytes.end == bytes.start && last.line == line => {
                        last.bytes.end = bytes.end;
                    }
                    _ => all.push(Touched { bytes, line }),
                }
            }
        }
    }
}
