//! Launches in the way of CUDA 3: block, shared memory and parameters are set one by one.

use warpsmith_emulator::LaunchConfig;

use crate::c::{Data, Handle, In, bytes};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::state::{current, driver};

use super::launch::{self, EXTRA_BUFFER, EXTRA_BYTES, EXTRA_END, Parameters};

/// Most bytes of parameters.
const MOST_BYTES: usize = 4096;

/// What was set for the next launches of a function.
#[derive(Clone, Default)]
pub(crate) struct Prepared {
    block: [u32; 3],
    shared_bytes: u32,
    params: Vec<u8>,
}

fn change(function: Handle, with: impl FnOnce(&mut Prepared) -> Answer) -> Answer {
    let mut state = driver()?.state();
    state.function(function)?;
    with(state.prepared.entry(function).or_default())
}

/// Sets bytes of the parameters.
fn set(function: Handle, offset: i32, value: &[u8]) -> Answer {
    let from = usize::try_from(offset).map_err(|_| Code::INVALID_VALUE)?;
    let to = from.checked_add(value.len()).ok_or(Code::INVALID_VALUE)?;
    if to > MOST_BYTES {
        return Err(Code::INVALID_VALUE);
    }
    change(function, |prepared| {
        prepared.params.resize(prepared.params.len().max(to), 0);
        prepared.params[from..to].copy_from_slice(value);
        Ok(())
    })
}

fn launch(function: Handle, width: i32, height: i32, stream: Handle) -> Answer {
    let extent = |extent: i32| u32::try_from(extent).map_err(|_| Code::INVALID_VALUE);
    let grid = [extent(width)?, extent(height)?, 1];
    let prepared = current()?.state().prepared.get(&function).cloned();
    let Prepared {
        block,
        shared_bytes,
        params,
    } = prepared.unwrap_or_default();
    let config = LaunchConfig {
        grid,
        block,
        shared_bytes,
        cluster: None,
    };
    let len = params.len();
    let extra = [
        EXTRA_BUFFER,
        params.as_ptr() as usize,
        EXTRA_BYTES,
        &raw const len as usize,
        EXTRA_END,
    ];
    let parameters = Parameters {
        each: In::null(),
        extra: In::from(&extra[0]),
    };
    launch::plain(function, config, stream, parameters)
}

entries! {
    fn cuFuncSetBlockShape: "cuFuncSetBlockShape" @ 2000 (
        function: Handle, x: i32, y: i32, z: i32,
    ) {
        let extent = |extent: i32| u32::try_from(extent).map_err(|_| Code::INVALID_VALUE);
        let block = [extent(x)?, extent(y)?, extent(z)?];
        change(function, |prepared| {
            prepared.block = block;
            Ok(())
        })
    }

    fn cuFuncSetSharedSize: "cuFuncSetSharedSize" @ 2000 (function: Handle, bytes: u32) {
        change(function, |prepared| {
            prepared.shared_bytes = bytes;
            Ok(())
        })
    }

    fn cuParamSetSize: "cuParamSetSize" @ 2000 (function: Handle, bytes: u32) {
        if bytes as usize > MOST_BYTES {
            return Err(Code::INVALID_VALUE);
        }
        change(function, |prepared| {
            prepared.params.resize(bytes as usize, 0);
            Ok(())
        })
    }

    fn cuParamSeti: "cuParamSeti" @ 2000 (function: Handle, offset: i32, value: u32) {
        set(function, offset, &value.to_ne_bytes())
    }

    fn cuParamSetf: "cuParamSetf" @ 2000 (function: Handle, offset: i32, value: f32) {
        set(function, offset, &value.to_ne_bytes())
    }

    fn cuParamSetv: "cuParamSetv" @ 2000 (
        function: Handle, offset: i32, value: Data, len: u32,
    ) {
        // SAFETY: by the function's contract, a value of this size.
        set(function, offset, unsafe { bytes(value, len as usize) }?)
    }

    fn cuLaunch: "cuLaunch" @ 2000 (function: Handle) {
        launch(function, 1, 1, 0)
    }

    fn cuLaunchGrid: "cuLaunchGrid" @ 2000 (function: Handle, width: i32, height: i32) {
        launch(function, width, height, 0)
    }

    fn cuLaunchGridAsync: "cuLaunchGridAsync" @ 2000 (
        function: Handle, width: i32, height: i32, stream: Handle,
    ) {
        launch(function, width, height, stream)
    }
}
