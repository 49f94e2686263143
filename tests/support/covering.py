"""Which tests cover a file: ``python tests/support/covering.py profilerkit/piping/status.py``, or ``make test-for``.

Prints test files, the nearest first: those in the folder that mirrors the file's, and for a backend's file those in
``tests/backends`` that are called like it or its room; then those that import it, then those
that import what imports it, one step further with each number.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from import_graph import graph_of_modules, modules_imported
from source_tree import ROOT, packages

__all__ = ["find_covering"]

#: How many modules may lie between a test and the file.
FARTHEST = 2


def find_covering(file: Path) -> Iterator[tuple[int, Path]]:
    """Yield how far each test file is from a source file, and the test file; 0 for those of its folder."""
    module = _find_module(file)
    steps = {module: 1}
    importers = _importers()
    level = {module}
    for distance in range(2, FARTHEST + 2):
        level = {above for one_module in level for above in importers.get(one_module, ())} - steps.keys()
        steps.update(dict.fromkeys(level, distance))
    mirrored = ROOT / "tests" / Path(*module.split(".")[:-1])
    of_a_backend = file.resolve().is_relative_to(ROOT / "backends")
    near = []
    for test in sorted((ROOT / "tests").rglob("test_*.py")):
        reached = [steps[item] for item in modules_imported(test, steps) if item in steps]
        is_near = test.parent == mirrored and (file.stem in test.stem or reached)
        if is_near or (of_a_backend and test.parent.name == "backends" and _shares_a_name(file, test)):
            near.append((0, test))
        elif reached:
            near.append((min(reached), test))
    yield from sorted(near)


def _shares_a_name(file: Path, test: Path) -> bool:
    """Say whether a test is called like a file or its room."""
    return file.stem in test.stem or file.parent.name in test.stem


def _find_module(file: Path) -> str:
    for package, folder in packages().items():
        if file.resolve().is_relative_to(folder):
            parts = [package, *file.resolve().relative_to(folder).with_suffix("").parts]
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    raise SystemExit(f"{file} is no source file of the project; give one such as profilerkit/piping/status.py")


def _importers() -> dict[str, set[str]]:
    """Return which modules import each, those of other packages of the project too."""
    every: dict[str, set[str]] = {}
    graphs = {package: graph_of_modules(package, folder) for package, folder in packages().items()}
    names = {name for graph in graphs.values() for name in graph}
    for package, folder in packages().items():
        for name in graphs[package]:
            path = folder.joinpath(*name.split(".")[1:])
            source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            for other in {*graphs[package][name], *modules_imported(source, names)}:
                every.setdefault(other, set()).add(name)
    return every


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("usage: make test-for FILE=profilerkit/piping/status.py")
    for distance, test in find_covering(Path(sys.argv[1])):
        sys.stdout.write(f"{distance}  {test.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
