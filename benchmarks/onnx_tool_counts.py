"""Ask one tool for its MACs of ONNX files: ``python onnx_tool_counts.py onnx-tool FILE...`` prints a line of JSON each.

It needs the tool and onnx, not profilerkit: so the tools can run in an environment of their own.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import version
from io import StringIO
from typing import Any

#: Operators whose work is multiply-accumulates.
PRODUCTS = {
    *("AffineGrid", "Attention", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "Einsum", "GRU", "Gemm", "LSTM"),
    *("MatMul", "MatMulInteger", "QLinearConv", "QLinearMatMul", "RNN"),
}

#: The MACs of a file as a tool has them, and those of products alone where it tells; none for what it does not count.
Count = tuple[float | None, float | None]


def _profilerkit(path: str) -> Count:
    from profilerkit import profile

    status = profile(path, metrics=["macs"]).status("macs")
    counted = status.value if status.completeness.value == "complete" else None
    return counted, counted


def _onnx_tool(path: str) -> Count:
    graph: Any = importlib.import_module("onnx_tool").Model(path).graph
    graph.graph_reorder_nodes()
    graph.shape_infer()
    graph.profile()
    products = [node.macs[0] for node in graph.nodemap.values() if node.op_type in PRODUCTS]
    return graph.macs[0], sum(products)


def _onnx_opcounter(path: str) -> Count:
    counted = importlib.import_module("onnx_opcounter").calculate_macs(importlib.import_module("onnx").load(path))
    return float(counted), None


def _onnxprofile(path: str) -> Count:
    profiler = importlib.import_module("onnxprofile").Profiler()
    profiler.profile(model=path, dynamic_inputs={})
    return profiler.measurements.macs, None


#: By name: what asks the tool.
TOOLS: dict[str, Callable[[str], Count]] = {
    "profilerkit": _profilerkit,
    "onnx-tool": _onnx_tool,
    "onnx-opcounter": _onnx_opcounter,
    "onnxprofile": _onnxprofile,
}


def ask_tool(tool: str, path: str, samples: int) -> dict[str, Any]:
    """Return a tool's MACs of a file and the seconds that it takes, the shortest of some; or its error."""
    seconds: list[float] = []
    try:
        for _ in range(samples):
            start = time.perf_counter()
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                total, products = TOOLS[tool](path)
            seconds.append(time.perf_counter() - start)
    except (Exception, SystemExit) as error:  # whatever a tool raises for a model; some end the process
        return {"path": path, "error": f"{type(error).__name__}: {error}"[:200]}
    return {"path": path, "total": total, "products": products, "seconds": min(seconds)}


def main(tool: str, samples: str, *paths: str) -> None:
    """Print what a tool has for each file."""
    print(json.dumps({"version": version(tool)}))
    ask_tool(tool, paths[0], 1)  # what is imported at first
    for path in paths:
        print(json.dumps(ask_tool(tool, path, int(samples))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
