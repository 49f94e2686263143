"""Names of other profilers: an import says what to use here."""

from __future__ import annotations

from importlib import import_module

import pytest

from profilerkit.process.lazy import INSTEAD


@pytest.mark.parametrize("name", INSTEAD)
@pytest.mark.parametrize("package", ["profilerkit", "profilerkit_budgets"])
def test_an_import_says_what_to_use(package: str, name: str) -> None:
    with pytest.raises(ImportError, match=f"{package} has no {name}, a name of another profiler; ") as caught:
        getattr(import_module(package), name)
    assert INSTEAD[name] in str(caught.value)


def test_an_import_statement_says_it_too() -> None:
    with pytest.raises(ImportError, match="report.status.key..shown is a value as text"):
        from profilerkit import flops_to_string  # type: ignore[attr-defined]  # noqa: F401


def test_any_other_name_is_an_attribute_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'profilerkit' has no attribute 'flops_to_strings'"):
        import_module("profilerkit").flops_to_strings  # noqa: B018
