"""One call of ``profile`` enters the functions that the page on the architecture lists, in that order."""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from importlib import import_module
from types import CodeType, FrameType
from typing import Any

import pytest
from source_tree import ROOT

PAGE = ROOT / "docs" / "architecture.rst"
ROW = re.compile(r"^   \* - (\d+)\n     - ``(profilerkit[\w.]+)``\n     - (.+)$", re.MULTILINE)
WORDS = {"once", "often", "for each key", "for each operator"}


def rows() -> list[tuple[int, str, str]]:
    """Return the step, the function and how often it is entered, row by row of the page."""
    return [(int(step), name, entered) for step, name, entered in ROW.findall(PAGE.read_text(encoding="utf-8"))]


def find_code(name: str) -> CodeType:
    """Return the code of a function or method, without its decorators."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        try:
            target: Any = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            target = getattr(target, part)
        code: CodeType = inspect.unwrap(target).__code__
        return code
    raise AssertionError(f"no module of {name} exists")


def test_the_steps_of_the_table_are_those_of_the_list() -> None:
    text = PAGE.read_text(encoding="utf-8")
    section = text[text.index("What happens in one call") : text.index("Where to add things")]
    steps = [int(number) for number in re.findall(r"^(\d+)\. \*\*", section, re.MULTILINE)]
    assert steps == list(range(1, 11))
    in_table = [step for step, _, _ in rows()]
    assert in_table == sorted(in_table)
    assert set(steps) - set(in_table) == {8}
    assert {entered for _, _, entered in rows()} <= WORDS


def test_one_call_runs_as_the_page_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from profilerkit import profile
    from profilerkit.hooks.manager import forget_loaded
    from profilerkit_torch.trace import plans

    monkeypatch.setattr(plans, "_shared", {})  # as in a new process
    forget_loaded()
    names = {find_code(name): name for _, name, _ in rows()}
    model, inputs = torch.nn.Linear(4, 2), torch.ones(1, 4)
    entered: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in names:
            entered[names[frame.f_code]] += 1

    previous = sys.getprofile()
    sys.setprofile(note)
    try:
        report = profile(model, inputs, num_iters=6, warmup=1)
        text = str(report)
    finally:
        sys.setprofile(previous)
    assert "Execution Time" in text
    assert list(entered) == [name for _, name, _ in rows()]  # a counter keeps the order of first entries
    assert {name: entered[name] for _, name, word in rows() if word == "once"} == {
        name: 1 for _, name, word in rows() if word == "once"
    }
