"""MACs of torch models and of their exports by both of torch's exporters.

``python benchmarks/onnx_exports.py [NAME...]``: the models and the reasons are those of
``tests/profilerkit_onnx/test_many_exports.py``.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "examples"))
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from exported_models import CHANGES, EXPORTERS, INVALID, MODELS, REFUSED, built, export_model

from profilerkit_onnx.backend import OnnxBackend
from profilerkit_torch import TorchBackend


def cell(name: str, exporter: str) -> tuple[str, str]:
    """Return the MACs of an export against those of the model, and in which class that falls."""
    if (name, exporter) in REFUSED:
        return f"not exported: {REFUSED[name, exporter]}", "not exported"
    if (name, exporter) in INVALID:
        return f"no valid file: {INVALID[name, exporter]}", "no valid file"
    model, inputs = built(name)
    backend = OnnxBackend()
    proto = export_model(model, inputs, exporter)
    trace = backend.trace(proto, backend.example_inputs(proto))
    difference = trace.macs - TorchBackend().trace(model, inputs).macs
    if trace.failure is not None or trace.missing:
        return f"{trace.failure or trace.missing}", "NOT COUNTED"
    if not difference:
        return "=", "equal"
    change, reason = CHANGES.get((name, exporter), (0, ""))
    named = difference == change
    return f"{difference:+,}: {reason if named else 'NOT EXPLAINED'}", "change named" if named else "NOT EXPLAINED"


def main(names: list[str] | None = None) -> None:
    """Print a line for each model, and how many of each exporter are equal."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    classes: dict[str, Counter[str]] = {exporter: Counter() for exporter in EXPORTERS}
    for name in names or list(MODELS):
        model, inputs = built(name)
        print(f"{name}: {TorchBackend().trace(model, inputs).macs:,} MACs")
        for exporter in EXPORTERS:
            text, kind = cell(name, exporter)
            classes[exporter][kind] += 1
            print(f"    {exporter:<12}{text}", flush=True)
    for exporter, counts in classes.items():
        print(f"{exporter}: " + ", ".join(f"{number} {kind}" for kind, number in counts.most_common()))


if __name__ == "__main__":
    main(sys.argv[1:])
