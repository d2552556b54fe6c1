//! Softmax over one axis.
