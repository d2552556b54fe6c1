//! Capture of a launch in front of another driver, such as NVIDIA's: kernel, arguments and buffers
//! become files that `warpsmith run` replays.
//!
//! The loader is told to ask this library about each symbol that it binds: `LD_AUDIT` names the
//! library, and `WARPSMITH_CAPTURE` the launch. A few functions of the driver are then bound to those
//! below, which call the driver's. The library has its own copies of all that it uses, so this one
//! is another than the driver that programs load.

mod file;
mod hooks;

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::c::{Address, Data, Handle, In, LaunchAttribute, LaunchShape, Out, Text};
use crate::code::Code;
use crate::fatbin;
use crate::linked::linked;
use crate::report;

use file::{CaptureError, Captured, Files};
use hooks::HOOKS;

/// Names the launch: a kernel, or `*` for any; then, if wanted, `:` and which launch of it, from 1.
const WANTED: &str = "WARPSMITH_CAPTURE";
/// The folder for the files.
const FOLDER: &str = "WARPSMITH_CAPTURE_TO";
/// Most bytes of all buffers.
const BYTES: &str = "WARPSMITH_CAPTURE_BYTES";

/// `LA_FLG_BINDTO | LA_FLG_BINDFROM`: the loader asks about all symbols.
const ALL_SYMBOLS: c_uint = 3;
/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`
const PER_THREAD: u64 = 2;

/// A function of the driver that has another before it.
struct Hook {
    symbol: &'static str,
    /// What programs ask `cuGetProcAddress` for.
    name: &'static str,
    address: *const (),
    /// Where the driver's own is; 0 before it is known.
    real: &'static AtomicUsize,
}

/// What is known of the program.
#[derive(Default)]
struct Seen {
    /// Where the driver is.
    driver: Option<CString>,
    /// PTX of modules and libraries.
    modules: HashMap<Handle, Arc<str>>,
    /// Kernels: module and name.
    kernels: HashMap<Handle, (Handle, String)>,
    /// Launches of the wanted kernel.
    launches: u64,
    is_done: bool,
}

static SEEN: Mutex<Option<Seen>> = Mutex::new(None);

/// Does something with what is known.
fn seen<T>(work: impl FnOnce(&mut Seen) -> T) -> T {
    let mut seen: MutexGuard<'_, _> = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    work(seen.get_or_insert_default())
}

/// Which launch is wanted: the kernel, `None` for any, and its number.
fn wanted() -> Option<(Option<String>, u64)> {
    let text = std::env::var(WANTED).ok()?;
    let (kernel, number) = match text.rsplit_once(':') {
        Some((kernel, number)) => (kernel.to_owned(), number.parse().ok()?),
        None => (text, 1),
    };
    Some(((kernel != "*").then_some(kernel), number))
}

/// Whether the loader is to ask: with a launch to capture, and a version of its interface.
// SAFETY: the name is the loader's, and no other item of the crate has it.
#[unsafe(no_mangle)]
extern "C" fn la_version(version: c_uint) -> c_uint {
    match (std::env::var_os(WANTED), wanted()) {
        (Some(_), Some(_)) => version,
        (Some(_), None) => {
            report::note(format_args!("{WANTED} is a kernel's name, or NAME:NUMBER"));
            0
        }
        (None, _) => 0,
    }
}

/// The beginning of glibc's `link_map`.
#[repr(C)]
struct LinkMap {
    address: usize,
    name: *const c_char,
}

/// A library is there.
// SAFETY: the name is the loader's, and no other item of the crate has it.
#[unsafe(no_mangle)]
unsafe extern "C" fn la_objopen(map: *const LinkMap, _namespace: isize, _cookie: usize) -> c_uint {
    // SAFETY: by the loader's contract, a link map with a name.
    let name = unsafe { CStr::from_ptr((*map).name) };
    let file = name.to_bytes().rsplit(|byte| *byte == b'/').next();
    if file.is_some_and(|file| file.starts_with(b"libcuda.so")) {
        seen(|seen| seen.driver = Some(name.to_owned()));
    }
    ALL_SYMBOLS
}

/// The beginning of `Elf64_Sym`, up to its value.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
}

/// Where a symbol is to lead.
// SAFETY: the name is the loader's, and no other item of the crate has it.
#[unsafe(no_mangle)]
unsafe extern "C" fn la_symbind64(
    symbol: *const Symbol,
    _index: c_uint,
    _from: *mut usize,
    _to: *mut usize,
    _flags: *mut c_uint,
    name: *const c_char,
) -> usize {
    // SAFETY: by the loader's contract, a symbol and its name.
    let (value, name) = unsafe { ((*symbol).value, CStr::from_ptr(name)) };
    let found = HOOKS
        .iter()
        .find(|hook| name.to_bytes() == hook.symbol.as_bytes());
    found.map_or(value, |hook| hooked(hook, value))
}

/// The function before the driver's, whose address it now knows.
fn hooked(hook: &Hook, real: usize) -> usize {
    if real != hook.address as usize {
        hook.real.store(real, Ordering::Relaxed);
    }
    hook.address as usize
}

/// The address of another function of the driver.
fn function(name: &CStr) -> Option<usize> {
    let path = seen(|seen| seen.driver.clone())?;
    // SAFETY: the path of a library that the program has loaded; it is not loaded anew.
    let library = unsafe {
        libc::dlmopen(
            libc::LM_ID_BASE,
            path.as_ptr(),
            libc::RTLD_NOW | libc::RTLD_NOLOAD,
        )
    };
    if library.is_null() {
        return None;
    }
    // SAFETY: a library and a name.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) } as usize;
    // A symbol with a function before it leads there.
    let hook = HOOKS.iter().find(|hook| hook.address as usize == address);
    let real = hook.map_or(address, |hook| hook.real.load(Ordering::Relaxed));
    (real != 0).then_some(real)
}

/// Calls a function of the driver by its name.
macro_rules! driver {
    ($name:ident($($argument:expr => $type:ty),* $(,)?)) => {{
        let name = concat!(stringify!($name), "\0");
        let name = CStr::from_bytes_with_nul(name.as_bytes()).map_err(|_| Code::UNKNOWN);
        match name.and_then(|name| function(name).ok_or(Code::NOT_FOUND)) {
            // SAFETY: the driver's function of this name, which has these arguments.
            Ok(address) => unsafe {
                let real: unsafe extern "C" fn($($type),*) -> Code = std::mem::transmute(address);
                real($($argument),*)
            }
            .answer(),
            Err(code) => Err(code),
        }
    }};
}

/// Does what must not stop the program.
fn aside(work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        report::note("the capture panicked: this is a bug of warpsmith");
    }
}

/// Remembers the PTX of a module that was loaded.
fn loaded(code: Code, module: Out<Handle>, image: impl FnOnce() -> Option<Vec<String>>) -> Code {
    if code == Code::SUCCESS {
        aside(|| {
            let ptx = image().and_then(|modules| linked(&modules).ok().map(|ptx| ptx.into()));
            if let (Some(ptx), Ok(handle)) = (ptx, module.answered()) {
                seen(|seen| seen.modules.insert(handle, ptx));
            }
        });
    }
    code
}

fn ptx_of(image: Data) -> Option<Vec<String>> {
    // SAFETY: by the contract of the functions that load, an image.
    unsafe { fatbin::modules_of_image(image) }.ok()
}

fn ptx_of_file(path: Text) -> Option<Vec<String>> {
    let mut image = std::fs::read(path.get().ok()?).ok()?;
    image.push(0);
    ptx_of(image.as_ptr().cast())
}

/// Remembers a handle that stands for a kernel.
fn named(
    code: Code,
    place: Out<Handle>,
    kernel: impl FnOnce(&Seen) -> Option<(Handle, String)>,
) -> Code {
    if code == Code::SUCCESS {
        aside(|| {
            if let Ok(handle) = place.answered() {
                seen(|seen| {
                    if let Some(kernel) = kernel(seen) {
                        seen.kernels.insert(handle, kernel);
                    }
                });
            }
        });
    }
    code
}

fn owned(owner: Handle, name: Text) -> Option<(Handle, String)> {
    Some((owner, name.get().ok()?.to_owned()))
}

/// A launch that is about to be.
struct Launch {
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    cluster: Option<[u32; 3]>,
    shared_bytes: u32,
    each: In<*const c_void>,
    extra: In<usize>,
}

/// Captures a launch, if it is the one that is wanted.
fn before(launch: &Launch) {
    aside(|| {
        let Some((kernel, number)) = wanted() else {
            return;
        };
        let Some((name, ptx)) = seen(|seen| {
            let (module, name) = seen.kernels.get(&launch.function)?.clone();
            if seen.is_done || kernel.is_some_and(|kernel| kernel != name) {
                return None;
            }
            seen.launches += 1;
            seen.is_done = seen.launches == number;
            let ptx = seen.modules.get(&module).cloned();
            seen.is_done.then_some((name, ptx))
        }) else {
            return;
        };
        match capture(launch, &name, ptx) {
            Ok(files) => report::note(format_args!("captured a launch of {name}: {files}")),
            Err(error) => report::note(format_args!("cannot capture {name}: {error}")),
        }
    });
}

fn capture(launch: &Launch, name: &str, ptx: Option<Arc<str>>) -> Result<Files, CaptureError> {
    let ptx = ptx.ok_or(CaptureError::NoPtx)?;
    let params = file::params(&ptx, name)?;
    let bytes = file::arguments(&params, launch.each, launch.extra)?;
    // What was launched before comes first.
    driver!(cuCtxSynchronize()).map_err(CaptureError::Wait)?;
    let most = std::env::var(BYTES).ok().and_then(|most| most.parse().ok());
    let folder = std::env::var_os(FOLDER).map_or_else(|| "capture".into(), PathBuf::from);
    let captured = Captured {
        name,
        ptx: &ptx,
        grid: launch.grid,
        block: launch.block,
        cluster: launch.cluster,
        shared_bytes: launch.shared_bytes,
        params: &params,
        arguments: &bytes,
    };
    captured.write(&folder, most.unwrap_or(file::MOST_BYTES), &range, &read)
}

/// The allocation that an address lies in: its base and its size.
fn range(address: Address) -> Option<(Address, usize)> {
    let (mut base, mut bytes) = (0, 0);
    let (base_place, bytes_place) = (Out::to(&mut base), Out::to(&mut bytes));
    let found = driver!(cuMemGetAddressRange_v2(
        base_place => Out<Address>, bytes_place => Out<usize>, address => Address,
    ));
    found.ok().map(|()| (base, bytes))
}

fn read(address: Address, bytes: &mut [u8]) -> Result<(), Code> {
    driver!(cuMemcpyDtoH_v2(
        bytes.as_mut_ptr() => *mut u8, address => Address, bytes.len() => usize,
    ))
}

/// The cluster that a launch's attributes ask for.
fn cluster(shape: &LaunchShape) -> Option<[u32; 3]> {
    /// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`
    const CLUSTER: u32 = 4;
    let attributes = shape.attributes.list(shape.count as usize).ok()?;
    let found = attributes.iter().find(|attribute| attribute.id == CLUSTER);
    found.map(|LaunchAttribute { value, .. }| [value[0], value[1], value[2]])
}

fn before_shape(
    shape: In<LaunchShape>,
    function: Handle,
    each: In<*const c_void>,
    extra: In<usize>,
) {
    if let Ok(shape) = shape.get() {
        before(&Launch {
            function,
            grid: shape.grid,
            block: shape.block,
            cluster: cluster(&shape),
            shared_bytes: shape.shared_bytes,
            each,
            extra,
        });
    }
}

/// Puts our function in the place of one that the driver has given.
fn replaced(code: Code, name: Text, place: Out<*const ()>, flags: u64) -> Code {
    if code == Code::SUCCESS
        && let (Ok(name), Ok(real)) = (name.get(), place.answered())
        && !real.is_null()
    {
        let is_per_thread = flags & PER_THREAD != 0;
        let mut hooks = HOOKS.iter().filter(|hook| hook.name == name);
        let chosen = hooks
            .clone()
            .find(|hook| hook.symbol.ends_with("_ptsz") == is_per_thread)
            .or_else(|| hooks.next());
        if let Some(hook) = chosen {
            let address = hooked(hook, real as usize);
            let _ = place.set(address as *const ());
        }
    }
    code
}
