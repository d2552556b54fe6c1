//! Reductions over everything or one axis.
