//! The CUDA driver API and runtime API on the [emulator](warpsmith_emulator), as a shared library
//! that programs load in the place of `libcuda.so.1` and of `libcudart.so`.
//!
//! It has no Rust API. Its functions are exported by their names in C, and their contracts are in
//! NVIDIA's manual of the driver API. Work is done when the call that enqueues it returns.
//!
//! | module | contents |
//! |---|---|
//! | `call` | the macro that states a function once: symbol, entry of `cuGetProcAddress`, name |
//! | `c` | types of the C interface, and the checked places that callers hand over |
//! | `state` | what lives behind handles: contexts, modules, streams, memory |
//! | `work`, `graph` | what streams do, at once or as nodes of graphs |
//! | `order` | what happens before what, and reports of races between streams and with the host |
//! | `api` | the functions, one file for each group of the manual |
//! | `runtime` | the runtime API, `libcudart.so`, on the functions of `api` |
//! | `fatbin` | PTX in fat binaries |
//! | `linked` | several modules of PTX as one |
//! | `nvrtc` | PTX where a program asks NVRTC for machine code |
//! | `capture` | capture of a launch in front of another driver, for a replay |
//! | `report` | what goes to stderr |

mod api;
mod c;
mod call;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod capture;
mod code;
mod fatbin;
mod graph;
mod linked;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod nvrtc;
mod order;
mod report;
mod runtime;
mod state;
mod work;
