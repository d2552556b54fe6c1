"""Test suites in Python: each test is a program. They run under pytest, a process for each file."""

import sys
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from programs import findings, run

FILE_SECONDS = 600


# Kinds of reports after which kernels and the program go on.
PASSING = {"data race", "read of uninitialised memory", "use of an unwritten register"}
# Most runs of a file. A fault leaves its process without a context, so the tests after it run again.
ROUNDS = 8


def pytest(module, folder, options, toolkit):
    """The tests of one Python module."""
    ended, left_out = {}, []
    for _ in range(ROUNDS):
        chosen = ["-k", "not (" + " or ".join(left_out) + ")"] if left_out else []
        rows = run_pytest(module, folder, [*options, *chosen], toolkit)
        for row in rows:
            ended[row["program"]] = row
            lasting = set(filter(None, row["reports"].split("; "))) - PASSING
            if lasting and row["program"] not in left_out:
                left_out.append(row["program"].rsplit("::", 1)[-1])
                break
        else:
            break
    return list(ended.values())


def run_pytest(module, folder, options, toolkit):
    results = toolkit.folder / f"{module}.xml"
    results.unlink(missing_ok=True)
    command = [toolkit.warpsmith, "check", "--keep-going", "--", sys.executable, "-m", "pytest", "-q",
               "-o", "junit_logging=all", f"--junitxml={results}", *options, "--pyargs", module]
    done = run(command, FILE_SECONDS, cwd=folder, env=toolkit.environment)
    name = module.rsplit(".", 1)[-1]
    if done is None or not results.exists():
        ended = "slow" if done is None else "refused"
        return [{"program": name, "planted": "", "reports": "", "ended": ended}]
    rows = []
    for case in ElementTree.parse(results).iter("testcase"):
        test = f"{name}::{case.get('name')}"
        failure = case.find("failure") if case.find("error") is None else case.find("error")
        ended = "refused" if case.find("skipped") is not None else "ok"
        if failure is not None:
            ended = "refused" if test in ELSEWHERE else "status 1"
            print(f"{test}: {failure.get('message')[:300]}", flush=True)
        reports = findings(case.findtext("system-err") or "")
        rows.append({"program": test, "planted": PLANTED.get(test, ""), "reports": reports,
                     "ended": ended if ended == "refused" or not reports else "fault"})
    return rows


# Tests that fail without a device, too: numba's own cache of another version of numba.
ELSEWHERE = {
    "test_caching::test_cpu_and_cuda_reuse",
    "test_caching::test_cpu_and_cuda_targets",
}
# Tests of numba-cuda that have faults.
PLANTED = {
    # Shared memory that nothing wrote is stored, once by two blocks to one place.
    "test_sm::test_issue_2393": "unwritten",
    "test_freevar::test_freevar": "unwritten",
    # An mbarrier is used before the block knows that it is initialised.
    "test_cooperative_groups::test_external_cooperative_func": "race",
    "test_sm_creation::test_global_build_tuple": "unwritten",
    "test_sm_creation::test_global_constant_tuple": "unwritten",
    "test_sm_creation::test_global_constants": "unwritten",
    # Arrays that nothing wrote are transposed.
    "test_array::test_array_like_2d_view_f_transpose": "unwritten",
    "test_array::test_array_like_2d_view_transpose_device": "unwritten",
    "test_cuda_ndarray::test_device_array_like_2d_f_transpose": "unwritten",
    "test_cuda_ndarray::test_device_array_like_2d_transpose": "unwritten",
    # Arrays of 10 elements are read and written up to the 16th.
    "test_dispatcher::test_dispatcher_cpointer_arguments": "bounds",
    # A word of shared memory is changed as if it were a tensor map of 128 bytes.
    "test_cuda_driver::test_device_arch_specific": "bounds",
    # Arrays of 1 element are written up to the 10th.
    "test_localmem::test_struct_model_type_arr": "bounds",
}


def numba(checkout, _toolkit):
    """numba-cuda's tests of kernels and of the driver, as its package has them."""
    import numba_cuda

    tests = Path(numba_cuda.__file__).parent / "numba" / "cuda" / "tests"
    # The suite makes errors of warnings; one of them says that there is no nvJitLink.
    options = ["-o", "addopts=--benchmark-disable"]
    for library in ("cuda.bindings.nvjitlink", ".*nvJitLink.*"):
        options += ["-W", f"ignore:{library}:RuntimeWarning"]
    for part in ("cudapy", "cudadrv", "doc_examples"):
        for file in sorted((tests / part).glob("test_*.py")):
            module = f"numba.cuda.tests.{part}.{file.stem}"
            yield file.stem, partial(pytest, module, checkout / "testing", options)


SUITES = {"numba-cuda": ("numba-cuda", numba)}
