//! Initialisation, the version, names of errors, and where functions are.

use crate::api::ENTRIES as ALL;
use crate::c::{In, Out, Text};
use crate::call::{Entry, entries};
use crate::code::Code;
use crate::report;
use crate::state;

/// The CUDA version that the driver reports, as 1000 * major + 10 * minor.
const VERSION: i32 = 13_050;

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`
const PER_THREAD: u64 = 2;

/// First bytes of the name of a table that NVRTC asks for and does without, in ascending order.
const TABLE_OF_NVRTC: [u8; 4] = [0x51, 0x91, 0xd3, 0xda];

/// What `cuGetProcAddress_v2` says beside its answer.
const FOUND: u32 = 0;
const NO_SUCH_NAME: u32 = 1;
const TOO_OLD: u32 = 2;

/// The newest form of a function that the version has; else why there is none.
fn find(name: &str, version: u32, flags: u64) -> Result<&'static Entry, u32> {
    let named = || {
        ALL.iter()
            .copied()
            .flatten()
            .filter(|entry| entry.name == name)
    };
    let is_per_thread = flags & PER_THREAD != 0;
    named()
        .filter(|entry| entry.since <= version && (is_per_thread || !entry.is_per_thread()))
        .max_by_key(|entry| (entry.since, entry.is_per_thread()))
        .ok_or(match named().next() {
            Some(_) => TOO_OLD,
            None => NO_SUCH_NAME,
        })
}

fn look_up(name: &str, place: Out<*const ()>, version: i32, flags: u64) -> Result<u32, Code> {
    if !(0..=VERSION).contains(&version) || flags > PER_THREAD {
        return Err(Code::INVALID_VALUE);
    }
    match find(name, version as u32, flags) {
        Ok(entry) => {
            place.set(entry.address)?;
            Ok(FOUND)
        }
        Err(why) => {
            place.set(std::ptr::null())?;
            Ok(why)
        }
    }
}

entries! {
    fn cuInit: "cuInit" @ 2000 (flags: u32) {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        state::initialise()
    }

    fn cuDriverGetVersion: "cuDriverGetVersion" @ 2020 (version: Out<i32>) {
        version.set(VERSION)
    }

    fn cuGetErrorName: "cuGetErrorName" @ 6000 (code: u32, text: Out<*const std::ffi::c_char>) {
        let described = Code::described(code);
        text.set(described.map_or(std::ptr::null(), |(name, _)| name.as_ptr()))?;
        described.map(|_| ()).ok_or(Code::INVALID_VALUE)
    }

    fn cuGetErrorString: "cuGetErrorString" @ 6000 (code: u32, text: Out<*const std::ffi::c_char>) {
        let described = Code::described(code);
        text.set(described.map_or(std::ptr::null(), |(_, said)| said.as_ptr()))?;
        described.map(|_| ()).ok_or(Code::INVALID_VALUE)
    }

    fn cuGetProcAddress: "cuGetProcAddress" @ 11030 (
        name: Text, place: Out<*const ()>, version: i32, flags: u64,
    ) {
        match look_up(name.get()?, place, version, flags)? {
            FOUND => Ok(()),
            _ => Err(Code::NOT_FOUND),
        }
    }

    fn cuGetProcAddress_v2: "cuGetProcAddress" @ 12000 (
        name: Text, place: Out<*const ()>, version: i32, flags: u64, status: Out<u32>,
    ) {
        let found = look_up(name.get()?, place, version, flags)?;
        status.set_if_wanted(found);
        match found {
            FOUND => Ok(()),
            _ => Err(Code::NOT_FOUND),
        }
    }

    fn cuGetExportTable: "cuGetExportTable" @ 3000 (table: Out<*const ()>, id: In<u8>) {
        table.set(std::ptr::null())?;
        let mut asked = id.list(TABLE_OF_NVRTC.len())?;
        asked.sort_unstable();
        if asked != TABLE_OF_NVRTC {
            let text = "NVIDIA's own runtime is not supported: compile with `-cudart shared`";
            report::note_once("cuGetExportTable", text);
        }
        Err(Code::NOT_FOUND)
    }

    fn cuProfilerInitialize: "cuProfilerInitialize" @ 4000 (
        _config: Text, _output: Text, _format: u32,
    ) {
        Ok(())
    }

    fn cuProfilerStart: "cuProfilerStart" @ 4000 () {
        Ok(())
    }

    fn cuProfilerStop: "cuProfilerStop" @ 4000 () {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_version_find_the_newest_form() {
        let symbol = |name, version, flags| find(name, version, flags).map(|entry| entry.symbol);
        assert_eq!(symbol("cuCtxGetDevice", 12_080, 0), Ok("cuCtxGetDevice"));
        assert_eq!(symbol("cuCtxGetDevice", 13_000, 0), Ok("cuCtxGetDevice_v2"));
        assert_eq!(
            symbol("cuStreamSynchronize", 12_000, 0),
            Ok("cuStreamSynchronize")
        );
        assert_eq!(
            symbol("cuStreamSynchronize", 12_000, 2),
            Ok("cuStreamSynchronize_ptsz")
        );
        assert_eq!(symbol("cuInit", 12_000, 2), Ok("cuInit"));
        assert_eq!(symbol("cuLibraryLoadData", 11_080, 0), Err(TOO_OLD));
        assert_eq!(symbol("cuFlyToTheMoon", 13_000, 0), Err(NO_SUCH_NAME));
    }

    #[test]
    fn no_symbol_is_stated_twice() {
        let mut symbols: Vec<&str> = ALL.iter().copied().flatten().map(|e| e.symbol).collect();
        let count = symbols.len();
        symbols.sort_unstable();
        symbols.dedup();
        assert_eq!(symbols.len(), count);
    }
}
