"""Plugins: found through entry points, guarded, and never imported to be recognized."""

import re
import sys
import types
from typing import Any

import numpy
import pytest
from plugin_fixtures import EntryPoints, add_entry_point, info, make_offering, make_raising

import profilerkit
from profilerkit import (
    BackendInfo,
    BackendNotInstalledError,
    PluginWarning,
)
from profilerkit.hooks import offers as plugins
from profilerkit.hooks.backends import backend_named, backends
from profilerkit.hooks.backends import load as load_backend
from profilerkit.hooks.manager import list_plugins, manager
from profilerkit.models.recognition import find_backend
from profilerkit.testing import FakeBackend, FakeModel


def test_profilerkits_own_objects_come_through_the_hooks() -> None:
    assert {"core", "metrics", "torch"} <= {plugin.name for plugin in list_plugins()}
    own = [plugin for plugin in list_plugins() if plugin.name in ("core", "metrics", "torch")]
    assert all(plugin.distribution.startswith("profilerkit ") for plugin in own)
    assert "torch" in [backend.name for backend in backends()]


def test_a_broken_plugin_is_a_warning(install: Any, entry_points: EntryPoints) -> None:
    add_entry_point(entry_points, "broken", "no_such_module_at_all", "my-broken", "2.1")
    install("fine", backends=make_offering(info("mine", "profilerkit")))
    with pytest.warns(PluginWarning, match="plugin 'broken' of my-broken 2.1 cannot be loaded .ModuleNotFoundEr"):
        assert find_backend(FakeModel()).name == "mine"
    assert [plugin.name for plugin in list_plugins()] == ["fine"]


def test_a_misspelt_hook_is_reported_with_the_nearest(install: Any) -> None:
    install("typo", "my-typos", profilerkit_backend=make_offering())
    message = (
        "plugin 'typo' of my-typos 1.0 has a hook 'profilerkit_backend' that does not exist; did you mean "
        "'profilerkit_backends'?"
    )
    with pytest.warns(PluginWarning, match=re.escape(message)):
        manager()


@pytest.mark.parametrize(
    ("error", "said"), [(OSError("no licence"), "OSError: no licence"), (SystemExit(3), "SystemExit: 3")]
)
def test_a_hook_that_raises_is_a_warning(install: Any, error: BaseException, said: str) -> None:
    install("angry", "rage", backends=make_raising(error))
    install("fine", backends=make_offering(info("mine", "profilerkit")))
    with pytest.warns(PluginWarning, match=f"hook profilerkit_backends of plugin 'angry' of rage 1.0 raised {said}"):
        assert [found.name for found in backends()] == ["mine"]


def test_the_first_class_that_a_backend_claims_decides(install: Any) -> None:
    """A Keras model on the torch backend is both; its own class comes first in the MRO."""
    torch_module = type("Module", (), {"__module__": "torchlike.nn"})
    keras_layer = type("Layer", (torch_module,), {"__module__": "keraslike.src.layers"})
    mine = type("MyModel", (keras_layer,), {"__module__": "user_code"})
    found = make_offering(info("torchlike", "torchlike"), info("keraslike", "keraslike"))
    install("both", backends=found)
    assert find_backend(mine()).name == "keraslike"
    assert find_backend(torch_module()).name == "torchlike"


def test_a_backend_whose_framework_is_missing_says_what_to_install(install: Any) -> None:
    def load() -> Any:
        raise ImportError("No module named 'jaxlike'")

    broken = BackendInfo("jaxlike", ("profilerkit",), load, "profilerkit[jaxlike]")
    install("jaxlike", backends=make_offering(broken))
    with pytest.raises(BackendNotInstalledError, match=r"the jaxlike backend cannot be used: No module .*pip install"):
        find_backend(FakeModel())
    with pytest.raises(BackendNotInstalledError):
        backend_named("jaxlike")


@pytest.mark.parametrize("error", [ImportError("cannot import name 'x'", name="numpy"), AttributeError("no 'x'")])
def test_a_backend_that_fails_to_load_under_a_release_that_is_not_tested_says_so(
    install: Any, error: Exception
) -> None:
    broken = BackendInfo("jaxlike", ("profilerkit",), make_raising(error), "jaxlike", tested={"numpy": ("0.1", "0.2")})
    install("jaxlike", backends=make_offering(broken))
    message = rf"{error}; the jaxlike backend is tested with numpy 0.1 to 0.2, and {numpy.__version__} is installed; "
    with pytest.raises(BackendNotInstalledError, match=re.escape(message)):
        find_backend(FakeModel())


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError("libjaxlike.so: undefined symbol"), "OSError: libjaxlike.so: undefined symbol"),
        (RuntimeError("no driver"), "RuntimeError: no driver"),
    ],
)
def test_a_backend_whose_framework_is_broken_names_its_plugin(install: Any, error: Exception, said: str) -> None:
    def hook() -> list[BackendInfo]:  # its infos are made anew at each call
        return [BackendInfo("jaxlike", ("profilerkit",), make_raising(error), "profilerkit[jaxlike]")]

    install("jaxy", "my-jax", backends=hook)
    message = (
        f"the jaxlike backend of plugin 'jaxy' of my-jax 1.0 cannot be used: {said}; reinstall or update it with: "
        "pip install --upgrade 'profilerkit[jaxlike]'; to do without it, set PROFILERKIT_DISABLE_PLUGINS=jaxy, or run "
        "profilerkit --no-plugins"
    )
    with pytest.raises(BackendNotInstalledError, match=f"^{re.escape(message)}$"):
        find_backend(FakeModel())
    with pytest.raises(BackendNotInstalledError, match=f"^{re.escape(message)}$"):
        backend_named("jaxlike")


def test_a_load_that_returns_no_backend_names_its_plugin(install: Any) -> None:
    load: Any = dict
    install("jaxy", "my-jax", backends=make_offering(BackendInfo("jaxlike", ("profilerkit",), load, "jaxlike")))
    message = "the jaxlike backend of plugin 'jaxy' of my-jax 1.0 cannot be used: its load returned {}, which is no Bac"
    with pytest.raises(BackendNotInstalledError, match=re.escape(message)):
        find_backend(FakeModel())
    stray = BackendInfo("stray", (), load, "stray")
    with pytest.raises(BackendNotInstalledError, match="the stray backend cannot be used: its load returned {}"):
        load_backend(stray)


def test_claims_that_raises_is_a_warning_and_the_next_backend_is_tried(install: Any) -> None:
    class Derived(FakeModel):
        """Has two classes that both backends know."""

    def claims(model: Any) -> bool:
        asked.append(model)
        raise ValueError("what is this?")

    def claims_not(model: Any) -> bool:
        raise profilerkit.BackendNotFoundError("convert it first")

    asked: list[Any] = []
    Derived.__module__ = "profilerkit.derived"
    install("bad", "a-bad", backends=make_offering(BackendInfo("bad", ("profilerkit",), FakeBackend, "bad", claims)))
    install("mine", "b-mine", backends=make_offering(info("mine", "profilerkit")))
    message = "claims of the bad backend of plugin 'bad' of a-bad 1.0 raised ValueError: what is this.; it is left out"
    with pytest.warns(PluginWarning, match=message):
        assert find_backend(Derived()).name == "mine"
    assert len(asked) == 1
    none = BackendInfo("none", ("profilerkit",), FakeBackend, "none", claims_not)
    install("none", "0-none", backends=make_offering(none))
    plugins.forget()
    with pytest.raises(profilerkit.BackendNotFoundError, match="^convert it first$"):
        find_backend(FakeModel())


def test_no_installed_backend_is_an_error(entry_points: EntryPoints) -> None:
    with pytest.raises(profilerkit.BackendNotFoundError, match="none: reinstall profilerkit"):
        find_backend(FakeModel())
    with pytest.raises(profilerkit.BackendNotFoundError, match="no backend 'torch'; installed, nearest first: none"):
        backend_named("torch")


def test_torch_missing_or_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    from profilerkit_torch import plugin

    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(__version__="2.1.0+cpu"))
    with pytest.raises(ImportError, match=r"torch 2.1.0\+cpu is too old, 2.6 or newer is needed"):
        plugin.load()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="torch"):
        plugin.load()
