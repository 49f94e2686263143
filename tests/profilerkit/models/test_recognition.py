"""Whose a model is: the most exact claim first, then what accepts it; and versions of the interface."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from plugin_fixtures import make_offering

from profilerkit import (
    ArgumentError,
    Backend,
    BackendFailedError,
    BackendInfo,
    BackendNotFoundError,
    BackendNotInstalledError,
    PluginWarning,
    RegistrationConflictError,
    profile,
)
from profilerkit.hooks import backends
from profilerkit.hooks.backends import backend_named
from profilerkit.models.loaders import load_model
from profilerkit.models.recognition import find_backend
from profilerkit.testing import FakeBackend, FakeModel


def backend(name: str, *frameworks: str, accepts: Callable[[Any], Any] = lambda model: True, **more: Any) -> Any:
    kind = type("Named", (FakeBackend,), {"name": name, "accepts": lambda self, model: accepts(model)})
    return BackendInfo(name, frameworks, kind, f"my-{name}", **more)


def make_model(module: str, name: str = "Program", bases: tuple[type, ...] = ()) -> Any:
    return type(name, bases, {"__module__": module})()


@pytest.mark.parametrize("text", ["hf:bert", "torchvision:resnet18", "net.py:build", "package.module:name"])
def test_a_text_of_the_command_line_is_loaded_first(text: str) -> None:
    said = f"load the model first: load_model({text!r}) of profilerkit.models.loaders"
    with pytest.raises(BackendNotFoundError, match=re.escape(said)):
        profile(text)


PROGRAM = make_model("torchlike.onnx._internal.programs")
MODULE = make_model("torchlike.nn.modules", "Module")


def found(model: Any) -> str:
    return find_backend(model).name


# The most exact claim ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exact", ["torchlike.onnx", "torchlike.onnx._internal.programs.Program"])
def test_the_longer_name_takes_precedence_in_any_order(install: Any, exact: str) -> None:
    install("a", "a-general", backends=make_offering(backend("general", "torchlike")))
    install("b", "b-exact", backends=make_offering(backend("exact", exact)))
    assert (found(PROGRAM), found(MODULE)) == ("exact", "general")


def test_of_several_names_of_a_backend_the_longest_counts(install: Any) -> None:
    install("a", "a-general", backends=make_offering(backend("general", "torchlike.onnx")))
    install("b", "b-exact", backends=make_offering(backend("exact", "torchlike", "torchlike.onnx._internal")))
    assert found(PROGRAM) == "exact"


@pytest.mark.parametrize("name", ["torch", "torchlike.on", "torchlike.onnx._internal.programs.Prog", "like"])
def test_a_name_is_made_of_whole_parts(install: Any, name: str) -> None:
    install("a", "a-general", backends=make_offering(backend("general", "torchlike")))
    install("b", "b-other", backends=make_offering(backend("other", name)))
    assert found(PROGRAM) == "general"


def test_a_class_takes_precedence_over_its_bases_whatever_their_names(install: Any) -> None:
    derived = make_model("keraslike.layers", "Dense", (type(MODULE),))
    install("a", "a-exact", backends=make_offering(backend("exact", "torchlike.nn.modules.Module")))
    install("b", "b-keras", backends=make_offering(backend("keraslike", "keraslike")))
    assert (found(derived), found(MODULE)) == ("keraslike", "exact")


def test_a_backend_that_does_not_claim_the_model_is_skipped(install: Any) -> None:
    install("a", "a-general", backends=make_offering(backend("general", "torchlike")))
    install("b", "b-exact", backends=make_offering(backend("exact", "torchlike.onnx", claims=lambda model: False)))
    assert found(PROGRAM) == "general"


def test_a_backend_that_does_not_accept_the_model_is_skipped(install: Any) -> None:
    asked: list[str] = []

    def no(model: Any) -> bool:
        asked.append("exact")
        return False

    install("a", "a-general", backends=make_offering(backend("general", "torchlike")))
    install("b", "b-exact", backends=make_offering(backend("exact", "torchlike.onnx", accepts=no)))
    assert (found(PROGRAM), asked) == ("general", ["exact"])


def test_a_backend_that_is_not_needed_is_not_loaded(install: Any) -> None:
    def load() -> Backend:
        raise AssertionError("it is not needed")

    install("a", "a-general", backends=make_offering(BackendInfo("general", ("torchlike",), load, "general")))
    install("b", "b-exact", backends=make_offering(backend("exact", "torchlike.onnx")))
    assert found(PROGRAM) == "exact"


def test_a_backend_whose_accepts_raises_is_left_out_with_a_warning(install: Any) -> None:
    def fails(model: Any) -> bool:
        raise ValueError("what is this?")

    install("a", "a-general", backends=make_offering(backend("general", "torchlike")))
    install("b", "b-exact", backends=make_offering(backend("exact", "torchlike.onnx", accepts=fails)))
    message = "accepts of the exact backend of plugin 'b' of b-exact 1.0 raised ValueError: what is this.; it is left"
    with pytest.warns(PluginWarning, match=message):
        assert found(PROGRAM) == "general"


class Network:
    def encode(self, x: Any) -> Any:
        return x


@pytest.mark.parametrize(
    ("function", "instead"),
    [
        (lambda x: x, r"give the model that the function runs, with call=lambda model, \*inputs: \.\.\.,"),
        (functools.partial(len, "ab"), r"give the model that the function runs, with call=lambda model, \*inputs"),
        (Network().encode, r"give the Network itself, with call=lambda model, \*inputs: model\.encode\(\*inputs\)"),
    ],
    ids=["function", "partial", "method"],
)
def test_the_error_for_a_function_says_which_model_to_give(install: Any, function: Any, instead: str) -> None:
    install("a", "a-general", backends=make_offering(backend("general", "torchlike", accepts=lambda model: False)))
    with pytest.raises(BackendNotFoundError, match=f"recognizes a model of type .*; {instead}.*; in Python, backend="):
        profile(function)
    with pytest.raises(TypeError, match=f"the general backend cannot profile a .*; {instead}"):
        profile(function, backend="general")


def test_the_only_backend_that_claims_a_model_reports_why_it_refuses_it(install: Any) -> None:
    install("a", "a-general", backends=make_offering(backend("general", "torchlike", accepts=lambda model: False)))
    with pytest.raises(TypeError, match="the general backend cannot profile a Program; give it a model of its own"):
        profile(PROGRAM)
    tensor = make_model("torchlike.tensors", "Tensor")
    tensor.shape, tensor.dtype = (2,), "float32"
    with pytest.raises(TypeError, match=r"not .*; example inputs are given by name, inputs=\.\.\.$"):
        profile(tensor)
    with pytest.raises(TypeError, match=r"give it a model of its own, not [^;]*$"):
        profile(PROGRAM)


def test_the_only_backend_that_claims_a_model_is_asked_once_whether_it_accepts_it(install: Any) -> None:
    asked = []

    def fails(model: Any) -> bool:
        asked.append(model)
        raise ValueError("what is this?")

    install("a", "a-general", backends=make_offering(backend("general", "torchlike", accepts=fails)))
    with pytest.raises(BackendFailedError, match="general backend raised ValueError: what is this.*at its method acce"):
        profile(PROGRAM)
    assert asked == [PROGRAM]


# Equal claims -------------------------------------------------------------------------------------------------------


def test_two_equal_claims_are_a_conflict_that_names_both_packages(install: Any) -> None:
    install("a", "a-pack", backends=make_offering(backend("one", "torchlike.onnx")))
    install("b", "b-pack", backends=make_offering(backend("two", "torchlike.onnx")))
    message = (
        "two backends claim a model of type torchlike.onnx._internal.programs.Program equally: 'one' of plugin 'a' of "
        "a-pack 1.0 and 'two' of plugin 'b' of b-pack 1.0; choose one with backend='one' or backend='two', or switch "
        "one plugin off: PROFILERKIT_DISABLE_PLUGINS=b"
    )
    with pytest.raises(RegistrationConflictError, match=f"^{re.escape(message)}$"):
        find_backend(PROGRAM)
    assert backend_named("two").name == "two"


@pytest.mark.parametrize("how", ["claims", "accepts"])
def test_two_equal_claims_of_which_one_accepts_are_no_conflict(install: Any, how: str) -> None:
    no: Any = {how: lambda model: False}
    install("a", "a-pack", backends=make_offering(backend("one", "torchlike.onnx", **no)))
    install("b", "b-pack", backends=make_offering(backend("two", "torchlike.onnx")))
    assert found(PROGRAM) == "two"


def test_of_two_equal_claims_the_one_that_can_be_loaded_is_used(install: Any) -> None:
    def load() -> Backend:
        raise ImportError("No module named 'ort'")

    broken = BackendInfo("one", ("torchlike.onnx",), load, "my-one")
    install("a", "a-pack", backends=make_offering(broken))
    install("b", "b-pack", backends=make_offering(backend("two", "torchlike.onnx")))
    assert found(PROGRAM) == "two"


def test_a_model_whose_framework_is_not_installed_says_what_to_install(
    install: Any, core: None, tmp_path: Path
) -> None:
    install("a", "a-pack", backends=make_offering(backend("one", "no_such_framework")))
    (tmp_path / "needs_it.py").write_text("import no_such_framework", encoding="utf-8")
    message = (
        "the one backend cannot be used: No module named 'no_such_framework'; install it with: pip install 'my-one'"
    )
    with pytest.raises(BackendNotInstalledError, match=f"^{re.escape(message)}$"):
        load_model(f"{tmp_path / 'needs_it.py'}:net")


# Versions -----------------------------------------------------------------------------------------------------------


def test_a_newer_backend_is_refused_with_what_to_upgrade(install: Any) -> None:
    install("new", "my-new", "2.0", backends=make_offering(backend("newer", "torchlike", api_version=2)))
    message = (
        "the newer backend of plugin 'new' of my-new 2.0 is written for version 2 of the interface of backends, and "
        f"profilerkit {version('profilerkit')} supports 1 alone; upgrade profilerkit: pip install --upgrade "
        "profilerkit; to do without it, set PROFILERKIT_DISABLE_PLUGINS=new, or run profilerkit --no-plugins"
    )
    with pytest.raises(BackendNotInstalledError, match=f"^{re.escape(message)}$"):
        find_backend(MODULE)
    with pytest.raises(BackendNotInstalledError, match=f"^{re.escape(message)}$"):
        backend_named("newer")


def test_an_older_backend_works_while_its_version_is_supported(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "API_VERSION", 4)
    monkeypatch.setattr(backends, "OLDEST_API_VERSION", 2)
    versions = {"one": 1, "two": 2, "four": 4, "five": 5}
    listed = [backend(name, name, api_version=number) for name, number in versions.items()]
    install("all", "my-all", backends=make_offering(*listed))
    assert backend_named("two").name == "two"
    assert backend_named("four").name == "four"
    with pytest.raises(BackendNotInstalledError, match=r"supports 2 to 4; upgrade that package: pip .* 'my-one'"):
        backend_named("one")
    with pytest.raises(BackendNotInstalledError, match="supports 2 to 4; upgrade profilerkit: pip install --upgrade "):
        backend_named("five")


def test_a_backend_without_a_version_has_the_current_one() -> None:
    assert BackendInfo("mine", ("mine",), FakeBackend, "mine").api_version == 1


@pytest.mark.parametrize("number", [0, -1, True, "1", 1.0, None])
def test_a_version_that_is_no_number_is_an_argument_error(number: Any) -> None:
    message = (
        f"api_version of backend 'mine'={number!r}: give the version of the interface it is written for, such as 1"
    )
    with pytest.raises(ArgumentError, match=re.escape(message)):
        BackendInfo("mine", ("mine",), FakeBackend, "mine", api_version=number)


@pytest.mark.parametrize("names", ["torch", ("",), (3,)])
def test_invalid_names_of_frameworks_are_an_argument_error(names: Any) -> None:
    message = f"frameworks of backend 'mine'={names!r}: give a tuple of texts"
    with pytest.raises(ArgumentError, match=re.escape(message)):
        BackendInfo("mine", names, FakeBackend, "mine")


def test_a_plugin_with_a_bad_version_is_left_out_and_the_others_go_on(install: Any) -> None:
    install("bad", "a-bad", backends=lambda: [backend("bad", "profilerkit", api_version="two")])
    install("fine", "b-fine", backends=make_offering(backend("fine", "profilerkit")))
    with pytest.warns(PluginWarning, match="hook profilerkit_backends of plugin 'bad' of a-bad 1.0 raised ArgumentErr"):
        assert found(FakeModel()) == "fine"


@pytest.mark.parametrize("method", ["accepts", "environment"])
def test_what_a_method_of_a_backend_raises_names_the_backend(core: None, method: str) -> None:
    def fail(*arguments: Any) -> Any:
        raise KeyError("gone")

    broken = type("Broken", (FakeBackend,), {"name": "broken", method: fail})()
    with pytest.raises(BackendFailedError, match=f"the broken backend raised KeyError: 'gone', at its method {method}"):
        profile(FakeModel(), backend=broken)
