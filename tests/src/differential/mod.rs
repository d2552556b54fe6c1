//! Same PTX, same bits: what the emulator and a GPU must agree on, and the programs that ask them.
//!
//! [`forms`] lists single instructions with every modifier, [`operands`] the values they run on;
//! together they are deterministic, so a hash of the answers of real hardware can be kept in the
//! repository and held against the emulator where there is no GPU.

pub mod coverage;
pub mod engine;
pub mod forms;
pub mod golden;
pub mod kernel;
pub mod operands;
pub mod program;
pub mod table;
