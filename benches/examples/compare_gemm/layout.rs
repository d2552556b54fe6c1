//! Layouts of the operands.

/// Which operands are stored transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) trans_a: bool,
    pub(crate) trans_b: bool,
}

impl Layout {
    pub(crate) const NN: Self = Self::new(false, false);
    pub(crate) const NT: Self = Self::new(false, true);
    pub(crate) const TN: Self = Self::new(true, false);
    pub(crate) const TT: Self = Self::new(true, true);

    const fn new(trans_a: bool, trans_b: bool) -> Self {
        Self { trans_a, trans_b }
    }

    /// `nn`, `nt`, `tn` or `tt`.
    pub(crate) fn name(self) -> &'static str {
        match (self.trans_a, self.trans_b) {
            (false, false) => "nn",
            (false, true) => "nt",
            (true, false) => "tn",
            (true, true) => "tt",
        }
    }

    /// Shape of A as stored.
    pub(crate) fn shape_a(self, m: usize, k: usize) -> [usize; 2] {
        if self.trans_a { [k, m] } else { [m, k] }
    }

    /// Shape of B as stored.
    pub(crate) fn shape_b(self, k: usize, n: usize) -> [usize; 2] {
        if self.trans_b { [n, k] } else { [k, n] }
    }
}
