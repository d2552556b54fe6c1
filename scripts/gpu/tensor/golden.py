#!/usr/bin/env python3
"""Turns the probe's answers into the lines that emulator/tests/tensor holds the emulator to.

    golden.py answers.npz > emulator/tests/tensor/h200_answers.txt
"""
import sys

import numpy as np

from cases import MMA, WGMMA, seed_of, sets


def fnv(data):
    """FNV-1a of 64 bits, of little-endian words of 32."""
    h = 0xCBF29CE484222325
    for word in np.frombuffer(data.tobytes(), np.uint32).tolist():
        h = ((h ^ word) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def main():
    answers = np.load(sys.argv[1])
    print("# case NAME M N K D A B PTX SOURCE_OF_A INSTRUCTION | SCALES")
    print("# set LABEL KIND_A KIND_B KIND_C STEPS BLOCKS SEED_A SEED_B SEED_C HASH")
    for case in MMA + WGMMA:
        source = "registers" if not case["wgmma"] or case["from_registers"] else "memory"
        print("case", case["name"], case["m"], case["n"], case["k"], case["d"], case["a"], case["b"],
              case["ptx"], source, case["op"], "|" + case.get("tail", ""))
        for label, ka, kb, kc, steps, blocks in sets(case):
            got = answers[f"{case['name']}/{label}"]
            seeds = [seed_of(case, label, role) for role in "abc"]
            print("set", label, ka, kb, kc, steps, blocks, *seeds, f"{fnv(got):016x}")


if __name__ == "__main__":
    main()
