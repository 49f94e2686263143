"""Paths lead to the backend that names their ending; a backend that does not run models says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plugin_fixtures import make_offering

from profilerkit import BackendInfo, BackendNotFoundError, LoaderInfo, NotOfferedError
from profilerkit.backend import Backend
from profilerkit.errors import ArgumentError
from profilerkit.models.recognition import find_backend
from profilerkit.testing import FakeBackend, FakeModel


class Opening(FakeBackend):
    """Stands for a backend with files of its own."""


def make_opening(**further: Any) -> BackendInfo:
    return BackendInfo("opening", ("opening",), Opening, "opening", **further)


@pytest.mark.parametrize("path", ["net.mine", "NET.MINE", Path("folder") / "net.mine"])
def test_a_path_with_a_backends_suffix_belongs_to_that_backend(install: Any, path: Any) -> None:
    install("a", "a-pack", backends=make_offering(make_opening(suffixes=(".mine",))))
    assert isinstance(find_backend(path), Opening)


def test_another_path_needs_the_name_of_a_backend(install: Any) -> None:
    install("a", "a-pack", backends=make_offering(make_opening(suffixes=(".mine",))))
    with pytest.raises(BackendNotFoundError, match="the path 'net.other' does not say of which framework the model is"):
        find_backend("net.other")


def test_a_path_that_a_model_loader_takes_is_to_be_loaded_first(install: Any) -> None:
    def load(spec: str) -> FakeModel:
        return FakeModel([])

    loader = LoaderInfo("saved", lambda spec: spec.endswith(".saved"), load, "FILE.saved")
    install("a", "a-pack", model_loaders=make_offering(loader))
    message = r"load it first, load_model\('net.saved'\) of profilerkit.models.loaders, or give backend=..., such as"
    with pytest.raises(BackendNotFoundError, match=message):
        find_backend("net.saved")


@pytest.mark.parametrize("suffixes", [".mine", ("mine",), (3,)])
def test_suffixes_are_a_tuple_of_texts_with_a_dot(suffixes: Any) -> None:
    with pytest.raises(ArgumentError, match="give the suffixes of its files as a tuple"):
        make_opening(suffixes=suffixes)


class Counting(FakeBackend):
    """Counts alone: it has the `run` of the base class."""

    run = Backend.run


def test_a_backend_without_run_reports_that_it_only_counts() -> None:
    assert FakeBackend().runs_models
    assert not Counting().runs_models
    with pytest.raises(NotOfferedError, match="backend counts models, and does not run them"):
        Counting().run(FakeModel(), None)  # type: ignore[arg-type]
