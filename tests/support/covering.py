"""Which tests cover a file: ``python tests/support/covering.py profilerkit/piping/status.py``, or ``make test-for``.

Prints test files, the nearest first: 0 for those in the folder that mirrors the file's, and for a backend's file those
in ``tests/backends`` that are called like it or its room; 1 for those that name its module; 2 for those that name its
package.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from source_tree import ROOT, packages

__all__ = ["find_covering"]


def find_covering(file: Path) -> Iterator[tuple[int, Path]]:
    """Yield how far each test file is from a source file, and the test file."""
    module = _find_module(file)
    room = module.rpartition(".")[0]
    near = []
    for test in (ROOT / "tests").rglob("test_*.py"):
        text = test.read_text(encoding="utf-8")
        if _is_beside(file, test, room):
            near.append((0, test))
        elif re.search(rf"\b{module}\b|from {room} import .*\b{file.stem}\b", text):
            near.append((1, test))
        elif re.search(rf"\b(from|import) {room}\b", text):
            near.append((2, test))
    yield from sorted(near)


def _is_beside(file: Path, test: Path, room: str) -> bool:
    """Say whether a test stands where the file does, or is one of all backends that is called like it or its room."""
    if test.parent == ROOT / "tests" / Path(*room.split(".")):
        return True
    of_a_backend = file.resolve().is_relative_to(ROOT / "backends") and test.parent.name == "backends"
    return of_a_backend and (file.stem in test.stem or file.parent.name in test.stem)


def _find_module(file: Path) -> str:
    for package, folder in packages().items():
        if file.resolve().is_relative_to(folder):
            parts = [package, *file.resolve().relative_to(folder).with_suffix("").parts]
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    raise SystemExit(f"{file} is no source file of the project; give one such as profilerkit/piping/status.py")


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("usage: make test-for FILE=profilerkit/piping/status.py")
    for distance, test in find_covering(Path(sys.argv[1])):
        sys.stdout.write(f"{distance}  {test.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
