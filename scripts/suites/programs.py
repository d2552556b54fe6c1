"""Compiles programs, runs them with all checks, and says how they ended."""

import importlib.util
import os
import re
import signal
import subprocess
from importlib.machinery import SourceFileLoader
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
loader = SourceFileLoader("corpus", str(ROOT / "scripts" / "corpus"))
corpus = importlib.util.module_from_spec(importlib.util.spec_from_loader("corpus", loader))
loader.exec_module(corpus)

COMPILE_SECONDS = 600
RUN_SECONDS = 120


def run(command, seconds, input="", **options):
    """Runs a command; None if it takes too long. Then all that it has started ends with it."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True,
                               errors="replace", start_new_session=True, **options)
    try:
        stdout, stderr = process.communicate(input, timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def findings(text):
    """The kinds of the reports in a program's output."""
    kinds = re.findall(r"^error: ([^:\n]*).*\n --> ", text, flags=re.M)
    return "; ".join(sorted(set(kinds)))


class Refused(Exception):
    """A program that cannot be compiled or loaded: why."""


class Toolkit:
    """The compilers of the pip packages, and the emulator."""

    def __init__(self, warpsmith, folder):
        self.warpsmith = warpsmith
        self.folder = folder
        self.cuda, _ = corpus.cuda_root()
        # nvcc's linker looks for the names that a toolkit's installer makes.
        self.lib = folder / "lib"
        self.lib.mkdir()
        (self.lib / "libcudart.so").symlink_to(next((self.cuda / "lib").glob("libcudart.so.*")))
        (self.lib / "libnvrtc.so").symlink_to(next((self.cuda / "lib").glob("libnvrtc.so.*")))
        path = [str(self.cuda / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, path)),
                            "CUDA_PATH": str(self.cuda), "CUDA_HOME": str(self.cuda)}
        # The driver's library, for the linker: all names, and nothing in them.
        header = (self.cuda / "include" / "cuda.h").read_text(errors="replace")
        names = sorted(set(re.findall(r"\bcu[A-Z]\w*", header)))
        stub = folder / "libcuda.c"
        stub.write_text("".join(f"void {name}(void) {{}}\n" for name in names))
        driver = ["gcc", "-w", "-shared", "-Wl,-soname,libcuda.so.1", stub, "-o"]
        subprocess.run([*driver, self.lib / "libcuda.so"], check=True)

    def nvcc(self, arguments, cwd=None):
        """Runs nvcc; Refused if it fails."""
        command = [self.cuda / "bin" / "nvcc", "-I", self.cuda / "include" / "cccl", *arguments]
        done = run(command, COMPILE_SECONDS, cwd=cwd)
        if done is None:
            raise Refused("nvcc takes too long")
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines()
            errors = [line for line in lines if re.search("error[: ]|undefined|cannot find", line)] or lines
            raise Refused(re.sub(r"\S*/", "", errors[0] if errors else "nvcc fails")[:160])

    def program(self, sources, output, options=()):
        """Compiles a program on the runtime API or the driver API, with PTX in it."""
        libraries = ["-L", self.lib, "-L", self.cuda / "lib", "-lcuda", "-lnvrtc"]
        if not any(str(option).startswith("-arch") for option in options):
            options = ["-arch=sm_90", *options]
        self.nvcc(["-cudart", "shared", "-lineinfo", *options, *sources, "-o", output, *libraries])
        return output

    def check(self, command, seeds, cwd, stdin):
        """Runs a program under seeds until one has a report: how it ended, and what it reports."""
        ended = "ok"
        for seed in seeds:
            checked = [self.warpsmith, "check", "--keep-going", "--seed", str(seed), "--", *command]
            done = run(checked, RUN_SECONDS, cwd=cwd, env=self.environment, input=stdin)
            if done is None:
                return "slow", ""
            reports = findings(done.stderr)
            if done.returncode == 3 or reports:
                return "fault", reports
            output = done.stderr + done.stdout
            # Samples waive themselves where the device lacks something.
            lacks = re.search("^.*(not supported|unsupported|waiv|error = 0209).*$", output, flags=re.M | re.I)
            if done.returncode != 0:
                ended = "refused" if lacks else f"status {done.returncode}"
                why = lacks[0] if lacks else output.strip().splitlines()[-3:]
                print(f"{Path(command[0]).parent.name}: {why}", flush=True)
        return ended, ""


def native(name, planted, build, seeds=(0,), cwd="", stdin=""):
    """A program that is compiled to a file: `build` takes the toolkit and gives the command. `cwd`
    is the folder it runs in, within the toolkit's."""

    def run(toolkit):
        row = {"program": name, "planted": planted}
        try:
            ended, reports = toolkit.check(build(toolkit), seeds, toolkit.folder / cwd, stdin)
        except Refused as why:
            ended, reports = "refused", ""
            print(f"{name}: {why}", flush=True)
        return [{**row, "reports": reports, "ended": ended}]

    return name, run
