//! Modules: loading PTX and fat binaries, and what is in them.

use std::time::Instant;

use warpsmith_emulator::{LoadError, MemoryError, Module};

use crate::c::{Address, Data, Handle, In, InOut, Out, Text, bytes_mut};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::fatbin;
use crate::linked::linked;
use crate::report;
use crate::state::{Driver, Function, LoadedModule, NO_CONTEXT, RangeKind, State, current, driver};

use super::host_memory::Managed;

/// `CU_MODULE_LAZY_LOADING`
const LAZY_LOADING: u32 = 2;

/// Options of the compiler that have an effect here, by their numbers in the API.
const WALL_TIME: u32 = 2;
const INFO_LOG: u32 = 3;
const INFO_LOG_BYTES: u32 = 4;
const ERROR_LOG: u32 = 5;
const ERROR_LOG_BYTES: u32 = 6;

/// Options of the compiler, as the caller lists them.
#[derive(Clone, Copy)]
pub(super) struct Options {
    pub(super) count: u32,
    pub(super) numbers: In<u32>,
    pub(super) values: InOut<usize>,
}

impl Options {
    /// The position of an option.
    fn position(self, wanted: u32) -> Answer<Option<usize>> {
        let numbers = self.numbers.list(self.count as usize)?;
        Ok(numbers.iter().position(|number| *number == wanted))
    }

    /// Writes a log to the caller's buffer, and its length to the buffer's size.
    fn log(self, buffer: u32, bytes: u32, text: &str) -> Answer {
        let (Some(buffer), Some(bytes)) = (self.position(buffer)?, self.position(bytes)?) else {
            return Ok(());
        };
        let room = self.values.at(bytes)? as u32 as usize;
        let place = self.values.at(buffer)?;
        if room == 0 || place == 0 {
            return Ok(());
        }
        let kept = text.len().min(room - 1);
        // SAFETY: by the contract of the two options, a buffer of so many bytes.
        let place = unsafe { bytes_mut(place as *mut _, kept + 1) }?;
        place[..kept].copy_from_slice(&text.as_bytes()[..kept]);
        place[kept] = 0;
        self.values.set_at(bytes, kept)
    }

    /// Fills the logs, and the time since `start`.
    pub(super) fn answer(self, start: Instant, error: &str) -> Answer {
        self.log(INFO_LOG, INFO_LOG_BYTES, "")?;
        self.log(ERROR_LOG, ERROR_LOG_BYTES, error)?;
        if let Some(time) = self.position(WALL_TIME)? {
            let milliseconds = start.elapsed().as_secs_f32() * 1e3;
            self.values.set_at(time, milliseconds.to_bits() as usize)?;
        }
        Ok(())
    }
}

/// Loads PTX; `what` is the function that was called. The error is told on stderr too.
fn load_ptx(
    driver: &Driver,
    what: &str,
    ptx: &str,
    options: Option<Options>,
) -> Answer<(Module, Managed)> {
    let start = Instant::now();
    let mut managed = Managed::default();
    let loaded = driver
        .emulator
        .load_managed(ptx, |bytes| managed.add(bytes));
    let error = loaded.as_ref().err().map(ToString::to_string);
    if let Some(options) = options {
        options.answer(start, error.as_deref().unwrap_or_default())?;
    }
    if let Some(error) = error {
        report::note(format_args!("{what}: {error}"));
    }
    let loaded = loaded.map(|module| {
        managed.fill(driver);
        (module, managed)
    });
    loaded.map_err(|error| match error {
        LoadError::Unsupported { .. } => Code::NOT_SUPPORTED,
        LoadError::Variable {
            source: MemoryError::OutOfMemory { .. } | MemoryError::HostMemory { .. },
            ..
        } => Code::OUT_OF_MEMORY,
        _ => Code::INVALID_PTX,
    })
}

/// Loads an image: PTX, or a fat binary with PTX. `context` is `None` for a library.
pub(super) fn load_image(
    context: Option<Handle>,
    what: &str,
    image: Data,
    options: Option<Options>,
) -> Answer<Handle> {
    let driver = driver()?;
    // SAFETY: by the contract of the functions that load, an image.
    let modules = unsafe { fatbin::modules_of_image(image) }.map_err(|error| error.told(what))?;
    let ptx = linked(&modules).map_err(|error| {
        report::note(format_args!("{what}: {error}"));
        Code::INVALID_PTX
    })?;
    let (module, managed) = load_ptx(driver, what, &ptx, options)?;
    let mut state = driver.state();
    for (address, bytes) in managed.ranges() {
        state.add_range(address, bytes, RangeKind::Managed, NO_CONTEXT);
    }
    let handle = state.new_handle();
    let loaded = LoadedModule {
        context,
        module,
        managed,
    };
    state.modules.insert(handle, loaded);
    Ok(handle)
}

/// Loads the image in a file.
pub(super) fn load_file(context: Option<Handle>, what: &str, path: Text) -> Answer<Handle> {
    let path = path.get()?;
    let mut image = std::fs::read(path).map_err(|_| Code::FILE_NOT_FOUND)?;
    image.push(0);
    load_image(context, what, image.as_ptr().cast(), None)
}

/// The handle of a kernel: always the same one.
pub(super) fn function(state: &mut State, owner: Handle, name: &str) -> Answer<Handle> {
    let module = state.module(owner)?.clone();
    let mut known = state.functions.iter();
    if let Some((handle, _)) = known.find(|(_, f)| f.owner == owner && f.name == name) {
        return Ok(*handle);
    }
    if module.params(name).is_none() {
        return Err(Code::NOT_FOUND);
    }
    let function = Function {
        owner,
        module,
        name: name.to_owned(),
        attributes: Default::default(),
    };
    let handle = state.new_handle();
    state.functions.insert(handle, function);
    Ok(handle)
}

/// Handles of all kernels of a module.
pub(super) fn functions(state: &mut State, owner: Handle) -> Answer<Vec<Handle>> {
    let module = state.module(owner)?.clone();
    let names = module.kernels();
    names
        .iter()
        .map(|name| function(state, owner, name))
        .collect()
}

/// Answers with the address and the size of a managed variable.
pub(super) fn managed_variable(
    owner: Handle,
    name: Text,
    address: Out<Address>,
    bytes: Out<usize>,
) -> Answer {
    let is_managed = driver()?
        .state()
        .module(owner)?
        .managed()
        .contains(&name.get()?);
    match is_managed {
        true => variable(owner, name, address, bytes),
        false => Err(Code::NOT_FOUND),
    }
}

/// Takes a module or a library away when all work is done.
pub(super) fn unload(handle: Handle) -> Answer {
    let driver = driver()?;
    driver.in_turn(|| {
        driver.order().host_after_everything();
        driver.state().unload(handle)
    })
}

/// Answers with the address and the size of a variable.
pub(super) fn variable(
    owner: Handle,
    name: Text,
    address: Out<Address>,
    bytes: Out<usize>,
) -> Answer {
    let driver = driver()?;
    let found = driver.state().module(owner)?.variable(name.get()?);
    let (at, len) = found.ok_or(Code::NOT_FOUND)?;
    address.set_if_wanted(at);
    bytes.set_if_wanted(len as usize);
    Ok(())
}

entries! {
    fn cuModuleLoad: "cuModuleLoad" @ 2000 (module: Out<Handle>, path: Text) {
        let current = current()?;
        module.set(load_file(Some(current.context), "cuModuleLoad", path)?)
    }

    fn cuModuleLoadData: "cuModuleLoadData" @ 2000 (module: Out<Handle>, image: Data) {
        let current = current()?;
        module.set(load_image(Some(current.context), "cuModuleLoadData", image, None)?)
    }

    fn cuModuleLoadDataEx: "cuModuleLoadDataEx" @ 2010 (
        module: Out<Handle>, image: Data, count: u32, numbers: In<u32>, values: InOut<usize>,
    ) {
        let current = current()?;
        let options = Some(Options { count, numbers, values });
        module.set(load_image(Some(current.context), "cuModuleLoadDataEx", image, options)?)
    }

    fn cuModuleLoadFatBinary: "cuModuleLoadFatBinary" @ 2000 (module: Out<Handle>, image: Data) {
        let current = current()?;
        module.set(load_image(Some(current.context), "cuModuleLoadFatBinary", image, None)?)
    }

    fn cuModuleUnload: "cuModuleUnload" @ 2000 (module: Handle) {
        current()?;
        unload(module)
    }

    fn cuModuleGetFunction: "cuModuleGetFunction" @ 2000 (
        place: Out<Handle>, module: Handle, name: Text,
    ) {
        let current = current()?;
        let found = function(&mut current.state(), module, name.get()?)?;
        place.set(found)
    }

    fn cuModuleGetFunctionCount: "cuModuleGetFunctionCount" @ 12040 (
        count: Out<u32>, module: Handle,
    ) {
        let current = current()?;
        let kernels = current.state().module(module)?.kernels().len();
        count.set(kernels as u32)
    }

    fn cuModuleEnumerateFunctions: "cuModuleEnumerateFunctions" @ 12040 (
        places: Out<Handle>, count: u32, module: Handle,
    ) {
        let current = current()?;
        let all = functions(&mut current.state(), module)?;
        places.set_all(all, count as usize)
    }

    fn cuModuleGetGlobal_v2: "cuModuleGetGlobal" @ 3020 (
        address: Out<Address>, bytes: Out<usize>, module: Handle, name: Text,
    ) {
        current()?;
        variable(module, name, address, bytes)
    }

    fn cuModuleGetLoadingMode: "cuModuleGetLoadingMode" @ 11070 (mode: Out<u32>) {
        mode.set(LAZY_LOADING)
    }
}
