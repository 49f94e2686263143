"""No module, and no room of a package, imports another in a circle; which rooms each of them may import."""

from __future__ import annotations

from pathlib import Path

import pytest
from import_graph import circles, graph_of_modules, graph_of_rooms
from source_tree import packages


@pytest.mark.parametrize("package", sorted(packages()))
def test_no_module_imports_another_in_a_circle(package: str) -> None:
    assert circles(graph_of_modules(package, packages()[package])) == []


@pytest.mark.parametrize("package", sorted(packages()))
def test_no_room_imports_another_in_a_circle(package: str) -> None:
    assert circles(graph_of_rooms(package, packages()[package])) == []


@pytest.mark.parametrize(
    "package", ["profilerkit_budgets", "profilerkit_energy", "profilerkit_pages", "profilerkit_predict"]
)
def test_no_room_of_a_plugin_takes_types_from_another_in_a_circle(package: str) -> None:
    """What is imported for type checkers alone counts here too: a reader has to follow it all the same."""
    assert circles(graph_of_rooms(package, packages()[package], with_types=True)) == []
    assert circles(graph_of_modules(package, packages()[package], with_types=True)) == []


def test_results_import_nothing_that_draws() -> None:
    rooms = graph_of_rooms("profilerkit", packages()["profilerkit"])
    assert not rooms["profilerkit.results"] & {"profilerkit.render", "profilerkit_pages.figures", "profilerkit.cli"}


def test_circles_are_seen(tmp_path: Path) -> None:
    """A lazy import counts, one for type checkers does not."""
    files = {
        "__init__.py": "",
        "low/__init__.py": "",
        "low/one.py": "def f():\n    from .two import g",
        "low/two.py": "from ..high import three",
        "high/__init__.py": "",
        "high/three.py": "if True:\n    from ..low.one import f",
        "high/four.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .five import x",
        "high/five.py": "import p.high.four",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert circles(graph_of_modules("p", tmp_path)) == [{"p.low.one", "p.low.two", "p.high.three"}]
    assert circles(graph_of_rooms("p", tmp_path)) == [{"p.low", "p.high"}]
    assert {"p.high.four", "p.high.five"} in circles(graph_of_modules("p", tmp_path, with_types=True))
