//! Kernels in PTX, by hand: in pass/ those that must run and give the right answer, in fail/ those
//! that must end in a report, which is kept beside them.

mod asynchrony;
mod common;
mod fail;
mod fail_asynchrony;
mod machine;
mod pass;
mod printf;
mod profile;
mod races;
mod refused;
mod tensor;
mod tensor_columns;
mod tensor_copies;
