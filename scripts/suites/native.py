"""Suites of C++ programs, which are compiled by nvcc and run on the virtual driver."""

import random
import re
import shutil
from functools import partial

from programs import native

SEEDS = range(8)
# ScoR's clean programs that have no fence after the read of the flag. Its model orders what follows;
# PTX's does not, unless the data is volatile.
NO_ACQUIRE = [
    "norace_interblock_fence_raw",
    "norace_interwarp-block_fence_hrf-indirect",
    "norace_interwarp_blkfence_raw",
    "norace_interwarp_fence_raw",
]
# The same, where the data are atomics of a scope that is too narrow for the next block.
NO_ACQUIRE_OF_ATOMICS = "norace_interwarp-block_fence-atom_hrd-indirect"
# Faults of its clean benchmarks: locks that nothing sets to zero, and a counter that is reset
# without an acquire by the block that counted last.
OTHER_FAULTS = {"matrix-multiplication": "unwritten", "reduction": "race"}


def small(source, name, plain, toolkit):
    """Compiles one of ScoR's small programs, on request without the word volatile."""
    file = toolkit.folder / f"{name}.cu"
    text = source.read_text()
    file.write_text(re.sub(r"\bvolatile\b", "", text) if plain else text)
    return [toolkit.program([file], file.with_suffix(""))]


def scor(plain, checkout, _toolkit):
    """ScoR: 32 small programs whose names tell races of scopes, and 7 benchmarks with a switch."""
    for source in sorted((checkout / "microbenchmarks" / "src").glob("*.cu")):
        lacks = source.stem == NO_ACQUIRE_OF_ATOMICS or plain and source.stem in NO_ACQUIRE
        planted = "race" if source.stem.startswith("race") or lacks else ""
        yield native(source.stem, planted, partial(small, source, source.stem, plain), SEEDS)
    if plain:
        return
    for folder in sorted(path for path in (checkout / "benchmarks").iterdir() if path.is_dir()):
        for racey in (False, True):
            name = f"{folder.name}-racey" if racey else folder.name
            build = partial(benchmark, folder, name, racey)
            planted = "race" if racey else OTHER_FAULTS.get(folder.name, "")
            yield native(name, planted, build, range(2), stdin=INPUTS[folder.name]())


def benchmark(folder, name, racey, toolkit):
    options = ["-DNBLOCKS=4", "-DNTHREADS=64", "-I", folder, *(["-DRACEY"] if racey else [])]
    sources = sorted(folder.glob("*_main.cu")) + sorted(folder.glob("*_kernel.cu"))
    if folder.name == "reduction":
        sources = sources[:1]
    return [toolkit.program(sources, toolkit.folder / name, options)]


def numbers(*head, count, below=10):
    rng = random.Random(1)
    return " ".join(map(str, [*head, *(rng.randrange(below) for _ in range(count))])) + "\n"


def graph():
    rng = random.Random(1)
    edges = sorted({tuple(sorted(rng.sample(range(200), 2))) for _ in range(600)})
    return "\n".join([f"200 {len(edges)}", *(f"{a} {b}" for a, b in edges)]) + "\n"


INPUTS = {
    "1dconv": lambda: numbers(9, 1000, count=1009),
    "graph-coloring": graph,
    "graph-connectivity": graph,
    "matrix-multiplication": lambda: numbers(8, 128, 8, count=2048),
    "reduction": lambda: numbers(1024, count=1024),
    "rule-110": lambda: numbers(1000, 10, count=1000, below=2),
    "uts": lambda: "4 3\n",
}


def demos(checkout, _toolkit):
    """The demonstrations of compute-sanitizer: each has a fault."""
    for folder in ["Initcheck", "Memcheck", "Racecheck", "Suppressions", "Synccheck"]:
        for source in sorted((checkout / folder).glob("*.cu")):

            def build(toolkit, source=source):
                return [toolkit.program([source], toolkit.folder / source.stem)]

            yield native(source.stem, folder, build)


# What a sample needs that is not a CUDA program on one device without a screen.
ELSEWHERE = re.compile(
    r"#\s*include.*(?:cublas|cufft|cusolver|cusparse|curand|npp|nvjpeg|GL/|helper_gl|glut|rendercheck|EGL|d3d|vulkan|mpi\.h|"
    r"FreeImage|nvsci|nvJitLink|nvvm\.h|cudla|nvmedia)",
    re.IGNORECASE,
)
# Sizes at which a sample takes seconds here.
SMALLER = {
    "matrixMul": ["-wA=64", "-hA=64", "-wB=64", "-hB=64"],
    "matrixMulDrv": [],
    "radixSortThrust": ["-n=4096"],
    "reduction": ["--n=4096", "--kernel=6"],
    "scalarProd": [],
    "threadFenceReduction": ["--n=4096"],
    "transpose": ["-dimX=64", "-dimY=64"],
    "nbody": ["-benchmark", "-numbodies=256"],
}


# Samples whose kernels wait for the host, which the emulator takes for a deadlock.
WAITS_FOR_HOST = ["p2pBandwidthLatencyTest", "UnifiedMemoryPerf"]
# Faults of samples, the first of which is meant.
SAMPLE_FAULTS = {
    "simpleAssert": "assert",
    "simpleAssert_nvrtc": "assert",
    # Lanes read what later lanes of their warp write, without a barrier in between.
    "dxtc": "race",
    # Threads read the size of a container while others change it by atomics.
    "newdelete": "race",
    # As in ScoR's reduction.
    "threadFenceReduction": "race",
}


def samples(checkout, _toolkit):
    """NVIDIA's samples that need one device and no other library."""
    folders = [path.parent for path in sorted(checkout.glob("Samples/[0-6]_*/*/CMakeLists.txt"))]
    for folder in folders:
        sources = sorted(path for end in ("*.cu", "*.cpp") for path in folder.glob(end))
        headers = sorted(path for end in ("*.h", "*.cuh") for path in folder.rglob(end))
        texts = [path.read_text(errors="replace") for path in sources + headers]
        if folder.name in WAITS_FOR_HOST or not sources or any(ELSEWHERE.search(text) for text in texts):
            continue
        planted = SAMPLE_FAULTS.get(folder.name, "")
        yield native(folder.name, planted, partial(sample, checkout, folder), cwd=folder.name)


def sample(checkout, folder, toolkit):
    own = toolkit.folder / folder.name
    shutil.copytree(folder, own)
    if folder.name.endswith("_nvrtc"):
        # Their builds put the headers that NVRTC reads beside them.
        for name in ("cooperative_groups.h", "cooperative_groups", "cuda", "nv"):
            found = [path for path in (toolkit.cuda / "include", toolkit.cuda / "include" / "cccl")
                     if (path / name).exists()]
            if found:
                (own / name).symlink_to(found[0] / name)
    options = ["-I", checkout / "Common", "-I", own, "-I", own / "inc", "-std=c++17"]
    options += ["-Xcompiler", "-fopenmp", "-Xcompiler", "-w", "-w"]
    sources = []
    text = "".join(path.read_text(errors="replace") for path in own.glob("*.c*"))
    for source in sorted([*own.glob("*.cu"), *own.glob("*.cpp"), *own.glob("*.c")]):
        # The driver API's samples load their kernels from a file.
        loads = [end for end in ("fatbin", "ptx") if f"{source.stem}64.{end}" in text]
        nvrtc = source.stem.endswith("_kernel") and folder.name.endswith("_nvrtc")
        if loads:
            binary = own / f"{source.stem}64.{loads[0]}"
            toolkit.nvcc([f"-{loads[0]}", "-arch=compute_90", *options, source, "-o", binary])
        elif not nvrtc:
            sources.append(source)
    command = toolkit.program(sources, own / "program", options)
    return [command, *SMALLER.get(folder.name, [])]


# Faults of CUB's examples.
EXAMPLE_FAULTS = {
    # The block that counts last writes what others have read, without an acquire.
    "example_device_topk_keys": "race",
    "example_device_topk_pairs": "race",
    # The sum is computed on a stream that does not wait for others, and read without a wait for it.
    "example_device_env_memory_resource": "race",
    "example_device_reduce_env": "race",
}


def examples(checkout, _toolkit):
    """CUB's examples, each of which checks its results."""
    for source in sorted((checkout / "cub" / "examples").glob("*/*.cu")):

        def build(toolkit, source=source):
            # The examples include helpers of CUB's tests, which include Catch2.
            made = toolkit.folder / "catch"
            (made / "catch2").mkdir(parents=True, exist_ok=True)
            (made / "catch2" / "catch_user_config.hpp").touch()
            folders = [checkout / part for part in ("cub", "thrust", "libcudacxx/include", "c2h/include")]
            folders += [checkout.parent / "Catch2" / "src", made]
            options = [word for folder in folders for word in ("-I", folder)]
            options += ["-std=c++17", "-DCATCH_CONFIG_PREFIX_ALL"]
            return [toolkit.program([source], toolkit.folder / source.stem, options)]

        yield native(source.stem, EXAMPLE_FAULTS.get(source.stem, ""), build)


# CUTLASS's examples that compile within minutes, and sizes that the emulator gets through.
CUTLASS = {
    "00_basic_gemm/basic_gemm.cu": ["128", "64", "32"],
    "04_tile_iterator/tile_iterator.cu": [],
    "05_batched_gemm/batched_gemm.cu": [],
    "cute/tutorial/tiled_copy.cu": [],
    "cute/tutorial/sgemm_1.cu": ["256", "128", "64"],
    "cute/tutorial/sgemm_2.cu": ["256", "128", "64"],
    "cute/tutorial/sgemm_sm80.cu": ["256", "128", "64", "T", "N"],
    "cute/tutorial/hopper/wgmma_sm90.cu": ["256", "128", "256"],
    "cute/tutorial/hopper/wgmma_tma_sm90.cu": ["256", "128", "256"],
    "48_hopper_warp_specialized_gemm/48_hopper_warp_specialized_gemm.cu": ["--m=256", "--n=128", "--k=128", "--iterations=1"],
}


def cutlass(checkout, _toolkit):
    """CUTLASS's examples and CuTe's tutorials."""
    for name, sizes in CUTLASS.items():
        source = checkout / "examples" / name

        def build(toolkit, source=source, sizes=sizes):
            parts = ["include", "tools/util/include", "examples/common"]
            options = [word for part in parts for word in ("-I", checkout / part)]
            options += ["-arch=sm_90a", "-std=c++17", "--expt-relaxed-constexpr", "-w"]
            return [toolkit.program([source], toolkit.folder / source.stem, options), *sizes]

        # Its warps multiply what other warps copy, without a barrier or a proxy fence.
        planted = "race" if source.stem == "wgmma_sm90" else ""
        yield native(source.stem, planted, build)


# Name, repository, and the function that yields programs.
SUITES = {
    "ScoR": ("ScoR", partial(scor, False)),
    "ScoR without volatile": ("ScoR", partial(scor, True)),
    "compute-sanitizer demos": ("compute-sanitizer-samples", demos),
    "CUDA samples": ("cuda-samples", samples),
    "CUB examples": ("cccl", examples),
    "CUTLASS examples": ("cutlass", cutlass),
}
