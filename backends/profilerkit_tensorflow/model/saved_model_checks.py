"""Checks of the content of a saved model of TensorFlow before it is loaded: its graphs may run code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from profilerkit.hooks.extension import make_refusal

from ..compat.saved_models import make_saved_model

__all__ = ["require_harmless_saved_model"]

#: Operators that run Python code, or write files whose names are in the graph.
_UNSAFE_OPERATORS = frozenset(["PyFunc", "PyFuncStateless", "EagerPyFunc", "WriteFile", "SaveSlices", "Save"])


def require_harmless_saved_model(folder: Path) -> None:
    """Raise `InputError` for a saved model whose graph runs Python code or writes files."""
    saved = make_saved_model()
    try:
        saved.ParseFromString((folder / "saved_model.pb").read_bytes())
    except MemoryError:
        raise
    except Exception:  # TensorFlow reports the fault on loading
        return
    for function, node in _list_nodes(saved):
        if _is_unsafe(node):
            where = f"{node.name} of {function}" if function else node.name
            raise make_refusal(folder, f"runs {node.op} ({where})")


def _list_nodes(saved: Any) -> Iterator[tuple[str, Any]]:
    """Yield the nodes of the graphs of a saved model, each with the name of its function; those outside have none."""
    for graph in saved.meta_graphs:
        yield from (("", node) for node in graph.graph_def.node)
        for function in graph.graph_def.library.function:
            yield from ((function.signature.name, node) for node in function.node_def)


def _is_unsafe(node: Any) -> bool:
    """Return whether a node runs Python code or writes files."""
    prints_to_file = node.op == "PrintV2" and node.attr["output_stream"].s.startswith(b"file:")
    return node.op in _UNSAFE_OPERATORS or prints_to_file
