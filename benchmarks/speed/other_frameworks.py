"""Static profiles of Keras models, ONNX files and JAX functions, beside what each framework or another tool offers."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from .options import Options
from .tables import Table

__all__ = ["measure"]

ROUNDS = 5
#: The functions of `jax_costs` that stand in the table.
FUNCTIONS = ("in a row", "in a scan", "residual_cnn", "lstm", "transformer_encoder")


def measure(options: Options) -> dict[str, Table]:
    """Return a table for each framework."""
    return {
        "Keras": _measure_keras(options),
        "ONNX": _measure_onnx(options),
        "JAX": _measure_jax(options),
    }


def _measure_keras(options: Options) -> Table:
    """Return the times of profiles, and of TensorFlow's profiler of frozen graphs, in traces of ``tf.function``."""
    from keras_trace import MODELS, time_model

    rows = []
    for name in MODELS[: 1 if options.quick else None]:
        alone, ours, other = (measured.median for measured in time_model(name))
        rows.append((name, f"{1e3 * alone:.0f} ms", f"{ours / alone:.2f}", f"{other / alone:.2f}"))
    columns = ("model", "tracing alone", "profilerkit, in traces", "frozen, TensorFlow's profiler, in traces")
    return Table(columns, tuple(rows), columns[2:3])


def _measure_onnx(options: Options) -> Table:
    """Return the times of profiles and of onnx-tool, in first runs (a session of onnxruntime, and its first pass)."""
    from onnx_file_times import time_file
    from onnx_tools import ask_tool, large

    with tempfile.TemporaryDirectory() as folder:
        paths = list(large(Path(folder), options.quick))
        answers, _ = ask_tool("onnx-tool", paths, options.peers)
        rows = []
        for path in paths:
            ours, first, warm = (seconds.clock for seconds in time_file(str(path)))
            other = answers.get(str(path), {}).get("seconds")
            rows.append((
                path.stem,
                f"{1e3 * first:.0f} ms",
                f"{ours / first:.2f}",
                f"{other / first:.2f}" if other else "not there",
                f"{ours / warm:.2f}",
            ))  # fmt: skip
    columns = (
        "model",
        "first run",
        "profilerkit, in first runs",
        "onnx-tool, in first runs",
        "profilerkit, in warm passes",
    )
    return Table(columns, tuple(rows), columns[2:3])


def _measure_jax(options: Options) -> Table:
    """Return the times of traces, in those that XLA takes to compile the function for its cost analysis."""
    from jax_costs import compare_counts, families

    programs = {name: program for _, programs in families() for name, program in programs.items()}
    rows = []
    for name in FUNCTIONS[: 2 if options.quick else None]:
        counts = [compare_counts(programs[name]) for _ in range(ROUNDS)]
        ours, xla = median(item.our_seconds for item in counts), median(item.xla_seconds for item in counts)
        title = f"12 layers {name}" if name.startswith("in a") else name
        rows.append((title, f"{1e3 * xla:.0f} ms", f"{ours / xla:.2f}"))
    columns = ("function", "XLA compiles", "profilerkit, in compilations")
    return Table(columns, tuple(rows), columns[2:])
