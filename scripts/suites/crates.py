"""Crates in Rust: each test and each example is a program, in a process of its own."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from programs import ROOT

# Examples of other libraries.
OTHERS = {"08-cupti", "cufile-copy"}
TWO_DEVICES = "two devices"
# What tests and examples need that is not a CUDA program on one device, or not here.
ELSEWHERE = {
    "13-copy-multi-gpu": TWO_DEVICES,
    "driver::result::tests::peer_transfer_contexts": TWO_DEVICES,
    "driver::result::tests::re_associate_context_for_memory_op": TWO_DEVICES,
    "driver::safe::launch::tests::test_peer_memcpy_waits_for_src_stream": TWO_DEVICES,
    "driver::safe::core::tests::test_pinned_copy_is_faster": "the times of a GPU",
    "driver::safe::launch::tests::test_launch_with_half": "NVRTC of CUDA 12",
}
# A function of the host, in a stream, waits for the thread whose call enqueued it.
ELSEWHERE.update(dict.fromkeys([
    "device_buffer::async_allocation_drop_async_orders_free_after_allocation_stream",
    "device_buffer::async_allocation_ordinary_drop_waits_for_cross_stream_work",
    "device_buffer::sync_allocation_allows_async_drop_after_queued_work",
], "functions that wait for the host"))
# Tests of kernels that have faults.
PLANTED = {"driver::safe::launch::tests::test_device_side_assert": "assert"}


def settings(toolkit):
    """The environment in which cargo finds this toolchain, the toolkit, and libclang for bindgen."""
    clang = importlib.util.find_spec("clang")
    if clang is None:
        sys.exit("pip install libclang")
    headers = subprocess.run(["gcc", "-print-file-name=include"], capture_output=True, text=True, check=True)
    toolchain = re.search('channel = "(.*)"', (ROOT / "rust-toolchain.toml").read_text())[1]
    return {
        **toolkit.environment,
        "LIBRARY_PATH": f"{toolkit.lib}:{toolkit.cuda / 'lib'}",
        "CUDA_TOOLKIT_PATH": str(toolkit.cuda),
        "CARGO_TARGET_DIR": str(toolkit.folder / "cargo"),
        "CARGO_INCREMENTAL": "0",
        "CARGO_PROFILE_DEV_DEBUG": "0",
        "LIBCLANG_PATH": str(Path(next(iter(clang.submodule_search_locations))) / "native"),
        "BINDGEN_EXTRA_CLANG_ARGS": f"-I{headers.stdout.strip()}",
        "RUSTUP_TOOLCHAIN": toolchain,
        # cuda-oxide's macros use what is unstable.
        "RUSTC_BOOTSTRAP": "1",
    }


def executables(command, own, environment):
    """Builds targets, and gives the name, the kind and the file of each that compiles."""
    options = ["--message-format=json"]
    built = subprocess.run([*command, *options], cwd=own, env=environment, capture_output=True, text=True)
    found = []
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable"):
            target = message["target"]
            found.append((target["name"], target["kind"][0], Path(message["executable"])))
    if not found:
        sys.exit(built.stderr[-2000:])
    return found


def program(name, command, folder):
    """A program that is built."""

    def one(toolkit):
        ended, reports = toolkit.check(command, (0,), folder, "")
        if name in ELSEWHERE and ended != "ok" and not reports:
            print(f"{name}: needs {ELSEWHERE[name]}", flush=True)
            ended = "refused"
        return [{"program": name, "planted": PLANTED.get(name, ""), "reports": reports, "ended": ended}]

    return name, one


def cargo(packages, members, options, checkout, toolkit):
    """Tests and examples of packages, which are folders of the repository. Of its workspace, only
    these members are kept: others need compilers."""
    own = toolkit.folder / checkout.name
    shutil.copytree(checkout, own, ignore=shutil.ignore_patterns("target", ".git"))
    if members:
        manifest = own / "Cargo.toml"
        kept = f"members = {json.dumps(members)}"
        manifest.write_text(re.sub(r"(?sm)^members = \[.*?^\]", lambda _: kept, manifest.read_text()))
    toolkit.environment = environment = settings(toolkit)
    for package in packages:
        folder = own / package
        yield from tests(folder, options, environment, toolkit)
        if list(folder.glob("examples/*.rs")):
            build = ["cargo", "build", "--keep-going", "--examples", *options]
            for name, _, file in executables(build, folder, environment):
                if name not in OTHERS:
                    yield program(name, [file], folder)


def tests(folder, options, environment, toolkit):
    """The tests of a package, also those that want to be alone in their process."""
    build = ["cargo", "test", "--no-run", "--lib", "--tests", *options]
    for name, kind, file in executables(build, folder, environment):
        command = [toolkit.warpsmith, "check", "--", file, "--list", "--format=terse"]
        listed = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
        prefix = "" if kind == "lib" else f"{name}::"
        for test in re.findall(r"^(\S+): test$", listed.stdout, flags=re.M):
            words = ["--exact", test, "--include-ignored", "--test-threads=1"]
            yield program(prefix + test, [file, *words], folder)


CUDARC = ["--no-default-features", "--features", "std,driver,nvrtc,f16,cuda-13000,dynamic-loading"]
OXIDE = ["crates/cuda-core", "crates/cuda-async"]

SUITES = {
    "cudarc": ("cudarc", partial(cargo, [""], [], CUDARC)),
    "cust": ("rust-cuda", partial(cargo, ["crates/cust"], [], [])),
    "cuda-oxide's cuda-core": ("cuda-oxide", partial(cargo, OXIDE, [*OXIDE, "crates/cuda-host"], [])),
}
