//! Reports of two unordered accesses.

use super::cell::Kind;
use super::grid::GridHit;
use super::grid_plane::GridCell;
use super::order::{Actor, Channel, Order, Target};
use super::shadow::Hit;
use super::stamp::Stamp;
use crate::exec::fault::{Fault, Second};
use crate::memory::global::Snapshot;
use crate::program::Scope;
use crate::report::FaultKind;

/// The fault of an access by `actor` and an earlier one. `ordered` means that the accesses are
/// ordered, but by different proxies without a proxy fence in between.
#[cold]
pub(super) fn fault(
    order: &Order,
    actor: Actor<'_>,
    target: Target,
    kind: Kind,
    hit: &Hit,
    ordered: bool,
) -> Box<Fault> {
    let (address, space) = match target {
        Target::Shared { .. } => (hit.offset, "shared"),
        Target::Global { allocation } => {
            let memory = order.memory.as_ref();
            let base = memory.map_or(0, |memory| memory[allocation].base);
            (base + hit.offset, "global")
        }
    };
    let (warp, pc, asynchronous) = match actor {
        Actor::Warp { warp, pc } => (warp, pc, false),
        Actor::Operation(operation) => (operation.warp, operation.pc, true),
    };
    let (before, channel) = order.warp_of(hit.agent);
    let article = if asynchronous { "an" } else { "a" };
    let here = name(kind, asynchronous);
    let there = name(hit.kind, channel.is_some());
    let bytes = counted(hit.bytes);
    let message = format!(
        "{article} {here} (1) and an earlier {there} (2) of {bytes} at 0x{address:x} of {space} memory, with \
         nothing that orders them"
    );
    let (first, last) = hit.cell.lanes();
    let same_warp = before == warp && channel.is_none() && !asynchronous;
    let other = if same_warp && first == hit.lane {
        last
    } else {
        first
    };
    let mut fault = Fault::new(FaultKind::DataRace, Some(u32::from(hit.lane)), message).at(address);
    fault.rank = warp / order.warps_per_block;
    fault.warp = warp % order.warps_per_block;
    fault.pc = pc;
    fault.placed = true;
    fault.second = Some(Second {
        what: there.to_owned(),
        cluster: None,
        rank: before / order.warps_per_block,
        warp: before % order.warps_per_block,
        lane: Some(u32::from(other)),
        pc: hit.cell.pc(),
    });
    let same_block = before / order.warps_per_block == fault.rank;
    let advice = if ordered {
        "a fence.proxy.async after (2) and before the asynchronous access is missing"
    } else if let Some(channel) = channel {
        &waiting(2, channel, hit.kind)
    } else if let Actor::Operation(operation) = actor {
        let over = waiting(1, order.channel_of(operation), kind);
        match before == warp {
            true => &over.clone(),
            false => &format!(
                "if (2) comes first, its thread must release these bytes before (1) is issued, by \
                 a barrier or an mbarrier; otherwise, {over}"
            ),
        }
    } else if same_warp && pc == hit.cell.pc() && kind.writes() && hit.kind.writes() {
        "lanes of one warp write different values to one place: which one stays is open"
    } else if same_warp {
        "lanes of one warp are ordered by bar.warp.sync, or by a barrier of the block, between the \
         two"
    } else if same_block {
        "bar.sync between the two would order them, or a release after (2) that is acquired \
         before (1)"
    } else {
        "barrier.cluster between the two would order them, or a release after (2) that is acquired \
         before (1)"
    };
    let knows = |known: &Stamp| {
        let epoch = known.generic.get(usize::from(hit.agent));
        epoch.is_some_and(|epoch| hit.cell.epoch() <= *epoch)
    };
    let left_out = order.left_out(actor, Scope::Cluster, knows);
    fault.note(advice.to_owned()).notes(left_out)
}

/// The fault of a non-coherent read of what the kernel has written.
#[cold]
pub(super) fn not_coherent(
    order: &Order,
    actor: Actor<'_>,
    target: Target,
    hit: &Hit,
) -> Box<Fault> {
    let mut fault = fault(order, actor, target, Kind::Read, hit, false);
    let address = fault.address.unwrap_or_default();
    fault.message = format!(
        "a non-coherent read (1) at 0x{address:x} of global memory, which the kernel itself has \
         written (2)"
    );
    fault.notes = vec![
        "ld.global.nc and tex may read what was there before the kernel, whatever orders (1) and (2): \
         memory that it reads must stay as it is while the kernel runs; ld.global has no such rule"
            .to_owned(),
    ];
    fault
}

/// The fault of two accesses by different clusters.
#[cold]
pub(crate) fn across(warps_per_block: u32, memory: Option<&Snapshot>, hit: &GridHit) -> Box<Fault> {
    let base = memory.map_or(0, |memory| memory[hit.allocation].base);
    let address = base + hit.offset;
    let ((kind, here), (other, there)) = (&hit.first, &hit.second);
    let message = format!(
        "a {} (1) and an earlier {} (2) of {} at 0x{address:x} of global memory, with nothing that \
         orders them",
        name(*kind, false),
        name(*other, false),
        counted(hit.bytes)
    );
    let lane = Some(here.lane());
    let mut fault = Fault::new(FaultKind::DataRace, lane, message).at(address);
    let place = |cell: &GridCell| {
        let warp = u32::from(cell.warp);
        (warp / warps_per_block, warp % warps_per_block)
    };
    (fault.rank, fault.warp) = place(here);
    fault.pc = here.pc();
    fault.placed = true;
    fault.cluster = Some(u64::from(here.cluster));
    let (rank, warp) = place(there);
    fault.second = Some(Second {
        what: name(*other, false).to_owned(),
        cluster: Some(u64::from(there.cluster)),
        rank,
        warp,
        lane: Some(there.lane()),
        pc: there.pc(),
    });
    fault.note(
        "blocks are ordered only by the end of a launch, or by a flag: a fence after (2) and a \
         strong write, then a strong read that sees it and a fence before (1)"
            .to_owned(),
    )
}

fn counted(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        bytes => format!("{bytes} bytes"),
    }
}

fn name(kind: Kind, asynchronous: bool) -> &'static str {
    match (kind, asynchronous) {
        (Kind::Read, false) => "read",
        (Kind::Write, false) => "write",
        (Kind::StrongRead(_), false) => "volatile or atomic read",
        (Kind::StrongWrite(_), false) => "volatile or atomic write",
        (Kind::Read | Kind::StrongRead(_), true) => "asynchronous read",
        (Kind::Write | Kind::StrongWrite(_), true) => "asynchronous write",
    }
}

/// What one has to wait for after asynchronous access number `number` of the report.
fn waiting(number: u32, channel: Channel, kind: Kind) -> String {
    format!("({number}) is {}", over(channel, kind))
}

/// When an asynchronous access is over.
fn over(channel: Channel, kind: Kind) -> &'static str {
    match channel {
        Channel::Mbarrier { .. } => {
            "over only for those that have waited for its mbarrier, in a phase whose expect_tx \
             counts its bytes"
        }
        Channel::CpAsync { .. } => {
            "over for its thread after cp.async.wait_group, and for others after a barrier behind \
             that"
        }
        Channel::BulkRead { .. } | Channel::BulkWrite { .. } if !kind.writes() => {
            "over only after cp.async.bulk.wait_group.read by its thread, and for others after a \
             barrier behind that"
        }
        Channel::BulkRead { .. } | Channel::BulkWrite { .. } => {
            "over only after cp.async.bulk.wait_group by its thread, and for others after a \
             barrier behind that"
        }
        Channel::Wgmma { .. } => "over only after wgmma.wait_group by its warpgroup",
    }
}

/// Who wrote a byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer {
    /// Warp in the cluster.
    pub(crate) warp: u32,
    /// Position of the instruction.
    pub(crate) pc: u32,
    /// When it is over, if it is asynchronous.
    pub(crate) over: Option<&'static str>,
}

impl Order {
    /// Who wrote a byte of the shared memory of block `rank`, as far as races are looked for.
    pub(crate) fn writer(&self, rank: u32, offset: u64) -> Option<Writer> {
        let (agent, kind, cell) = self.shadow.write_at(rank as usize, offset)?;
        let (warp, channel) = self.warp_of(agent);
        Some(Writer {
            warp,
            pc: cell.pc(),
            over: channel.map(|channel| over(channel, kind)),
        })
    }
}
