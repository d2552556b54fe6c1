//! NVRTC makes PTX where a program asks for machine code.
//!
//! Some programs look for NVRTC's functions in all that is loaded: C++ programs that link the driver
//! before NVRTC, and NVIDIA's bindings for Python. They find three of them here.
//! They call NVRTC's own with a virtual architecture for a real one, and give the PTX as the machine
//! code. The program then hands it to the driver.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::catch_unwind;

use crate::c::{In, Text};
use crate::report;

/// `NVRTC_ERROR_INVALID_INPUT`
const INVALID_INPUT: c_int = 3;
/// `NVRTC_ERROR_INTERNAL_ERROR`
const INTERNAL_ERROR: c_int = 11;

type Program = *mut c_void;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Bytes = unsafe extern "C" fn(Program, *mut c_char) -> c_int;

/// NVRTC's function of this name, in the library that the program has loaded.
fn real(name: &CStr) -> Option<*mut c_void> {
    let mut path: Option<CString> = None;
    // SAFETY: the function below takes the place of a path, which lives until the call ends.
    unsafe { libc::dl_iterate_phdr(Some(is_nvrtc), (&raw mut path).cast()) };
    // SAFETY: the path of a library that is loaded, which no initialiser of it runs for again.
    let library = path
        .map(|path| unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) });
    let library = library.filter(|library| !library.is_null());
    // SAFETY: a library that stays, as its handle is never closed, and a name that lives.
    let found = library.map(|library| unsafe { libc::dlsym(library, name.as_ptr()) });
    let found = found.filter(|found| !found.is_null());
    if found.is_none() {
        report::note(format_args!("there is no {}", name.to_string_lossy()));
    }
    found
}

/// Keeps the path of a loaded library and ends the search, if the library is NVRTC.
unsafe extern "C" fn is_nvrtc(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    found: *mut c_void,
) -> c_int {
    // SAFETY: the loader's description of a library, whose name is a text or null.
    let name = unsafe { (*info).dlpi_name };
    if name.is_null() {
        return 0;
    }
    // SAFETY: as above.
    let path = unsafe { CStr::from_ptr(name) };
    let file = path.to_bytes().rsplit(|byte| *byte == b'/').next();
    if !file.is_some_and(|file| file.starts_with(b"libnvrtc.so")) {
        return 0;
    }
    // SAFETY: the place that `real` passes.
    unsafe { *found.cast::<Option<CString>>() = Some(path.to_owned()) };
    1
}

/// An option of NVRTC, with a virtual architecture if it names a real one.
fn virtual_arch(option: &[u8], is_arch: bool) -> Vec<u8> {
    let heads: [&[u8]; 2] = [b"--gpu-architecture=sm_", b"-arch=sm_"];
    let head = heads.into_iter().find(|head| option.starts_with(head));
    let head = head.or(is_arch.then_some(b"sm_"));
    match head.and_then(|head| Some((head, option.strip_prefix(head)?))) {
        Some((head, number)) => {
            let start = head.strip_suffix(b"sm_").unwrap_or(head);
            [start, b"compute_", number].concat()
        }
        None => option.to_vec(),
    }
}

/// The options for NVRTC. Code that is linked later is neither PTX nor machine code, so it keeps its
/// architecture.
fn options(count: usize, list: In<Text>) -> Option<Vec<CString>> {
    let given = list.list(count).ok()?;
    let given: Option<Vec<&[u8]>> = given.iter().map(|option| option.bytes().ok()).collect();
    let given = given?;
    let is_linked = given
        .iter()
        .any(|option| [b"--dlto".as_slice(), b"-dlto"].contains(option));
    let mut is_arch = false;
    let own = given.into_iter().map(|option| {
        let own = match is_linked {
            true => option.to_vec(),
            false => virtual_arch(option, is_arch),
        };
        is_arch = [b"--gpu-architecture".as_slice(), b"-arch"].contains(&option);
        CString::new(own).ok()
    });
    own.collect()
}

// SAFETY: the name is NVRTC's, and no other item of the crate has it.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcCompileProgram(program: Program, count: c_int, list: In<Text>) -> c_int {
    catch_unwind(|| {
        let count = usize::try_from(count).ok();
        let Some(own) = count.and_then(|count| options(count, list)) else {
            return INVALID_INPUT;
        };
        let Some(compile) = real(c"nvrtcCompileProgram") else {
            return INTERNAL_ERROR;
        };
        let places: Vec<*const c_char> = own.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: NVRTC's function of this name has this type.
        let compile = unsafe { std::mem::transmute::<*mut c_void, Compile>(compile) };
        // SAFETY: the caller's program, and as many options as it gave.
        unsafe { compile(program, own.len() as c_int, places.as_ptr()) }
    })
    .unwrap_or(INTERNAL_ERROR)
}

// SAFETY: the name is NVRTC's, and no other item of the crate has it.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetCUBINSize(program: Program, place: *mut usize) -> c_int {
    let Some(size) = real(c"nvrtcGetPTXSize") else {
        return INTERNAL_ERROR;
    };
    // SAFETY: NVRTC's function of this name has this type.
    let size = unsafe { std::mem::transmute::<*mut c_void, Size>(size) };
    // SAFETY: the caller's program and place.
    unsafe { size(program, place) }
}

// SAFETY: the name is NVRTC's, and no other item of the crate has it.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetCUBIN(program: Program, place: *mut c_char) -> c_int {
    let Some(bytes) = real(c"nvrtcGetPTX") else {
        return INTERNAL_ERROR;
    };
    // SAFETY: NVRTC's function of this name has this type.
    let bytes = unsafe { std::mem::transmute::<*mut c_void, Bytes>(bytes) };
    // SAFETY: the caller's program, and room for as many bytes as `nvrtcGetCUBINSize` told.
    unsafe { bytes(program, place) }
}

#[cfg(test)]
mod tests {
    use super::virtual_arch;

    #[test]
    fn real_architectures_become_virtual() {
        for (given, wanted) in [
            (
                "--gpu-architecture=sm_90a",
                "--gpu-architecture=compute_90a",
            ),
            ("-arch=sm_75", "-arch=compute_75"),
            ("-arch=compute_75", "-arch=compute_75"),
            ("-DARCH=sm_90", "-DARCH=sm_90"),
            ("sm_90", "sm_90"),
        ] {
            assert_eq!(virtual_arch(given.as_bytes(), false), wanted.as_bytes());
        }
        assert_eq!(virtual_arch(b"sm_90", true), b"compute_90");
    }
}
