"""Makes a failing program small: drops statements, branches and modules for as long as it still fails.

``python fuzz_minimise.py SEED`` prints what is left of a seed's program.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator

__all__ = ["main", "minimise"]

Fails = Callable[[str], bool]


def minimise(source: str, fails: Fails) -> str:
    """Return the smallest program that can be reached by dropping one thing after another and that still fails."""
    source = ast.unparse(ast.parse(source))
    if not fails(source):
        raise ValueError("the program does not fail")
    smaller = True
    while smaller:
        smaller = False
        for variant in _variants(source):
            if len(variant) < len(source) and _fails(variant, fails):
                source, smaller = variant, True
                break
    return source


def _fails(source: str, fails: Fails) -> bool:
    try:
        return fails(source)
    except Exception:  # it runs no more
        return False


def _variants(source: str) -> Iterator[str]:
    """Yield the program less one thing: the largest things first."""
    blocks = sum(1 for _ in _blocks(ast.parse(source)))
    for size in (8, 4, 2, 1):
        for index in range(blocks):
            for start in range(len(_block(source, index)[1]) - size, -1, -1):
                yield from _without(source, index, start, size)
    for index in range(blocks):
        for start in range(len(_block(source, index)[1])):
            yield from _open(source, index, start)
    yield from _with_shorter_return(source)
    yield from _with_passed_value(source)


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    given = {id(n) for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name in ("build", "inputs")}
    for node in ast.walk(tree):
        if id(node) in given:  # its seeds make the values what they are
            continue
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                yield block


def _block(source: str, index: int) -> tuple[ast.Module, list[ast.stmt]]:
    tree = ast.parse(source)
    return tree, list(_blocks(tree))[index]


def _without(source: str, index: int, start: int, size: int) -> Iterator[str]:
    """Leave out statements of a block; an empty one passes."""
    tree, block = _block(source, index)
    if any(isinstance(s, (ast.Return, ast.Pass)) for s in block[start : start + size]):
        return
    del block[start : start + size]
    if not block:
        block.append(ast.Pass())
    yield ast.unparse(tree)


def _open(source: str, index: int, start: int) -> Iterator[str]:
    """Put what is inside of a compound statement in its place: either branch, what is tried, a loop's body once."""
    for name in ("body", "orelse"):
        tree, block = _block(source, index)
        inner = getattr(block[start], name, None)
        if (
            isinstance(block[start], (ast.If, ast.Try, ast.For, ast.While, ast.With))
            and isinstance(inner, list)
            and inner
        ):
            block[start : start + 1] = inner
            yield ast.unparse(tree)


def _with_shorter_return(source: str) -> Iterator[str]:
    """Return one of what is returned."""
    tree = ast.parse(source)
    returns = [n for n in ast.walk(tree) if isinstance(n, ast.Return) and isinstance(n.value, ast.Tuple)]
    for node in returns:
        if node.value is None or not isinstance(node.value, ast.Tuple):
            continue
        kept = node.value
        for element in kept.elts:
            node.value = element
            yield ast.unparse(tree)
        node.value = kept


def _with_passed_value(source: str) -> Iterator[str]:
    """Put the first name that an assigned expression reads in its place: ``v3 = f(v2)`` becomes ``v3 = v2``."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or isinstance(node.value, ast.Name):
            continue
        kept = node.value
        for read in ast.walk(kept):
            if isinstance(read, ast.Name) and read.id[0] in "vx" and read.id[1:].isdigit():
                node.value = read
                yield ast.unparse(tree)
        node.value = kept


def main(seed: int) -> str:
    """Return the smallest program of a seed whose kind of difference is the same."""
    from fuzz_chunk import TRAINED
    from fuzz_compare import differences, find_truth
    from fuzz_generator import program

    training = seed % TRAINED == 0
    source = program(seed).source
    kinds = {difference.kind for difference in differences(source, find_truth(source, training=training))[0]}

    def fails(text: str) -> bool:
        found, _ = differences(text, find_truth(text, training=training))
        return bool(kinds & {difference.kind for difference in found})

    return minimise(source, fails)


if __name__ == "__main__":
    sys.stdout.write(main(int(sys.argv[1])) + "\n")
