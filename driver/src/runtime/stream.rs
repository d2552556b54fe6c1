//! Streams and events.

use crate::api::stream::AttributeValue;
use crate::c::{Handle, In, Out, Room, StreamCallback};

use super::{cu, runtime};

/// `cudaStreamNonBlocking` has the driver's number, as the flags of events have.
const DEFAULT: u32 = 0;

runtime! {
    fn cudaStreamCreate(place: Out<Handle>) {
        cu!(stream::cuStreamCreate(place, DEFAULT))
    }

    fn cudaStreamCreateWithFlags(place: Out<Handle>, flags: u32) {
        cu!(stream::cuStreamCreate(place, flags))
    }

    fn cudaStreamCreateWithPriority(place: Out<Handle>, flags: u32, priority: i32) {
        cu!(stream::cuStreamCreateWithPriority(place, flags, priority))
    }

    fn cudaStreamDestroy(stream: Handle) {
        cu!(stream::cuStreamDestroy_v2(stream))
    }

    fn cudaStreamSynchronize | cudaStreamSynchronize_ptsz (stream: Handle) {
        cu!(stream::cuStreamSynchronize(stream))
    }

    fn cudaStreamQuery | cudaStreamQuery_ptsz (stream: Handle) {
        cu!(stream::cuStreamQuery(stream))
    }

    fn cudaStreamWaitEvent | cudaStreamWaitEvent_ptsz (
        stream: Handle, event: Handle, flags: u32,
    ) {
        cu!(stream::cuStreamWaitEvent(stream, event, flags))
    }

    fn cudaStreamAddCallback | cudaStreamAddCallback_ptsz (
        stream: Handle, callback: StreamCallback, data: Room, flags: u32,
    ) {
        cu!(stream::cuStreamAddCallback(stream, callback, data, flags))
    }

    fn cudaStreamGetFlags | cudaStreamGetFlags_ptsz (stream: Handle, flags: Out<u32>) {
        cu!(stream::cuStreamGetFlags(stream, flags))
    }

    fn cudaStreamGetPriority | cudaStreamGetPriority_ptsz (
        stream: Handle, priority: Out<i32>,
    ) {
        cu!(stream::cuStreamGetPriority(stream, priority))
    }

    fn cudaStreamGetId | cudaStreamGetId_ptsz (stream: Handle, id: Out<u64>) {
        cu!(stream::cuStreamGetId(stream, id))
    }

    fn cudaStreamGetDevice | cudaStreamGetDevice_ptsz (stream: Handle, device: Out<i32>) {
        cu!(stream::cuStreamGetDevice(stream, device))
    }

    fn cudaStreamSetAttribute | cudaStreamSetAttribute_ptsz (
        stream: Handle, number: u32, value: In<AttributeValue>,
    ) {
        cu!(stream::cuStreamSetAttribute(stream, number, value))
    }

    fn cudaStreamGetAttribute | cudaStreamGetAttribute_ptsz (
        stream: Handle, number: u32, value: Out<AttributeValue>,
    ) {
        cu!(stream::cuStreamGetAttribute(stream, number, value))
    }

    fn cudaStreamCopyAttributes | cudaStreamCopyAttributes_ptsz (to: Handle, from: Handle) {
        cu!(stream::cuStreamCopyAttributes(to, from))
    }

    fn cudaEventCreate(place: Out<Handle>) {
        cu!(event::cuEventCreate(place, DEFAULT))
    }

    fn cudaEventCreateWithFlags(place: Out<Handle>, flags: u32) {
        cu!(event::cuEventCreate(place, flags))
    }

    fn cudaEventDestroy(event: Handle) {
        cu!(event::cuEventDestroy_v2(event))
    }

    fn cudaEventRecord | cudaEventRecord_ptsz (event: Handle, stream: Handle) {
        cu!(event::cuEventRecord(event, stream))
    }

    fn cudaEventRecordWithFlags | cudaEventRecordWithFlags_ptsz (
        event: Handle, stream: Handle, flags: u32,
    ) {
        cu!(event::cuEventRecordWithFlags(event, stream, flags))
    }

    fn cudaEventQuery(event: Handle) {
        cu!(event::cuEventQuery(event))
    }

    fn cudaEventSynchronize(event: Handle) {
        cu!(event::cuEventSynchronize(event))
    }

    fn cudaEventElapsedTime | cudaEventElapsedTime_v2 (
        milliseconds: Out<f32>, start: Handle, end: Handle,
    ) {
        cu!(event::cuEventElapsedTime(milliseconds, start, end))
    }
}
