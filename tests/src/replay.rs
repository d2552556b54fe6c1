//! Captures with changes: what operations launched, with other grids or parameters, and with more
//! read back.

use warpsmith::testing::{Capture, Launch, Place, Step};

/// The launches of the kernels whose names begin so.
pub fn launches<'a>(
    capture: &'a mut Capture,
    kernel: &'a str,
) -> impl Iterator<Item = &'a mut Launch> {
    capture.steps.iter_mut().filter_map(move |step| match step {
        Step::Launch(launch) if launch.entry.starts_with(kernel) => Some(launch),
        _ => None,
    })
}

/// Replaces the bytes at `offset` in a parameter.
pub fn set<const N: usize>(launch: &mut Launch, param: usize, offset: usize, bytes: [u8; N]) {
    launch.params[param].bytes[offset..offset + N].copy_from_slice(&bytes);
}

/// Has the buffer read, right after the first launch of a kernel whose name begins so, whose address
/// is at `offset` in a parameter. Returns the index of its bytes among all that a replay reads; `None`
/// if there is no such launch, or no address.
pub fn read_after(
    capture: &mut Capture,
    kernel: &str,
    param: usize,
    offset: usize,
) -> Option<usize> {
    let mut steps = capture.steps.iter().enumerate();
    let (at, launch) = steps.find_map(|(at, step)| match step {
        Step::Launch(launch) if launch.entry.starts_with(kernel) => Some((at, launch)),
        _ => None,
    })?;
    let mut links = launch.params.get(param)?.links.iter();
    let Place { buffer, .. } = links.find(|link| link.at == offset)?.to;
    let bytes = vec![0; capture.buffers[buffer] as usize];
    let read = Step::Read(Place { buffer, offset: 0 }, bytes);
    capture.steps.insert(at + 1, read);
    let before = capture.steps[..=at].iter();
    Some(before.filter(|step| matches!(step, Step::Read(..))).count())
}
