"""Limits are read once, from what people write; what is none is an error that says what to write."""

import math
import os

import pytest

from profilerkit import InputError, isolated
from profilerkit.isolation.limits import Limits, parse_memory, parse_timeout

SIZES = {
    "4 GiB": 4 * 1024**3,
    "4gib": 4 * 1024**3,
    "4G": 4 * 1024**3,
    "4 Gi": 4 * 1024**3,
    "4 GB": 4 * 1000**3,
    "1.5 MiB": 3 * 1024**2 // 2,
    " 2048 KiB ": 2 * 1024**2,
    "1 TiB": 1024**4,
    "5000000": 5_000_000,
    "5000000 B": 5_000_000,
    "5000000 bytes": 5_000_000,
}


@pytest.mark.parametrize("text", SIZES)
def test_a_size_is_read_as_it_is_written(text: str) -> None:
    assert parse_memory(text) == SIZES[text]


@pytest.mark.parametrize(
    "value", ["", "4 XB", "GiB", "-4 GiB", "4 GiB each", "nan", "1e9", "4" * 200, 1.5, True, None, [4], b"4 GiB"]
)
def test_what_is_no_size_is_an_error_that_shows_one(value: object) -> None:
    with pytest.raises(InputError, match=r"^memory=.*: give a number of bytes, or a text such as '4 GiB', '512 MiB'"):
        parse_memory(value)


@pytest.mark.parametrize("value", [0, 4, "4", "1000 KiB", -1])
def test_a_size_that_is_most_likely_without_its_unit_is_an_error(value: object) -> None:
    with pytest.raises(InputError, match="a process needs 1 MiB at the least: did you mean GiB"):
        parse_memory(value)


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, "1", True, None, [1]])
def test_what_is_no_time_is_an_error(value: object) -> None:
    with pytest.raises(InputError, match=r"^timeout=.*: give a number of seconds above zero, such as 30$"):
        parse_timeout(value)


def test_a_limit_is_no_longer_than_the_system_can_wait() -> None:
    """Less than 2 ** 31 ms."""
    assert (parse_timeout(30), parse_timeout(1e300)) == (30, 2e6)


@pytest.mark.parametrize("value", [0, -1, 1.5, "10", True])
def test_what_is_no_number_of_threads_is_an_error(value: object) -> None:
    with pytest.raises(InputError, match=r"^max_threads=.*: give a whole number from 1$"):
        Limits.read(max_threads=value)


def test_without_a_limit_there_is_one_of_threads_alone() -> None:
    limits = Limits.read()
    assert (limits.timeout, limits.memory) == (None, None)
    assert limits.max_threads == 1024 + 16 * (os.cpu_count() or 1)


def test_limits_are_read_before_anything_starts() -> None:
    for limits in ({"timeout": "1"}, {"memory": "much"}, {"max_threads": 0}):
        with pytest.raises(InputError, match=f"^{next(iter(limits))}="):
            isolated("no/such/file.py:model", **limits)
