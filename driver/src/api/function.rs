//! Kernels: their attributes and parameters.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::sync::{Mutex, PoisonError};

use warpsmith_emulator::COMPUTE_CAPABILITY;

use crate::c::{Handle, Out};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::state::{Function, driver};

use super::device::{MAX_THREADS, SHARED_BYTES, SHARED_BYTES_OPTIN};

/// Attributes by their numbers in the API.
const MAX_THREADS_PER_BLOCK: i32 = 0;
const SHARED_SIZE: i32 = 1;
const CONST_SIZE: i32 = 2;
const LOCAL_SIZE: i32 = 3;
const REGISTERS: i32 = 4;
const PTX_VERSION: i32 = 5;
const BINARY_VERSION: i32 = 6;
const CACHE_MODE: i32 = 7;
const MAX_DYNAMIC_SHARED: i32 = 8;
const CARVEOUT: i32 = 9;
const CLUSTER_MUST_BE_SET: i32 = 10;
const CLUSTER_WIDTH: i32 = 11;
const CLUSTER_DEPTH: i32 = 13;
const LARGE_CLUSTERS: i32 = 14;
const CLUSTER_POLICY: i32 = 15;

impl Function {
    /// Dynamic shared memory that a launch may have.
    pub(super) fn max_dynamic_shared(&self) -> u32 {
        let set = self.attributes.get(&MAX_DYNAMIC_SHARED);
        let usual = SHARED_BYTES.saturating_sub(self.static_shared());
        set.map_or(usual, |bytes| bytes.unsigned_abs())
    }

    fn static_shared(&self) -> u32 {
        let bytes = self.module.shared_bytes(&self.name);
        bytes
            .and_then(|bytes| u32::try_from(bytes).ok())
            .unwrap_or(0)
    }

    /// Whether clusters may have more than eight blocks.
    pub(super) fn allows_large_clusters(&self) -> bool {
        self.attributes.get(&LARGE_CLUSTERS) == Some(&1)
    }

    fn attribute(&self, number: i32) -> Answer<i32> {
        let found = self.module.resources(&self.name).ok_or(Code::NOT_FOUND)?;
        let set = self.attributes.get(&number).copied();
        let cluster = found.cluster.unwrap_or([0; 3]);
        let capability = (COMPUTE_CAPABILITY.0 * 10 + COMPUTE_CAPABILITY.1) as i32;
        Ok(match number {
            MAX_THREADS_PER_BLOCK => found.max_threads.unwrap_or(MAX_THREADS) as i32,
            SHARED_SIZE => found.shared_bytes as i32,
            // NVIDIA's driver counts the variables that the kernel uses.
            CONST_SIZE => i32::try_from(self.module.const_bytes()).unwrap_or(i32::MAX),
            CACHE_MODE => 0,
            LOCAL_SIZE => found.local_bytes as i32,
            REGISTERS => found.registers as i32,
            PTX_VERSION | BINARY_VERSION => capability,
            MAX_DYNAMIC_SHARED => self.max_dynamic_shared() as i32,
            CARVEOUT => set.unwrap_or(-1),
            CLUSTER_MUST_BE_SET | LARGE_CLUSTERS | CLUSTER_POLICY => set.unwrap_or(0),
            CLUSTER_WIDTH..=CLUSTER_DEPTH => {
                set.unwrap_or(cluster[(number - CLUSTER_WIDTH) as usize] as i32)
            }
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    fn set_attribute(&mut self, number: i32, value: i32) -> Answer {
        let is_allowed = match number {
            MAX_DYNAMIC_SHARED => {
                let most = SHARED_BYTES_OPTIN.saturating_sub(self.static_shared());
                u32::try_from(value).is_ok_and(|bytes| bytes <= most)
            }
            CARVEOUT => (-1..=100).contains(&value),
            LARGE_CLUSTERS | CLUSTER_POLICY | CLUSTER_MUST_BE_SET => value >= 0,
            CLUSTER_WIDTH..=CLUSTER_DEPTH => value >= 0,
            _ => false,
        };
        if !is_allowed {
            return Err(Code::INVALID_VALUE);
        }
        self.attributes.insert(number, value);
        Ok(())
    }
}

/// Answers with a kernel's name, which stays for the life of the process.
pub(super) fn name(place: Out<*const c_char>, function: Handle) -> Answer {
    static NAMES: Mutex<BTreeMap<String, &'static CStr>> = Mutex::new(BTreeMap::new());
    let name = driver()?.state().function(function)?.name.clone();
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = names.get(&name) {
        return place.set(kept.as_ptr());
    }
    let text = CString::new(name.as_str()).map_err(|_| Code::INVALID_VALUE)?;
    let kept: &'static CStr = Box::leak(text.into_boxed_c_str());
    names.insert(name, kept);
    place.set(kept.as_ptr())
}

pub(super) fn attribute(value: Out<i32>, number: i32, function: Handle) -> Answer {
    let found = driver()?.state().function(function)?.attribute(number)?;
    value.set(found)
}

pub(super) fn set_attribute(function: Handle, number: i32, value: i32) -> Answer {
    driver()?
        .state()
        .function(function)?
        .set_attribute(number, value)
}

/// Answers with the offset and the size of a parameter.
pub(super) fn parameter(
    function: Handle,
    index: usize,
    offset: Out<usize>,
    bytes: Out<usize>,
) -> Answer {
    let function = driver()?.state().function(function)?.clone();
    let params = function.module.params(&function.name).unwrap_or_default();
    let param = params.get(index).ok_or(Code::INVALID_VALUE)?;
    offset.set(param.offset as usize)?;
    bytes.set_if_wanted(param.bytes as usize);
    Ok(())
}

pub(super) fn parameter_count(function: Handle, count: Out<usize>) -> Answer {
    let function = driver()?.state().function(function)?.clone();
    let params = function.module.params(&function.name).unwrap_or_default();
    count.set(params.len())
}

entries! {
    fn cuFuncGetAttribute: "cuFuncGetAttribute" @ 2020 (
        value: Out<i32>, number: i32, function: Handle,
    ) {
        attribute(value, number, function)
    }

    fn cuFuncSetAttribute: "cuFuncSetAttribute" @ 9000 (
        function: Handle, number: i32, value: i32,
    ) {
        set_attribute(function, number, value)
    }

    fn cuFuncGetName: "cuFuncGetName" @ 12030 (place: Out<*const c_char>, function: Handle) {
        name(place, function)
    }

    fn cuFuncGetModule: "cuFuncGetModule" @ 11000 (place: Out<Handle>, function: Handle) {
        let owner = driver()?.state().function(function)?.owner;
        place.set(owner)
    }

    fn cuFuncGetParamInfo: "cuFuncGetParamInfo" @ 12040 (
        function: Handle, index: usize, offset: Out<usize>, bytes: Out<usize>,
    ) {
        parameter(function, index, offset, bytes)
    }

    fn cuFuncGetParamCount: "cuFuncGetParamCount" @ 13020 (function: Handle, count: Out<usize>) {
        parameter_count(function, count)
    }

    fn cuFuncIsLoaded: "cuFuncIsLoaded" @ 12040 (state: Out<u32>, function: Handle) {
        driver()?.state().function(function)?;
        state.set(1)
    }

    fn cuFuncLoad: "cuFuncLoad" @ 12040 (function: Handle) {
        driver()?.state().function(function).map(|_| ())
    }

    fn cuFuncSetCacheConfig: "cuFuncSetCacheConfig" @ 3000 (function: Handle, _cache: u32) {
        driver()?.state().function(function).map(|_| ())
    }

    fn cuFuncSetSharedMemConfig: "cuFuncSetSharedMemConfig" @ 4020 (
        function: Handle, _banks: u32,
    ) {
        driver()?.state().function(function).map(|_| ())
    }
}
