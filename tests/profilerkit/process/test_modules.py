"""The modules of a package: found, not listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from profilerkit.process.modules import import_modules


def test_modules_are_found_in_the_order_of_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "found_package"
    package.mkdir()
    for name in ("__init__", "second", "first"):
        (package / f"{name}.py").write_text(f"NAME = {name!r}\n")
    (package / "left_out.py").write_text("raise AssertionError('imported')\n")
    (package / "data.txt").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    found = import_modules(package.name, [str(package)], but=("left_out",))
    assert [(name, module.NAME) for name, module in found.items()] == [("first", "first"), ("second", "second")]
