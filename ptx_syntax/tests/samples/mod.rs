//! PTX of several compilers, and some by hand.

/// Name and text of every sample.
pub(crate) const ALL: [(&str, &str); 4] = [
    ("by_hand", include_str!("../data/by_hand.ptx")),
    ("llc", include_str!("../data/llc.ptx")),
    ("nvcc", include_str!("../data/nvcc.ptx")),
    ("nvcc_debug", include_str!("../data/nvcc_debug.ptx")),
];
