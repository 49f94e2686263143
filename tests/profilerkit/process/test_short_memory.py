"""Memory that is short is an error of the process: no plugin, argument or value is said to be wrong for it."""

from __future__ import annotations

import pytest

from profilerkit.arguments.checks import at_least
from profilerkit.hooks.hook_manager import call_guarded
from profilerkit.hooks.plugin_info import PluginInfo, tolerate
from profilerkit.piping.outcome import Outcome
from profilerkit.results.report import StatusRecord
from profilerkit_metrics import TotalParams

SOME = PluginInfo("some", "some.plugin", "my-some", "1.0")


def _fail() -> int:
    raise MemoryError


class Size:
    def __index__(self) -> int:
        return _fail()


class Shy(TotalParams):
    def show(self) -> str:
        raise MemoryError


def test_an_argument_is_not_refused() -> None:
    with pytest.raises(MemoryError):
        at_least(1)("num_iters", Size())


def test_a_plugin_is_not_left_out() -> None:
    with pytest.raises(MemoryError), tolerate(SOME, "its loader"):
        _fail()
    with pytest.raises(MemoryError):
        call_guarded("profilerkit_backends", SOME, _fail)


def test_a_value_is_not_lost() -> None:
    metric = Shy()
    metric.outcome = Outcome.of(112)
    with pytest.raises(MemoryError):
        StatusRecord.of(metric)
