//! One access as the shadow memory keeps it: its kind, and a word with its place and lanes.

/// Most instructions of a program: a position in the code has 22 bits.
pub(crate) const MOST_INSTRUCTIONS: usize = 1 << 22;

/// The kind of an access. Strong accesses (volatile, relaxed or stronger, and atomics) do not race
/// with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    StrongRead,
    StrongWrite,
}

impl Kind {
    pub(super) const ALL: [Self; 4] =
        [Self::Read, Self::Write, Self::StrongRead, Self::StrongWrite];

    pub(super) fn writes(self) -> bool {
        matches!(self, Self::Write | Self::StrongWrite)
    }

    /// The kind for threads that the scope of a strong access leaves out.
    pub(super) fn weak(self) -> Self {
        match self {
            Self::Read | Self::StrongRead => Self::Read,
            Self::Write | Self::StrongWrite => Self::Write,
        }
    }

    fn is_strong(self) -> bool {
        matches!(self, Self::StrongRead | Self::StrongWrite)
    }

    /// Whether two accesses to the same bytes race if they are unordered.
    pub(super) fn conflicts(self, other: Self) -> bool {
        (self.writes() || other.writes()) && !(self.is_strong() && other.is_strong())
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
