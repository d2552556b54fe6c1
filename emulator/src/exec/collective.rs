//! Warp-wide operations: shuffles, votes, matches, reductions.

use super::block::Block;
use super::fault::{Checked, Fault};
use super::path::State;
use super::random::Random;
use super::row::{LANES, Lanes, Row};
use super::warp::{Flow, Warp};
use crate::program::{Collective, CollectiveKind as Kind, Redux, Shuffle, Width};
use crate::report::FaultKind;

impl Warp {
    /// Runs a warp-wide instruction once the lanes that it names have reached it; until then they
    /// wait.
    pub(super) fn meet(
        &mut self,
        block: &mut Block<'_>,
        collective: &Collective,
        index: usize,
        active: u32,
    ) -> Checked<Flow> {
        if active == 0 {
            return Ok(Flow::Next);
        }
        let Some(members) = collective.members else {
            self.collective(block, collective, active);
            return Ok(Flow::Next);
        };
        let members = self.row32(block, members);
        let first = members.0[0];
        let differ = members.0.iter().fold(0, |bits, own| bits | own ^ first);
        // Nearly always all lanes name the same set, and are it.
        if differ == 0 && first & self.paths.live() == active {
            self.complete(block, collective, active);
            return Ok(Flow::Next);
        }
        for lane in Lanes(active) {
            let own = members.0[lane];
            if own >> lane & 1 == 0 {
                let message = format!("lane {lane} is not in its member mask 0x{own:08x}");
                return Err(Fault::new(
                    FaultKind::BarrierMisuse,
                    Some(lane as u32),
                    message,
                ));
            }
        }
        // Lanes of this path may name different member sets, each complete by itself.
        let missing = Lanes(active).fold(0, |missing, lane| missing | members.0[lane])
            & self.paths.live()
            & !active;
        if missing == 0 {
            let mut rest = active;
            while rest != 0 {
                let set = members.0[rest.trailing_zeros() as usize] & active;
                self.complete(block, collective, set);
                rest &= !set;
            }
            return Ok(Flow::Next);
        }
        self.uncount(active);
        self.part(index, active, State::Converging);
        Ok(Flow::Parted)
    }

    /// Runs a collective for a set of lanes that are all here.
    fn complete(&mut self, block: &Block<'_>, collective: &Collective, set: u32) {
        if collective.kind == Kind::SyncWarp {
            self.synchronize(block, set);
        }
        self.collective(block, collective, set);
    }

    /// Runs a collective for the lanes of `active`, all of which are here.
    pub(crate) fn collective(&mut self, block: &Block<'_>, op: &Collective, active: u32) {
        self.on_copies(|warp| warp.collective(block, op, active));
        let constants = &block.launch.program.constants;
        let (value, predicate) = match op.kind {
            Kind::Shuffle(mode) => self.shuffle(block, op, mode, active),
            Kind::VoteAll | Kind::VoteAny | Kind::VoteUni | Kind::Ballot => {
                let yes = op.source.map_or(0, |source| self.holds(block, source)) & active;
                vote(op.kind, yes, active)
            }
            Kind::MatchAny | Kind::MatchAll => {
                let values = match op.a {
                    Some(a) if a.width == Width::B64 => *self.regs.row::<u64>(constants, a.slot),
                    Some(a) => self.row32(block, a.slot).map(u64::from),
                    None => Row::default(),
                };
                matching(op.kind, &values, active)
            }
            Kind::Redux(redux) => {
                let values = op.a.map_or(Row::default(), |a| self.row32(block, a.slot));
                (Row([reduce(redux, &values, active); LANES]), 0)
            }
            Kind::Elect => {
                let leader = active.trailing_zeros();
                (Row([leader; LANES]), 1 << leader)
            }
            Kind::ActiveMask => (Row([active; LANES]), 0),
            Kind::SyncWarp => return,
        };
        if let Some(d) = op.d {
            self.regs.put(d.slot, &value, active);
        }
        if let Some(p) = op.p {
            self.regs.set_pred(p, predicate, active);
        }
    }

    /// `shfl.sync`: the value of the source lane, and whether that lane is in range. If it is not,
    /// a lane keeps its own value. If the source of a lane does not take part, the value is
    /// undefined. The lane gets its own value under seed 0, and under any other seed a value that
    /// depends on the seed. So results that depend on it differ between seeds.
    fn shuffle(
        &self,
        block: &Block<'_>,
        op: &Collective,
        mode: Shuffle,
        active: u32,
    ) -> (Row<u32>, u32) {
        let operand = |slot: Option<_>| slot.map_or(Row::default(), |s| self.row32(block, s));
        let values = operand(op.a.map(|a| a.slot));
        let (lanes, controls) = (operand(op.b), operand(op.c));
        let mut out = values;
        let mut in_range = 0;
        for lane in 0..LANES as u32 {
            let b = lanes.0[lane as usize] & 31;
            let control = controls.0[lane as usize];
            let (clamp, segment) = (control & 31, control >> 8 & 31);
            let most = lane & segment | clamp & !segment;
            let least = lane & segment;
            let (source, inside) = match mode {
                Shuffle::Up => {
                    let source = lane.wrapping_sub(b);
                    (source, source as i32 >= most as i32)
                }
                Shuffle::Down => (lane + b, lane + b <= most),
                Shuffle::Butterfly => (lane ^ b, lane ^ b <= most),
                Shuffle::Index => {
                    let source = least | b & !segment;
                    (source, source <= most)
                }
            };
            let source = if inside { source & 31 } else { lane };
            in_range |= u32::from(inside) << lane;
            if active >> source & 1 != 0 {
                out.0[lane as usize] = values.0[source as usize];
            } else if block.launch.seed != 0 {
                let stream = self.warp_instructions << 5 | u64::from(lane);
                out.0[lane as usize] = Random::new(block.launch.seed, stream).next() as u32;
            }
        }
        (out, in_range)
    }
}

fn vote(kind: Kind, yes: u32, active: u32) -> (Row<u32>, u32) {
    let holds = match kind {
        Kind::VoteAll => yes == active,
        Kind::VoteAny => yes != 0,
        _ => yes == 0 || yes == active,
    };
    (Row([yes; LANES]), if holds { u32::MAX } else { 0 })
}

fn matching(kind: Kind, values: &Row<u64>, active: u32) -> (Row<u32>, u32) {
    let mut same = Row([0; LANES]);
    for lane in Lanes(active) {
        same.0[lane] = Lanes(active)
            .filter(|&other| values.0[other] == values.0[lane])
            .fold(0, |mask, other| mask | 1 << other);
    }
    if kind == Kind::MatchAny {
        return (same, 0);
    }
    let all = same.0[active.trailing_zeros() as usize] == active;
    (
        Row([if all { active } else { 0 }; LANES]),
        if all { u32::MAX } else { 0 },
    )
}

fn reduce(op: Redux, values: &Row<u32>, active: u32) -> u32 {
    let lanes = Lanes(active).map(|lane| values.0[lane]);
    let combine = |a: u32, b: u32| match op {
        Redux::Add => a.wrapping_add(b),
        Redux::MinU => a.min(b),
        Redux::MaxU => a.max(b),
        Redux::MinS => (a as i32).min(b as i32) as u32,
        Redux::MaxS => (a as i32).max(b as i32) as u32,
        Redux::And => a & b,
        Redux::Or => a | b,
        Redux::Xor => a ^ b,
    };
    lanes.reduce(combine).unwrap_or(0)
}
