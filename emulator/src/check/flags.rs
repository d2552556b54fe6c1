//! Synchronisation through memory: fences, and strong accesses that release and acquire.
//!
//! As in C++: a strong write hands over what its warp knew at its last fence, or what it knows now
//! if the write is a release. A strong read takes it up at once if it is an acquire, and otherwise
//! at the next fence. An atomic also passes on what the word held before (a release sequence).
//! Accesses and fences whose scope is a block or a cluster pass nothing on to other clusters.

use std::sync::{Arc, PoisonError};

use super::knowledge::Knowledge;
use super::order::{Order, Target};
use super::shadow::WHAT;
use super::stamp::Stamp;
use crate::exec::row::{Lanes, Row};
use crate::memory::host::lacks;
use crate::program::Strength;

/// How an instruction uses a flag, that is, a word that strong accesses read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagUse {
    Read,
    Write,
    Atomic,
}

impl Order {
    /// `fence` or `membar` by a warp; `narrow` if other clusters take no part in it.
    pub(crate) fn fence(&mut self, warp: u32, narrow: bool) {
        let Some(own) = self.warps.get_mut(warp as usize) else {
            return;
        };
        let mut seen = std::mem::take(&mut own.seen);
        if narrow {
            own.seen.grid = std::mem::take(&mut seen.grid);
            if !std::mem::replace(&mut own.narrowed, true) {
                own.wide = own.fenced.take();
            }
        } else {
            (own.narrowed, own.wide) = (false, None);
        }
        own.clock.join(&seen);
        let stamp = self.release(warp);
        self.warps[warp as usize].fenced = Some(stamp);
    }

    /// What a warp hands over when it arrives at a barrier: what it knows now, or, without release
    /// semantics, what it knew at its last fence.
    pub(crate) fn hand_over(&mut self, warp: u32, releases: bool) -> Stamp {
        if releases {
            return self.release(warp);
        }
        let own = self.warps.get(warp as usize);
        let fenced = own.and_then(|own| own.fenced.clone());
        fenced.unwrap_or_default().at(self.steps.of(warp))
    }

    /// A warp takes up what others handed over: at once, or, without acquire semantics, at its next
    /// fence.
    pub(crate) fn take_up(&mut self, warp: u32, stamp: &Stamp, acquires: bool) {
        match self.warps.get_mut(warp as usize) {
            Some(own) if !acquires => {
                own.seen.join(stamp);
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
        (strength, usage): (Strength, FlagUse),
        offsets: &Row<u64>,
        mask: u32,
    ) {
        if self.warps.is_empty() {
            return;
        }
        self.visit_words(target, usage, offsets, mask);
        let handed = match usage {
            FlagUse::Read => None,
            _ if strength.releases() => Some(self.release(warp)),
            _ => self.warps[warp as usize].fenced.clone(),
        };
        if self.flags.is_empty() && self.between.is_none() && handed.is_none() {
            return;
        }
        // What goes to other clusters was known at a fence that they take part in.
        let own = &self.warps[warp as usize];
        let is_narrowed = own.narrowed && !strength.releases();
        let wide = if is_narrowed { own.wide.clone() } else { None };
        let outside = match is_narrowed {
            _ if self.narrow => None,
            true => wide.as_ref(),
            false => handed.as_ref(),
        };
        for lane in Lanes(mask) {
            let word = offsets.0[lane] / 4;
            if usage != FlagUse::Write {
                self.read_flag(warp, target, word, strength);
            }
            if usage != FlagUse::Read {
                let atomic = usage == FlagUse::Atomic;
                self.write_flag(target, word, handed.as_ref(), atomic);
                self.write_outside(target, word, outside, atomic);
            }
        }
    }

    fn read_flag(&mut self, warp: u32, target: Target, word: u64, strength: Strength) {
        let key = (self.region(target).0, word);
        let own = &mut self.warps[warp as usize];
        let learns = match strength.acquires() {
            true => &mut own.clock,
            false => &mut own.seen,
        };
        if let Some(stamp) = self.flags.get(&key) {
            learns.join(stamp);
        }
        if let (Some(between), Target::Global { allocation }) = (&self.between, target)
            && !self.narrow
        {
            let between = between.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = between.flag(allocation, word) {
                learns.grid.join(known);
            }
        }
    }

    fn write_flag(&mut self, target: Target, word: u64, handed: Option<&Stamp>, atomic: bool) {
        let key = (self.region(target).0, word);
        if handed.is_some() && self.flags.try_reserve(1).is_err() {
            let bytes = size_of::<Stamp>() as u64;
            return lacks(&self.starved, WHAT, bytes);
        }
        match handed {
            Some(stamp) if atomic => self.flags.entry(key).or_default().join(stamp),
            Some(stamp) => {
                self.flags.insert(key, stamp.clone());
            }
            None if !atomic => {
                self.flags.remove(&key);
            }
            None => {}
        }
    }

    fn write_outside(&self, target: Target, word: u64, handed: Option<&Stamp>, atomic: bool) {
        if let (Some(between), Target::Global { allocation }) = (&self.between, target) {
            let known = handed.map(|stamp| self.for_others(stamp));
            let mut between = between.lock().unwrap_or_else(PoisonError::into_inner);
            between.set_flag(allocation, word, known.as_ref(), atomic);
        }
    }

    /// A stamp as other clusters know it.
    fn for_others(&self, stamp: &Stamp) -> Knowledge {
        let mut known = stamp.grid.clone();
        known.learn(self.cluster, &Arc::new(stamp.generic.clone()));
        known
    }
}
