"""The four backends have one plan: what one does in a file, another does in one of that name, in the same room."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import pytest
from source_tree import ROOT

#: The files that every backend has.
EVERYWHERE = (
    *("backend", "evaluation", "plugin", "profiler", "model/structure", "model/weights", "trace/tracing"),
    *("running/runs", "costs/registry"),
)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    yield import_module("make_architecture")
    sys.modules.pop("make_architecture", None)


def test_every_backend_has_what_all_need(script: Any) -> None:
    shared = script.find_shared_files()
    missing = {name: set(script.BACKENDS) - set(shared.get(name, ())) for name in EVERYWHERE}
    assert {name: packages for name, packages in missing.items() if packages} == {}


def test_a_name_of_a_file_means_one_room(script: Any) -> None:
    """But for those that the page lists with a reason; a room may have what another backend's room has not."""
    rooms: dict[str, dict[str, set[str]]] = {}
    for package in script.BACKENDS:
        for room in script.SHARED_ROOMS:
            for path in (script.PACKAGES[package] / room).glob("*.py"):
                if path.stem != "__init__":
                    rooms.setdefault(path.stem, {}).setdefault(room, set()).add(package)
    several = {name: places for name, places in rooms.items() if len(places) > 1}
    listed = {(package, name) for package, name in script.ELSEWHERE}
    for name, places in several.items():
        rest = [
            room for room, packages in places.items() if {(package, f"{room}/{name}") for package in packages} - listed
        ]
        assert len(rest) == 1, f"{name}.py stands in the rooms {rest}: rename one, or say why in ELSEWHERE"
    for package, name in listed:
        assert (script.PACKAGES[package] / f"{name}.py").exists()
        assert len(several[name.rpartition("/")[2]]) > 1, "it stands where the others have it"
