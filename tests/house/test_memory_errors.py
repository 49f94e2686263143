"""An error of memory comes through as itself: no code of ours says another for it, or goes on without a word."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from source_tree import ROOT, packages, read_tree

from profilerkit import ModelInputs
from profilerkit.backend_kit.failures import explain_failure
from profilerkit.hooks.plugin_info import PluginInfo, tolerate

_BROAD = {"Exception", "BaseException"}
#: Functions that make another error of one, and raise one of memory instead.
_GUARDS = {"explain_failure", "explain_failed_pass"}
_KEPT = "it is kept as the failure of one part, and said with it; the other parts go on"
_SAID = "its text is what the command shows of this part"
_ENDS = "the process ends, or says it to another one"
_PUTS_BACK = "the rest is put back before it is raised"
#: The places that take every error, and why; by the file and the function.
_ALLOWED = {
    "plugins/profilerkit_audits/listing.py ask_loader": _SAID,
    "plugins/profilerkit_audits/engine.py": _KEPT,
    "profilerkit/cli/completions.py": "the completion of a shell shows nothing then",
    "profilerkit/cli/examining.py": _SAID,
    "profilerkit/isolation/child.py": _ENDS,
    "profilerkit/isolation/forkserver.py": _ENDS,
    "profilerkit/isolation/supervisor.py": _ENDS,
    "profilerkit/piping/computation.py run": _KEPT,
    "profilerkit/piping/joint_measurements.py": "each model is then measured alone, which raises it again",
    "plugins/profilerkit_predict/prediction/measuring.py": _KEPT,
    "profilerkit/process/clean_output.py": "only the buffer of C is not emptied then",
    "profilerkit/process/restoring.py": _PUTS_BACK,
    "profilerkit/testing/expectations.py catch_error": "it is returned",
    "metrics/profilerkit_metrics/batch_sweep.py": _KEPT,
}


def _is_broad(kind: ast.expr | None) -> bool:
    return kind is None or any(isinstance(part, ast.Name) and part.id in _BROAD for part in ast.walk(kind))


def _raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    called = {ast.unparse(part.func) for part in ast.walk(handler) if isinstance(part, ast.Call)}
    return (isinstance(last, ast.Raise) and last.exc is None) or bool(called & _GUARDS)


def _takes_memory_errors(node: ast.AST) -> bool:
    """Return whether a ``try`` or a ``suppress`` takes an error of memory for any other."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).endswith("suppress") and any(map(_is_broad, node.args))
    if not isinstance(node, ast.Try):
        return False
    for handler in node.handlers:
        if handler.type is not None and "MemoryError" in ast.unparse(handler.type):
            return False
        if _is_broad(handler.type):
            return not _raises_again(handler)
    return False


def _places(node: ast.AST, function: str = "") -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        if _takes_memory_errors(child):
            yield function, child.lineno  # type: ignore[attr-defined]
        is_function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
        yield from _places(child, child.name if is_function else function)  # type: ignore[attr-defined]


def test_only_the_places_that_are_listed_take_errors_of_memory_for_others() -> None:
    found = [
        (str(path.relative_to(ROOT)), function, line)
        for package in packages().values()
        for path in sorted(package.rglob("*.py"))
        for function, line in _places(read_tree(path))
    ]
    keys = {key for path, function, _ in found for key in (path, f"{path} {function}")}
    unknown = [f"{path}:{line}" for path, function, line in found if not {path, f"{path} {function}"} & _ALLOWED.keys()]
    assert unknown == [], "put `except MemoryError: raise` before it, or list it with its reason"
    assert _ALLOWED.keys() - keys == set(), "these are listed, and gone"


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("try:\n    f()\nexcept Exception:\n    pass", True),
        ("with contextlib.suppress(Exception):\n    f()", True),
        ("try:\n    f()\nexcept MemoryError:\n    raise\nexcept Exception:\n    pass", False),
        ("try:\n    f()\nexcept Exception as error:\n    raise explain_failure(error)", False),
    ],
)
def test_a_place_is_found(code: str, is_found: bool) -> None:
    assert bool([*_places(ast.parse(code))]) is is_found


def test_what_makes_another_error_of_one_raises_one_of_memory() -> None:
    error = MemoryError("no room")
    with pytest.raises(MemoryError, match="no room"):
        explain_failure(error, ModelInputs(), "torch", "profilerkit_torch")
    with (
        pytest.raises(MemoryError, match="no room"),
        tolerate(PluginInfo("a", "a"), "loading", "it raised "),
    ):
        raise error
