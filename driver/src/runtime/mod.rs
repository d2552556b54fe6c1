//! The runtime API, `libcudart.so`, on the functions of the driver API.
//!
//! Most functions check for a context and call one function of [`api`](crate::api). The calling
//! thread's context is the device's primary one, unless the program made another current.
//!
//! | module | contents |
//! |---|---|
//! | `registry` | fat binaries, kernels and variables that programs of nvcc register |
//! | `launch` | launches, attributes of kernels, occupancy |
//! | `library` | libraries that a program loads itself |
//! | `memory`, `copy` | allocation, copies and fills |
//! | `array`, `texture` | arrays, textures and surfaces |
//! | `device`, `properties` | the device and the thread's context |
//! | `stream` | streams and events |
//! | `graph` | graphs and stream capture |
//! | `error` | codes and their names, the thread's last error |
//! | `missing` | functions that are not there |

mod array;
mod copy;
mod device;
mod error;
mod graph;
mod launch;
mod library;
mod memory;
mod missing;
mod properties;
mod registry;
mod stream;
mod texture;

use std::sync::OnceLock;

use crate::api::context::{cuCtxSetCurrent, cuDevicePrimaryCtxRetain};
use crate::api::lookup::cuInit;
use crate::c::{Handle, Out};
use crate::call;
use crate::code::{Answer, Code};
use crate::state;

/// `dim3`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Dim3 {
    x: u32,
    y: u32,
    z: u32,
}

/// Runs the body of a function, and keeps its error for `cudaGetLastError`.
pub(crate) fn run(symbol: &'static str, body: impl FnOnce() -> Answer) -> Code {
    let code = call::run(symbol, body);
    error::keep(code);
    code
}

/// Makes the primary context current, if the thread has no context.
fn ready() -> Answer {
    /// The primary context, which the runtime keeps from its first call on.
    static PRIMARY: OnceLock<Answer<Handle>> = OnceLock::new();
    // SAFETY: it takes a number.
    unsafe { cuInit(0) }.answer()?;
    if state::stack(|stack| !stack.is_empty()) {
        return Ok(());
    }
    let primary = PRIMARY.get_or_init(|| {
        let mut context = 0;
        // SAFETY: the place is ours.
        let code = unsafe { cuDevicePrimaryCtxRetain(Out::to(&mut context), 0) };
        code.answer().map(|()| context)
    });
    // SAFETY: it takes a number.
    unsafe { cuCtxSetCurrent((*primary)?) }.answer()
}

/// States functions of the runtime API, as `fn symbol | alias (arguments) { body }`. Each gives an
/// exported function for the symbol and for each alias. The body answers with [`Answer`].
macro_rules! runtime {
    ($(fn $symbol:ident $(| $alias:ident)* ($($arguments:tt)*) $body:block)*) => {
        $($crate::runtime::runtime!(@one $symbol [$($alias)*] ($($arguments)*) $body);)*
    };
    (@one $symbol:ident [$($alias:ident)*] $arguments:tt $body:block) => {
        $crate::call::exported!($crate::runtime::run; $symbol $arguments $body);
        $($crate::call::forwarded!($alias to $symbol $arguments);)*
    };
}

/// Calls a function of the driver API in the thread's context, and gives its answer.
macro_rules! cu {
    ($group:ident::$function:ident($($argument:expr),* $(,)?)) => {
        $crate::runtime::ready().and_then(|()| {
            // SAFETY: places and data are those of the caller, whose contract is the same, or ours.
            unsafe { $crate::api::$group::$function($($argument),*) }.answer()
        })
    };
}

use {cu, runtime};
