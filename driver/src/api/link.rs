//! Linking of PTX.

use std::time::Instant;

use crate::c::{Data, Handle, In, InOut, Out, Text, bytes};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::fatbin;
use crate::linked::{DEVICE_RUNTIME, linked};
use crate::report;
use crate::state::{Link, driver};

use super::module::Options;

/// Kinds of input that hold PTX, by their numbers in the API.
const PTX: u32 = 1;
const FAT_BINARY: u32 = 2;
/// An archive of object files.
const LIBRARY: u32 = 4;

/// Adds an input, which the program calls by a name.
fn add(link: Handle, kind: u32, image: &[u8], name: &str) -> Answer {
    let driver = driver()?;
    if kind == LIBRARY && name.contains("cudadevrt") {
        let mut state = driver.state();
        let link = state.links.get_mut(&link).ok_or(Code::INVALID_HANDLE)?;
        link.ptx.push(DEVICE_RUNTIME.to_owned());
        return Ok(());
    }
    if kind != PTX && kind != FAT_BINARY {
        report::unsupported("linking of anything but PTX");
        return Err(Code::NO_BINARY_FOR_GPU);
    }
    let mut image = image.to_vec();
    image.push(0);
    // SAFETY: the image is whole, and a zero byte follows it.
    let ptx = unsafe { fatbin::ptx_of_image(image.as_ptr().cast()) }
        .map_err(|error| error.told("cuLinkAddData"))?;
    let mut state = driver.state();
    let link = state.links.get_mut(&link).ok_or(Code::INVALID_HANDLE)?;
    link.ptx.push(ptx);
    Ok(())
}

entries! {
    fn cuLinkCreate_v2: "cuLinkCreate" @ 6050 (
        count: u32, numbers: In<u32>, values: InOut<usize>, place: Out<Handle>,
    ) {
        let mut state = driver()?.state();
        let handle = state.new_handle();
        let options = (count, numbers.address(), values.pointer() as usize);
        state.links.insert(handle, Link { options, ..Link::default() });
        place.set(handle)
    }

    fn cuLinkAddData_v2: "cuLinkAddData" @ 6050 (
        link: Handle, kind: u32, data: Data, len: usize, name: Text, _count: u32,
        _numbers: In<u32>, _values: InOut<usize>,
    ) {
        // SAFETY: by the function's contract, so many bytes.
        add(link, kind, unsafe { bytes(data, len) }?, name.get().unwrap_or_default())
    }

    fn cuLinkAddFile_v2: "cuLinkAddFile" @ 6050 (
        link: Handle, kind: u32, path: Text, _count: u32, _numbers: In<u32>,
        _values: InOut<usize>,
    ) {
        let image = std::fs::read(path.get()?).map_err(|_| Code::FILE_NOT_FOUND)?;
        add(link, kind, &image, path.get()?)
    }

    fn cuLinkComplete: "cuLinkComplete" @ 5050 (
        link: Handle, image: Out<Data>, len: Out<usize>,
    ) {
        let start = Instant::now();
        let mut state = driver()?.state();
        let link = state.links.get_mut(&link).ok_or(Code::INVALID_HANDLE)?;
        let whole = linked(&link.ptx);
        let error = whole.as_ref().err().cloned().unwrap_or_default();
        let (count, numbers, values) = link.options;
        if count > 0 {
            // SAFETY: by the contract of `cuLinkCreate`, the lists live as long as the link.
            let (numbers, values) = unsafe {
                (In::new(numbers as *const u32), InOut::new(values as *mut usize))
            };
            Options { count, numbers, values }.answer(start, &error)?;
        }
        let text = whole.map_err(|error| {
            report::note(format_args!("cuLinkComplete: {error}"));
            Code::INVALID_PTX
        })?;
        let text = [text.as_bytes(), &[0]].concat().into_boxed_slice();
        let text = link.linked.insert(text);
        image.set(text.as_ptr().cast())?;
        len.set_if_wanted(text.len());
        Ok(())
    }

    fn cuLinkDestroy: "cuLinkDestroy" @ 5050 (link: Handle) {
        let removed = driver()?.state().links.remove(&link);
        removed.map(|_| ()).ok_or(Code::INVALID_HANDLE)
    }
}
