//! The largest elements of groups of a thread's vectors, a bound from them, and the elements that
//! reach it.

use abi::topk::GROUPS;
use cuda_std::thread;

use super::cut::{Count, Shared, Wanted, cut};
use super::key::{Float, Narrow, float_of};
use super::row::{Pairs, Part};

/// The largest element of each group of this thread's vectors: every eighth of them is in the same
/// group. As f32, with the sign turned if the smallest elements are wanted.
pub(super) struct Largest {
    /// Without NaN.
    of: [f32; GROUPS],
    /// Bits of the groups that may have a NaN.
    odd: u32,
}

/// Integers in shared memory.
struct Keys {
    first: *const u32,
    len: u32,
}

impl Pairs for Keys {
    type Pair = u64;

    #[inline(always)]
    fn len(&self) -> u32 {
        self.len
    }

    #[inline(always)]
    unsafe fn each(&self, mut f: impl FnMut(u64)) {
        let mut i = thread::thread_idx_x();
        while i < self.len {
            // SAFETY: passed on to the caller.
            f(u64::from(unsafe { self.first.add(i as usize).read() }));
            i += thread::block_dim_x();
        }
    }
}

/// Whether a thread's vectors are one group: enough for few elements, and quicker.
#[inline(always)]
fn is_narrow(k: u32) -> bool {
    4 * k <= thread::block_dim_x()
}

/// Whether there are enough groups for a bound that not many more than `k` elements reach.
#[inline(always)]
pub(super) fn are_enough(k: u32, vectors: u32) -> bool {
    let of_thread = if is_narrow(k) { 1 } else { GROUPS as u32 };
    let groups = of_thread * thread::block_dim_x();
    2 * k <= if vectors < groups { vectors } else { groups }
}

impl Largest {
    /// Reads the vectors of the part.
    ///
    /// # Safety
    /// They are readable.
    #[inline(always)]
    pub(super) unsafe fn of<T: Float>(part: &Part<T>) -> Self {
        let (threads, turn) = (thread::block_dim_x(), part.pairing.turn);
        let (mut of, mut odd) = ([f32::NEG_INFINITY; GROUPS], 0);
        let mut vector = thread::thread_idx_x();
        while vector < part.vectors {
            let raws: [[u32; 4]; GROUPS] = core::array::from_fn(|group| {
                // SAFETY: passed on to the caller.
                unsafe { part.vector(vector + group as u32 * threads) }
            });
            for group in 0..GROUPS {
                let raw = raws[group];
                let first = T::float(T::of(raw, 0) ^ turn);
                // The sum of all is NaN if one is. (It also is with infinities of both signs.)
                let (mut largest, mut sum) = (first, first);
                for v in 1..T::LANES {
                    let x = T::float(T::of(raw, v) ^ turn);
                    largest = largest.max(x);
                    sum += x;
                }
                of[group] = of[group].max(largest);
                odd |= u32::from(sum.is_nan()) << group;
            }
            vector += GROUPS as u32 * threads;
        }
        Self { of, odd }
    }

    /// A number that at least `k` elements of the block reach.
    ///
    /// # Safety
    /// All threads of the block are here; its groups [are enough](are_enough); nobody uses the
    /// shared memory for pairs, and there is a barrier before anybody does.
    #[inline(always)]
    pub(super) unsafe fn bound(&self, k: u32, shared: Shared) -> f32 {
        let (thread, threads) = (thread::thread_idx_x(), thread::block_dim_x());
        let key_of = |x: f32| f32::key(x.to_bits(), 0);
        let is_narrow = is_narrow(k);
        // SAFETY: places of this thread alone; the search has a barrier before it reads.
        unsafe {
            let own = shared.largest().add(thread as usize);
            if is_narrow {
                let mut largest = self.of[0];
                for group in 1..GROUPS {
                    largest = largest.max(self.of[group]);
                }
                own.write(key_of(largest));
            } else {
                for group in 0..GROUPS {
                    own.add(group * threads as usize)
                        .write(key_of(self.of[group]));
                }
            }
            let keys = Keys {
                first: shared.largest(),
                len: if is_narrow {
                    threads
                } else {
                    GROUPS as u32 * threads
                },
            };
            let wanted = Wanted {
                k,
                most: k + k / 8 + 16,
                bits: 32,
            };
            float_of(cut(&keys, wanted, shared) as u32)
        }
    }

    /// Lists the groups with elements that are not below the bound.
    ///
    /// # Safety
    /// Between barriers, nobody reads the list; its count was 0 at first.
    #[inline(always)]
    pub(super) unsafe fn list(&self, bound: f32, list: &List) {
        let mut groups = self.odd;
        for group in 0..GROUPS {
            groups |= u32::from(self.of[group] >= bound) << group;
        }
        while groups != 0 {
            let group = groups.trailing_zeros();
            groups &= groups - 1;
            let first = thread::thread_idx_x() + group * thread::block_dim_x();
            // SAFETY: passed on to the caller; the place is this thread's alone.
            unsafe {
                let slot = list.shared.slot(Count::Groups);
                if slot < list.capacity {
                    list.first.add(slot as usize).write(first as u16);
                }
            }
        }
    }
}

/// Groups by their first vectors, in shared memory.
pub(super) struct List {
    pub(super) shared: Shared,
    pub(super) first: *mut u16,
    pub(super) capacity: u32,
}

impl List {
    /// Calls `f` with the indices of all elements of these groups that are not below the bound, and
    /// of those in no vector; each is some thread's. Not all of them, if there were more groups
    /// than there is room for: whether there were is returned.
    ///
    /// # Safety
    /// The part is readable, and the list written.
    #[inline(always)]
    pub(super) unsafe fn reaching<T: Float>(
        &self,
        part: &Part<T>,
        bound: f32,
        mut f: impl FnMut(u32, u32),
    ) -> bool {
        let (threads, turn) = (thread::block_dim_x(), part.pairing.turn);
        let reaches = |bits: u32| {
            let x = T::float(bits ^ turn);
            x >= bound || x.is_nan()
        };
        // SAFETY: vectors and elements of the part.
        unsafe {
            let listed = self.shared.count(Count::Groups).read();
            let listed = if listed < self.capacity {
                listed
            } else {
                self.capacity
            };
            let step = GROUPS as u32 * threads;
            // Threads are a power of two. There is a division by this, which must not be by 0.
            let of_group = (part.vectors + step - 1) >> step.trailing_zeros();
            let of_group = if of_group > 1 { of_group } else { 1 };
            let mut i = thread::thread_idx_x();
            while i < listed * of_group {
                let (group, round) = (i / of_group, i % of_group);
                let vector = u32::from(self.first.add(group as usize).read()) + round * step;
                let raw = part.vector(vector);
                let mut lanes = 0;
                for v in 0..T::LANES {
                    lanes |= u32::from(reaches(T::of(raw, v))) << v;
                }
                lanes = if vector < part.vectors { lanes } else { 0 };
                while lanes != 0 {
                    let index = part.index(vector) + lanes.trailing_zeros();
                    lanes &= lanes - 1;
                    f(part.element(index), index);
                }
                i += threads;
            }
            if let Some(index) = part.edge() {
                let bits = part.element(index);
                if reaches(bits) {
                    f(bits, index);
                }
            }
            self.shared.count(Count::Groups).read() > self.capacity
        }
    }
}
