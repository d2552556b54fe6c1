//! Handwritten PTX kernels. Those in pass/ must run and give the right results; those in fail/ must
//! end in a report, which is stored beside them.

mod asynchrony;
mod budget;
mod common;
mod explore;
mod fail;
mod fail_asynchrony;
mod footprint;
mod foreign;
mod heap;
mod image;
mod keep_going;
mod limits;
mod machine;
mod pass;
mod placed;
mod printf;
mod profile;
mod races;
mod refused;
mod scopes;
mod tensor;
mod tensor_columns;
mod tensor_copies;
mod trace;
mod unwritten;
