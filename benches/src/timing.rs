//! Timing on a device by events.
//!
//! The contestants run in turn in one process, in a different order at each repetition, so that
//! clocks and temperature are the same for all. Four effects would otherwise distort the
//! measurement:
//!
//! - **Host overhead.** A launch takes microseconds of host time. Before each repetition the device
//!   spins for longer than the host takes to enqueue all of it ([`Timer::interleaved`]), so that
//!   the device never waits for the host between two events. The spin is measured in nanoseconds
//!   and in cycles; their ratio is the clock at which the SMs ran, which falls at the power limit.
//! - **Event overhead.** Work shorter than [`SHORT_MS`] is launched several times between two
//!   events; reported times are those of one launch.
//! - **A warm L2.** Operands that an earlier launch left in L2 would cost no memory traffic. The
//!   launches rotate through copies of the operands whose total size is several times that of the
//!   L2 ([`copies`]). Large operands have three, too, as L2 need not forget in order: what
//!   a kernel reads by `evict_first` leaves in place what was there before it.
//! - **A cool start.** The device works for [`WARM_MS`] before the first repetition that counts.

use std::time::Instant;

use warpsmith::{DeviceBuffer, Event, Kernel, LaunchConfig, Stream};

use crate::error::Result;
use crate::graph::Graph;

/// Enqueues one run, on the copy of the operands that the number names.
pub type Launch<'a> = Box<dyn FnMut(usize) -> Result<()> + 'a>;

/// Work that takes less is launched several times between two events.
pub const SHORT_MS: f64 = 0.05;

/// The approximate total time of several launches between two events.
const EVENT_PAIR_MS: f64 = 0.25;

/// Duration of the work before the first repetition that counts: about the time in which a GPU
/// reacts to drawing too much power.
pub const WARM_MS: f64 = 100.0;

/// The total size of the copies, as a multiple of the L2's.
const COPIES_OVER_L2: u64 = 3;

/// Copies at least, of operands of any size: two launches on others come between two on the same.
const LEAST_COPIES: usize = 3;

/// The statistics of a measurement's repetitions, for one launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// The median. It is taken at each position in the order of contestants; this is the mean of
    /// those medians.
    pub median_ms: f64,
    /// The shortest.
    pub min_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl Times {
    /// Those of each of `launches` launches that were timed as one.
    fn of_each(&self, launches: usize) -> Self {
        let launches = launches.max(1) as f64;
        Self {
            median_ms: self.median_ms / launches,
            min_ms: self.min_ms / launches,
            max_ms: self.max_ms / launches,
        }
    }
}

/// How often the contestants run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Repetitions before the first that counts.
    pub warmups: usize,
    /// Repetitions that count.
    pub repetitions: usize,
    /// Launches between two events.
    pub launches: usize,
    /// Copies of the operands that launches rotate through.
    pub copies: usize,
}

/// The number of copies of operands of `bytes` that it takes for an L2 of `l2_bytes` to hold
/// nothing of the next copy.
pub fn copies(bytes: u64, l2_bytes: u64) -> usize {
    let wanted = COPIES_OVER_L2 * l2_bytes;
    // A launch writes one copy while the next ones are still to be read, so one copy is added.
    (wanted.div_ceil(bytes.max(1)).clamp(1, 256) as usize + 1).max(LEAST_COPIES)
}

/// The order of `count` contestants in a repetition. In `count` successive ones each has every place
/// once. Every other `count` of them go backwards, so that no contestant always runs after the same
/// one: what runs before it decides how hot and how fast the device is.
fn order_of(count: usize, repetition: usize) -> impl Iterator<Item = usize> + Clone {
    let is_backwards = repetition / count.max(1) % 2 == 1;
    (0..count).map(move |place| {
        let next = (place + repetition) % count;
        if is_backwards { count - 1 - next } else { next }
    })
}

/// The number of launches between two events for work that takes `ms`.
fn launches_for(ms: f64) -> usize {
    if ms >= SHORT_MS {
        return 1;
    }
    (EVENT_PAIR_MS / ms.max(1e-4)).ceil().clamp(2.0, 100.0) as usize
}

/// The result of [`Timer::interleaved`].
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The times of each work, in their order.
    pub times: Vec<Times>,
    /// The SM clock, as the median over the repetitions; absent on the emulator.
    pub sm_clock_mhz: Option<f64>,
}

/// Times work on one stream.
#[derive(Debug)]
pub struct Timer {
    stream: Stream,
    /// Absent on the emulator, where a launch is complete when the call returns.
    spin: Option<Spin>,
}

/// The kernel that spins, and the memory to which it writes the cycles and nanoseconds of its last
/// spin.
#[derive(Debug)]
struct Spin {
    kernel: Kernel,
    waited: DeviceBuffer<u64>,
}

impl Timer {
    /// A timer for work that is enqueued on `stream`.
    ///
    /// # Errors
    /// If the device does not load the kernel that spins.
    pub fn new(stream: &Stream) -> Result<Self> {
        let spin = if stream.device().is_emulator() {
            None
        } else {
            Some(Spin {
                kernel: stream.device().load_ptx(SPIN)?.kernel("spin")?,
                waited: DeviceBuffer::zeros(stream, 2)?,
            })
        };
        Ok(Self {
            stream: stream.clone(),
            spin,
        })
    }

    /// The stream that work goes to.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Plans the schedule for these works. The fastest determines the number of launches per pair
    /// of events; the total of all determines how many repetitions warm the device.
    ///
    /// # Errors
    /// As [`Timer::interleaved`].
    pub fn plan(
        &self,
        repetitions: usize,
        copies: usize,
        works: &mut [Launch<'_>],
    ) -> Result<Schedule> {
        let mut schedule = Schedule {
            warmups: 2,
            repetitions: 3,
            launches: 1,
            copies,
        };
        if self.spin.is_some() {
            let times = self.interleaved(&schedule, works)?.times;
            let medians = times.iter().map(|times| times.median_ms);
            schedule.launches = launches_for(medians.clone().fold(f64::INFINITY, f64::min));
            let repetition_ms = medians.sum::<f64>() * schedule.launches as f64;
            schedule.warmups = (WARM_MS / repetition_ms).ceil().clamp(2.0, 1000.0) as usize;
        }
        schedule.repetitions = repetitions.next_multiple_of(works.len().max(1));
        Ok(schedule)
    }

    /// Times each of the works.
    ///
    /// # Errors
    /// The first error of a work or an event.
    pub fn interleaved(&self, schedule: &Schedule, works: &mut [Launch<'_>]) -> Result<Measured> {
        let repetitions = schedule.repetitions.max(1);
        let count = works.len();
        // The times of each work at each position in the order.
        let mut times_ms = vec![vec![Vec::with_capacity(repetitions); count]; count];
        let mut clocks_mhz = Vec::new();
        let mut next_copy = (0..schedule.copies.max(1)).cycle();
        let mut enqueue_ns = 0;
        for repetition in 0..schedule.warmups + repetitions {
            self.spin(enqueue_ns + enqueue_ns / 2 + MARGIN_NS)?;
            let started = Instant::now();
            let mut events = vec![self.stream.record()?];
            let order = order_of(count, repetition);
            for work_idx in order.clone() {
                for copy in next_copy.by_ref().take(schedule.launches) {
                    works[work_idx](copy)?;
                }
                events.push(self.stream.record()?);
            }
            let enqueued = started.elapsed().as_nanos() as u64;
            self.stream.synchronize()?;
            // The first launches load kernels, so the time to enqueue them says nothing.
            enqueue_ns = match repetition {
                0 => LOADING_NS,
                1 => enqueued,
                _ => enqueue_ns.max(enqueued),
            };
            if repetition < schedule.warmups {
                continue;
            }
            for ((place, work_idx), pair) in order.enumerate().zip(events.windows(2)) {
                times_ms[work_idx][place].push(elapsed_ms(pair, schedule.launches)?);
            }
            clocks_mhz.extend(self.clock_mhz()?);
        }
        Ok(Measured {
            times: times_ms
                .iter_mut()
                .map(|times| over_places(times))
                .collect(),
            sm_clock_mhz: (!clocks_mhz.is_empty()).then(|| summary(&mut clocks_mhz).median_ms),
        })
    }

    /// Times each of the works as a graph of `schedule.launches` launches, all of which have run
    /// before.
    ///
    /// # Errors
    /// As [`Graph::capture`] and [`Timer::interleaved`].
    pub fn interleaved_graphs(
        &self,
        schedule: &Schedule,
        works: &mut [Launch<'_>],
    ) -> Result<Measured> {
        let copies = (0..schedule.copies.max(1)).cycle();
        let capture = |work: &mut Launch<'_>| {
            let mut copies = copies.clone().take(schedule.launches);
            let graph = Graph::capture(&self.stream, || copies.try_for_each(work))?;
            Ok(Box::new(move |_| graph.replay()) as Launch<'static>)
        };
        let mut replays = works.iter_mut().map(capture).collect::<Result<Vec<_>>>()?;
        let of_graphs = Schedule {
            launches: 1,
            ..*schedule
        };
        let mut measured = self.interleaved(&of_graphs, &mut replays)?;
        for times in &mut measured.times {
            *times = times.of_each(schedule.launches);
        }
        Ok(measured)
    }

    /// Keeps the device busy for `ns` nanoseconds, 20 ms at most.
    ///
    /// # Errors
    /// If the launch fails.
    pub fn spin(&self, ns: u64) -> Result<()> {
        let Some(Spin { kernel, waited }) = &self.spin else {
            return Ok(());
        };
        let ns = ns.min(LONGEST_NS);
        // SAFETY: the kernel writes two u64 through its first argument.
        unsafe { kernel.launch(&self.stream, LaunchConfig::linear(1, 1), (waited, ns))? };
        Ok(())
    }

    /// The clock during the last spin: its cycles divided by its time.
    fn clock_mhz(&self) -> Result<Option<f64>> {
        let Some(Spin { waited, .. }) = &self.spin else {
            return Ok(None);
        };
        let mut cycles_and_ns = [0; 2];
        waited.copy_to_slice(&mut cycles_and_ns)?;
        let [cycles, ns] = cycles_and_ns;
        Ok((ns > 0).then(|| cycles as f64 / ns as f64 * 1e3))
    }
}

/// A kernel of one thread that spins for `ns` nanoseconds of the device's global timer, from one
/// tick of it to another, and stores the cycles and nanoseconds at `waited`.
const SPIN: &str = "
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 waited, .param .u64 ns) {
    .reg .b64 %out, %wait, %before, %start, %now, %ns, %first, %last;
    .reg .pred %p;
    ld.param.u64 %out, [waited];
    cvta.to.global.u64 %out, %out;
    ld.param.u64 %wait, [ns];
    mov.u64 %before, %globaltimer;
tick:
    mov.u64 %start, %globaltimer;
    setp.eq.u64 %p, %start, %before;
    @%p bra tick;
    mov.u64 %first, %clock64;
again:
    mov.u64 %now, %globaltimer;
    sub.u64 %ns, %now, %start;
    setp.lt.u64 %p, %ns, %wait;
    @%p bra again;
    mov.u64 %last, %clock64;
    sub.u64 %last, %last, %first;
    st.global.u64 [%out], %last;
    st.global.u64 [%out+8], %ns;
    ret;
}
";
/// The shortest spin, and the margin that is added to the time that enqueueing took.
const MARGIN_NS: u64 = 20_000;
/// The spin before a repetition whose enqueue time is not known yet.
const LOADING_NS: u64 = 200_000;
/// The longest spin.
const LONGEST_NS: u64 = 20_000_000;

fn elapsed_ms(pair: &[Event], launches: usize) -> Result<f64> {
    let [start, end] = pair else {
        return Ok(f64::NAN);
    };
    Ok(f64::from(start.elapsed_ms(end)?) / launches.max(1) as f64)
}

/// Combines the times of a work at each position in the order. After a pause the clock is higher
/// than under load, so at the power limit the times have two modes. A median over all of them would
/// be that of the position that happens to occur once more often.
fn over_places(times_ms: &mut [Vec<f64>]) -> Times {
    let places = times_ms.iter_mut().filter(|times| !times.is_empty());
    let summaries: Vec<Times> = places.map(|times| summary(times)).collect();
    let medians = summaries.iter().map(|times| times.median_ms);
    Times {
        median_ms: medians.sum::<f64>() / summaries.len() as f64,
        min_ms: summaries
            .iter()
            .fold(f64::INFINITY, |least, times| least.min(times.min_ms)),
        max_ms: summaries
            .iter()
            .fold(0.0, |most, times| times.max_ms.max(most)),
    }
}

/// The statistics of `times_ms`, which is not empty.
fn summary(times_ms: &mut [f64]) -> Times {
    times_ms.sort_by(f64::total_cmp);
    let middle = times_ms.len() / 2;
    let median_ms = if times_ms.len() % 2 == 1 {
        times_ms[middle]
    } else {
        (times_ms[middle - 1] + times_ms[middle]) / 2.0
    };
    Times {
        median_ms,
        min_ms: times_ms[0],
        max_ms: times_ms[times_ms.len() - 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_or_the_mean_of_the_middle_two() {
        assert_eq!(summary(&mut [3.0, 1.0, 2.0]).median_ms, 2.0);
        assert_eq!(summary(&mut [4.0, 1.0, 2.0, 3.0]).median_ms, 2.5);
        let one = summary(&mut [7.0]);
        assert_eq!((one.min_ms, one.median_ms, one.max_ms), (7.0, 7.0, 7.0));
    }

    #[test]
    fn no_place_in_the_order_counts_more_than_another() {
        let (first, second) = (vec![1.0, 1.1, 0.9], vec![2.0, 2.2]);
        let times = over_places(&mut [first, Vec::new(), second]);
        assert_eq!((times.min_ms, times.max_ms), (0.9, 2.2));
        assert!((times.median_ms - 1.55).abs() < 1e-12, "{times:?}");
    }

    #[test]
    fn each_has_every_place_and_runs_after_others_in_turn() {
        let orders: Vec<Vec<usize>> = (0..10).map(|at| order_of(5, at).collect()).collect();
        for place in 0..5 {
            for cycle in orders.chunks(5) {
                let mut there: Vec<usize> = cycle.iter().map(|order| order[place]).collect();
                there.sort_unstable();
                assert_eq!(there, [0, 1, 2, 3, 4]);
            }
        }
        let before = |order: &Vec<usize>| {
            let at = order.iter().position(|&idx| idx == 2);
            at.and_then(|at| at.checked_sub(1)).map(|at| order[at])
        };
        let mut befores: Vec<usize> = orders.iter().filter_map(before).collect();
        befores.sort_unstable();
        befores.dedup();
        assert_eq!(befores, [1, 3]);
    }

    #[test]
    fn small_operands_get_enough_copies_to_leave_the_l2() {
        let l2_bytes = 60 << 20;
        assert_eq!(copies(1 << 30, l2_bytes), LEAST_COPIES);
        for bytes in [6 << 20, 50 << 20, 100 << 20] {
            let copies = copies(bytes, l2_bytes) as u64;
            assert!((copies - 1) * bytes >= 3 * l2_bytes, "{copies} of {bytes}");
        }
        assert_eq!(copies(0, l2_bytes), 257);
    }

    #[test]
    fn only_short_work_is_launched_several_times() {
        assert_eq!(launches_for(0.05), 1);
        assert_eq!(launches_for(0.025), 10);
        assert_eq!(launches_for(0.0), 100);
    }

    #[test]
    fn the_kernel_that_waits_leaves_cycles_and_time() -> Result<()> {
        let device = warpsmith::Device::emulator()?;
        let stream = device.default_stream();
        let kernel = device.load_ptx(SPIN)?.kernel("spin")?;
        let waited = DeviceBuffer::<u64>::zeros(&stream, 2)?;
        // SAFETY: two u64 to write, and the time to wait.
        unsafe { kernel.launch(&stream, LaunchConfig::linear(1, 1), (&waited, 1000_u64))? };
        let waited = waited.to_vec()?;
        assert!(waited[0] > 0 && waited[1] >= 1000, "{waited:?}");
        Ok(())
    }

    #[test]
    fn works_take_turns_and_rotate_through_copies() -> Result<()> {
        let device = warpsmith::Device::emulator()?;
        let timer = Timer::new(&device.default_stream())?;
        let log = std::cell::RefCell::new(Vec::new());
        let work = |name: char| -> Launch<'_> {
            let log = &log;
            Box::new(move |copy| {
                log.borrow_mut().push((name, copy));
                Ok(())
            })
        };
        let mut works = [work('a'), work('b')];
        let schedule = Schedule {
            warmups: 0,
            repetitions: 2,
            launches: 2,
            copies: 3,
        };
        let measured = timer.interleaved(&schedule, &mut works)?;
        assert_eq!((measured.times.len(), measured.sm_clock_mhz), (2, None));
        let names: String = log.borrow().iter().map(|(name, _)| name).collect();
        assert_eq!(names, "aabbbbaa");
        let copies: Vec<usize> = log.borrow().iter().map(|&(_, copy)| copy).collect();
        assert_eq!(copies, [0, 1, 2, 0, 1, 2, 0, 1]);
        Ok(())
    }
}
