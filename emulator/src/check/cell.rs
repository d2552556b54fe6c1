//! One access as the shadow memory keeps it: its kind, and a word with its place and lanes.

/// Most instructions of a program: a position in the code has 22 bits.
pub(crate) const MOST_INSTRUCTIONS: usize = 1 << 22;

use crate::program::Scope;

/// The kind of an access. Strong accesses (volatile, relaxed or stronger, and atomics) do not race
/// with each other, if the scope of each includes the other's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    StrongRead(Scope),
    StrongWrite(Scope),
}

impl Kind {
    /// Strong for all threads.
    pub(crate) const STRONG_READ: Self = Self::StrongRead(Scope::Device);
    pub(crate) const STRONG_WRITE: Self = Self::StrongWrite(Scope::Device);
    /// The kinds [between clusters](Self::between_clusters), by their numbers.
    pub(super) const BETWEEN: [Self; 4] = [
        Self::Read,
        Self::Write,
        Self::STRONG_READ,
        Self::STRONG_WRITE,
    ];

    pub(super) fn writes(self) -> bool {
        matches!(self, Self::Write | Self::StrongWrite(_))
    }

    /// What it is for threads of other clusters: a strong access whose scope leaves them out is
    /// weak.
    pub(super) fn between_clusters(self) -> Self {
        match self {
            Self::StrongRead(scope) if scope < Scope::Device => Self::Read,
            Self::StrongWrite(scope) if scope < Scope::Device => Self::Write,
            kind => kind,
        }
    }

    /// Its place in [`Self::BETWEEN`].
    pub(super) fn number(self) -> usize {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::StrongRead(_) => 2,
            Self::StrongWrite(_) => 3,
        }
    }

    fn scope(self) -> Option<Scope> {
        match self {
            Self::Read | Self::Write => None,
            Self::StrongRead(scope) | Self::StrongWrite(scope) => Some(scope),
        }
    }

    /// Whether two accesses to the same bytes race if they are unordered. `distance` is that of
    /// their threads.
    #[inline(always)]
    pub(super) fn conflicts(self, other: Self, distance: impl FnOnce() -> Scope) -> bool {
        if !self.writes() && !other.writes() {
            return false;
        }
        match (self.scope(), other.scope()) {
            (Some(own), Some(others)) => {
                let least = own.min(others);
                least < Scope::Device && least < distance()
            }
            _ => true,
        }
    }
}

/// One access: its epoch in the high half, below it the position in the code and two lanes. The two
/// lanes are the same for an access by one lane. In rising order, they are the first and last lane
/// of one instruction that accessed the same bytes; in falling order, two lanes of different
/// instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell(u64);

impl Cell {
    pub(super) fn new(epoch: u32, pc: u32) -> Self {
        Self(u64::from(epoch) << 32 | u64::from(pc) << 10)
    }

    pub(super) fn of_lane(self, lane: u8) -> Self {
        self.with_lanes(lane, lane)
    }

    #[inline(always)]
    pub(super) fn with_lanes(self, first: u8, last: u8) -> Self {
        Self(self.0 | u64::from(first) << 5 | u64::from(last))
    }

    #[inline(always)]
    pub(super) fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(super) fn pc(self) -> u32 {
        self.0 as u32 >> 10
    }

    #[inline(always)]
    pub(super) fn lanes(self) -> (u8, u8) {
        ((self.0 >> 5 & 31) as u8, (self.0 & 31) as u8)
    }
}
