//! The order in which memory is allocated, used and freed, as a driver sees it. On the emulator
//! work is done at once, so a wrong order would not show.

use crate::backend::recorder::{recording_device, take};
use crate::{DeviceBuffer, PinnedBuffer, Stream, Tensor};

#[test]
fn one_stream_needs_no_events() {
    let (device, log) = recording_device();
    let stream = device.stream().expect("a stream"); // s1; s0 is the default stream
    let mut buffer = DeviceBuffer::<u32>::zeros(&stream, 4).expect("allocates");
    buffer.fill(1, &stream).expect("fills");
    drop(buffer);
    assert_eq!(take(&log), ["alloc s1", "fill s1", "fill s1", "free s1"]);
}

#[test]
fn another_stream_waits_for_the_allocation_once_and_the_free_waits_for_it() {
    let (device, log) = recording_device();
    let (first, second) = (device.stream().expect("s1"), device.stream().expect("s2"));
    let mut buffer = DeviceBuffer::<u32>::uninit(&first, 4).expect("allocates");
    buffer.fill(1, &second).expect("fills");
    buffer.fill(2, &second).expect("fills");
    assert_eq!(
        take(&log),
        [
            "alloc s1",
            "record e0 s1",
            "wait s2 e0",
            "fill s2",
            "fill s2"
        ]
    );
    drop(second); // its queue lives on
    drop(buffer);
    assert_eq!(take(&log), ["record e0 s2", "wait s1 e0", "free s1"]);
}

#[test]
fn a_read_waits_for_every_stream_that_used_the_memory_and_no_other() {
    let (device, log) = recording_device();
    let streams: Vec<Stream> = (0..3).map(|_| device.stream().expect("a stream")).collect();
    let mut buffer = DeviceBuffer::<u8>::uninit(&streams[0], 4).expect("allocates");
    buffer.fill(1, &streams[2]).expect("fills");
    take(&log);
    buffer.to_vec().expect("reads");
    assert_eq!(
        take(&log),
        [
            "record e0 s3",
            "wait s1 e0",
            "copy out s1",
            "synchronize s1"
        ]
    );
    buffer.copy_from_slice(&[0; 4]).expect("writes");
    assert_eq!(
        take(&log),
        ["record e0 s3", "wait s1 e0", "copy in s1", "synchronize s1"]
    );
}

#[test]
fn work_in_turn_waits_for_the_streams_that_used_the_memory_and_they_wait_for_it() {
    let (device, log) = recording_device();
    let [first, second, third] = [(); 3].map(|()| device.stream().expect("a stream"));
    let tensor = Tensor::<u8>::empty(&first, &[4]).expect("allocates");
    let run = |stream: &Stream| {
        let work = || tensor.fill(1, stream);
        tensor.storage().in_turn(stream, work).expect("runs");
        take(&log)
    };
    take(&log);
    assert_eq!(run(&first), ["fill s1"]);
    tensor.fill(2, &third).expect("fills");
    assert_eq!(take(&log), ["record e0 s1", "wait s3 e0", "fill s3"]);
    tensor.fill(2, &second).expect("fills");
    take(&log);
    let before = ["record e0 s1", "wait s2 e0", "record e0 s3", "wait s2 e0"];
    let after = ["fill s2", "record e0 s2", "wait s1 e0"];
    assert_eq!(run(&second), [&before[..], &after].concat());
    // It waits for home, which waits for the work.
    tensor.fill(2, &third).expect("fills");
    assert_eq!(take(&log), ["record e0 s1", "wait s3 e0", "fill s3"]);
}

#[test]
fn a_foreign_stream_is_never_home_and_the_device_is_idle_before_its_memory_is_freed() {
    let (device, log) = recording_device();
    // SAFETY: the recorder does nothing with the handle.
    let foreign = unsafe { Stream::from_raw(&device, 99 as *mut _) };
    let mut buffer = DeviceBuffer::<u8>::uninit(&foreign, 4).expect("allocates");
    assert_eq!(take(&log), ["alloc s0", "record e0 s0", "wait s99 e0"]);
    buffer.fill(1, &foreign).expect("fills");
    assert_eq!(take(&log), ["record e0 s0", "wait s99 e0", "fill s99"]);
    drop(foreign);
    drop(buffer);
    assert_eq!(take(&log), ["synchronize device", "free s0"]);
}

#[test]
fn pinned_memory_is_looked_at_after_copies_that_write_it_and_changed_after_all() {
    let (device, log) = recording_device();
    let stream = device.stream().expect("s1");
    let mut host = PinnedBuffer::<u32>::zeros(&device, 4).expect("allocates");
    let mut buffer = DeviceBuffer::<u32>::uninit(&stream, 4).expect("allocates");
    take(&log);

    buffer.copy_from_pinned(&host, &stream).expect("copies");
    assert_eq!(take(&log), ["copy in s1", "record e0 s1"]);
    host.as_slice().expect("only read by the copy");
    assert!(take(&log).is_empty());
    host.as_mut_slice().expect("after the copy");
    assert_eq!(take(&log), ["synchronize e0", "destroy e0"]);

    buffer.copy_to_pinned(&mut host, &stream).expect("copies");
    host.as_slice().expect("after the copy");
    assert_eq!(
        take(&log),
        [
            "copy out s1",
            "record e1 s1",
            "synchronize e1",
            "destroy e1"
        ]
    );
    host.as_slice().expect("nothing in flight");
    assert!(take(&log).is_empty());

    buffer.copy_from_pinned(&host, &stream).expect("copies");
    drop(host);
    let want = [
        "copy in s1",
        "record e2 s1",
        "synchronize e2",
        "destroy e2",
        "free host",
    ];
    assert_eq!(take(&log), want);
}

#[test]
fn pinned_copies_on_two_streams_do_not_cross_one_that_writes() {
    let (device, log) = recording_device();
    let (first, second) = (device.stream().expect("s1"), device.stream().expect("s2"));
    let mut host = PinnedBuffer::<u32>::zeros(&device, 4).expect("allocates");
    let mut a = DeviceBuffer::<u32>::uninit(&first, 4).expect("allocates");
    let mut b = DeviceBuffer::<u32>::uninit(&second, 4).expect("allocates");
    take(&log);
    // Two that read may run beside each other.
    a.copy_from_pinned(&host, &first).expect("copies");
    b.copy_from_pinned(&host, &second).expect("copies");
    assert_eq!(
        take(&log),
        ["copy in s1", "record e0 s1", "copy in s2", "record e1 s2"]
    );
    // One that writes comes after both, and before the next.
    a.copy_to_pinned(&mut host, &first).expect("copies");
    assert_eq!(take(&log), ["wait s1 e1", "copy out s1", "record e0 s1"]);
    b.copy_from_pinned(&host, &second).expect("copies");
    assert_eq!(take(&log), ["wait s2 e0", "copy in s2", "record e1 s2"]);
}

#[test]
fn a_copy_on_a_stream_made_elsewhere_is_waited_for_though_another_one_has_its_handle() {
    let (device, log) = recording_device();
    // SAFETY: the recorder does nothing with the handle.
    let foreign = || unsafe { Stream::from_raw(&device, 99 as *mut _) };
    let mut host = PinnedBuffer::<u32>::zeros(&device, 4).expect("allocates");
    let stream = foreign();
    let mut buffer = DeviceBuffer::<u32>::uninit(&stream, 4).expect("allocates");
    take(&log);
    let of_use = ["record e0 s0", "wait s99 e0"];
    buffer.copy_to_pinned(&mut host, &stream).expect("copies");
    assert_eq!(
        take(&log),
        [&of_use[..], &["copy out s99", "record e1 s99"]].concat()
    );
    drop(stream);
    let new = foreign();
    buffer.copy_from_pinned(&host, &new).expect("copies");
    let copy = ["wait s99 e1", "copy in s99", "record e2 s99"];
    assert_eq!(take(&log), [&of_use[..], &copy].concat());
    host.as_slice().expect("after the first copy");
    assert_eq!(take(&log), ["synchronize e1", "destroy e1"]);
}

#[test]
fn streams_are_reused_and_beyond_the_table_shared() {
    let (device, _log) = recording_device();
    let first = device.stream().expect("a stream");
    let handle = first.as_raw();
    drop(first);
    assert_eq!(device.stream().expect("a stream").as_raw(), handle);

    let many: Vec<Stream> = (0..200)
        .map(|_| device.stream().expect("a stream"))
        .collect();
    let mut uses = std::collections::BTreeMap::new();
    for stream in &many {
        *uses.entry(stream.as_raw() as usize).or_insert(0) += 1;
    }
    assert_eq!(uses.len(), 63);
    assert!(
        uses.values().all(|&count| (2..=4).contains(&count)),
        "{uses:?}"
    );
}
