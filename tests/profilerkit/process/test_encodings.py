"""Results on streams that cannot take every sign: a pipe on Windows, a process in the locale "C"."""

from __future__ import annotations

import io
import sys

import pytest

from profilerkit.cli import emit
from profilerkit.process.encoding import encodable

TABLE = "größe_層 [bold]\n ─────\n├── µs ±2% ≥ 3 ≤ 4 ≈ 5"


@pytest.mark.parametrize(
    ("encoding", "printed"),
    [
        ("utf-8", TABLE),
        ("ascii", "gr\\xf6\\xdfe_\\u5c64 [bold]\n -----\n+-- us +-2% >= 3 <= 4 ~ 5"),
        ("cp1252", "größe_\\u5c64 [bold]\n -----\n+-- µs ±2% >= 3 <= 4 ~ 5"),
    ],
)
def test_what_a_stream_cannot_take_becomes_similar_signs(
    encoding: str, printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n")
    monkeypatch.setattr(sys, "stdout", stream)
    emit(TABLE)
    stream.flush()
    assert stream.buffer.getvalue().decode(encoding) == printed + "\n"


def test_an_encoding_without_a_codec_is_left_to_the_stream() -> None:
    assert encodable(TABLE, "no such encoding") == TABLE
