"""Why profilerkit and the truth differ: known classes, each proved by taking its cause away.

A class is not believed because its words stand in a program. The questions of the class are answered as the real run
answers them, or its ``try`` is taken off; only where the difference is then gone is the class its cause.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Collection
from itertools import combinations
from typing import Any

import torch
from fuzz_compare import Difference, differences, find_truth
from fuzz_generator import load

__all__ = ["CLASSES", "causes"]

_PLACE = re.compile(r"device|is_meta|is_cpu|is_cuda|data_ptr|untyped_storage|is_shared|is_pinned|\.type\(|repr\(")
_MODE = re.compile(r"is_inference|has_torch_function|_is_view|_base")

_REPLAY = """
_ASKED_{tag} = {asked!r}
_TURN_{tag} = {{}}
def _restart_{tag}():
    _TURN_{tag}.clear()
def _answered_{tag}(key):
    turn = _TURN_{tag}[key] = _TURN_{tag}.get(key, -1) + 1
    answers = _ASKED_{tag}.get(key)
    return answers[min(turn, len(answers) - 1)] if answers else False
"""
_RECORD = """
_NOTED = {}
def _noted(key, value):
    _NOTED.setdefault(key, []).append(bool(value))
    return value
"""


class _Asking(ast.NodeTransformer):
    """Puts ``make(key, question)`` in the place of each question of a kind."""

    def __init__(self, asks: re.Pattern[str], make: Callable[[int, ast.expr], ast.expr]) -> None:
        self.asks = asks
        self.make = make
        self.keys = 0
        self.branches: set[str] = set()

    def _question(self, expression: ast.expr) -> ast.expr:
        if not self.asks.search(ast.unparse(expression)):
            return expression
        self.keys += 1
        return self.make(self.keys, expression)

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        node.test = self._question(node.test)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if isinstance(node.targets[0], ast.Name) and re.fullmatch(r"q\d+", node.targets[0].id):
            node.value = self._question(node.value)
        return node


def _call(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _replay(source: str, tag: str, asks: re.Pattern[str]) -> str:
    """Return the program with the questions of a kind answered as a real run answers them."""
    tree = ast.parse(source)
    tree = _Asking(asks, lambda key, question: _call(f"_noted({key}, {ast.unparse(question)})")).visit(tree)
    asked = _ask_in_a_run(_RECORD + ast.unparse(tree))
    tree = _Asking(asks, lambda key, question: _call(f"_answered_{tag}({key})")).visit(ast.parse(source))
    return _REPLAY.format(tag=tag, asked=asked) + _begun_with(ast.unparse(tree), [f"_restart_{tag}()"])


def _begun_with(source: str, lines: list[str]) -> str:
    """Put statements in front of the outermost forward."""
    head, net, tail = source.rpartition("class Net(")
    place = tail.index("\n", tail.index("def forward("))
    return head + net + tail[:place] + "".join(f"\n        {line}" for line in lines) + tail[place:]


def _ask_in_a_run(source: str) -> dict[int, list[bool]]:
    """Run a program that notes what it is asked."""
    with torch.no_grad(), torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = load(source)
        model, inputs = names["build"](), names["inputs"]()
        torch.manual_seed(11)
        model.eval()(*inputs)
    return names["_NOTED"]  # type: ignore[no-any-return]


class _Untried(ast.NodeTransformer):
    """Takes ``try`` off what it holds, where it never catches anything, or notes where it does."""

    def __init__(self, catching: Collection[int] | None) -> None:
        self.catching = catching
        self.keys = 0

    def visit_Try(self, node: ast.Try) -> Any:
        self.generic_visit(node)
        self.keys += 1
        if self.catching is None:
            for handler in node.handlers:
                handler.body.insert(0, ast.parse(f"_noted({self.keys}, True)").body[0])
            return node
        return node if self.keys in self.catching else node.body


def _remove_try(source: str) -> str:
    noting = ast.unparse(_Untried(None).visit(ast.parse(source)))
    asked = _ask_in_a_run(_RECORD + noting)
    return ast.unparse(_Untried(set(asked)).visit(ast.parse(source)))


def _own_caches(source: str) -> str:
    """Empty the caches of the file before each run."""
    names = sorted(set(re.findall(r"CACHE_\d+", source)))
    if not names:
        raise ValueError("there is no cache")
    return _begun_with(source, [f"{name}.clear()" for name in names]).replace("CACHE_", "OWN_")


class _Transforming(ast.NodeTransformer):
    """Takes gradients by a transform of functions, which inference mode does not turn off."""

    def __init__(self) -> None:
        self.found = False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.func) != "torch.autograd.functional.jacobian":
            return node
        self.found = True
        function, tensor = map(ast.unparse, node.args)
        return _call(f"torch.func.jacrev({function})({tensor})")


def _transform(source: str) -> str:
    transforming = _Transforming()
    tree = transforming.visit(ast.parse(source))
    if not transforming.found:
        raise ValueError("no gradient is taken")
    return ast.unparse(tree)


class _WritingWithoutGradients(ast.NodeTransformer):
    """Has the model's own tensors written to under ``no_grad``."""

    def __init__(self) -> None:
        self.found = False

    def _written(self, node: ast.stmt) -> ast.stmt:
        if not re.match(r"self\.b\d*\b", ast.unparse(node)):
            return node
        self.found = True
        block = ast.parse("with torch.no_grad():\n    pass").body[0]
        assert isinstance(block, ast.With)
        block.body = [node]
        return block

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.name == "forward":
            node.body = [self._written(statement) for statement in node.body]
        return node


def _without_graphs(source: str) -> str:
    writing = _WritingWithoutGradients()
    tree = writing.visit(ast.parse(source))
    if not writing.found:
        raise ValueError("nothing of the model is written to")
    return ast.unparse(tree)


#: Each known class: how its cause is taken away, and what it is, by its point in "Never wrong, never stale".
CLASSES: dict[str, tuple[Callable[[str], str], str]] = {
    "place": (
        lambda source: _replay(source, "place", _PLACE),
        "2: the meta device answers a question about device or address",
    ),
    "try": (_remove_try, "2: a question about values fails inside of a try"),
    "cache": (_own_caches, "harm, point 7: a cache of the model's file keeps what the pass has put there"),
    "gradients": (_transform, "2: torch.autograd.functional gives zeros in inference mode, and does not fail"),
    "graph": (_without_graphs, "harm: what a real training pass writes to keeps requires_grad and a graph"),
    "mode": (
        lambda source: _replay(source, "mode", _MODE),
        "2: whether inference mode or a mode for functions is on: in the pass, not in the run",
    ),
}


_ORDER = [c for n in range(1, len(CLASSES) + 1) for c in combinations(CLASSES, n)]


def causes(source: str, found: Collection[Difference], training: bool = False) -> str:
    """Return the class, or the classes joined by "+", that the differences come from; "" where it is none of them."""
    for names in _ORDER:
        try:
            changed = source
            for name in reversed(names):  # what is inside of a try is answered first
                changed = CLASSES[name][0](changed)
            truth = find_truth(changed, training=training)
            left, _ = differences(changed, truth)
        except Exception:  # the program runs no more: that cause cannot be taken away
            continue
        if not {difference.kind for difference in left} & {difference.kind for difference in found}:
            return "+".join(names)
    return ""
