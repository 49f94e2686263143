"""``make attack`` runs every test of ``tests/attack``, in parts, and says what failed in any of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attack_in_parts import ATTACK, SPLIT, Part, list_parts, run_all


@pytest.mark.parametrize("path", SPLIT)
def test_the_parts_of_a_file_are_all_of_it(path: str) -> None:
    kept: list[int] = []
    for part in list_parts(path):
        items: list[Any] = list(range(100))
        part.pytest_collection_modifyitems(items)
        kept += items
    assert sorted(kept) == list(range(100))


def test_every_file_is_in_a_part() -> None:
    paths = {part.path for part in list_parts("")}
    missing = [str(file) for file in ATTACK.rglob("test_*.py") if file.relative_to(ATTACK).parts[0] not in paths]
    assert missing == []
    assert all((ATTACK / path).exists() for path in paths)


class Prepared(Part):
    """A part that writes what pytest would, and ends with a status."""

    def __init__(self, name: str, text: str, status: int) -> None:
        super().__init__(name)
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "status", status)

    def run(self, log: Path) -> int:
        """Write the text."""
        log.write_text(self.text)  # type: ignore[attr-defined]
        return int(self.status)  # type: ignore[attr-defined]


def test_what_failed_in_a_part_is_named_at_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [
        Prepared("fine", "..\n2 passed in 1s\n", 0),
        Prepared("wrong", ".F\nFAILED a.py::test_b - 1 is not 2\n1 failed, 1 passed in 1s\n", 1),
        Prepared("dead", "Fatal Python error: Segmentation fault\n", -11),
    ]
    assert run_all(parts, 2, tmp_path / "results") == 1
    *lines, first, second = capsys.readouterr().out.splitlines()
    assert sorted(lines) == [
        "dead: Fatal Python error: Segmentation fault",
        "fine: 2 passed in 1s",
        "wrong: 1 failed, 1 passed in 1s",
    ]
    assert sorted((first, second)) == [
        "FAILED a.py::test_b - 1 is not 2",
        f"dead ended with exit status -11, see {tmp_path / 'results' / 'dead.log'}",
    ]
    assert run_all(parts[:1], 1, tmp_path) == 0
