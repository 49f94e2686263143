"""The page on the architecture shows the code as it is: its pictures, its tables, and the files and tests it names."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from source_tree import ROOT

DOCS = ROOT / "docs"
PAGES = [
    DOCS / "architecture.rst",
    DOCS / "architecture-parts.rst",
    *sorted((DOCS / "decisions").glob("*.rst")),
    *(ROOT / name for name in ("CONTRIBUTING.rst", "tests/README.rst")),
]
DRAWN = [
    "profilerkit",
    "profilerkit_jax",
    "profilerkit_litert",
    "profilerkit_onnx",
    "profilerkit_openvino",
    "profilerkit_tensorflow",
    "profilerkit_torch",
]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(DOCS))
    yield import_module("make_architecture")
    sys.modules.pop("make_architecture", None)


@pytest.mark.slow  # the pictures are laid out anew
def test_the_page_shows_the_rooms_as_they_are(script: Any) -> None:
    for path, text in script.made().items():
        up_to_date = path.is_file() and path.read_text(encoding="utf-8") == text
        assert up_to_date, f"docs/{path.relative_to(DOCS)} is old: run python docs/make_architecture.py"


@pytest.mark.parametrize("package", DRAWN)
def test_no_two_boxes_overlap_and_every_room_has_one(package: str, script: Any) -> None:
    root = ElementTree.fromstring((DOCS / "pictures" / f"rooms_{package}.svg").read_text(encoding="utf-8"))
    space = "{http://www.w3.org/2000/svg}"
    assert sorted(item.text or "" for item in root.iter(f"{space}text")) == sorted(script.arrows(package))
    boxes = [
        tuple(int(rect.get(key) or 0) for key in ("x", "y", "width", "height"))
        for rect in root.iter(f"{space}rect")
        if rect.get("class") in {"room", "file"}
    ]
    for index, (x, y, width, height) in enumerate(boxes):
        assert all(
            x + width <= left or left + wide <= x or y + height <= top or top + high <= y
            for left, top, wide, high in boxes[:index]
        )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_file_that_a_page_names_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"(?:tests|docs|examples|benchmarks|profilerkit|metrics|backends)/[\w./-]+", text):
        assert (ROOT / name.rstrip(".")).exists(), f"{path.name} names {name}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_test_and_target_that_a_page_names_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tests = "".join(item.read_text(encoding="utf-8") for item in (ROOT / "tests").rglob("test_*.py"))
    for name in re.findall(r"``(test_\w+)``", text):
        assert f"def {name}(" in tests, f"{path.name} names {name}"
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"``make ([a-z-]+)", text)) <= targets


def test_decisions_are_short() -> None:
    pages = [path for path in PAGES if path.parent.name == "decisions" and path.name != "index.rst"]
    assert len(pages) >= 6
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert 150 <= len(text.split()) <= 300, path.name
        assert [title in text for title in ("\nContext\n-", "\nDecision\n-", "\nConsequences\n-")] == [True] * 3
        assert f"   {path.stem}\n" in (DOCS / "decisions" / "index.rst").read_text(encoding="utf-8")
