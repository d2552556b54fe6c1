//! Counting while blocks run.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use super::banks::wavefronts;
use super::counters::{Counters, HotLine, Issued, Moved, Traffic};
use super::kind::{Kind, Precision};
use super::resources::Resources;
use super::touched::Touched;
use crate::exec::row::{LANES, Lanes, Row};
use crate::module::{Kernel, Source};
use crate::program::Program;

/// Bytes of a sector, the unit of traffic to global memory.
const SECTOR: u64 = 32;

/// The kinds of access to global memory that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Load,
    Store,
    /// Reads and writes.
    Atomic,
    /// Read by an asynchronous copy.
    CopyIn,
    /// Write by an asynchronous copy.
    CopyOut,
}

/// The kinds of asynchronous copy, for [`Tally::copy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    Lanes,
    Bulk,
    Tensor,
    Stores,
}

/// The kinds of wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waited {
    /// `bar.sync` and the like.
    Barrier,
    /// `barrier.cluster.wait`
    Cluster,
    /// `mbarrier.try_wait`, `mbarrier.test_wait`
    Mbarrier,
    /// `cp.async.wait_group`, `cp.async.bulk.wait_group`
    Copies,
    /// `wgmma.wait_group`
    Wgmma,
}

/// Type of the inputs of a tensor-core instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TensorInput {
    Half,
    Tf32,
    Fp8,
    Integer,
    Double,
}

/// Counts of the instruction at one position.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    issued: Issued,
    sectors: u64,
    wavefronts: u64,
    bank_conflicts: u64,
}

impl Place {
    fn add(&mut self, new: &Self) {
        self.issued.warp = self.issued.warp.wrapping_add(new.issued.warp);
        self.issued.lane = self.issued.lane.wrapping_add(new.issued.lane);
        self.sectors += new.sectors;
        self.wavefronts += new.wavefronts;
        self.bank_conflicts += new.bank_conflicts;
    }
}

/// Everything that is counted. All of it are sums and unions, so tallies can be added in any order.
#[derive(Debug, Default)]
struct Sums {
    /// Counts by position in the code.
    places: Vec<Place>,
    /// Counts that belong to no position; `instructions` and `lines` stay empty here.
    totals: Counters,
    read: Touched,
    written: Touched,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        if self.places.len() < other.places.len() {
            self.places.resize(other.places.len(), Place::default());
        }
        for (own, new) in self.places.iter_mut().zip(&other.places) {
            own.add(new);
        }
        add_totals(&mut self.totals, &other.totals);
        self.read.unite(&other.read);
        self.written.unite(&other.written);
    }
}

/// Adds all totals. The destructuring makes the compiler name a counter that is forgotten here.
fn add_totals(own: &mut Counters, new: &Counters) {
    let Counters {
        instructions: _,
        global,
        shared,
        flops: _,
        tensor,
        copies,
        waits,
        occupancy: _,
        lines: _,
    } = new;
    let traffic = |own: &mut Traffic, new: &Traffic| {
        own.requests += new.requests;
        own.bytes += new.bytes;
        own.sectors += new.sectors;
    };
    traffic(&mut own.global.loads, &global.loads);
    traffic(&mut own.global.stores, &global.stores);
    traffic(&mut own.global.atomics, &global.atomics);
    traffic(&mut own.global.copies_in, &global.copies_in);
    traffic(&mut own.global.copies_out, &global.copies_out);
    own.shared.requests += shared.requests;
    own.shared.bytes += shared.bytes;
    own.shared.wavefronts += shared.wavefronts;
    own.shared.bank_conflicts += shared.bank_conflicts;
    own.tensor.wgmma += tensor.wgmma;
    own.tensor.mma += tensor.mma;
    own.tensor.half += tensor.half;
    own.tensor.tf32 += tensor.tf32;
    own.tensor.fp8 += tensor.fp8;
    own.tensor.integer += tensor.integer;
    own.tensor.double += tensor.double;
    let moved = |own: &mut Moved, new: &Moved| {
        own.copies += new.copies;
        own.bytes += new.bytes;
    };
    moved(&mut own.copies.lanes, &copies.lanes);
    moved(&mut own.copies.bulk, &copies.bulk);
    moved(&mut own.copies.tensor, &copies.tensor);
    moved(&mut own.copies.stores, &copies.stores);
    own.waits.barrier += waits.barrier;
    own.waits.cluster += waits.cluster;
    own.waits.mbarrier += waits.mbarrier;
    own.waits.copies += waits.copies;
    own.waits.wgmma += waits.wgmma;
}

/// Collects the tallies of a launch.
#[derive(Debug)]
pub(crate) struct Collector {
    sums: Mutex<Sums>,
}

impl Collector {
    pub(crate) fn new(program: &Program) -> Arc<Self> {
        let mut sums = Sums::default();
        sums.places.resize(program.code.len(), Place::default());
        Arc::new(Self {
            sums: Mutex::new(sums),
        })
    }

    /// The counters of the launch, once all tallies are dropped. `threads` and `dynamic` are the
    /// threads of a block and its dynamic shared memory in bytes.
    pub(crate) fn finish(
        &self,
        (kernel, program): (&Kernel, &Program),
        source: &Source,
        threads: u64,
        dynamic: u64,
    ) -> Counters {
        let sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counters = sums.totals.clone();
        counters.global.distinct_read = sums.read.bytes();
        counters.global.distinct_written = sums.written.bytes();
        let mut lines: BTreeMap<(u32, u32), HotLine> = BTreeMap::new();
        let mut pending = Place::default();
        for (pc, place) in sums.places.iter().enumerate() {
            let (Some(inst), Some(kind)) = (program.code.get(pc), program.kinds.get(pc)) else {
                continue;
            };
            pending.add(place);
            if inst.weight == 0 {
                // Not the last operation of its PTX instruction: the sums go on to the next
                // position.
                continue;
            }
            let place = &std::mem::take(&mut pending);
            if place.issued.warp == 0 {
                continue;
            }
            let of_kind = counters.instructions.entry(kind.class).or_default();
            of_kind.warp += place.issued.warp;
            of_kind.lane += place.issued.lane;
            if let Some((precision, each)) = kind.flops {
                let flops = place.issued.lane * u64::from(each);
                match precision {
                    Precision::Half => counters.flops.half += flops,
                    Precision::Single => counters.flops.single += flops,
                    Precision::Double => counters.flops.double += flops,
                }
            }
            // Several instructions may stand on one line; each is an entry of its own.
            lines.insert(
                (inst.line, pc as u32),
                hot_line(inst.line, *kind, place, source),
            );
        }
        counters.lines = lines.into_values().collect();
        counters.occupancy = Some(Resources::of(kernel, program).occupancy(threads, dynamic));
        counters
    }
}

fn hot_line(line: u32, kind: Kind, place: &Place, source: &Source) -> HotLine {
    HotLine {
        ptx_line: line,
        ptx_text: source.line(line),
        source: source.origin(line).first().cloned(),
        class: kind.class,
        issued: place.issued,
        sectors: place.sectors,
        wavefronts: place.wavefronts,
        bank_conflicts: place.bank_conflicts,
    }
}

/// Counts for the blocks that one host thread runs. Clones share the counts; without a profile
/// nothing is counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Option<Rc<Running>>);

#[derive(Debug)]
struct Running {
    sums: RefCell<Sums>,
    /// Position of the instruction that is running.
    pc: Cell<usize>,
    collector: Arc<Collector>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let total = &mut *self
            .collector
            .sums
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        total.add(self.sums.get_mut());
    }
}

impl Tally {
    /// A tally that adds its sums to `collector` when it is dropped.
    pub(crate) fn new(collector: Option<&Arc<Collector>>) -> Self {
        Self(collector.map(|collector| {
            Rc::new(Running {
                sums: RefCell::default(),
                pc: Cell::new(0),
                collector: collector.clone(),
            })
        }))
    }

    /// Whether anything is counted.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Attributes what follows to the instruction at `pc`.
    pub(crate) fn at(&self, pc: u32) {
        if let Some(running) = &self.0 {
            running.pc.set(pc as usize);
        }
    }

    /// The instruction at `pc` was issued `warp` times, to `lane` lanes in all. Either may be a
    /// wrapped negative number: an instruction that will run again takes its count back.
    pub(crate) fn issued(&self, pc: u32, warp: u64, lane: u64) {
        self.with(|sums, _| {
            let place = place(sums, pc as usize);
            place.issued.warp = place.issued.warp.wrapping_add(warp);
            place.issued.lane = place.issued.lane.wrapping_add(lane);
        });
    }

    /// The lanes of `mask` each access `bytes` of global memory.
    pub(crate) fn global(&self, touch: Touch, addresses: &Row<u64>, mask: u32, bytes: usize) {
        self.with(|sums, pc| {
            let bytes = bytes as u64;
            let lanes = u64::from(mask.count_ones());
            if let Some(start) = side_by_side(addresses, mask, bytes) {
                let end = start + lanes * bytes;
                touch_bytes(sums, touch, start, end - start);
                let sectors = end.div_ceil(SECTOR) - start / SECTOR;
                add_traffic(sums, touch, pc, 1, lanes * bytes, sectors);
                return;
            }
            let mut sectors = [u64::MAX; LANES];
            let mut count = 0;
            for lane in Lanes(mask) {
                let address = addresses.0[lane];
                touch_bytes(sums, touch, address, bytes);
                let sector = address / SECTOR;
                // Neighbouring lanes mostly share a sector, so the latest is compared first.
                if !sectors[..count].iter().rev().any(|known| *known == sector) {
                    sectors[count] = sector;
                    count += 1;
                }
            }
            add_traffic(sums, touch, pc, 1, lanes * bytes, count as u64);
        });
    }

    /// A copy accesses `len` contiguous bytes of global memory. Called for each row of a copy, when
    /// it takes place or when it is issued.
    pub(crate) fn global_row(&self, touch: Touch, address: u64, len: u64) {
        self.with(|sums, pc| {
            touch_bytes(sums, touch, address, len);
            let end = address.saturating_add(len);
            let sectors = end.div_ceil(SECTOR).saturating_sub(address / SECTOR);
            add_traffic(sums, touch, pc, 1, len, if len == 0 { 0 } else { sectors });
        });
    }

    /// The lanes of `mask` each access `bytes` of shared memory.
    pub(crate) fn shared(&self, addresses: &Row<u64>, mask: u32, bytes: usize) {
        self.with(|sums, pc| {
            let found = wavefronts(addresses, mask, bytes);
            let conflicts = found.taken - found.least;
            let shared = &mut sums.totals.shared;
            shared.requests += 1;
            shared.bytes += u64::from(mask.count_ones()) * bytes as u64;
            shared.wavefronts += found.taken;
            shared.bank_conflicts += conflicts;
            let place = place(sums, pc);
            place.wavefronts += found.taken;
            place.bank_conflicts += conflicts;
        });
    }

    /// A warpgroup issues a `wgmma.mma_async` of `flops` operations (a multiply-add counts as two).
    pub(crate) fn wgmma(&self, input: TensorInput, flops: u64) {
        self.with(|sums, _| {
            sums.totals.tensor.wgmma += 1;
            add_tensor(sums, input, flops);
        });
    }

    /// A warp runs an `mma.sync` of `flops` operations (a multiply-add counts as two).
    pub(crate) fn mma(&self, input: TensorInput, flops: u64) {
        self.with(|sums, _| {
            sums.totals.tensor.mma += 1;
            add_tensor(sums, input, flops);
        });
    }

    /// `copies` asynchronous copies of `bytes` in all are issued. Their accesses to global memory
    /// are counted by [`Tally::global_row`] or [`Tally::global`].
    pub(crate) fn copy(&self, what: Copied, copies: u64, bytes: u64) {
        self.with(|sums, _| {
            let all = &mut sums.totals.copies;
            let moved = match what {
                Copied::Lanes => &mut all.lanes,
                Copied::Bulk => &mut all.bulk,
                Copied::Tensor => &mut all.tensor,
                Copied::Stores => &mut all.stores,
            };
            moved.copies += copies;
            moved.bytes += bytes;
        });
    }

    /// A warp reaches an instruction that waits.
    pub(crate) fn wait(&self, what: Waited) {
        self.with(|sums, _| {
            let waits = &mut sums.totals.waits;
            *match what {
                Waited::Barrier => &mut waits.barrier,
                Waited::Cluster => &mut waits.cluster,
                Waited::Mbarrier => &mut waits.mbarrier,
                Waited::Copies => &mut waits.copies,
                Waited::Wgmma => &mut waits.wgmma,
            } += 1;
        });
    }

    #[inline]
    fn with(&self, count: impl FnOnce(&mut Sums, usize)) {
        if let Some(running) = &self.0 {
            count(&mut running.sums.borrow_mut(), running.pc.get());
        }
    }
}

/// If the lanes of `mask` access consecutive ranges, in the order of lanes: where the first begins.
fn side_by_side(addresses: &Row<u64>, mask: u32, bytes: u64) -> Option<u64> {
    let start = addresses.0[Lanes(mask).next()?];
    let mut places = Lanes(mask).zip(0..);
    let all = places.all(|(lane, i)| addresses.0[lane].wrapping_sub(start) == i * bytes);
    // Ranges that wrap around the end of the address space are in no allocation.
    (all && start.checked_add(LANES as u64 * bytes).is_some()).then_some(start)
}

fn place(sums: &mut Sums, pc: usize) -> &mut Place {
    if sums.places.len() <= pc {
        sums.places.resize(pc + 1, Place::default());
    }
    &mut sums.places[pc]
}

fn touch_bytes(sums: &mut Sums, touch: Touch, address: u64, len: u64) {
    if matches!(touch, Touch::Load | Touch::CopyIn | Touch::Atomic) {
        sums.read.add(address, len);
    }
    if matches!(touch, Touch::Store | Touch::CopyOut | Touch::Atomic) {
        sums.written.add(address, len);
    }
}

fn add_traffic(sums: &mut Sums, touch: Touch, pc: usize, requests: u64, bytes: u64, sectors: u64) {
    let global = &mut sums.totals.global;
    let traffic = match touch {
        Touch::Load => &mut global.loads,
        Touch::Store => &mut global.stores,
        Touch::Atomic => &mut global.atomics,
        Touch::CopyIn => &mut global.copies_in,
        Touch::CopyOut => &mut global.copies_out,
    };
    traffic.requests += requests;
    traffic.bytes += bytes;
    traffic.sectors += sectors;
    place(sums, pc).sectors += sectors;
}

fn add_tensor(sums: &mut Sums, input: TensorInput, flops: u64) {
    let tensor = &mut sums.totals.tensor;
    *match input {
        TensorInput::Half => &mut tensor.half,
        TensorInput::Tf32 => &mut tensor.tf32,
        TensorInput::Fp8 => &mut tensor.fp8,
        TensorInput::Integer => &mut tensor.integer,
        TensorInput::Double => &mut tensor.double,
    } += flops;
}
