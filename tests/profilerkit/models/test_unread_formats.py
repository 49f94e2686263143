"""Files of formats that are known, and not read: the error says so, and what to do instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plugin_fixtures import make_offering

from profilerkit import BackendInfo, BackendNotFoundError, InputError, profile
from profilerkit.models.loaders import load_model
from profilerkit.models.recognition import find_backend
from profilerkit.testing import FakeBackend

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
