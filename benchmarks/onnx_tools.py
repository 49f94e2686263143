"""MACs of ONNX files by several tools: exact cases out of how many, seconds, and both beside a run of onnxruntime.

``python benchmarks/onnx_tools.py [--peers PYTHON] [--quick]``: the interpreter that has the other tools, if it is not
this one. Each tool runs in a process of its own. Cases: operators whose MACs the tests of the ONNX backend write out by
hand, and exports of torch models, whose MACs are those of torch and what the export changes. Tools that count additions
and activations among the MACs are held to the products alone, where they tell them apart.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import onnx
import torch
from onnx_tool_counts import TOOLS
from trace_tools import MODELS as LARGE

sys.path.append(str(Path(__file__).parents[1] / "examples"))
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
sys.path.append(str(Path(__file__).parents[1] / "tests" / "profilerkit_onnx" / "costs"))

from exported_models import CHANGES, INVALID, MODELS, REFUSED, Tupled, built, export_model
from onnx_graphs import make_model
from test_closed_forms_onnx import CASES

from profilerkit import ModelInputs
from profilerkit_torch import TorchBackend

HERE = Path(__file__).parent
EXPORTER = "TorchScript"
#: Runs of a tool for each file; the shortest is printed, as others may use the machine.
SAMPLES = 3


def operators(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield a file for each operator with a closed form that has products, and its MACs."""
    for index, (op, arrays, attributes, macs, _) in enumerate(CASES):
        if not macs:
            continue
        names = ["" if array is None else f"x{index}" for index, array in enumerate(arrays)]
        values = {name: array for name, array in zip(names, arrays, strict=True) if name}
        weights = {name: array for name, array in values.items() if array.size <= 8 and array.dtype.kind != "f"}
        inputs = {name: array for name, array in values.items() if name not in weights}
        node = onnx.helper.make_node(op, names, ["y"], **attributes)
        path = folder / f"{index}-{op}.onnx"
        onnx.save(make_model([node], inputs, weights), path)
        yield path, macs


def networks(folder: Path, quick: bool) -> Iterator[tuple[Path, int]]:
    """Yield a file for each model of the tests that can be exported, and the MACs of the model as exported."""
    left_out = {name for name, exporter in (*REFUSED, *INVALID) if exporter == EXPORTER}
    for index, name in enumerate(name for name in MODELS if name not in left_out):
        if quick and index % 8:
            continue
        model, inputs = built(name)
        macs = TorchBackend().trace(model, inputs).macs + CHANGES.get((name, EXPORTER), (0, ""))[0]
        path = folder / f"{name.replace('/', '-')}.onnx"
        onnx.save(export_model(model, inputs, EXPORTER), path)
        yield path, macs


def large(folder: Path, quick: bool) -> Iterator[Path]:
    """Yield a file for each network of real size: an image of 224 x 224, or 128 words."""
    for name in list(LARGE)[: 2 if quick else -1]:
        model, x = LARGE[name]()
        inputs = ModelInputs(x)
        if hasattr(model, "config") and x.dtype == torch.int64:  # it reads words
            model.config.use_cache, model.config.return_dict = False, True  # type: ignore[union-attr]
            model = Tupled(model, ["input_ids", "attention_mask"])
            inputs = ModelInputs(x, torch.ones_like(x))
        path = folder / f"{name.replace('/', '')}.onnx"
        onnx.save(export_model(model.eval(), inputs, EXPORTER), path)
        yield path


def ask_tool(tool: str, paths: list[Path], python: str) -> tuple[dict[str, dict[str, Any]], str]:
    """Return what a tool says of each file by its path, and its version, or the last line of its error."""
    command = [python, str(HERE / "onnx_tool_counts.py"), tool, str(SAMPLES), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    by_path = {answer["path"]: answer for answer in answers if "path" in answer}
    if not answers or all("error" in answer for answer in by_path.values()):
        errors = [answer["error"] for answer in by_path.values()] or done.stderr.strip().splitlines()[-1:]
        return {}, f"does not run: {errors[0] if errors else 'no answer'}"
    return by_path, str(answers[0]["version"])


def exact(answers: Mapping[str, dict[str, Any]], expected: Mapping[Path, int]) -> tuple[int, int, float]:
    """Return how many files a tool has exactly, how many it refuses, and its median seconds for one."""
    right = refused = 0
    seconds = []
    for path, macs in expected.items():
        answer = answers.get(str(path), {"error": "no answer"})
        if "error" in answer:
            refused += 1
            continue
        seconds.append(answer["seconds"])
        right += macs in (answer["total"], answer["products"])
    return right, refused, median(seconds) if seconds else 0.0


def counts(folder: Path, peers: str, quick: bool) -> None:
    """Print how many cases each tool has exactly."""
    folders = folder / "operators", folder / "networks"
    for one_folder in folders:
        one_folder.mkdir()
    cases = [dict(operators(folders[0])), dict(networks(folders[1], quick))]
    print(f"exact of {len(cases[0])} operators and {len(cases[1])} networks (refused), median milliseconds of one:\n")
    for tool in TOOLS:
        answers, version = ask_tool(tool, [*cases[0], *cases[1]], sys.executable if tool == "profilerkit" else peers)
        if not answers:
            print(f"{tool:<16} {version}")
            continue
        cells = [exact(answers, expected) for expected in cases]
        row = "".join(f"{right:>6} ({refused}) {1000 * seconds:>8.1f} ms" for right, refused, seconds in cells)
        print(f"{tool + ' ' + version:<24}{row}", flush=True)


def times(folder: Path, quick: bool) -> None:
    """Print what a static profile of a file takes beside a run of it, in a process without torch."""
    paths = [str(path) for path in large(folder, quick)]
    subprocess.run([sys.executable, str(HERE / "onnx_file_times.py"), *paths], check=True)


def main(arguments: list[str] | None = None) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", metavar="PYTHON", default=sys.executable, help="the interpreter with other tools")
    parser.add_argument("--quick", action="store_true", help="fewer models")
    parser.add_argument("--only", choices=("counts", "times"), help="one of the two tables")
    options = parser.parse_args(arguments or [])
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as name:
        if options.only != "times":
            counts(Path(name), options.peers, options.quick)
        if options.only != "counts":
            times(Path(name), options.quick)


if __name__ == "__main__":
    main(sys.argv[1:])
