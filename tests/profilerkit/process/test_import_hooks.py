"""A module is imported within a context, wherever it is; others, and questions where it is, have nothing of it."""

from __future__ import annotations

import importlib
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from profilerkit.process.import_hooks import AroundImport


@pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "folder"])
def test_the_context_is_around_this_module_alone(is_zip: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One loader has all modules of a zip file: it stays as it is after `find_spec`, and after the import."""
    entered: list[str] = []

    @contextmanager
    def enter() -> Iterator[None]:
        entered.append("in")
        yield
        entered.append("out")

    names = ("hooked_module", "other_module")
    place = tmp_path / "modules.zip" if is_zip else tmp_path
    if is_zip:
        with zipfile.ZipFile(place, "w") as archive:
            for name in names:
                archive.writestr(f"{name}.py", "value = 1")
    else:
        for name in names:
            (tmp_path / f"{name}.py").write_text("value = 1")
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setattr(sys, "meta_path", [AroundImport(names[:1], enter), *sys.meta_path])
    modules = []
    try:
        for _ in range(2):
            assert find_spec("hooked_module") is not None
        assert importlib.import_module("other_module").value == 1
        assert entered == [], "nothing of the hooked module was run"
        modules = [importlib.import_module(name) for name in names]
    finally:
        for name in names:
            sys.modules.pop(name, None)
    hooked, other = modules
    assert (hooked.value, entered) == (1, ["in", "out"])
    for module in modules:
        assert module.__spec__ is not None
        assert module.__loader__ is module.__spec__.loader
        assert "exec_module" not in vars(module.__loader__)
    assert (hooked.__loader__ is other.__loader__) == is_zip
