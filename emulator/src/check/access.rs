//! Accesses, checked against the shadow and recorded in it.

use std::sync::PoisonError;

use super::cell::{Cell, Kind};
use super::conflict;
use super::grid_plane::GridCell;
use super::order::{Actor, Order, Proxy, Target};
use super::shadow::{Hit, Span, Visitor};
use super::stamp::Stamp;
use crate::exec::fault::{Checked, Fault};
use crate::exec::kernel::vectorized;
use crate::exec::row::{LANES, Lanes, Row, mask_of};
use crate::memory::lanes::Planes;
use crate::memory::words::low_bits;
use crate::program::Scope;
use crate::report::FaultKind;

/// What a store writes and what it replaces: two writes of the same value are not a race.
pub(crate) struct Values<'a> {
    /// The data of the lanes.
    pub(crate) planes: &'a Planes,
    /// Whether memory already holds a value: arguments are offset, bytes and value.
    pub(crate) holds: &'a dyn Fn(u64, u32, u32) -> bool,
}

/// Lanes of an asynchronous operation are never told apart.
const NEVER: [u32; LANES] = [0; LANES];

impl Order {
    /// An access of `bytes` at the offset of each lane of `mask`. The lanes of an asynchronous
    /// operation count as one.
    pub(crate) fn lanes(
        &mut self,
        actor: Actor<'_>,
        target: Target,
        kind: impl Into<Kind>,
        offsets: &Row<u64>,
        mask: u32,
        bytes: usize,
    ) -> Checked<()> {
        self.note(actor, target, kind.into(), offsets, mask, bytes, None)
    }

    /// Refuses a read by the non-coherent cache of what the cluster has written, in whatever order:
    /// the memory must be read-only while the kernel runs.
    pub(crate) fn only_read(
        &self,
        actor: Actor<'_>,
        target: Target,
        offsets: &Row<u64>,
        mask: u32,
        bytes: usize,
    ) -> Checked<()> {
        let (table, _) = self.region(target);
        if !self.on || !self.shadow.has_writes(table) {
            return Ok(());
        }
        for lane in Lanes(mask) {
            let mut each = (offsets.0[lane]..).take(bytes);
            let Some(offset) = each.find(|at| self.shadow.write_at(table, *at).is_some()) else {
                continue;
            };
            let Some((agent, kind, cell)) = self.shadow.write_at(table, offset) else {
                continue;
            };
            let hit = Hit {
                agent,
                kind,
                cell,
                offset,
                bytes: 1,
                lane: lane as u8,
            };
            return self.race(actor, || conflict::not_coherent(self, actor, target, &hit));
        }
        Ok(())
    }

    /// The same as [`Order::lanes`] for a store, with what it writes.
    #[expect(clippy::too_many_arguments, reason = "what an access is made of")]
    pub(crate) fn note(
        &mut self,
        actor: Actor<'_>,
        target: Target,
        kind: Kind,
        offsets: &Row<u64>,
        mask: u32,
        bytes: usize,
        values: Option<&Values<'_>>,
    ) -> Checked<()> {
        if !self.on {
            return Ok(());
        }
        vectorized(
            #[inline(always)]
            || self.runs(actor, target, kind, (offsets, mask, bytes), values),
        )
    }

    /// An access by the lanes of `mask`, run by run.
    #[inline(always)]
    fn runs(
        &mut self,
        actor: Actor<'_>,
        target: Target,
        kind: Kind,
        (offsets, mask, bytes): (&Row<u64>, u32, usize),
        values: Option<&Values<'_>>,
    ) -> Checked<()> {
        let mut rest = mask;
        while rest != 0 {
            let run = Run::first(offsets, rest, bytes as u64);
            rest &= !run.mask;
            let mut span = Span {
                offset: offsets.0[run.first],
                bytes: bytes as u64,
                lanes: (run.first as u8, run.first as u8),
                unit: Span::ONE_LANE,
            };
            if run.side_by_side {
                span.bytes *= u64::from(run.mask.count_ones());
                span.unit = bytes.trailing_zeros();
            } else {
                span.lanes.1 = run.last as u8;
                if kind == Kind::Write && run.first != run.last {
                    self.one_value(actor, target, &span, run.mask, values)?;
                }
            }
            let store = values.map(|values| Store {
                values,
                offsets,
                mask,
            });
            self.span(actor, target, kind, None, span, store.as_ref())?;
        }
        Ok(())
    }

    /// An access to a range of bytes by one actor.
    pub(crate) fn range(
        &mut self,
        actor: Actor<'_>,
        target: Target,
        kind: impl Into<Kind>,
        proxy: Proxy,
        offset: u64,
        bytes: u64,
    ) -> Checked<()> {
        if !self.on || bytes == 0 {
            return Ok(());
        }
        let lane = match actor {
            Actor::Warp { .. } => 0,
            Actor::Operation(operation) => operation.lane as u8,
        };
        let span = Span {
            offset,
            bytes,
            lanes: (lane, lane),
            unit: Span::ONE_LANE,
        };
        vectorized(
            #[inline(always)]
            || self.span(actor, target, kind.into(), Some(proxy), span, None),
        )
    }

    #[inline(always)]
    fn span(
        &mut self,
        actor: Actor<'_>,
        target: Target,
        kind: Kind,
        proxy: Option<Proxy>,
        mut span: Span,
        store: Option<&Store<'_>>,
    ) -> Checked<()> {
        let (table, len) = self.region(target);
        let warp = match actor {
            Actor::Warp { warp, .. } => warp,
            Actor::Operation(operation) => operation.warp,
        };
        let first = warp - warp % self.warps_per_block;
        let block = (first as u16, (first + self.warps_per_block) as u16);
        let warps = self.warps.len() as u16;
        let visitor = match actor {
            Actor::Warp { warp, pc } => {
                let own = &self.warps[warp as usize];
                Visitor {
                    agent: warp as u16,
                    warp: true,
                    kind,
                    cell: Cell::new(own.epoch, pc),
                    known: &own.clock.generic,
                    known_writes: &own.clock.generic,
                    synced: &own.synced,
                    block,
                    warps,
                }
            }
            Actor::Operation(operation) => {
                span.lanes = (operation.lane as u8, operation.lane as u8);
                span.unit = Span::ONE_LANE;
                let channel = self.channel_of(operation);
                let known = &operation.start.generic;
                let known_writes = match proxy.unwrap_or(channel.proxy()) {
                    Proxy::Async => &operation.visible,
                    Proxy::Generic => known,
                };
                // An ordinary read of global memory may still be under way when a copy writes there:
                // an H200 then reads what the copy wrote. In shared memory this does not happen, and
                // everybody relies on that.
                let known_reads = match target {
                    Target::Global { .. } => known_writes,
                    Target::Shared { .. } => known,
                };
                Visitor {
                    agent: operation.agent,
                    warp: false,
                    kind,
                    cell: Cell::new(operation.epoch, operation.pc),
                    known: known_reads,
                    known_writes,
                    synced: &NEVER,
                    block,
                    warps,
                }
            }
        };
        if let (Some(between), Target::Global { allocation }) = (&self.between, target) {
            let known = match actor {
                Actor::Warp { .. } => &self.warps[warp as usize].clock.grid,
                Actor::Operation(operation) => &operation.start.grid,
            };
            let cell = GridCell {
                cluster: self.cluster,
                epoch: visitor.cell.epoch(),
                cell: visitor.cell.pc() << 10,
                agent: visitor.agent,
                warp: warp as u16,
            };
            let kind = kind.between_clusters();
            let mut between = between.lock().unwrap_or_else(PoisonError::into_inner);
            let hit = between.access((allocation, len), &span, kind, cell, known);
            hit.or_else(|hit| {
                self.findings
                    .note((FaultKind::DataRace, cell.pc()), true, || {
                        let knows = |known: &Stamp| known.grid.knows(&hit.second.1);
                        let left_out = self.left_out(actor, Scope::Device, knows);
                        conflict::across(self.warps_per_block, self.memory.as_ref(), &hit)
                            .notes(left_out)
                    })
            })?;
        }
        let excused = |hit: &Hit| store.is_some_and(|store| store.excuses(&visitor, hit));
        let hit = self.shadow.access(table, len, span, &visitor, &excused);
        hit.or_else(|hit| {
            let known = match actor {
                Actor::Warp { .. } => visitor.known,
                Actor::Operation(operation) => &operation.start.generic,
            };
            let known = known.get(usize::from(hit.agent)).copied();
            let ordered = hit.cell.epoch() <= known.unwrap_or(0);
            self.race(actor, || {
                conflict::fault(self, actor, target, kind, &hit, ordered)
            })
        })
    }

    /// Notes a race within the cluster.
    #[cold]
    fn race(&self, actor: Actor<'_>, fault: impl FnOnce() -> Box<Fault>) -> Checked<()> {
        let pc = match actor {
            Actor::Warp { pc, .. } => pc,
            Actor::Operation(operation) => operation.pc,
        };
        self.findings.note((FaultKind::DataRace, pc), false, fault)
    }

    /// Refuses a store in which several lanes write different values to the same place: which one
    /// stays is undefined.
    fn one_value(
        &self,
        actor: Actor<'_>,
        target: Target,
        span: &Span,
        mask: u32,
        values: Option<&Values<'_>>,
    ) -> Checked<()> {
        let (Actor::Warp { warp, pc }, Some(values)) = (actor, values) else {
            return Ok(());
        };
        let first = usize::from(span.lanes.0);
        let words = (span.bytes as usize).div_ceil(4);
        let bits = low_bits(8 * span.bytes as usize);
        let differs = |lane: &usize| {
            let planes = &values.planes[..words];
            planes
                .iter()
                .any(|plane| (plane.0[*lane] ^ plane.0[first]) & bits != 0)
        };
        let Some(other) = Lanes(mask).find(differs) else {
            return Ok(());
        };
        let hit = Hit {
            agent: warp as u16,
            kind: Kind::Write,
            cell: Cell::new(self.warps[warp as usize].epoch, pc).of_lane(span.lanes.0),
            offset: span.offset,
            bytes: span.bytes,
            lane: other as u8,
        };
        self.race(actor, || {
            conflict::fault(self, actor, target, Kind::Write, &hit, false)
        })
    }
}

/// A store, for finding out whether an earlier write wrote the same value.
struct Store<'a> {
    values: &'a Values<'a>,
    offsets: &'a Row<u64>,
    mask: u32,
}

impl Store<'_> {
    /// Whether this write and the earlier one gave the granule the same value.
    fn excuses(&self, visitor: &Visitor<'_>, hit: &Hit) -> bool {
        if visitor.kind != Kind::Write || hit.kind != Kind::Write {
            return false;
        }
        let own = usize::from(hit.lane);
        let value = |lane: usize| {
            let at = (hit.offset - self.offsets.0[lane]) as usize;
            let word = self.values.planes[at / 4].0[lane] >> (8 * (at % 4));
            word & low_bits(8 * hit.bytes as usize)
        };
        let (before, _) = hit.cell.lanes();
        let before = usize::from(before);
        let same_instruction = hit.agent == visitor.agent
            && hit.cell.pc() == visitor.cell.pc()
            && before != own
            && self.mask >> before & 1 != 0
            && self.offsets.0[before] == self.offsets.0[own];
        if same_instruction {
            return value(own) == value(before);
        }
        (self.values.holds)(hit.offset, hit.bytes as u32, value(own))
    }
}

/// The lanes from the first of a mask on that access consecutive bytes, or all the same bytes.
struct Run {
    first: usize,
    last: usize,
    mask: u32,
    side_by_side: bool,
}

impl Run {
    #[inline(always)]
    fn first(offsets: &Row<u64>, mask: u32, bytes: u64) -> Self {
        let first = mask.trailing_zeros();
        let start = offsets.0[first as usize];
        let base = start.wrapping_sub(u64::from(first) * bytes);
        let shift = bytes.trailing_zeros();
        let next = mask_of(
            #[inline(always)]
            |lane| offsets.0[lane] == base.wrapping_add((lane as u64) << shift),
        );
        let count = ((next & mask) >> first).trailing_ones();
        if count > 1 {
            return Self {
                first: first as usize,
                last: (first + count - 1) as usize,
                mask: (u32::MAX >> (32 - count)) << first,
                side_by_side: true,
            };
        }
        let equal = mask_of(
            #[inline(always)]
            |lane| offsets.0[lane] == start,
        );
        let other = (mask & !equal).trailing_zeros();
        let same = mask & equal & (1_u64 << other).wrapping_sub(1) as u32;
        Self {
            first: first as usize,
            last: same.ilog2() as usize,
            mask: same,
            side_by_side: false,
        }
    }
}
