"""Errors: the codes of failures, which files of reports keep, and the names near an unknown metric."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from profilerkit import FailureCode, InputError, ModelFailedError, Report, metric, profile
from profilerkit.errors import UnknownStatusError, classify
from profilerkit_numpy.layers import Sequential, dense


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), FailureCode.MEMORY),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), FailureCode.MEMORY),
        # What PyTorch, JAX, TensorFlow and C++ say in errors that have no type of their own.
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), FailureCode.MEMORY),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes"), FailureCode.MEMORY),
        (RuntimeError("OOM when allocating tensor with shape[8,8] and type float"), FailureCode.MEMORY),
        (RuntimeError("std::bad_alloc"), FailureCode.MEMORY),
        (RuntimeError("can't start new thread"), FailureCode.THREADS),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), FailureCode.THREADS),
        (ModuleNotFoundError("No module named 'timm'"), FailureCode.IMPORT),
        (KeyError("x"), FailureCode.MODEL),
        (InputError("our own words: out of memory, No module named 'timm'"), FailureCode.MODEL),
    ],
)
def test_an_error_has_its_code_and_what_is_raised_from_it_too(error: Exception, code: FailureCode) -> None:
    assert classify(error) is code
    outer = ModelFailedError("the model raised")
    outer.__cause__ = error
    assert classify(outer) is code


def test_a_value_that_failed_keeps_its_code_in_a_file(tmp_path: Path) -> None:
    @metric("greedy")
    def greedy(model: object) -> int:
        raise MemoryError("no more")

    report = profile(Sequential(dense(4, 8)), input_shape=(4,), metrics=["macs", "greedy"], functions=[greedy])
    report.save(tmp_path / "report.json")
    read = Report.load(tmp_path / "report.json")
    for one in (report, read):
        assert {key: record.failure for key, record in one.statuses.items()} == {
            "macs": None,
            "greedy": FailureCode.MEMORY,
        }
    assert read == report


def test_an_unknown_metric_shows_the_five_nearest_names_and_where_all_are() -> None:
    error = UnknownStatusError("mac", ["macs", "map", "may", "mat", "man", "zzz", "yyy"])
    assert str(error).startswith("unknown metric 'mac'; this profiler knows, nearest first: macs, ")
    assert str(error).endswith(" and 2 more; `profilerkit list` lists them")
    assert "zzz" not in str(error) and len(error.names) == 7
