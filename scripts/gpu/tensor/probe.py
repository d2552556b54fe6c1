#!/usr/bin/env python3
"""Runs tensor-core instructions on the GPU and keeps their raw answers.

    probe.py OUT_FOLDER [--ptx-only]
"""
import ctypes
import sys
import time
from pathlib import Path

import numpy as np

from cases import BITS, DESCRIPTORS, MMA, WGMMA, seed_of, sets
from inputs import elements, pack

SHARED = 49152


def regs(prefix, count):
    return "{" + ", ".join(f"%{prefix}{i}" for i in range(count)) + "}"


def counts(case):
    """Registers of A, B and C in a thread."""
    wide = 64 if case["a"] == "f64" else 32
    threads = 128 if case["wgmma"] else 32
    a = case["m"] * case["k"] * BITS[case["a"]] // wide // threads
    b = case["n"] * case["k"] * BITS[case["b"]] // wide // threads
    c = case["m"] * case["n"] * BITS[case["d"]] // (64 if case["d"] == "f64" else 32) // threads
    return a, b, c


def kind_of(dtype):
    return {"f32": ("f", "f32"), "f64": ("fd", "f64")}.get(dtype, ("r", "b32"))


def load(prefix, count, ty, base, size):
    return "\n".join(f"  ld.global.{ty} %{prefix}{i}, [{base}+{i * size}];" for i in range(count))


def store(prefix, count, ty, base, size):
    return "\n".join(f"  st.global.{ty} [{base}+{i * size}], %{prefix}{i};" for i in range(count))


HEAD = """.version {ptx}
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd,
  .param .u32 iters, .param .u64 da, .param .u64 db)
{{
  .reg .pred %p<4>; .reg .b32 %t<20>; .reg .b64 %q<40>;
  .reg .{aty} %a<{na1}>; .reg .{aty} %b<{nb1}>; .reg .{cty} %c<{nc1}>;
"""


def mma_ptx(case):
    na, nb, nc = counts(case)
    _, aty = kind_of("f64" if case["a"] == "f64" else "s32")
    _, cty = kind_of(case["d"])
    wide = 8 if case["a"] == "f64" else 4
    cwide = 8 if case["d"] == "f64" else 4
    body = HEAD.format(ptx=case["ptx"], aty=aty, cty=cty, na1=na + 1, nb1=nb + 1, nc1=nc + 1)
    body += f"""
  ld.param.u64 %q0, [pa]; ld.param.u64 %q1, [pb]; ld.param.u64 %q2, [pc]; ld.param.u64 %q3, [pd];
  ld.param.u32 %t0, [iters];
  mov.u32 %t1, %tid.x; mov.u32 %t2, %ctaid.x;
  mad.lo.u32 %t3, %t2, 32, %t1;
  mul.wide.u32 %q4, %t3, {nc * cwide};
  add.u64 %q2, %q2, %q4; add.u64 %q3, %q3, %q4;
  mul.lo.u32 %t4, %t2, %t0; mad.lo.u32 %t4, %t4, 32, %t1;
  mul.wide.u32 %q5, %t4, {na * wide}; add.u64 %q0, %q0, %q5;
  mul.wide.u32 %q6, %t4, {nb * wide}; add.u64 %q1, %q1, %q6;
{load("c", nc, cty, "%q2", cwide)}
LOOP:
{load("a", na, aty, "%q0", wide)}
{load("b", nb, aty, "%q1", wide)}
  {case["op"]} {regs("c", nc)}, {regs("a", na)}, {regs("b", nb)}, {regs("c", nc)};
  add.u64 %q0, %q0, {na * wide * 32}; add.u64 %q1, %q1, {nb * wide * 32};
  sub.u32 %t0, %t0, 1; setp.ne.u32 %p0, %t0, 0;
  @%p0 bra LOOP;
{store("c", nc, cty, "%q3", cwide)}
  ret;
}}
"""
    return body


def wgmma_ptx(case, image):
    na, _, nc = counts(case)
    if not case["from_registers"]:
        na = 0
    _, cty = kind_of(case["d"])
    body = HEAD.format(ptx=case["ptx"], aty="b32", cty=cty, na1=na + 1, nb1=1, nc1=nc + 1)
    first = regs("a", na) if na else "%q10"
    body += f"""
  .shared .align 1024 .b8 s[{SHARED}];
  ld.param.u64 %q0, [pa]; ld.param.u64 %q1, [pb]; ld.param.u64 %q2, [pc]; ld.param.u64 %q3, [pd];
  ld.param.u32 %t0, [iters]; ld.param.u64 %q10, [da]; ld.param.u64 %q11, [db];
  mov.u32 %t1, %tid.x; mov.u32 %t2, %ctaid.x;
  mov.u32 %t5, s; shr.u32 %t6, %t5, 4; cvt.u64.u32 %q12, %t6;
  add.u64 %q10, %q10, %q12; add.u64 %q11, %q11, %q12;
  mad.lo.u32 %t3, %t2, 128, %t1;
  mul.wide.u32 %q4, %t3, {nc * 4};
  add.u64 %q2, %q2, %q4; add.u64 %q3, %q3, %q4;
  mul.lo.u32 %t4, %t2, %t0;
  mul.wide.u32 %q5, %t4, {image}; add.u64 %q1, %q1, %q5;
  mad.lo.u32 %t4, %t4, 128, %t1;
  mul.wide.u32 %q6, %t4, {na * 4}; add.u64 %q0, %q0, %q6;
{load("c", nc, cty, "%q2", 4)}
LOOP:
{load("a", na, "b32", "%q0", 4)}
  shl.b32 %t7, %t1, 4;
COPY:
  cvt.u64.u32 %q7, %t7; add.u64 %q7, %q1, %q7;
  setp.ge.u32 %p1, %t7, {image};
  @%p1 bra COPIED;
  ld.global.v4.b32 {{%t8, %t9, %t10, %t11}}, [%q7];
  add.u32 %t12, %t5, %t7;
  st.shared.v4.b32 [%t12], {{%t8, %t9, %t10, %t11}};
  add.u32 %t7, %t7, 2048;
  bra COPY;
COPIED:
  fence.proxy.async.shared::cta;
  bar.sync 0;
  setp.ne.u32 %p2, %t0, 0;
  wgmma.fence.sync.aligned;
  {case["op"]} {regs("c", nc)}, {first}, %q11, %p2{case["tail"]};
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  bar.sync 0;
  add.u64 %q0, %q0, {na * 4 * 128}; add.u64 %q1, %q1, {image};
  sub.u32 %t0, %t0, 1; setp.ne.u32 %p0, %t0, 0;
  @%p0 bra LOOP;
{store("c", nc, cty, "%q3", 4)}
  ret;
}}
"""
    return body


class Gpu:
    def __init__(self):
        self.cu = ctypes.CDLL("libcuda.so.1")
        self.check("cuInit", 0)
        device = ctypes.c_int()
        self.check("cuDeviceGet", ctypes.byref(device), 0)
        context = ctypes.c_void_p()
        self.check("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.check("cuCtxSetCurrent", context)

    def check(self, name, *arguments):
        status = getattr(self.cu, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self.cu.cuGetErrorName(status, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode()}")

    def function(self, ptx):
        module = ctypes.c_void_p()
        log = ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(5, 6)  # error log buffer and its size
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), 8192)
        try:
            self.check("cuModuleLoadDataEx", ctypes.byref(module), ptx.encode() + b"\0", 2, options, values)
        except RuntimeError as error:
            raise RuntimeError(f"{error}: {log.value.decode()}") from None
        function = ctypes.c_void_p()
        self.check("cuModuleGetFunction", ctypes.byref(function), module, b"k")
        return function

    def upload(self, data):
        at = ctypes.c_uint64()
        data = np.ascontiguousarray(data)
        self.check("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(max(16, data.nbytes)))
        self.check("cuMemcpyHtoD_v2", at, data.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(data.nbytes))
        return at

    def run(self, function, blocks, threads, a, b, c, out_bytes, iters, da=0, db=0):
        held = [self.upload(x) for x in (a, b, c, np.zeros(out_bytes, np.uint8))]
        arguments = [*held, ctypes.c_uint32(iters), ctypes.c_uint64(da), ctypes.c_uint64(db)]
        pointers = (ctypes.c_void_p * 7)(*[ctypes.addressof(x) for x in arguments])
        self.check("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, pointers, None)
        self.check("cuCtxSynchronize")
        out = np.zeros(out_bytes, np.uint8)
        self.check("cuMemcpyDtoH_v2", out.ctypes.data_as(ctypes.c_void_p), held[3], ctypes.c_size_t(out_bytes))
        for at in held:
            self.check("cuMemFree_v2", at)
        return out


def inputs(case, label, ka, kb, kc, iters, blocks):
    """Bytes of A, of B and of C; for wgmma B is the image with A (if in memory) and B."""
    na, nb, nc = counts(case)
    count_a = blocks * iters * case["m"] * case["k"]
    count_b = blocks * iters * case["n"] * case["k"]
    count_c = blocks * case["m"] * case["n"]
    a = pack(elements(case["a"], ka, seed_of(case, label, "a"), count_a), BITS[case["a"]])
    b = pack(elements(case["b"], kb, seed_of(case, label, "b"), count_b), BITS[case["b"]])
    c = pack(elements(case["d"], kc, seed_of(case, label, "c"), count_c), BITS[case["d"]])
    if not case["wgmma"] or case["from_registers"]:
        return a, b, c
    a = a.reshape(blocks * iters, -1)
    b = b.reshape(blocks * iters, -1)
    return np.zeros(16, np.uint8), np.concatenate([a, b], 1).reshape(-1), c


def descriptor(start, lbo, sbo, swizzle=0, base=0):
    return (start >> 4) | (lbo >> 4) << 16 | (sbo >> 4) << 32 | base << 49 | swizzle << 62


def image_bytes(case):
    b = case["n"] * 32
    return b if case["from_registers"] else b + 2048


def probe_case(gpu, case, out):
    image = image_bytes(case) if case["wgmma"] else 0
    ptx = wgmma_ptx(case, image) if case["wgmma"] else mma_ptx(case)
    function = gpu.function(ptx)
    at_b = 0 if case["wgmma"] and case["from_registers"] else 2048
    for label, ka, kb, kc, iters, blocks in sets(case):
        a, b, c = inputs(case, label, ka, kb, kc, iters, blocks)
        out[f"{case['name']}/{label}"] = gpu.run(
            function, blocks, 128 if case["wgmma"] else 32, a, b, c, c.nbytes, iters,
            descriptor(0, 128, 256), descriptor(at_b, 128, 256))


def identity_registers(bits, k):
    """The A registers of a wgmma with A[m][k] = (m mod K == k), thread by thread."""
    one = {16: 0x3C00, 8: 1, 32: 0x3F800000}[bits]
    per = 32 // bits
    words = np.zeros((128, 4), np.uint64)
    for thread in range(128):
        lane = thread % 32
        for r in range(4):
            row = thread // 32 * 16 + lane // 4 + 8 * (r & 1)
            for e in range(per):
                column = (lane % 4) * per + e + (r >> 1) * 4 * per
                if row % k == column:
                    words[thread, r] |= one << (bits * e)
    return words.astype(np.uint32).view(np.uint8)


def positions(bits, part):
    """An image in which each element tells (a part of) its own index."""
    index = np.arange(SHARED * 8 // bits)
    if bits == 16:
        values = (index & 255) if part == 0 else index >> 8
        return values.astype(np.float16).view(np.uint8).copy()
    if bits == 32:
        values = (index & 255) if part == 0 else index >> 8
        return values.astype(np.float32).view(np.uint8).copy()
    return ((index >> (7 * part)) & 127).astype(np.uint8)


IDENTITY_AT = 40960


def identity_image(bits, k):
    """K-major without swizzle: an identity of k columns, for the image's end."""
    one = {16: 0x3C00, 8: 1, 32: 0x3F800000}[bits]
    size = bits // 8
    out = np.zeros(k * 32, np.uint8)
    for row in range(k):
        at = row // 8 * 256 + row * size // 16 * 128 + row % 8 * 16 + row * size % 16
        out[at:at + size] = np.frombuffer(one.to_bytes(size, "little"), np.uint8)
    return out


def probe_descriptors(gpu, out):
    for bits, ty, d in ((16, "f16", "f32"), (8, "s8", "s32"), (32, "tf32", "f32")):
        k = 256 // bits
        parts = 3 if bits == 8 else 2
        for trans in (0, 1):
            if trans and bits != 16:
                continue
            n = 128
            scales = "" if bits == 8 else ", 1, 1"
            common = dict(m=64, k=k, d=d, a=ty, b=ty, ptx="8.4", wgmma=True)
            shape = f"wgmma.mma_async.sync.aligned.m64n%dk{k}.{d}.{ty}.{ty}"
            case_b = dict(common, n=n, op=shape % n, from_registers=True,
                          tail=scales + (f", {trans}" if bits == 16 else ""))
            case_a = dict(common, n=k, op=shape % k, from_registers=False,
                          tail=scales + (f", {trans}, 0" if bits == 16 else ""))
            function_b = gpu.function(wgmma_ptx(case_b, SHARED))
            function_a = gpu.function(wgmma_ptx(case_a, SHARED))
            for label, t, swizzle, lbo, sbo, start, base in DESCRIPTORS:
                if t != trans or (bits != 16 and label not in ("plain", "odd", "start", "base1")):
                    continue
                asked = descriptor(start, lbo, sbo, swizzle, base)
                for part in range(parts):
                    image = positions(bits, part)
                    key = f"{bits}/{trans}/{swizzle}/{label}/{part}"
                    c = np.zeros(64 * n * 4, np.uint8)
                    got = gpu.run(function_b, 1, 128, identity_registers(bits, k), image, c,
                                  c.nbytes, 1, 0, asked)
                    out[f"desc_b/{key}"] = got.view(np.uint32).astype(np.uint32)
                    image[IDENTITY_AT:IDENTITY_AT + k * 32] = identity_image(bits, k)
                    c = np.zeros(64 * k * 4, np.uint8)
                    got = gpu.run(function_a, 1, 128, np.zeros(16, np.uint8), image, c, c.nbytes, 1,
                                  asked, descriptor(IDENTITY_AT, 128, 256))
                    out[f"desc_a/{key}"] = got.view(np.uint32)


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    if "--ptx-only" in sys.argv:
        for case in MMA + WGMMA:
            ptx = wgmma_ptx(case, image_bytes(case)) if case["wgmma"] else mma_ptx(case)
            (folder / f"{case['name']}.ptx").write_text(ptx)
        return
    gpu = Gpu()
    out, errors = {}, []
    began = time.time()
    for case in MMA + WGMMA:
        try:
            probe_case(gpu, case, out)
        except RuntimeError as error:
            errors.append(f"{case['name']}: {error}")
            print(errors[-1])
    np.savez_compressed(folder / "answers.npz", **out)
    print(f"{len(out)} answers after {time.time() - began:.1f} s")
    layout = {}
    try:
        probe_descriptors(gpu, layout)
    except RuntimeError as error:
        print("descriptors:", error)
    np.savez_compressed(folder / "layout.npz", **layout)
    print(f"{len(layout)} layouts after {time.time() - began:.1f} s")


if __name__ == "__main__":
    main()
