//! Synchronisation through memory: fences, and strong accesses that release and acquire.
//!
//! As in C++: a strong write hands over what its warp knew at its last fence, or what it knows now
//! if the write is a release. A strong read takes it up at once if it is an acquire, and otherwise
//! at the next fence. An atomic also passes on what the word held before (a release sequence).
//! All that takes part has to have a scope that includes both threads: the fence or release, the
//! write, the read, and the fence or acquire.

use std::sync::{Arc, PoisonError};

use super::grid::Released;
use super::knowledge::Knowledge;
use super::order::{Actor, Order, Target, WarpClock};
use super::shadow::WHAT;
use super::stamp::Stamp;
use crate::exec::row::{Lanes, Row};
use crate::memory::host::lacks;
use crate::program::{Scope, Strength};

/// How an instruction uses a flag, that is, a word that strong accesses read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagUse {
    Read,
    Write,
    Atomic,
}

/// What a warp has released to a word.
#[derive(Clone, Debug)]
pub(super) struct Handed {
    /// Rank of its block.
    rank: u32,
    /// Who takes it up: its own block, or all of the cluster.
    reach: Scope,
    stamp: Stamp,
}

impl WarpClock {
    /// What it knew at its last fence that threads at a distance take part in.
    fn fenced(&self, distance: Scope) -> Option<&Stamp> {
        let mut last = self.fences.iter().rev();
        let (_, stamp) = last.find(|(scope, _)| *scope >= distance)?;
        Some(stamp)
    }
}

impl Order {
    /// `fence` or `membar` by a warp.
    pub(crate) fn fence(&mut self, warp: u32, scope: Scope) {
        let Some(own) = self.warps.get_mut(warp as usize) else {
            return;
        };
        for distance in Scope::ALL {
            let seen = &mut own.seen[distance as usize];
            if distance <= scope {
                own.clock.join(&std::mem::take(seen));
            } else {
                own.left_out.join(seen);
            }
        }
        let stamp = self.release(warp);
        let fences = &mut self.warps[warp as usize].fences;
        fences.retain(|(other, _)| *other > scope);
        fences.push((scope, stamp));
    }

    /// What a warp hands over when it arrives at a barrier: what it knows now. Without release
    /// semantics, it is what it knew at its last fence that threads at a distance take part in.
    pub(crate) fn hand_over(&mut self, warp: u32, distance: Scope, releases: bool) -> Stamp {
        if releases {
            return self.release(warp);
        }
        let own = self.warps.get(warp as usize);
        let fenced = own.and_then(|own| own.fenced(distance).cloned());
        fenced.unwrap_or_default().at(self.steps.of(warp))
    }

    /// A warp takes up what others handed over: at once, or, without acquire semantics, at its next
    /// fence.
    pub(crate) fn take_up(&mut self, warp: u32, stamp: &Stamp, acquires: bool) {
        match self.warps.get_mut(warp as usize) {
            Some(own) if !acquires => {
                own.seen[Scope::Block as usize].join(stamp);
                self.steps.reach(warp, stamp.steps);
            }
            _ => self.acquire(warp, stamp),
        }
    }

    /// A strong access by lanes of a warp.
    pub(crate) fn strong(
        &mut self,
        warp: u32,
        target: Target,
        (strength, scope, usage): (Strength, Scope, FlagUse),
        offsets: &Row<u64>,
        mask: u32,
    ) {
        if self.warps.is_empty() {
            return;
        }
        self.visit_words(target, usage, offsets, mask);
        let released = match usage {
            FlagUse::Read => None,
            _ if strength.releases() => Some(self.release(warp)),
            _ => None,
        };
        let own = &self.warps[warp as usize];
        // What goes to threads at a distance was known at a fence that they take part in.
        let handed = |distance: Scope| match usage {
            FlagUse::Read => None,
            _ if scope < distance => None,
            _ => released.as_ref().or_else(|| own.fenced(distance)),
        };
        let [near, cluster, far] = Scope::ALL.map(handed);
        let narrowed = |wide: Option<&Stamp>| {
            near.filter(|near| wide.is_none_or(|wide| !std::ptr::eq(*near, wide)))
        };
        if self.flags.is_empty() && self.between.is_none() && near.is_none() {
            return;
        }
        let rank = warp / self.warps_per_block;
        let stamps = [(Scope::Cluster, cluster), (Scope::Block, narrowed(cluster))];
        let stamps: Vec<Handed> = stamps
            .into_iter()
            .filter_map(|(reach, stamp)| {
                let stamp = stamp?.clone();
                Some(Handed { rank, reach, stamp })
            })
            .collect();
        let outside = match target {
            Target::Global { .. } if self.between.is_some() => Released {
                known: self.for_others(far),
                left_out: self.for_others(narrowed(far)),
            },
            _ => Released::default(),
        };
        for lane in Lanes(mask) {
            let word = offsets.0[lane] / 4;
            if usage != FlagUse::Write {
                self.read_flag(warp, target, word, (strength, scope));
            }
            if usage != FlagUse::Read {
                let atomic = usage == FlagUse::Atomic;
                self.write_flag(target, word, &stamps, atomic);
                if let (Some(between), Target::Global { allocation }) = (&self.between, target) {
                    let mut between = between.lock().unwrap_or_else(PoisonError::into_inner);
                    between.set_flag((allocation, word), outside.clone(), atomic);
                }
            }
        }
    }

    fn read_flag(
        &mut self,
        warp: u32,
        target: Target,
        word: u64,
        (strength, scope): (Strength, Scope),
    ) {
        let key = (self.region(target).0, word);
        let rank = warp / self.warps_per_block;
        let own = &mut self.warps[warp as usize];
        for handed in self.flags.get(&key).into_iter().flatten() {
            let distance = match handed.rank == rank {
                true => Scope::Block,
                false => Scope::Cluster,
            };
            own.learns(distance, scope.min(handed.reach), strength)
                .join(&handed.stamp);
        }
        if let (Some(between), Target::Global { allocation }) = (&self.between, target) {
            let between = between.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(released) = between.flag(allocation, word) {
                let learns = own.learns(Scope::Device, scope, strength);
                learns.join_outside(&released.known, self.cluster);
                own.left_out.grid.join(&released.left_out);
            }
        }
    }

    fn write_flag(&mut self, target: Target, word: u64, handed: &[Handed], atomic: bool) {
        let key = (self.region(target).0, word);
        if handed.is_empty() {
            if !atomic {
                self.flags.remove(&key);
            }
            return;
        }
        if self.flags.try_reserve(1).is_err() {
            let bytes = size_of::<Handed>() as u64;
            return lacks(&self.starved, WHAT, bytes);
        }
        let word = self.flags.entry(key).or_default();
        if !atomic {
            word.clear();
        }
        for handed in handed {
            let same =
                |other: &&mut Handed| (other.rank, other.reach) == (handed.rank, handed.reach);
            match word.iter_mut().find(same) {
                Some(before) => before.stamp.join(&handed.stamp),
                None => word.push(handed.clone()),
            }
        }
    }

    /// A stamp as other clusters know it.
    fn for_others(&self, stamp: Option<&Stamp>) -> Knowledge {
        let Some(stamp) = stamp else {
            return Knowledge::default();
        };
        let mut known = stamp.grid.clone();
        known.learn(self.cluster, &Arc::new(stamp.generic.clone()));
        known
    }

    /// A note if a flag passed between two accesses, and only a scope kept it from ordering them.
    /// `knows` says whether what the later thread would know otherwise includes the earlier access.
    pub(super) fn left_out(
        &self,
        actor: Actor<'_>,
        distance: Scope,
        knows: impl FnOnce(&Stamp) -> bool,
    ) -> Option<String> {
        let Actor::Warp { warp, .. } = actor else {
            return None;
        };
        let own = self.warps.get(warp as usize)?;
        knows(&own.left_out).then(|| {
            format!(
                "a flag went from (2) to (1), but the scope of one of its accesses or fences leaves \
                 out one of the two blocks: all need {}",
                distance.name()
            )
        })
    }
}

impl WarpClock {
    /// What learns of a release by a thread at a distance that a strong read has seen, if all that
    /// takes part has at least this scope.
    fn learns(&mut self, distance: Scope, scope: Scope, strength: Strength) -> &mut Stamp {
        if scope < distance {
            &mut self.left_out
        } else if strength.acquires() {
            &mut self.clock
        } else {
            &mut self.seen[distance as usize]
        }
    }
}
