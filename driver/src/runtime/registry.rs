//! What programs of nvcc register at their start: fat binaries, kernels and variables, which they
//! name by addresses in the host program. A binary is loaded when something of it is first used.

use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::c::{Address, Data, Handle, In, InOut, Out, Text};
use crate::code::{Answer, Code};
use crate::state::driver;

use super::error::{INVALID_FUNCTION, INVALID_SYMBOL};
use super::{cu, ready, runtime};

#[derive(Default)]
struct Registry {
    last_binary: usize,
    binaries: HashMap<usize, Binary>,
    /// Kernels by the addresses of their functions in the host program.
    kernels: HashMap<usize, Symbol>,
    /// Variables by the addresses of their shadows in the host program.
    variables: HashMap<usize, Symbol>,
    /// Managed variables, whose addresses the host program has at these addresses.
    managed: HashMap<usize, Symbol>,
}

struct Binary {
    /// Where its image is.
    image: usize,
    /// The library, or why it cannot be loaded.
    library: Option<Answer<Handle>>,
}

struct Symbol {
    binary: usize,
    name: CString,
}

static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

/// Does something with the registry.
fn with<T>(work: impl FnOnce(&mut Registry) -> T) -> T {
    let mut kept: MutexGuard<'_, _> = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    work(kept.get_or_insert_default())
}

impl Registry {
    /// The library of a binary.
    fn library(&mut self, binary: usize) -> Answer<Handle> {
        let known = self.binaries.get_mut(&binary).ok_or(INVALID_FUNCTION)?;
        if let Some(library) = known.library {
            return library;
        }
        let mut library = 0;
        let loaded = cu!(library::cuLibraryLoadData(
            Out::to(&mut library),
            known.image as Data,
            In::null(),
            InOut::null(),
            0,
            In::null(),
            In::null(),
            0,
        ))
        .map(|()| library);
        known.library = Some(loaded);
        if let Ok(library) = loaded {
            self.tell_managed(binary, library)?;
        }
        loaded
    }

    /// Tells the host program where its managed variables are.
    fn tell_managed(&self, binary: usize, library: Handle) -> Answer {
        for (host, symbol) in &self.managed {
            if symbol.binary != binary {
                continue;
            }
            let mut address = 0;
            let (place, bytes) = (Out::to(&mut address), Out::null());
            let name = Text::from(&symbol.name);
            cu!(library::cuLibraryGetManaged(place, bytes, library, name))?;
            // SAFETY: by the contract of its registration, a pointer of the host program.
            unsafe { (*host as *mut usize).write(address as usize) };
        }
        Ok(())
    }

    fn kernel(&mut self, host: usize) -> Answer<Option<Handle>> {
        let Some(Symbol { binary, name }) = self.kernels.get(&host) else {
            return Ok(None);
        };
        let (binary, name) = (*binary, name.clone());
        let library = self.library(binary)?;
        let mut kernel = 0;
        let place = Out::to(&mut kernel);
        match cu!(library::cuLibraryGetKernel(
            place,
            library,
            Text::from(&name)
        )) {
            Ok(()) => Ok(Some(kernel)),
            Err(Code::NOT_FOUND) => Err(INVALID_FUNCTION),
            Err(code) => Err(code),
        }
    }

    fn variable(&mut self, host: usize) -> Answer<(Address, usize)> {
        let Symbol { binary, name } = self.variables.get(&host).ok_or(INVALID_SYMBOL)?;
        let (binary, name) = (*binary, name.clone());
        let library = self.library(binary)?;
        let (mut address, mut bytes) = (0, 0);
        let places = (Out::to(&mut address), Out::to(&mut bytes));
        match cu!(library::cuLibraryGetGlobal(
            places.0,
            places.1,
            library,
            Text::from(&name)
        )) {
            Ok(()) => Ok((address, bytes)),
            Err(Code::NOT_FOUND) => Err(INVALID_SYMBOL),
            Err(code) => Err(code),
        }
    }
}

/// The kernel that a program names: by its function in the host program, or by a handle.
pub(super) fn kernel(function: usize) -> Answer<Handle> {
    ready()?;
    if let Some(kernel) = with(|registry| registry.kernel(function))? {
        return Ok(kernel);
    }
    match driver()?.state().functions.contains_key(&function) {
        true => Ok(function),
        false => Err(INVALID_FUNCTION),
    }
}

/// Address and size of a variable that a program names by its shadow.
pub(super) fn variable(shadow: usize) -> Answer<(Address, usize)> {
    ready()?;
    with(|registry| registry.variable(shadow))
}

fn symbol(binary: usize, name: Text) -> Answer<Symbol> {
    let name = CString::new(name.bytes()?).map_err(|_| Code::INVALID_VALUE)?;
    Ok(Symbol { binary, name })
}

/// Exports a function of the start-up code that nvcc writes into programs.
macro_rules! startup {
    ($(fn $symbol:ident $arguments:tt $body:block)*) => {
        $($crate::call::exported!($crate::call::run; $symbol $arguments $body);)*
    };
}

/// Registers a fat binary, whose image lives until it is unregistered.
// SAFETY: the name is the API's, and no other item of the crate has it.
#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterFatBinary(image: Data) -> usize {
    with(|registry| {
        // Looks like an aligned pointer, which is never 0.
        registry.last_binary += 0x10;
        let binary = Binary {
            image: image as usize,
            library: None,
        };
        registry.binaries.insert(registry.last_binary, binary);
        registry.last_binary
    })
}

/// Makes the module of a managed variable ready, and says whether it is.
// SAFETY: the name is the API's, and no other item of the crate has it.
#[unsafe(no_mangle)]
extern "C" fn __cudaInitModule(binary: usize) -> c_char {
    let loaded = ready().and_then(|()| with(|registry| registry.library(binary)));
    loaded.is_ok().into()
}

startup! {
    fn __cudaRegisterFatBinaryEnd(_binary: usize) {
        Ok(())
    }

    fn __cudaUnregisterFatBinary(binary: usize) {
        let taken = with(|registry| {
            registry.kernels.retain(|_, symbol| symbol.binary != binary);
            registry.variables.retain(|_, symbol| symbol.binary != binary);
            registry.managed.retain(|_, symbol| symbol.binary != binary);
            registry.binaries.remove(&binary)
        });
        match taken.and_then(|binary| binary.library) {
            Some(Ok(library)) => cu!(library::cuLibraryUnload(library)),
            _ => Ok(()),
        }
    }

    fn __cudaRegisterFunction(
        binary: usize, host: usize, _function: Data, name: Text, _limit: i32, _tid: Data,
        _bid: Data, _block: Data, _grid: Data, _warp: Data,
    ) {
        let symbol = symbol(binary, name)?;
        with(|registry| registry.kernels.insert(host, symbol));
        Ok(())
    }

    fn __cudaRegisterVar(
        binary: usize, host: usize, _address: Data, name: Text, _ext: i32, _bytes: usize,
        _constant: i32, _global: i32,
    ) {
        let symbol = symbol(binary, name)?;
        with(|registry| registry.variables.insert(host, symbol));
        Ok(())
    }

    fn __cudaRegisterManagedVar(
        binary: usize, host: usize, _address: Data, name: Text, _ext: i32, _bytes: usize,
        _constant: i32, _global: i32,
    ) {
        let symbol = symbol(binary, name)?;
        with(|registry| registry.managed.insert(host, symbol));
        Ok(())
    }
}

runtime! {
    fn __cudaGetKernel(place: Out<Handle>, host: usize) {
        place.set(kernel(host)?)
    }

    fn cudaGetKernel(place: Out<Handle>, host: usize) {
        place.set(kernel(host)?)
    }

    fn cudaGetFuncBySymbol(place: Out<Handle>, host: usize) {
        place.set(kernel(host)?)
    }

    fn cudaGetSymbolAddress(place: Out<Address>, shadow: usize) {
        place.set(variable(shadow)?.0)
    }

    fn cudaGetSymbolSize(place: Out<usize>, shadow: usize) {
        place.set(variable(shadow)?.1)
    }
}
