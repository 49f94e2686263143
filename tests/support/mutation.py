"""Small faults planted in the modules of formulas, one at a time, and whether the cases notice.

``python tests/support/mutation.py [COUNT]`` plants a sample, prints the score, and lists the faults that nobody saw.
"""

from __future__ import annotations

import ast
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from formula_cases import CASES, CONSTANTS, agrees, distinct_constants
from keras_layer_cases import KERAS_LAYERS, SPELT_OUT
from linear_algebra_cases import LINEAR_ALGEBRA

from profilerkit.costs import families

__all__ = ["Mutant", "is_noticed", "mutants"]

_OPERATORS: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.Add(),
    ast.FloorDiv: ast.Mult(),
    ast.Div: ast.Mult(),
    ast.Pow: ast.Mult(),
}
_COMPARISONS: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Gt: ast.GtE(),
    ast.Eq: ast.NotEq(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
}


@dataclass(frozen=True)
class Mutant:
    """One fault in a module: at which node of its tree, in the order of a walk, and which of the node's."""

    module: ModuleType
    line: int
    what: str
    place: int
    number: int

    def tree(self) -> ast.Module:
        """Return the module's tree with the fault."""
        tree = _tree(self.module)
        node = next(part for index, part in enumerate(ast.walk(tree)) if index == self.place)
        list(_faults(node, apply=self.number))
        return ast.fix_missing_locations(tree)


def mutants() -> list[Mutant]:
    """Return every fault of the kinds that are known here, in every module of formulas."""
    return [mutant for module in families().values() for mutant in _list_mutants(module)]


def _list_mutants(module: ModuleType) -> Iterator[Mutant]:
    for place, node in enumerate(ast.walk(_tree(module))):
        for number, what in enumerate(_faults(node)):
            yield Mutant(module, getattr(node, "lineno", 0), what, place, number)


def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))


def _faults(node: ast.AST, apply: int = -1) -> Iterator[str]:
    """Yield what could be wrong with a node in place of what stands there; the fault number ``apply`` is made."""
    for number, (what, make) in enumerate(_changes(node)):
        if number == apply:
            make()
        yield what


def _changes(node: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        other = _OPERATORS[type(node.op)]
        yield f"{type(node.op).__name__} to {type(other).__name__}", lambda: setattr(node, "op", other)
        if isinstance(node.op, ast.Add):
            yield "a summand left out", lambda: setattr(node, "right", ast.Constant(0))
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        more = int(node.value) + 1
        yield f"{node.value} to {more}", lambda: setattr(node, "value", more)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield f"{node.value} to {not node.value}", lambda: setattr(node, "value", not node.value)
    elif isinstance(node, ast.Attribute) and node.attr in CONSTANTS:
        other_name = CONSTANTS[(CONSTANTS.index(node.attr) + 1) % (len(CONSTANTS) - 1)]
        yield f"{node.attr} to {other_name}", lambda: setattr(node, "attr", other_name)
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
        kind = _COMPARISONS[type(node.ops[0])]
        yield f"{type(node.ops[0]).__name__} to {type(kind).__name__}", lambda: node.ops.__setitem__(0, kind)
    elif isinstance(node, (ast.If, ast.IfExp)):
        yield "condition negated", lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.BoolOp):
        swapped = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and/or", lambda: setattr(node, "op", swapped)


def is_noticed(mutant: Mutant) -> bool:
    """Say whether a case fails while the fault is in the module, or the module cannot even be made."""
    module = mutant.module
    before = dict(vars(module))
    try:
        exec(compile(mutant.tree(), module.__file__ or "", "exec"), vars(module))
        return not _holds(module)
    except (Exception, pytest.fail.Exception):
        return True
    finally:
        vars(module).clear()
        vars(module).update(before)


def _holds(module: ModuleType) -> bool:
    name = module.__name__.rpartition(".")[2]
    with pytest.MonkeyPatch.context() as monkeypatch:
        distinct_constants(monkeypatch)
        if name == "linear_algebra":
            return all(call() == (0, flops) for call, flops in LINEAR_ALGEBRA)
        if name == "keras_layers":
            return all(map(agrees, KERAS_LAYERS)) and all(call() is None for call in SPELT_OUT)
        return all(map(agrees, CASES[name]))


def main(count: int) -> None:
    every = mutants()
    chosen = random.Random(0).sample(every, min(count, len(every)))
    survivors = [mutant for mutant in chosen if not is_noticed(mutant)]
    score = 1 - len(survivors) / len(chosen)
    print(f"{len(chosen)} of {len(every)} faults planted, {len(survivors)} not noticed: {score:.1%}")  # noqa: T201
    for mutant in survivors:
        print(f"  {mutant.module.__name__}:{mutant.line}: {mutant.what}")  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
