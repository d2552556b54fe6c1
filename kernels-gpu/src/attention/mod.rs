//! Attention, forward.
