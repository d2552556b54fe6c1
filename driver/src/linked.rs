//! Several modules of PTX as one text.

use std::borrow::Cow;

use ptx_syntax::link::link;

/// The part of NVIDIA's device runtime by which numba-cuda waits for all blocks of a grid. The barrier
/// is the second word of the launch's workspace; its highest bit turns when all have arrived.
pub(crate) const DEVICE_RUNTIME: &str = "
.version 7.0
.target sm_70
.address_size 64
.visible .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope) {
    .reg .b32 %low, %high;
    .reg .b64 %workspace;
    mov.b32 %low, %envreg2;
    mov.b32 %high, %envreg1;
    mov.b64 %workspace, {%low, %high};
    st.param.b64 [handle], %workspace;
    ret;
}
.visible .func (.param .b32 status) cudaCGSynchronize(.param .b64 handle, .param .b32 flags) {
    .reg .pred %p;
    .reg .b32 %a, %b, %blocks, %before, %now;
    .reg .b64 %workspace;
    ld.param.b64 %workspace, [handle];
    barrier.sync 0;
    mov.u32 %a, %tid.x;
    mov.u32 %b, %tid.y;
    or.b32 %a, %a, %b;
    mov.u32 %b, %tid.z;
    or.b32 %a, %a, %b;
    setp.ne.u32 %p, %a, 0;
    @%p bra DONE;
    mov.u32 %blocks, %nctaid.x;
    mov.u32 %b, %nctaid.y;
    mul.lo.u32 %blocks, %blocks, %b;
    mov.u32 %b, %nctaid.z;
    mul.lo.u32 %blocks, %blocks, %b;
    mov.u32 %a, %ctaid.x;
    mov.u32 %b, %ctaid.y;
    or.b32 %a, %a, %b;
    mov.u32 %b, %ctaid.z;
    or.b32 %a, %a, %b;
    setp.eq.u32 %p, %a, 0;
    sub.u32 %b, 0x80000001, %blocks;
    selp.u32 %b, %b, 1, %p;
    atom.acq_rel.gpu.global.add.u32 %before, [%workspace+4], %b;
WAIT:
    ld.acquire.gpu.global.u32 %now, [%workspace+4];
    xor.b32 %now, %now, %before;
    setp.ge.s32 %p, %now, 0;
    @%p bra WAIT;
DONE:
    barrier.sync 0;
    st.param.b32 [status], 0;
    ret;
}
";

/// Links modules. One alone stays as it is, so that reports name its lines.
///
/// # Errors
/// What is wrong with a module, or with all of them together.
pub(crate) fn linked(modules: &[String]) -> Result<Cow<'_, str>, String> {
    if let [ptx] = modules {
        return Ok(Cow::Borrowed(ptx));
    }
    let mut parsed = Vec::new();
    for (number, ptx) in modules.iter().enumerate() {
        let module = ptx_syntax::parse(ptx);
        parsed.push(module.map_err(|error| format!("module {}: {error}", number + 1))?);
    }
    let linked = link(parsed).map_err(|error| error.to_string())?;
    Ok(Cow::Owned(linked.to_string()))
}
