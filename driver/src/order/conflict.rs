//! Accesses of work to memory, and where two of them overlap.

use std::fmt::Write;
use std::ops::Range;

use warpsmith_emulator::{Footprint, Touched};

use crate::c::{Address, Handle};
use crate::state::State;

/// What a piece of work did to memory.
pub(super) struct Access {
    /// What it is called, such as a kernel's name.
    pub(super) what: String,
    pub(super) stream: Handle,
    pub(super) touched: Footprint,
}

/// Two accesses to the same bytes, of which one is a write.
pub(super) struct Overlap {
    /// What the later and the earlier work did.
    places: [String; 2],
    bytes: Range<Address>,
}

/// One range of bytes as an access.
pub(crate) fn all_of(from: Address, len: u64) -> Vec<Touched> {
    parts(std::iter::once(from..from + len))
}

/// Ranges of bytes as accesses.
pub(crate) fn parts(ranges: impl Iterator<Item = Range<Address>>) -> Vec<Touched> {
    let mut parts: Vec<Touched> = ranges
        .filter(|bytes| !bytes.is_empty())
        .map(|bytes| Touched { bytes, line: None })
        .collect();
    parts.sort_by_key(|part| part.bytes.start);
    parts
}

impl Access {
    fn lists(&self) -> [(&'static str, &[Touched]); 4] {
        let Footprint {
            reads,
            writes,
            strong_reads,
            strong_writes,
        } = &self.touched;
        [
            ("reads", reads),
            ("writes", writes),
            ("reads", strong_reads),
            ("writes", strong_writes),
        ]
    }

    /// Number of parts of memory that it names.
    pub(super) fn parts(&self) -> usize {
        self.lists().iter().map(|(_, list)| list.len()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts() == 0
    }

    /// A line that says what this access does and where.
    fn place(&self, verb: &str, line: Option<u32>) -> String {
        let mut text = self.what.clone();
        if let Some(line) = line {
            let _ = write!(text, ", PTX line {line},");
        }
        let stream = match self.stream {
            0 => "the legacy stream".to_owned(),
            2 => "the thread's default stream".to_owned(),
            other => format!("stream {other:#x}"),
        };
        format!("{text} {verb} on {stream}")
    }
}

/// The first bytes that two accesses have in common, if one of them writes there. Strong accesses
/// do not race with each other.
pub(super) fn overlap(later: &Access, earlier: &Access) -> Option<Overlap> {
    /// Positions in the lists: what conflicts with what.
    const CONFLICTS: [(usize, usize); 9] = [
        (0, 1),
        (0, 3),
        (1, 0),
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 1),
        (3, 0),
        (3, 1),
    ];
    let (late, early) = (later.lists(), earlier.lists());
    CONFLICTS.iter().find_map(|(a, b)| {
        let ((verb, own), (other_verb, others)) = (late[*a], early[*b]);
        let (own, other, bytes) = first_common(own, others)?;
        let places = [
            later.place(verb, own.line),
            earlier.place(other_verb, other.line),
        ];
        Some(Overlap { places, bytes })
    })
}

/// The first bytes that are in both lists.
fn first_common<'a>(
    mut a: &'a [Touched],
    mut b: &'a [Touched],
) -> Option<(&'a Touched, &'a Touched, Range<Address>)> {
    while let ([x, rest_a @ ..], [y, rest_b @ ..]) = (a, b) {
        let common = x.bytes.start.max(y.bytes.start)..x.bytes.end.min(y.bytes.end);
        if !common.is_empty() {
            return Some((x, y, common));
        }
        if x.bytes.end <= y.bytes.start {
            a = rest_a;
        } else {
            b = rest_b;
        }
    }
    None
}

impl Overlap {
    /// The report.
    pub(super) fn told(&self, state: &State) -> String {
        let [later, earlier] = &self.places;
        let Range { start, end } = self.bytes;
        let mut text = format!(
            "error: data race between streams: nothing orders two accesses to the same bytes\n \
             --> (1) {later}\n --> (2) {earlier}\n  = note: {} bytes at {start:#x}",
            end - start
        );
        if let Some((base, range)) = state.range_at(start) {
            let _ = write!(
                text,
                ", offset {} in an allocation of {} bytes",
                start - base,
                range.bytes
            );
        }
        text +=
            "\n  = note: let the later stream wait for an event of the other, or the host for it";
        text
    }
}

/// The report of an access by the host that meets this one; `None` if it does not.
pub(super) fn with_host(access: &Access, address: Address, writes: bool) -> Option<String> {
    let lists = access.lists();
    let meets = |(verb, list): &(&'static str, &[Touched])| {
        let after = list.partition_point(|part| part.bytes.start <= address);
        let part = list.get(after.checked_sub(1)?)?;
        let hit = part.bytes.contains(&address) && (writes || *verb == "writes");
        hit.then(|| access.place(verb, part.line))
    };
    // Writes first: they are what a host that reads must not meet.
    let place = [1, 3, 0, 2].iter().find_map(|kind| meets(&lists[*kind]))?;
    let verb = if writes { "writes" } else { "reads" };
    Some(format!(
        "error: data race with the host: it {verb} memory of work that it has not waited for\n \
         --> {place}\n  = note: the host's access is at {address:#x}\n  \
         = note: wait for the stream, or for an event that it records, before the access"
    ))
}
