#!/usr/bin/env python3
"""Puts an operation of warpsmith beside those of torch and what is built on it, in one process.

    cargo build --release -p warpsmith-benches --example compare_peers
    python3 benches/peers/compare.py attention --set squares --out results

Cases, operands, timing and tables are Rust's (benches/src/operations), which this loads as a shared
library: from WARPSMITH_PEERS_LIBRARY, beside this file, or from target/release/examples. Here peers
are told of a case and enqueue their side on the stream that Rust measures. The module named like the
operation has them: `peers(case)` gives a dict from names to functions, each of which takes the
operands of one copy as a namespace of tensors and gives a function without arguments, which computes
and returns the answers by name. What raises is left out, and its reason is printed.
"""

import ctypes
import gc
import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace

import torch
import torch._dynamo

HERE = Path(__file__).resolve().parent
LIBRARY = "libcompare_peers.so"

# Of a dtype: what __cuda_array_interface__ calls one of its size, and torch's.
DTYPES = {
    "f64": ("<f8", torch.float64),
    "f32": ("<f4", torch.float32),
    "f16": ("<f2", torch.float16),
    "bf16": ("<i2", torch.bfloat16),
    "e4m3": ("|i1", torch.float8_e4m3fn),
    "e5m2": ("|i1", torch.float8_e5m2),
    "i8": ("|i1", torch.int8),
    "i16": ("<i2", torch.int16),
    "i32": ("<i4", torch.int32),
    "i64": ("<i8", torch.int64),
    "u8": ("|u1", torch.uint8),
    "u16": ("<i2", torch.uint16),
    "u32": ("<i4", torch.uint32),
    "u64": ("<i8", torch.uint64),
}


def view(operand, copy):
    """The tensor at an address, on the current device; nothing is copied."""
    typestr, dtype = DTYPES[operand["dtype"]]
    addresses = operand["addresses"]
    size = int(typestr[2:])
    interface = {
        "version": 2,
        "typestr": typestr,
        "shape": tuple(operand["shape"]),
        "strides": tuple(size * stride for stride in operand["strides"]),
        "data": (addresses[copy % len(addresses)], False),
    }
    memory = SimpleNamespace(__cuda_array_interface__=interface)
    tensor = torch.as_tensor(memory, device="cuda")
    if tensor.data_ptr() != interface["data"][0]:
        raise RuntimeError(f"torch copied {operand}")
    return tensor.view(dtype)


class Server:
    """What Rust calls."""

    def __init__(self):
        # Of each peer: its functions and what they returned last, a copy each.
        self.runs, self.results = [], []
        self.answers = {}

    def prepare(self, description):
        self.runs, self.results, self.answers = [], [], {}
        gc.collect()
        torch.cuda.empty_cache()
        # Beyond eight shapes of a function torch.compile would leave it to torch.
        torch._dynamo.reset()
        torch.cuda.set_stream(torch.cuda.ExternalStream(description["stream"]))
        self.answers = {name: view(answer, 0) for name, answer in description["answers"].items()}
        copies = []
        for copy in range(description["copies"]):
            operands = description["operands"].items()
            copies.append(SimpleNamespace(**{name: view(operand, copy) for name, operand in operands}))
        module = importlib.import_module(description["name"].split("/")[0])
        offer = {"peers": [], "absent": []}
        for name, make in module.peers(description["case"]).items():
            try:
                runs = [make(operands) for operands in copies]
                self.check(runs[0]())
                torch.cuda.synchronize()
                self.runs.append(runs)
                self.results.append([None] * len(runs))
                offer["peers"].append(name)
            except Exception as error:
                offer["absent"].append([name, f"{type(error).__name__}: {error}".split("\n")[0][:300]])
        # No pause for rubbish between two events.
        gc.collect()
        gc.disable()
        return offer

    def check(self, answers):
        for name, place in self.answers.items():
            if answers[name].shape != place.shape:
                raise ValueError(f"{name} is {tuple(answers[name].shape)}, want {tuple(place.shape)}")

    def run(self, peer, copy):
        # Kept, so that results rotate through as many places as ours do.
        self.results[peer][copy] = self.runs[peer][copy]()

    def answer(self, peer):
        answers = self.runs[peer][0]()
        for name, place in self.answers.items():
            place.copy_(answers[name])


PREPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t)
ANSWER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t)


class Callbacks(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("prepare", PREPARE), ("run", RUN), ("answer", ANSWER)]


def say(text, room, message):
    data = message.encode()[: room - 1] + b"\0"
    ctypes.memmove(text, data, len(data))


def guarded(call, text, room):
    """0, or 1 with what went wrong as the text: nothing may be raised into Rust."""
    try:
        call()
        return 0
    except BaseException:
        say(text, room, traceback.format_exc(limit=-3))
        return 1


def callbacks(server):
    def prepare(description, text, room):
        return guarded(lambda: say(text, room, json.dumps(server.prepare(json.loads(description)))), text, room)

    def run(peer, copy, text, room):
        try:
            server.run(peer, copy)
            return 0
        except BaseException:
            say(text, room, traceback.format_exc(limit=-3))
            return 1

    def answer(peer, text, room):
        return guarded(lambda: server.answer(peer), text, room)

    cudnn = torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else "absent"
    name = f"torch {torch.__version__} with cuDNN {cudnn}"
    return Callbacks(name.encode(), PREPARE(prepare), RUN(run), ANSWER(answer))


def library():
    places = [HERE / LIBRARY, HERE.parents[1] / "target/release/examples" / LIBRARY]
    named = os.environ.get("WARPSMITH_PEERS_LIBRARY")
    for place in [Path(named)] if named else places:
        if place.is_file():
            return ctypes.CDLL(str(place))
    sys.exit("build it first: cargo build --release -p warpsmith-benches --example compare_peers")


def main():
    sys.path.insert(0, str(HERE))
    torch.set_grad_enabled(False)
    torch.cuda.init()
    # A case compiles a function once for each copy of its operands.
    torch._dynamo.config.recompile_limit = 64
    torch.zeros(1, device="cuda")
    os.environ.setdefault("WARPSMITH_BENCH_DEVICE", "gpu")
    compare = library().warpsmith_compare
    compare.restype = ctypes.c_int
    compare.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(Callbacks)]
    arguments = [argument.encode() for argument in sys.argv]
    served = callbacks(Server())
    argv = (ctypes.c_char_p * len(arguments))(*arguments)
    code = compare(len(arguments), argv, ctypes.byref(served))
    sys.stdout.flush()
    # Without the destructors of two libraries that share a context.
    os._exit(code)


if __name__ == "__main__":
    main()
