"""Plugins: found through entry points, guarded, and never imported to be recognized."""

import re
import sys
import types
from typing import Any

import numpy
import pytest
from plugin_fixtures import EntryPoints, info, make_offering, make_raising

import profilerkit
from profilerkit import (
    BackendInfo,
    BackendNotInstalledError,
    PluginWarning,
)
from profilerkit.hooks.backends import backend_named, backends, load
from profilerkit.hooks.manager import list_plugins, manager
from profilerkit.hooks.plugin_info import Offer, PluginInfo
from profilerkit.models.recognition import find_backend
from profilerkit.testing import FakeBackend, FakeModel


def test_profilerkits_own_objects_come_through_the_hooks() -> None:
    assert {"core", "metrics", "torch"} <= {plugin.name for plugin in list_plugins()}
    own = [plugin for plugin in list_plugins() if plugin.name in ("core", "metrics", "torch")]
    assert all(plugin.distribution.startswith("profilerkit ") for plugin in own)
    assert "torch" in [backend.name for backend in backends()]


@pytest.mark.parametrize(
    ("hook", "meant"),
    [
        ("profilerkit_backend", "profilerkit_backends"),
        ("profilerkit_functions", "profilerkit_profiler_functions"),  # it has all words; profilerkit_options is shorter
        ("profilerkit_keys", "profilerkit_status_keys"),
    ],
)
def test_a_misspelt_hook_is_reported_with_the_nearest(hook: str, meant: str, install: Any) -> None:
    install("typo", "my-typos", **{hook: make_offering()})
    message = f"plugin 'typo' of my-typos 1.0 has a hook {hook!r} that does not exist; did you mean {meant!r}?"
    with pytest.warns(PluginWarning, match=re.escape(message)):
        manager()


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
    make: Any = dict
    install("jaxy", "my-jax", backends=make_offering(BackendInfo("jaxlike", ("profilerkit",), make, "jaxlike")))
    message = "the jaxlike backend of plugin 'jaxy' of my-jax 1.0 cannot be used: its load returned {}, which is no Bac"
    with pytest.raises(BackendNotInstalledError, match=re.escape(message)):
        find_backend(FakeModel())


def test_all_profilers_share_a_backend_until_a_plugin_is_registered(install: Any) -> None:
    install("mine", "my-plugin", backends=make_offering(info("mine", "profilerkit")))
    first = find_backend(FakeModel())
    assert find_backend(FakeModel()) is backend_named("mine") is first
    manager().register(types.ModuleType("later"))
    assert backend_named("mine") is not first, "the new plugin may have formulas for it"


def test_what_loads_a_backend_need_not_be_hashable(install: Any) -> None:
    class Load:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self) -> FakeBackend:
            return FakeBackend()

    install("mine", "my-plugin", backends=make_offering(BackendInfo("mine", ("profilerkit",), Load(), "mine")))
    assert find_backend(FakeModel()) is backend_named("mine")


def test_an_offer_that_is_gone_leaves_its_backend_to_no_other(install: Any) -> None:
    """Each may have the place in memory of the one before."""
    for number in range(20):
        name = f"made-{number}"
        assert load(Offer(PluginInfo("mine", "mine"), info(name, "profilerkit"))).name == name


def test_claims_may_refuse_a_model_that_no_backend_can_profile(install: Any) -> None:
    """It raises on purpose then; any other error of it is a warning."""

    def claims(model: Any) -> bool:
        raise profilerkit.BackendNotFoundError("convert it first")

    none = BackendInfo("none", ("profilerkit",), FakeBackend, "none", claims)
    install("none", "0-none", backends=make_offering(none, info("mine", "profilerkit")))
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
