//! Differential testing: the same PTX must give the same bits on the emulator and on a GPU.
//!
//! [`forms`] lists single instructions with every modifier, [`operands`] the values that they are
//! run on. Both are deterministic, so hashes of the answers of real hardware are kept in the
//! repository, and the emulator is compared with them where there is no GPU.

pub mod asynchronous;
pub mod coverage;
pub mod engine;
pub mod forms;
pub mod golden;
pub mod kernel;
pub mod operands;
pub mod program;
pub mod table;
