"""Reads one damaged model file after another, in a process of its own that may well end.

Run it as ``fuzzed_models.py KIND FOLDER FIRST LAST``. For each file it says ``refused`` with the error, or the numbers
that came of it.
"""

from __future__ import annotations

import json
import os
import random
import sys
import warnings
from pathlib import Path
from typing import Any

from hostile import change_at_random

SUFFIX = {"pt2": ".pt2", "keras": ".keras"}


def numbers(kind: str, path: Path) -> Any:
    """Return what is counted of the model in a file, and its weights."""
    from profilerkit import profile

    if kind == "pt2":
        from profilerkit_torch.loaders import load_file

        loaded = load_file(str(path), trust=True)
        program: Any = loaded.model
        report = profile(program, loaded.inputs, metrics=["macs", "total_params"])
        weights = [float(value.double().sum()) for _, value in sorted(program.state_dict.items())]
    else:
        import tensorflow as tf

        report = profile(str(path), tf.zeros([1, 4]), backend="tensorflow", metrics=["macs", "total_params"])
        from profilerkit_tensorflow.loaders import open_model

        weights = [float(value.numpy().sum()) for value in open_model(path).variables]
    return [report["macs"], report["total_params"], [round(value, 4) for value in weights]]


def main(kind: str, folder: Path, first: int, last: int) -> None:
    """Read the files of these seeds."""
    whole = (folder / f"whole{SUFFIX[kind]}").read_bytes()
    path = folder / f"damaged{SUFFIX[kind]}"
    for seed in range(first, last):
        path.write_bytes(change_at_random(whole, random.Random(seed)) if seed else whole)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                said: Any = numbers(kind, path)
        except Exception as error:
            said = f"refused {type(error).__name__}: {error}"
        sys.stdout.write(json.dumps([seed, said]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
