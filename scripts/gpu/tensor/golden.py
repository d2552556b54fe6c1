#!/usr/bin/env python3
"""Turns the probe's answers into the lines that the emulator is held to.

    golden.py answers.npz > emulator/tests/tensor/h200_answers.txt
    golden.py layout.npz > emulator/tests/tensor/h200_layouts.txt
"""
import sys

import numpy as np

from cases import DESCRIPTORS, MMA, WGMMA, seed_of, sets


def fnv(data):
    """FNV-1a of 64 bits, of little-endian words of 32."""
    h = 0xCBF29CE484222325
    for word in np.frombuffer(data.tobytes(), np.uint32).tolist():
        h = ((h ^ word) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def accumulator(words, columns):
    """The accumulators of 128 threads as 64 rows."""
    thread = np.arange(128)[:, None]
    register = np.arange(columns // 2)[None, :]
    lane = thread % 32
    out = np.zeros((64, columns), np.uint32)
    rows = thread // 32 * 16 + lane // 4 + 8 * (register >> 1 & 1)
    out[rows, 8 * (register >> 2) + 2 * (lane % 4) + (register & 1)] = words.reshape(128, -1)
    return out


def layouts(answers):
    """For each descriptor, a hash of the addresses of its elements, row by row."""
    print("# OPERAND BITS TRANSPOSED SWIZZLE LEADING STRIDE START BASE_OFFSET HASH")
    for operand in "ab":
        for bits in (8, 16, 32):
            k = 256 // bits
            columns = 128 if operand == "b" else k
            for label, trans, swizzle, leading, stride, start, base in DESCRIPTORS:
                key = f"desc_{operand}/{bits}/{trans}/{swizzle}/{label}"
                if f"{key}/0" not in answers:
                    continue
                index = np.zeros((64, columns), np.int64)
                for part in range(3 if bits == 8 else 2):
                    values = accumulator(answers[f"{key}/{part}"], columns)
                    values = values.view(np.int32 if bits == 8 else np.float32).astype(np.int64)
                    index += values << ((7 if bits == 8 else 8) * part)
                if operand == "b":
                    index = index[:k].T
                addresses = np.ascontiguousarray(index * bits // 8).astype(np.uint32)
                print(operand, bits, trans, swizzle, leading, stride, start, base,
                      f"{fnv(addresses):016x}")


def main():
    answers = np.load(sys.argv[1])
    if any(name.startswith("desc_") for name in answers.files):
        return layouts(answers)
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
