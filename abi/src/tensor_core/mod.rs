//! Index functions of the tensor cores: which thread holds which element of a fragment, and how a
//! matrix in shared memory is described to `wgmma`.

pub mod descriptor;
pub mod fragment;
pub mod ldmatrix;
