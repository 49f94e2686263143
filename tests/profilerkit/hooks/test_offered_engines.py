"""Engines of audits that plugins add."""

from collections.abc import Callable, Generator, Iterable
from typing import Any

import pytest
from plugin_fixtures import make_offering, make_raising

from profilerkit import NotOfferedError, RegistrationConflictError
from profilerkit_audits import Engine, EngineInfo
from profilerkit_audits.engine import find_engine


class Nothing(Engine):
    def run(self, cases: Iterable[Any]) -> Generator[Any, None, None]:
        yield from ()


def test_an_engine_of_a_package_is_found_like_ours(install: Any, core: None) -> None:
    install("slow", engines=make_offering(EngineInfo("nothing", lambda: Nothing)))
    assert find_engine("nothing") is Nothing


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (
            make_raising(ImportError("No module named 'slurm'")),
            "^the engine 'mine' cannot be used: No module named 'slurm'; install it with: pip install 'my-slurm'$",
        ),
        (
            make_raising(KeyError("slurm")),
            r"^engine 'mine' of plugin 'slow'.* cannot be used \(KeyError: 'slurm'\); to do",
        ),
        (make_raising(SystemExit(3)), r"^engine 'mine' of plugin 'slow'.* cannot be used \(SystemExit: 3\); to do"),
        (lambda: 3, "^engine 'mine' of plugin 'slow'.*: its load returned 3, which is no engine; to do without it"),
        (lambda: str, "^engine 'mine' of plugin 'slow'.*: its load returned .*str.*, which is no engine; to do"),
    ],
)
def test_an_engine_that_cannot_be_used_says_why(
    load: Callable[[], Any], message: str, install: Any, core: None
) -> None:
    install("slow", engines=make_offering(EngineInfo("mine", load, requirement="my-slurm")))
    with pytest.raises(NotOfferedError, match=message):
        find_engine("mine")


def test_two_engines_of_one_name_are_an_error(install: Any, core: None) -> None:
    install("slow", engines=make_offering(EngineInfo("local", lambda: Nothing)))
    with pytest.raises(RegistrationConflictError, match="two plugins offer engine 'local': "):
        find_engine("local")
