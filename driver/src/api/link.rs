//! Linking. One module of PTX passes through as it is; several would have to become one.

use crate::c::{Data, Handle, In, InOut, Out, Text, bytes};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::fatbin;
use crate::report;
use crate::state::{Link, driver};

/// Kinds of input that hold PTX, by their numbers in the API.
const PTX: u32 = 1;
const FAT_BINARY: u32 = 2;

fn add(link: Handle, kind: u32, image: &[u8]) -> Answer {
    let driver = driver()?;
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
        _count: u32, _numbers: In<u32>, _values: InOut<usize>, place: Out<Handle>,
    ) {
        let mut state = driver()?.state();
        let handle = state.new_handle();
        state.links.insert(handle, Link::default());
        place.set(handle)
    }

    fn cuLinkAddData_v2: "cuLinkAddData" @ 6050 (
        link: Handle, kind: u32, data: Data, len: usize, _name: Text, _count: u32,
        _numbers: In<u32>, _values: InOut<usize>,
    ) {
        // SAFETY: by the function's contract, so many bytes.
        add(link, kind, unsafe { bytes(data, len) }?)
    }

    fn cuLinkAddFile_v2: "cuLinkAddFile" @ 6050 (
        link: Handle, kind: u32, path: Text, _count: u32, _numbers: In<u32>,
        _values: InOut<usize>,
    ) {
        let image = std::fs::read(path.get()?).map_err(|_| Code::FILE_NOT_FOUND)?;
        add(link, kind, &image)
    }

    fn cuLinkComplete: "cuLinkComplete" @ 5050 (
        link: Handle, image: Out<Data>, len: Out<usize>,
    ) {
        let mut state = driver()?.state();
        let link = state.links.get_mut(&link).ok_or(Code::INVALID_HANDLE)?;
        let [ptx] = link.ptx.as_slice() else {
            report::unsupported("linking of several modules");
            return Err(Code::NOT_SUPPORTED);
        };
        let text = [ptx.as_bytes(), &[0]].concat().into_boxed_slice();
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
