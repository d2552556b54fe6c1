"""Indigo: CUDA programs on graphs, with and without planted bugs.

The suite's generator makes every program with data of type int; a program's name tells its planted
bugs (atomicBug, boundsBug, guardBug, raceBug, syncBug). Each is compiled by nvrtc and launched on
four random graphs with all checks under several seeds.
"""

import random
import re
import shutil
import subprocess
import sys

import numpy
from programs import corpus

BUGS = ["atomicBug", "boundsBug", "guardBug", "raceBug", "syncBug"]
SEEDS = 8
# Blocks, threads, vertices: one vertex for each block, and several for each thread. The first and the
# last vertex of some graphs have no neighbours, for some bounds are exceeded only there.
LAUNCHES = [(16, 64, 12, 0), (2, 64, 300, 0), (16, 64, 12, 1), (2, 64, 300, 1)]
HEADER = """
__global__ void test_kernel(int* nindex, int* nlist, data_t* data1, data_t* data2, int n);
"""


def generate(suite, folder):
    """The suite's own generator writes all programs into `folder`."""
    generators = folder / "Generators"
    shutil.copytree(suite / "Generators", generators)
    for source in sorted((generators / "CUDA_sources").glob("*.idg")):
        (folder / "CUDA" / source.stem).mkdir(parents=True)
        command = ["generate_CUDA_codes.py", source, suite / "copyright.txt", folder / "CUDA"]
        subprocess.run([sys.executable, *command], cwd=generators, check=True,
                       stdout=subprocess.DEVNULL)
    return sorted((folder / "CUDA").glob("*/*.cu"))


def device_code(text):
    """The program without its host functions."""
    text = re.split(r"^\s*(?:void serial_code|int verify_result)\(", text, flags=re.M)[0]
    return text.replace('#include "indigo_cuda.h"', HEADER)


def write_launch(folder, blocks, threads, vertices, isolated):
    """A random undirected graph without loops, and data as the suite's host code makes it."""
    rng = random.Random(vertices)
    neighbours = [set() for _ in range(vertices)]
    others = range(isolated, vertices - isolated)
    for vertex in others:
        for other in rng.sample(others, min(len(others), rng.choice([1, 3, 8, 40]))):
            if other != vertex:
                neighbours[vertex].add(other)
                neighbours[other].add(vertex)
    ends = numpy.cumsum([0] + [len(list_) for list_ in neighbours])
    lists = numpy.array([other for list_ in neighbours for other in sorted(list_)])
    size = max(vertices, len(lists))
    data1 = [0] + [rng.randrange(vertices) for _ in range(size - 1)]
    data2 = [0] + [rng.randrange(len(lists)) for _ in range(size - 1)]
    folder.mkdir()
    text = f'kernel = "test_kernel"\ngrid = {blocks}\nblock = {threads}\n'
    for name, values in [("nindex", ends), ("nlist", lists), ("data1", data1), ("data2", data2)]:
        numpy.save(folder / f"{name}.npy", numpy.array(values, dtype=numpy.int32))
        text += f'[[buffer]]\nname = "{name}"\ndtype = "i32"\nshape = [{len(values)}]\n'
        text += f'fill = "{name}.npy"\n[[arg]]\nbuffer = "{name}"\n'
    path = folder / "launch.toml"
    path.write_text(f"{text}[[arg]]\ni32 = {vertices}\n")
    return path


def reports(program, ptx, launches):
    """The first report of each launch, without repetitions."""
    found = []
    for launch in launches:
        command = [program, "run", ptx, launch, "--schedules", str(SEEDS), "--device", "emulator"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode not in (0, 3):
            sys.exit(f"{ptx.name}: {done.stderr}")
        if done.returncode == 3:
            found.append(re.match(r"error: ([^:\n]*)", done.stderr).group(1))
    return "; ".join(sorted(set(found)))


def suite(checkout, toolkit):
    """The programs of the suite."""
    nvrtc = corpus.Nvrtc()
    folder = toolkit.folder
    launches = [write_launch(folder / f"launch{at}", *launch) for at, launch in enumerate(LAUNCHES)]
    for source in generate(checkout, folder):
        options = ["-arch=sm_90", "--generate-line-info"]
        text = nvrtc.compile(device_code(source.read_text()), source.name, options)
        text = text.replace("_Z11test_kernelPiS_S_S_i", "test_kernel")
        ptx = source.with_suffix(".ptx")
        ptx.write_text(text)

        def run(toolkit, source=source, ptx=ptx):
            bugs = [bug for bug in BUGS if bug in source.stem.split("_")]
            found = reports(toolkit.warpsmith, ptx, launches)
            ended = "fault" if found else "ok"
            return [{"program": source.stem, "planted": " ".join(bugs), "reports": found, "ended": ended}]

        yield source.stem, run

