"""Runs other people's CUDA programs on the emulator, and counts what it finds.

    python scripts/suites CHECKOUTS [SUITE ..] [--warpsmith PROGRAM] [--jobs N] [--only REGEX]

CHECKOUTS is a folder with clones of

    https://github.com/burtscher/IndigoSuite
    https://github.com/csl-iisc/ScoR
    https://github.com/NVIDIA/compute-sanitizer-samples
    https://github.com/NVIDIA/cuda-samples
    https://github.com/NVIDIA/cccl and https://github.com/catchorg/Catch2
    https://github.com/NVIDIA/cutlass
    https://github.com/NVIDIA/numba-cuda
    https://github.com/chelsea0x3b/cudarc
    https://github.com/Rust-GPU/rust-cuda
    https://github.com/NVlabs/cuda-oxide

each under its repository's name. Suites whose clone is missing keep their lines of the table. The
results go to docs/suites.csv and docs/suites.md, a line for each suite, and docs/suite-programs.csv,
a line for each program. Needs g++ and cargo but no GPU:

    pip install numpy nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt nvidia-cuda-runtime \\
        nvidia-cuda-nvrtc nvidia-cuda-cccl nvidia-cuda-profiler-api \\
        nvidia-curand numba-cuda 'pytest<9' pytest-benchmark cffi ml_dtypes filecheck psutil libclang
"""

import argparse
import csv
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True
import crates  # noqa: E402
import indigo  # noqa: E402
import native  # noqa: E402
import tests  # noqa: E402
from programs import ROOT, Toolkit  # noqa: E402

SUITES = {"Indigo": ("IndigoSuite", indigo.suite), **native.SUITES, **tests.SUITES, **crates.SUITES}
PROGRAMS = ROOT / "docs" / "suite-programs.csv"
TABLE = ROOT / "docs" / "suites.csv"
PAGE = ROOT / "docs" / "suites.md"
COUNTS = ["right", "found", "false", "missed", "wrong", "refused", "slow"]


def outcome(row):
    """What a program counts as. One with a planted bug is found or missed."""
    if row["ended"] in ("refused", "slow"):
        return row["ended"]
    if row["planted"] == "race":
        return "found" if "data race" in row["reports"] else "missed"
    if row["planted"]:
        return "found" if row["reports"] else "missed"
    if row["reports"]:
        return "false"
    return "right" if row["ended"] == "ok" else "wrong"


def read(path):
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def show(rows):
    """Puts the table into the page, which has one table."""
    lines = ["|".join(["", *rows[0], ""]), "|---" + "|--:" * (len(rows[0]) - 1) + "|"]
    lines += ["|".join(["", *map(str, row.values()), ""]) for row in rows]
    text = PAGE.read_text()
    table = re.search(r"(?:^\|.*\n)+", text, flags=re.M)
    PAGE.write_text(text.replace(table[0], "\n".join(lines) + "\n"))


def keep(name, ran, left):
    """Writes what programs of a suite gave; those that are `left` keep their lines."""
    programs, table = read(PROGRAMS), {row["suite"]: row for row in read(TABLE)}

    def is_old(row):
        return row["suite"] != name or {row["program"], row["program"].split("::")[0]} & left

    programs = [row for row in programs if is_old(row)] + [row for rows, _ in ran for row in rows]
    rows = [row for row in programs if row["suite"] == name]
    counts = {count: sum(row["outcome"] == count for row in rows) for count in COUNTS}
    seconds = round(sum(seconds for _, seconds in ran))
    if left:
        seconds += int(table.get(name, {}).get("seconds", 0))
    table[name] = {"suite": name, "programs": len(rows), **counts, "seconds": seconds}
    known = list(SUITES)
    write(PROGRAMS, sorted(programs, key=lambda row: (known.index(row["suite"]), row["program"])))
    rows = sorted(table.values(), key=lambda row: known.index(row["suite"]))
    write(TABLE, rows)
    show(rows)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("checkouts", type=Path)
    arguments.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    arguments.add_argument("--warpsmith", default="warpsmith")
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--only", metavar="REGEX", help="of each suite, these programs (tests: files) alone")
    arguments = arguments.parse_args()
    only = re.compile(arguments.only or "")
    for name in arguments.suites or SUITES:
        repository, suite = SUITES[name]
        checkout = arguments.checkouts.resolve() / repository
        if not checkout.is_dir():
            print(f"{name}: no {checkout}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            toolkit = Toolkit(arguments.warpsmith, Path(folder))

            def run(named):
                program = named[1]
                start = time.monotonic()
                rows = [{"suite": name, **row} for row in program(toolkit)]
                for row in rows:
                    row["outcome"] = outcome(row)
                    print(f"{name}: {row['program']}: {row['outcome']} {row['reports']}", flush=True)
                return rows, time.monotonic() - start

            with ThreadPoolExecutor(arguments.jobs) as pool:
                chosen, left = [], set()
                start = time.monotonic()
                for named in suite(checkout, toolkit):
                    if only.search(named[0]):
                        chosen.append(named)
                    else:
                        left.add(named[0])
                # Crates are built before it is known what tests they have.
                ran = [([], time.monotonic() - start), *pool.map(run, chosen)]
        keep(name, ran, left)
    print(TABLE.read_text())


main()
