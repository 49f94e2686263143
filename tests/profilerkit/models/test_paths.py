"""Paths lead to the backend that names their ending; a format that nothing reads is named, with what to do instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plugin_fixtures import make_offering

from profilerkit import BackendInfo, BackendNotFoundError, InputError, LoaderInfo, NotOfferedError, profile
from profilerkit.backend import Backend
from profilerkit.errors import ArgumentError
from profilerkit.hooks.manager import list_infos
from profilerkit.models.loaders import load_model
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


FORMATS = {
    "net.pte": "is a program of ExecuTorch; profile the exported program that it was made of, as a .pt2 file",
    "net.mlpackage": "is a Core ML model; profile the model that it was converted from, or that model as an .onnx file",
    "net.mlmodel": "is a Core ML model; profile the model that it was converted from",
    "net.engine": "is a TensorRT engine, which is compiled for one kind of GPU; profile the .onnx file that",
    "net.plan": "is a TensorRT engine, which is compiled for one kind of GPU",
    "net.gguf": "is a language model in GGUF, which has weights and no layers: type 'profilerkit llm' instead",
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_that_is_not_read_says_what_to_profile(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    for spelled in (path, str(path), f"{path}/"):
        with pytest.raises(BackendNotFoundError) as caught:
            profile(spelled)
        assert FORMATS[name] in str(caught.value)
        with pytest.raises(InputError) as refused:
            load_model(str(spelled))
        assert FORMATS[name] in str(refused.value)


def test_any_other_file_is_asked_for_its_backend(tmp_path: Path) -> None:
    with pytest.raises(BackendNotFoundError, match="a path needs backend="):
        profile(tmp_path / "net.xyz")


def test_a_backend_of_a_plugin_may_read_the_format(install: Any, tmp_path: Path) -> None:
    kind = type("Reading", (FakeBackend,), {"name": "reading", "accepts": lambda self, model: True})
    install(
        "a", "a-reading", backends=make_offering(BackendInfo("reading", (), kind, "my-reading", suffixes=(".pte",)))
    )
    assert find_backend(tmp_path / "net.pte").name == "reading"


@pytest.mark.parametrize("ending", ["", ".py", "/net"])
@pytest.mark.filterwarnings("error")  # a loader that raises is left out with a warning
def test_a_text_that_is_too_long_for_a_path_is_no_fault_of_a_loader(ending: str) -> None:
    with pytest.raises(InputError, match="cannot be looked for: File name too long"):
        load_model("a" * 300 + ending)


@pytest.mark.parametrize("spec", ["a" * 300, "a" * 300 + "/net", "a\0b"])
def test_every_model_loader_tells_of_every_text_whether_it_takes_it(spec: str) -> None:
    assert [offer.plugin.name for offer in list_infos(LoaderInfo) if offer.item.accepts(spec)] == []
