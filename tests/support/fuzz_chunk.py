"""Runs a range of seeds, and writes one line of JSON for each: its differences, and how it was counted.

``python fuzz_chunk.py FIRST LAST`` is a process of its own, so that one that dies is found and named by its last line.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
from fuzz_compare import differences, find_truth
from fuzz_generator import program

__all__ = ["TRAINED", "examine", "main"]

#: One seed in so many is compared as a training step too.
TRAINED = 3


#: Seeds of which torch itself makes nothing that could be compared, with the reason.
TORCHS_OWN = {
    9735: "torch 2.13: the gradient of GroupNorm's weights alone, of an input in channels_last, ends the process",
    9800: "torch 2.13: `_int_mm` of so few rows returns what was in memory",
    312117: "torch 2.13: `linalg.eigvals` of a matrix that is not finite ends the process",
}


def examine(seed: int) -> dict[str, Any]:
    """Return what is found of a seed."""
    if seed in TORCHS_OWN:
        return _skip(seed, TORCHS_OWN[seed])
    source, training = program(seed).source, seed % TRAINED == 0
    try:
        truth = find_truth(source, training=training)
    except Exception as error:  # LAPACK may give up on what it has solved a moment before
        return _skip(seed, repr(error))
    found, method = differences(source, truth)
    return {
        "seed": seed,
        "method": method,
        "step": truth.step is not None,
        "macs": truth.run.macs,
        "differences": [[difference.kind, difference.detail] for difference in found],
    }


def _skip(seed: int, reason: str) -> dict[str, Any]:
    nothing: list[list[str]] = []
    return {
        "seed": seed,
        "skipped": reason,
        "method": "",
        "step": False,
        "macs": 0,
        "differences": nothing,
    }


def main(first: int, last: int) -> Iterator[str]:
    torch.set_num_threads(1)
    for seed in range(first, last):
        yield json.dumps({"began": seed})
        began = time.perf_counter()
        found = examine(seed)
        yield json.dumps({**found, "seconds": round(time.perf_counter() - began, 4)})


if __name__ == "__main__":
    for line in main(*map(int, sys.argv[1:])):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
