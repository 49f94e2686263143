"""Reading TOML: the error says which file, and why it cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from profilerkit import ArgumentError
from profilerkit.process.files import read_toml


def test_the_content_is_returned(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[table]\nname = 'é'\n", encoding="utf-8")
    assert read_toml(path, "the plan", ArgumentError) == {"table": {"name": "é"}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read the plan: No such file or directory"),
        (b"= 3", "the plan is no TOML: "),
        (b"name = '\xff'", "the plan is no TOML: 'utf-8' codec"),
        (b"a = " + b"9" * 5000, "the plan is no TOML: "),
        (b"a = " + b"[" * 100_000, "the plan is nested too deep to be read"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_it(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "a.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ArgumentError, match=f"^{message}"):
        read_toml(path, "the plan", ArgumentError)
