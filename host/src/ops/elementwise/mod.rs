//! Elementwise functions, and chains of them that are fused into one kernel.

mod binary;
mod chain;
mod compose;
mod costs;
mod gradient;
mod launch;
mod map;
mod operators;
mod plan;
mod program;
mod select;
mod steps;
mod transpose;
mod unary;

pub use binary::Binary;
pub use chain::Chain;
pub(super) use costs::ElementwiseCosts;
pub use gradient::Gradient;
pub(super) use launch::Fused;
pub use map::Map;
pub(super) use plan::{Piece, Steps, Walk};
pub use program::ChainElement;
pub(super) use program::{Program, steps_of};
pub use select::Select;
pub use steps::Number;
pub(super) use transpose::Transposition;
pub use unary::Unary;
