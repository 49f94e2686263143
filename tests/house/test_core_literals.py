"""The core names no metric, no framework and no other package of the project in its strings, but where a reason is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from source_tree import packages, read_tree, walk

from profilerkit_metrics.discovery import status_keys

CORE = packages()["profilerkit"]
FRAMEWORKS = {"torch", "tensorflow", "onnx", "jax", "keras"}
#: Metrics that share their name with a column of the core's own tables of layers and operators.
COLUMNS = {"macs", "flops", "trainable_params"}

#: By file the names that stand in its strings, with the reason.
ALLOWED = {
    # The columns of a sweep's rows.
    "times/batch_sweep.py": {"execution_time", "throughput", "memory_footprint"},
    # Keras' own layers, which three backends count.
    "backend_kit/keras_kinds.py": {"keras"},
    "backend_kit/keras_calls.py": {"keras"},
    "backend_kit/keras_layers.py": {"keras"},
    # Whose tensors become arrays, for the backends that run on arrays.
    "backend_kit/numpy_data.py": {"torch", "tensorflow"},
    # Libraries that write log lines, or do not survive a fork: facts about a process, whatever the backend.
    "cli/quiet_imports.py": {"tensorflow"},
    "isolation/forkserver.py": {"tensorflow", "jax"},
    # Public functions of plugins are handed on lazily, from this one table.
    "__init__.py": {"profilerkit_audits", "profilerkit_predict"},
}


def literals(tree: ast.Module) -> Iterator[str]:
    """Yield the strings of a module but docstrings and the names in ``__all__``."""
    left_out: set[int] = set()
    for node in walk(tree):
        if isinstance(node, ast.Expr):
            left_out.add(id(node.value))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            left_out.update(map(id, ast.walk(node)))
    for node in walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            yield node.value


def names_in(tree: ast.Module) -> set[str]:
    """Return the metrics, frameworks and packages that the strings of a module name: as a whole, or before a dot."""
    named = {key.NAME for key in status_keys()} - COLUMNS | FRAMEWORKS | packages().keys() - {"profilerkit"}
    return named & {text.partition(".")[0].partition(":")[0] for text in literals(tree)}


def test_the_core_names_no_metric_and_no_plugin() -> None:
    found = {
        path.relative_to(CORE).as_posix(): names
        for path in sorted(CORE.rglob("*.py"))
        # The conformance suite asks a backend for the metrics that every profile has.
        if not path.is_relative_to(CORE / "testing") and (names := names_in(read_tree(path)))
    }
    assert found == ALLOWED, "the core writes a word that a metric is called by; a new metric needs another name"


def test_a_name_in_a_string_is_found_and_a_docstring_is_none() -> None:
    lines = (
        "'''layer_times'''",
        "__all__ = ['operator_table']",
        "row['macs'], statuses.get('sparsity'), import_later('profilerkit_audits.plan:Plan'), 'torch' in sys.modules",
    )
    assert names_in(ast.parse("\n".join(lines))) == {"sparsity", "profilerkit_audits", "torch"}
