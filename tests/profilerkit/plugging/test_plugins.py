"""Plugins: found through entry points, guarded, and never imported to be recognised."""

import gc
import json
import re
import subprocess
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from plugin_fixtures import EntryPoints, add_entry_point, info, offering, raising

import profilerkit
from profilerkit import (
    BackendInfo,
    BackendNotInstalledError,
    Comparison,
    InputError,
    LoaderInfo,
    Metric,
    ModelFailedError,
    NotOfferedError,
    PluginWarning,
    Profiler,
    ProfilerFunction,
    RegistrationConflictError,
    RendererInfo,
    Report,
    StatusKey,
    UnknownStatusError,
    compare,
    hookimpl,
    hookspecs,
    profile,
)
from profilerkit.cost import Cost
from profilerkit.costs import CostRegistry
from profilerkit.plugging import loaders
from profilerkit.plugging import offers as plugins
from profilerkit.render import render, renderer
from profilerkit.testing import FakeBackend, FakeModel

GROUP = "profilerkit"
HOOKS = [name for name in vars(hookspecs) if name.startswith("profilerkit_")]


def test_ours_come_through_the_same_door() -> None:
    assert {"core", "metrics", "torch"} <= {plugin.name for plugin in plugins.installed_plugins()}
    own = [plugin for plugin in plugins.installed_plugins() if plugin.name in ("core", "metrics", "torch")]
    assert all(plugin.distribution.startswith("profilerkit ") for plugin in own)
    assert "torch" in [backend.name for backend in plugins.backends()]


def test_a_broken_plugin_is_a_warning_and_life_goes_on(install: Any, entry_points: EntryPoints) -> None:
    add_entry_point(entry_points, "broken", "no_such_module_at_all", "my-broken", "2.1")
    install("fine", backends=offering(info("mine", "profilerkit")))
    with pytest.warns(PluginWarning, match="plugin 'broken' of my-broken 2.1 cannot be loaded .ModuleNotFoundEr"):
        assert plugins.find_backend(FakeModel()).name == "mine"
    assert [plugin.name for plugin in plugins.installed_plugins()] == ["fine"]


def test_a_misspelt_hook_is_reported_with_the_nearest(install: Any) -> None:
    install("typo", "my-typos", profilerkit_backend=offering())
    message = (
        "plugin 'typo' of my-typos 1.0 has a hook 'profilerkit_backend' that does not exist; did you mean "
        "'profilerkit_backends'?"
    )
    with pytest.warns(PluginWarning, match=re.escape(message)):
        plugins.manager()


@pytest.mark.parametrize(
    ("error", "said"), [(OSError("no licence"), "OSError: no licence"), (SystemExit(3), "SystemExit: 3")]
)
def test_a_hook_that_raises_is_a_warning_and_life_goes_on(install: Any, error: BaseException, said: str) -> None:
    install("angry", "rage", backends=raising(error))
    install("fine", backends=offering(info("mine", "profilerkit")))
    with pytest.warns(PluginWarning, match=f"hook profilerkit_backends of plugin 'angry' of rage 1.0 raised {said}"):
        assert [found.name for found in plugins.backends()] == ["mine"]


def test_the_first_class_that_a_backend_claims_decides(install: Any) -> None:
    """A Keras model on the torch backend is both; its own class comes first in the MRO."""
    torch_module = type("Module", (), {"__module__": "torchlike.nn"})
    keras_layer = type("Layer", (torch_module,), {"__module__": "keraslike.src.layers"})
    mine = type("MyModel", (keras_layer,), {"__module__": "user_code"})
    found = offering(info("torchlike", "torchlike"), info("keraslike", "keraslike"))
    install("both", backends=found)
    assert plugins.find_backend(mine()).name == "keraslike"
    assert plugins.find_backend(torch_module()).name == "torchlike"


def test_a_backend_whose_framework_is_missing_says_what_to_install(install: Any) -> None:
    def load() -> Any:
        raise ImportError("No module named 'jaxlike'")

    broken = BackendInfo("jaxlike", ("profilerkit",), load, "profilerkit[jaxlike]")
    install("jaxlike", backends=offering(broken))
    with pytest.raises(BackendNotInstalledError, match=r"the jaxlike backend cannot be used: No module .*pip install"):
        plugins.find_backend(FakeModel())
    with pytest.raises(BackendNotInstalledError):
        plugins.backend_named("jaxlike")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError("libjaxlike.so: undefined symbol"), "OSError: libjaxlike.so: undefined symbol"),
        (RuntimeError("no driver"), "RuntimeError: no driver"),
    ],
)
def test_a_backend_whose_framework_is_broken_says_whose_it_is(install: Any, error: Exception, said: str) -> None:
    def hook() -> list[BackendInfo]:  # its infos are made anew at each call
        return [BackendInfo("jaxlike", ("profilerkit",), raising(error), "profilerkit[jaxlike]")]

    install("jaxy", "my-jax", backends=hook)
    message = (
        f"the jaxlike backend of plugin 'jaxy' of my-jax 1.0 cannot be used: {said}; reinstall or update it with: "
        "pip install --upgrade 'profilerkit[jaxlike]'; to do without it, set PROFILERKIT_DISABLE_PLUGINS=jaxy, or run "
        "profilerkit --no-plugins"
    )
    with pytest.raises(BackendNotInstalledError, match=f"^{re.escape(message)}$"):
        plugins.find_backend(FakeModel())
    with pytest.raises(BackendNotInstalledError, match=f"^{re.escape(message)}$"):
        plugins.backend_named("jaxlike")


def test_a_load_that_returns_no_backend_says_whose_it_is(install: Any) -> None:
    load: Any = dict
    install("jaxy", "my-jax", backends=offering(BackendInfo("jaxlike", ("profilerkit",), load, "jaxlike")))
    message = "the jaxlike backend of plugin 'jaxy' of my-jax 1.0 cannot be used: its load returned {}, which is no Bac"
    with pytest.raises(BackendNotInstalledError, match=re.escape(message)):
        plugins.find_backend(FakeModel())
    stray = BackendInfo("stray", (), load, "stray")
    with pytest.raises(BackendNotInstalledError, match="the stray backend cannot be used: its load returned {}"):
        plugins.load(stray)


def test_claims_that_raises_is_a_warning_and_the_next_backend_is_asked(install: Any) -> None:
    class Derived(FakeModel):
        """Has two classes that both backends know."""

    def claims(model: Any) -> bool:
        asked.append(model)
        raise ValueError("what is this?")

    def claims_not(model: Any) -> bool:
        raise profilerkit.BackendNotFoundError("convert it first")

    asked: list[Any] = []
    Derived.__module__ = "profilerkit.derived"
    install("bad", "a-bad", backends=offering(BackendInfo("bad", ("profilerkit",), FakeBackend, "bad", claims)))
    install("mine", "b-mine", backends=offering(info("mine", "profilerkit")))
    message = "claims of the bad backend of plugin 'bad' of a-bad 1.0 raised ValueError: what is this.; it is left out"
    with pytest.warns(PluginWarning, match=message):
        assert plugins.find_backend(Derived()).name == "mine"
    assert len(asked) == 1
    none = BackendInfo("none", ("profilerkit",), FakeBackend, "none", claims_not)
    install("none", "0-none", backends=offering(none))
    plugins.forget()
    with pytest.raises(profilerkit.BackendNotFoundError, match="^convert it first$"):
        plugins.find_backend(FakeModel())


def test_nothing_installed_says_so(entry_points: EntryPoints) -> None:
    with pytest.raises(profilerkit.BackendNotFoundError, match="none: reinstall profilerkit"):
        plugins.find_backend(FakeModel())
    with pytest.raises(profilerkit.BackendNotFoundError, match="no backend 'torch'; installed, nearest first: none"):
        plugins.backend_named("torch")


def test_torch_missing_or_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    from profilerkit_torch import plugin

    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(__version__="2.1.0+cpu"))
    with pytest.raises(ImportError, match=r"torch 2.1.0\+cpu is too old, 2.10 or newer is needed"):
        plugin.load()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="torch"):
        plugin.load()


# Loading --------------------------------------------------------------------------------------------------------------


def test_loading_is_lazy() -> None:
    code = """
import sys, profilerkit
from click.testing import CliRunner
from profilerkit.cli import cli
for arguments in (["--help"], ["profile", "--help"], ["list", "--help"], ["--version"]):
    assert CliRunner().invoke(cli, arguments).exit_code == 0
loaded = {"profilerkit.plugging.builtin", "profilerkit_metrics.plugin", "profilerkit_torch.plugin"}
print(loaded & set(sys.modules))
from profilerkit.plugging.offers import manager; manager()
print(loaded <= set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["set()", "True"]


def test_own_plugins_come_first_and_the_others_by_package(install: Any, core: None) -> None:
    install("b", "zebra")
    install("a", "yak")
    assert [plugin.name for plugin in plugins.installed_plugins()] == ["core", "a", "b"]


def test_two_packages_may_call_their_plugins_alike(install: Any) -> None:
    install("same", "one", backends=offering(info("first", "x")))
    install("same", "two", backends=offering(info("second", "y")))
    assert [backend.name for backend in plugins.backends()] == ["first", "second"]
    assert [str(plugin) for plugin in plugins.installed_plugins()] == ["'same' of one 1.0", "'same' of two 1.0"]


def test_one_module_is_no_two_plugins(install: Any, entry_points: EntryPoints) -> None:
    module = install("first", "mine", backends=offering(info("fake", "x")))
    add_entry_point(entry_points, "second", module.__name__, "mine")
    with pytest.warns(PluginWarning, match="plugin 'second' of mine 1.0 cannot be loaded .*same as plugin 'first' of"):
        assert len(plugins.backends()) == 1


def test_a_hook_with_a_wrong_parameter_leaves_no_trace(install: Any) -> None:
    def wrong(framework: Any) -> list[BackendInfo]:
        raise AssertionError("never called")

    install("wrong", "odd", backends=wrong, renderers=offering(RendererInfo("mine", lambda: str)))
    with pytest.warns(PluginWarning, match="plugin 'wrong' of odd 1.0 cannot be loaded .PluginValidationError"):
        assert plugins.backends() == ()
    assert plugins.installed_plugins() == ()
    assert plugins.offered_renderers() == []


def test_a_hook_may_be_called_otherwise(install: Any) -> None:
    module = install("other", "my-other")
    vars(module)["my_backends"] = hookimpl(offering(info("fake", "x")), specname="profilerkit_backends")
    assert [backend.name for backend in plugins.backends()] == ["fake"]


def test_a_hook_that_is_not_marked_is_reported(install: Any) -> None:
    module = install("plain", "plain-pack")
    vars(module)["profilerkit_backends"] = offering(info("fake", "x"))
    with pytest.warns(
        PluginWarning, match="'plain' of plain-pack 1.0 has a function 'profilerkit_backends' that is no"
    ):
        plugins.manager()


def test_a_plugin_that_leaves_the_process_does_not(
    entry_points: EntryPoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leaving_plugin.py").write_text("import sys; sys.exit('no framework')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    add_entry_point(entry_points, "leaving", "leaving_plugin")
    with pytest.warns(
        PluginWarning, match="plugin 'leaving' of an unknown package cannot be loaded .SystemExit: no fra"
    ):
        assert plugins.backends() == ()


def test_nothing_is_loaded_by_halves(install: Any, entry_points: EntryPoints) -> None:
    """A warning that the user made an error stops the loading; the next use starts again."""
    add_entry_point(entry_points, "broken", "no_such_module_at_all", "a-broken")
    install("fine", "b-fine", backends=offering(info("mine", "profilerkit")))
    for _ in range(2):
        with pytest.raises(PluginWarning, match="cannot be loaded"):
            plugins.backends()


def test_a_plugin_may_ask_for_the_manager_while_it_is_loaded(
    entry_points: EntryPoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asking_plugin.py").write_text("from profilerkit.plugging.offers import manager\nmine = manager()")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "asking_plugin", raising=False)
    add_entry_point(entry_points, "asking", "asking_plugin")
    assert plugins.manager() is sys.modules["asking_plugin"].mine


def test_configure_is_called_once_with_all_plugins_there(install: Any) -> None:
    seen: list[list[str]] = []

    def configure(manager: Any) -> None:
        assert manager is plugins.manager()
        seen.append(sorted(name for name, _ in manager.list_name_plugin()))

    install("a", "one", configure=configure)
    install("b", "two", backends=offering(info("mine", "profilerkit")))
    plugins.backends()
    plugins.find_backend(FakeModel())
    assert seen == [["a", "b"]]


def test_a_configure_that_raises_is_a_warning(install: Any) -> None:
    install("bad", "worse", configure=raising(ValueError("no such file")))
    with pytest.warns(
        PluginWarning, match="hook profilerkit_configure of plugin 'bad' of worse 1.0 raised ValueError: n"
    ):
        plugins.manager()


# Switching off --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", ["mine", " MINE ,", "my-pack", "My_Pack", "other,mine"])
def test_a_plugin_is_switched_off_by_its_name_or_its_package(
    install: Any, core: None, monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    install("mine", "my-pack", backends=raising(AssertionError("never called")))
    install("other", "other-pack")
    monkeypatch.setenv("PROFILERKIT_DISABLE_PLUGINS", names)
    assert plugins.backends() == ()
    assert "mine" in [plugin.name for plugin in plugins.switched_off_plugins()]
    assert "mine" not in [plugin.name for plugin in plugins.installed_plugins()]
    with pytest.raises(profilerkit.BackendNotFoundError, match=r"nearest first: none .plugins switched off: mine"):
        plugins.backend_named("x")


def test_a_plugin_that_is_switched_off_is_not_imported(
    entry_points: EntryPoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_entry_point(entry_points, "broken", "no_such_module_at_all", "my-broken")
    monkeypatch.setenv("PROFILERKIT_DISABLE_PLUGINS", "broken")
    assert plugins.installed_plugins() == ()


def test_switching_off_what_is_not_there_is_a_warning(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install("energy", "profilerkit-energy")
    monkeypatch.setenv("PROFILERKIT_DISABLE_PLUGINS", "enrgy")
    message = (
        "PROFILERKIT_DISABLE_PLUGINS names 'enrgy', which is no plugin; installed, nearest first: energy, profilerk"
    )
    with pytest.warns(PluginWarning, match=message):
        plugins.manager()


def test_own_plugins_alone_and_all_of_them_again(install: Any, core: None) -> None:
    install("mine", "my-pack", renderers=offering(RendererInfo("mine", lambda: str)))
    names = [offer.item.name for offer in plugins.offered_renderers()]
    with plugins.own_alone():
        own = [offer.item.name for offer in plugins.offered_renderers()]
        assert [plugin.name for plugin in plugins.switched_off_plugins()] == ["mine"]
    assert {"console", "json"} <= set(own)
    assert [offer.item.name for offer in plugins.offered_renderers()] == names == [*own, "mine"]


def test_where_plugins_are_called_alike_the_package_is_named(
    install: Any, core: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    taking = {"model_loaders": offering(loader("hub", "hub:")), "renderers": offering(RendererInfo("x", lambda: str))}
    install("same", "my-one", **taking)
    install("Same", "my-two", **taking | {"model_loaders": offering(loader("hubs", "hub"))})
    with pytest.raises(RegistrationConflictError, match="switch one plugin off: PROFILERKIT_DISABLE_PLUGINS=my-two$"):
        plugins.offered_renderers()
    with pytest.raises(InputError, match="switch one off: PROFILERKIT_DISABLE_PLUGINS=my-two$"):
        loaders.load_model("hub:net")
    monkeypatch.setenv("PROFILERKIT_DISABLE_PLUGINS", "my-two")
    plugins.forget()
    assert plugins.without_switched_off() == " (plugins switched off: Same (my-two 1.0))"
    assert loaders.load_model("hub:net") == "hub:net"


def test_a_package_called_like_another_ones_plugin(install: Any) -> None:
    for name, package in (("energy", "aaa"), ("other", "energy"), ("unknown", ""), ("unknown", "zzz")):
        install(name, package)
    said = [plugin.switching_off.partition("=")[2] for plugin in plugins.installed_plugins()]
    assert sorted(said) == ["aaa", "other", "unknown", "zzz"]


# What hooks may return ------------------------------------------------------------------------------------------------


class Depth(Metric):
    """How deep it is."""

    NAME = "depth"


class ComputeDepth(ProfilerFunction):
    def get_bounded_status_keys(self) -> type[StatusKey]:
        return Depth

    def __call__(self, trace: Any) -> int:
        return len(trace.layers)


class OtherDepth(Metric):
    """Another depth."""

    NAME = "depth"


class ComputeOtherDepth(ProfilerFunction):
    def get_bounded_status_keys(self) -> type[StatusKey]:
        return OtherDepth

    def __call__(self) -> int:
        return -1


class Greedy(ProfilerFunction):
    def get_bounded_status_keys(self) -> type[StatusKey]:
        return Depth

    def __call__(self, **kwargs: Any) -> int:
        return 0


class Nameless(ComputeDepth):
    def get_bounded_status_keys(self) -> type[StatusKey]:
        return StatusKey


FAKE = info("fake", "profilerkit")


def test_a_hook_that_returns_none_offers_nothing(install: Any) -> None:
    install("none", **dict.fromkeys(HOOKS, offering_none))
    assert plugins.backends() == ()
    assert plugins.default_functions(FakeBackend()) == []
    plugins.equipped(FakeBackend())
    assert plugins.offered_status_keys() == []


def offering_none() -> None:
    """Return None, as a hook does that has nothing for this backend."""


@pytest.mark.parametrize(
    ("hook", "item", "message"),
    [
        ("backends", "torch", "offers 'torch', which is no BackendInfo and is left out"),
        ("profiler_functions", Depth(), r"offers Depth\(.*\), which is no ProfilerFunction"),
        (
            "profiler_functions",
            ComputeDepth,
            r"no ProfilerFunction and is left out; return an instance, ComputeDepth\(",
        ),
        ("profiler_functions", Greedy(), r"offers Greedy, which is left out: TypeError: cannot register Greedy: arg"),
        (
            "profiler_functions",
            Nameless(),
            "offers Nameless, which is left out: TypeError: status key StatusKey of Name",
        ),
        ("status_keys", Depth(), r"offers Depth\(.*\), which is no type"),
        ("status_keys", FakeModel, "FakeModel'>, which is no StatusKey with a NAME"),
        ("renderers", str, "which is no RendererInfo"),
        ("model_loaders", str, "which is no LoaderInfo"),
    ],
)
def test_what_is_of_the_wrong_kind_is_left_out(install: Any, hook: str, item: Any, message: str) -> None:
    install("wrong", "odd", **{hook: offering(item)})
    install("fine", "pure", profiler_functions=offering(ComputeDepth()))
    with pytest.warns(PluginWarning, match=f"hook profilerkit_{hook} of plugin 'wrong' of odd 1.0 {'.*' + message}"):
        functions = plugins.default_functions(FakeBackend())
        plugins.backends()
    assert [type(function) for function in functions] == [ComputeDepth]


def test_every_hook_says_in_a_line_what_it_is_for() -> None:
    assert len(HOOKS) == 8
    for name in HOOKS:
        documentation = getattr(hookspecs, name).__doc__
        assert documentation.endswith(".")
        assert "\n" not in documentation


# Conflicts ------------------------------------------------------------------------------------------------------------


def loader(name: str, prefix: str, load: Callable[[str], Any] = lambda spec: spec) -> LoaderInfo:
    return LoaderInfo(name, lambda spec: spec.startswith(prefix), load, f"{prefix}NAME")


@pytest.mark.parametrize(
    ("hook", "item", "what", "find"),
    [
        ("backends", info("mine", "x"), "backend 'mine'", plugins.backends),
        ("renderers", RendererInfo("latex", lambda: str), "renderer 'latex'", plugins.offered_renderers),
        ("renderers", RendererInfo("latex", lambda: str), "renderer 'latex'", lambda: renderer("latex")),
        ("model_loaders", loader("hub", "hub:"), "model loader 'hub'", lambda: loaders.load_model("hub:net")),
    ],
)
def test_two_plugins_of_one_name_are_an_error_that_names_both(
    install: Any, monkeypatch: pytest.MonkeyPatch, hook: str, item: Any, what: str, find: Callable[[], object]
) -> None:
    install("a", "one", "1.5", **{hook: offering(item)})
    install("b", "two", "2.5", **{hook: offering(item)})
    message = (
        f"two plugins offer {what}: 'a' of one 1.5 and 'b' of two 2.5; uninstall one of the packages, or switch one "
        "plugin off: PROFILERKIT_DISABLE_PLUGINS=b"
    )
    with pytest.raises(RegistrationConflictError) as caught:
        find()
    assert str(caught.value) == message
    monkeypatch.setenv("PROFILERKIT_DISABLE_PLUGINS", "b")
    plugins.forget()
    find()


def test_a_conflict_of_renderers_or_loaders_is_said_before_anything_is_measured(install: Any) -> None:
    model = FakeModel()
    latex = offering(RendererInfo("latex", lambda: str))
    install("a", "one", backends=offering(FAKE), renderers=latex)
    install("b", "two", renderers=latex)
    with pytest.raises(RegistrationConflictError, match="two plugins offer renderer 'latex'"):
        profile(model)
    assert model.calls == 0


def test_one_plugin_that_offers_a_name_twice(install: Any) -> None:
    install("a", "one", renderers=offering(RendererInfo("x", lambda: str), RendererInfo("x", lambda: str)))
    with pytest.raises(
        RegistrationConflictError, match="plugin 'a' of one 1.0 offers renderer 'x' twice; update or un"
    ):
        plugins.offered_renderers()


def test_two_plugins_that_offer_one_status_key(install: Any) -> None:
    install("a", "one", profiler_functions=offering(ComputeDepth()))
    install("b", "two", profiler_functions=offering(ComputeOtherDepth()))
    message = (
        "two plugins offer status key 'depth' to the fake backend: 'a' of one 1.0 and 'b' of two 1.0; uninstall one of "
        "the packages, or switch one plugin off: PROFILERKIT_DISABLE_PLUGINS=b; or leave the key out: "
        "register_defaults(leave_out=['depth'])"
    )
    profiler = Profiler(FakeModel(), backend=FakeBackend())
    with pytest.raises(RegistrationConflictError) as caught:
        profiler.register_defaults()
    assert str(caught.value) == message
    assert list(profiler.status_keys()) == []


def test_a_key_in_conflict_can_be_left_out_or_overridden(install: Any) -> None:
    install("a", "one", profiler_functions=offering(ComputeDepth()))
    install("b", "two", profiler_functions=offering(ComputeOtherDepth()))
    for leave_out in ("depth", ["depth"]):
        left = Profiler(FakeModel(), backend=FakeBackend()).register_defaults(leave_out=leave_out)
        assert list(left.status_keys()) == []
    assert list(profile(FakeModel(), backend=FakeBackend(), leave_out="depth")) == []
    assert list(compare(FakeModel(), FakeModel(), backend=FakeBackend(), leave_out="depth").reference) == []
    with pytest.raises(UnknownStatusError, match="^unknown status 'dept'; leave_out knows, nearest first: depth$"):
        Profiler(FakeModel(), backend=FakeBackend()).register_defaults(leave_out="dept")
    report = profile(FakeModel(), backend=FakeBackend(), functions=[ComputeOtherDepth()])
    assert report["depth"] == -1


def test_one_key_for_two_backends_is_no_conflict(install: Any) -> None:
    def for_fake(backend: Any) -> list[ProfilerFunction] | None:
        return [ComputeDepth()] if backend.name == "fake" else None

    def for_other(backend: Any) -> list[ProfilerFunction] | None:
        return [ComputeDepth()] if backend.name == "other" else None

    install("a", "one", profiler_functions=for_fake, status_keys=offering(Depth))
    install("b", "two", profiler_functions=for_other, status_keys=offering(Depth))
    assert len(plugins.default_functions(FakeBackend())) == 1
    assert len(plugins.default_functions(info("other").load())) == 1


def test_two_keys_of_one_name_are_a_conflict_whatever_computes_them(install: Any) -> None:
    install("a", "one", status_keys=offering(Depth))
    install("b", "two", status_keys=offering(OtherDepth))
    with pytest.raises(
        RegistrationConflictError, match="two plugins offer status key 'depth': 'a' of one 1.0 and 'b' of"
    ):
        plugins.offered_status_keys()
    with pytest.raises(RegistrationConflictError, match="two plugins offer status key 'depth'"):
        plugins.default_functions(FakeBackend())
    assert plugins.default_functions(FakeBackend(), leave_out=["depth"]) == []


def test_a_key_that_another_plugin_names_as_its_own_is_a_conflict(install: Any, core: None) -> None:
    class Trace(StatusKey):
        """Not the trace of the core."""

        NAME = "trace"

    class ComputeOther(ComputeDepth):
        def get_bounded_status_keys(self) -> type[StatusKey]:
            return Trace

        def __call__(self, inputs: Any) -> int:
            return 0

    install("a", "one", profiler_functions=offering(ComputeOther()))
    with pytest.raises(
        RegistrationConflictError, match="'trace' to the fake backend: 'core' of profilerkit 0.1 and 'a' o"
    ):
        plugins.default_functions(FakeBackend())


# Renderers ------------------------------------------------------------------------------------------------------------


def test_renderers_are_found_by_the_hook(install: Any, core: None) -> None:
    def shout(result: Report | Comparison) -> str:
        return f"{type(result).__name__}!"

    def detailed(result: Report | Comparison, details: bool = False) -> str:
        return f"details={details}"

    mine = [RendererInfo("shout", lambda: shout), RendererInfo("detailed", lambda: detailed, "with options")]
    install("mine", backends=offering(FAKE), renderers=offering(*mine))
    report = profile(FakeModel())
    assert renderer("shout")(report) == "Report!"
    assert render(report, "shout", details=True) == "Report!"
    assert render(report, "detailed", details=True) == "details=True"
    assert render(report) == report.to_text() == str(report)
    assert json.loads(render(report, "json")) == report.to_dict()
    comparison = compare(FakeModel(), FakeModel())
    assert render(comparison, "shout") == "Comparison!"
    assert json.loads(render(comparison, "json")) == comparison.to_dict()
    assert render(comparison, details=True) == comparison.to_text(details=True)


def test_an_unknown_renderer_lists_the_known_ones(core: None) -> None:
    with pytest.raises(NotOfferedError, match="no renderer 'jsn'; installed, nearest first: json, "):
        renderer("jsn")


def test_no_renderer_at_all_says_so(entry_points: EntryPoints) -> None:
    with pytest.raises(
        NotOfferedError, match="no renderer 'console'; installed, nearest first: none: reinstall profiler"
    ):
        renderer("console")


def test_a_renderer_that_cannot_be_loaded_says_why(install: Any) -> None:
    install("plot", "my-plots", renderers=offering(RendererInfo("plot", raising(ImportError("No module 'plotlib'")))))
    message = "renderer 'plot' of plugin 'plot' of my-plots 1.0 cannot be used .ImportError: No module 'plotlib'"
    with pytest.raises(NotOfferedError, match=message):
        renderer("plot")


def test_what_comes_with_profilerkit_goes_through_the_hooks(entry_points: EntryPoints) -> None:
    """Without the entry points nothing is there: no metric, no loader, no form to print."""
    report = profile(FakeModel(), backend=FakeBackend())
    assert list(report) == []
    with pytest.raises(NotOfferedError):
        str(report)
    with pytest.raises(InputError, match="give .no plugin offers a way to load one"):
        loaders.load_model("json:loads")


# Loaders --------------------------------------------------------------------------------------------------------------


def test_loaders_of_others_are_asked_before_our_own(install: Any, core: None) -> None:
    install("hub", "my-hub", model_loaders=offering(loader("hub", "hub:", lambda spec: spec.removeprefix("hub:"))))
    assert loaders.load_model("hub:net") == "net", "our own loader of modules would take it too"
    assert loaders.load_model("json:JSONDecoder").__class__.__name__ == "JSONDecoder"
    assert loaders.find_loader("models/net.py:Net").item.name == "file"
    assert loaders.find_loader("package.module:Net").item.name == "module"


def test_a_text_that_two_packages_take_is_an_error(install: Any, core: None) -> None:
    install("a", "one", model_loaders=offering(loader("hub", "hub:")))
    install("b", "two", model_loaders=offering(loader("hubs", "hub")))
    message = (
        "several model loaders take 'hub:net': 'hub' (plugin 'a' of one 1.0) and 'hubs' (plugin 'b' of two 1.0); "
        "switch one off: PROFILERKIT_DISABLE_PLUGINS=b"
    )
    with pytest.raises(InputError, match=re.escape(message)):
        loaders.load_model("hub:net")
    assert loaders.load_model("hubs") == "hubs"


def test_a_text_that_nobody_takes_lists_what_can_be_given(install: Any, core: None) -> None:
    install("hub", "my-hub", model_loaders=offering(loader("hub", "hub:")))
    message = "'net' does not say where the model is; give package.module:name or path/to/file.py:name or hub:NAME"
    with pytest.raises(InputError, match=re.escape(message)):
        loaders.load_model("net")


def test_a_loader_that_raises_when_asked_is_left_out(install: Any, core: None) -> None:
    def accepts(spec: str) -> bool:
        raise KeyError("no table")

    install("bad", "worse", model_loaders=offering(LoaderInfo("bad", accepts, str, "bad:NAME")))
    with pytest.warns(
        PluginWarning, match="model loader 'bad' of plugin 'bad' of worse 1.0 raised KeyError: 'no table'"
    ):
        assert loaders.find_loader("json:loads").item.name == "module"


def test_a_loader_that_fails_is_named(install: Any, core: None) -> None:
    def load(spec: str) -> Any:
        if spec == "hub:none":
            raise InputError("the hub has no 'none'")
        raise OSError("offline")

    install("hub", "my-hub", model_loaders=offering(loader("hub", "hub:", load)))
    with pytest.raises(
        ModelFailedError, match="model loader 'hub' of plugin 'hub' of my-hub 1.0 raised OSError for 'hub:n"
    ):
        loaders.load_model("hub:net")
    with pytest.raises(InputError, match="^the hub has no 'none'$"):
        loaders.load_model("hub:none")


@pytest.mark.parametrize("spec", ["..:name", "no.such.package:name", "json.nothing:name"])
def test_a_module_that_is_not_there(core: None, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(
        InputError, match=f"cannot import '{re.escape(spec.partition(':')[0])}': there is no such module"
    ):
        loaders.load_model(spec)


def test_a_package_that_imports_what_is_not_there_is_not_a_missing_one(
    core: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_installed").mkdir()
    (tmp_path / "half_installed" / "__init__.py").write_text("import no_such_framework", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    message = "half_installed.models raised ModuleNotFoundError: No module named 'no_such_framework'"
    with pytest.raises(ModelFailedError, match=message):
        loaders.load_model("half_installed.models:net")


# Cost formulas --------------------------------------------------------------------------------------------------------


class Priced(FakeBackend):
    """Takes cost formulas, as a framework's backend does: for all its instances."""

    name = "priced"
    shares_costs: ClassVar[bool] = True
    costs: ClassVar[dict[Any, Any]] = {}

    def add_costs(self, costs: Mapping[Any, Callable[..., Any]]) -> None:
        for op in costs:
            if op in ("own", *self.costs):
                raise RegistrationConflictError(f"operator {op} has a cost formula already")
        self.costs.update(costs)


@pytest.fixture
def priced(monkeypatch: pytest.MonkeyPatch) -> BackendInfo:
    """A backend that takes formulas and has none."""
    monkeypatch.setattr(Priced, "costs", {})
    return BackendInfo("priced", ("profilerkit",), Priced, "priced")


def free(*args: Any, **kwargs: Any) -> Cost:
    return Cost(0, 0)


def test_cost_formulas_are_given_to_a_backend_once_when_it_is_first_used(install: Any, priced: BackendInfo) -> None:
    asked = []

    def op_costs(backend: Any) -> dict[str, Any]:
        asked.append(backend.name)
        return {"attend": free}

    install("mine", "my-costs", backends=offering(priced), op_costs=op_costs)
    plugins.manager()
    assert Priced.costs == {}
    Profiler(FakeModel())
    assert list(Priced.costs) == ["attend"]
    assert Priced.costs["attend"]() == Cost(0, 0)
    Profiler(FakeModel(), backend="priced")
    Profiler(FakeModel(), backend=Priced())
    assert asked == ["priced"]
    assert [(plugin.name, dict(costs)) for plugin, costs in plugins.op_costs(Priced())] == [("mine", {"attend": free})]


def test_a_backend_with_a_table_of_its_own_gets_them_at_each_instance(install: Any) -> None:
    class Single(FakeBackend):
        name = "single"
        __hash__ = None  # type: ignore[assignment]

        def __init__(self) -> None:
            super().__init__()
            self.table = CostRegistry("single")

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Single)

        def add_costs(self, costs: Mapping[Any, Callable[..., Any]]) -> None:
            for op, formula in costs.items():
                self.table.register(op, formula, override=False)

    install("mine", "my-costs", op_costs=lambda: {"attend": free})
    first, second = Single(), Single()
    for backend in (first, second, first):
        Profiler(FakeModel(), backend=backend)
        assert list(backend.table) == ["attend"]
        assert [dict(costs) for _, costs in plugins.op_costs(backend)] == [{"attend": free}]
    kept = id(second)
    assert kept in plugins._formulas
    del backend, second
    gc.collect()
    assert kept not in plugins._formulas


@pytest.mark.parametrize("given", ["instance", "class"])
def test_a_backend_that_no_plugin_offers_gets_them_too(install: Any, priced: BackendInfo, given: str) -> None:
    class Mine(Profiler):
        backend_class = Priced

    install("mine", op_costs=lambda: {"attend": free})
    Profiler(FakeModel(), backend=Priced()) if given == "instance" else Mine(FakeModel())
    assert list(Priced.costs) == ["attend"]
    assert Priced.costs["attend"]() == Cost(0, 0)


def test_two_plugins_that_offer_a_formula_for_one_operator(install: Any, priced: BackendInfo) -> None:
    install("a", "one", backends=offering(priced), op_costs=lambda: {"attend": free})
    install("b", "two", op_costs=lambda: {"other": free, "attend": free})
    message = (
        "two plugins offer a cost formula for attend to the priced backend: 'a' of one 1.0 and 'b' of two 1.0; "
        "uninstall one of the packages, or switch one plugin off: PROFILERKIT_DISABLE_PLUGINS=b"
    )
    for _ in range(2):  # it is no better the second time
        with pytest.raises(RegistrationConflictError) as caught:
            Profiler(FakeModel())
        assert str(caught.value) == message
    assert list(Priced.costs) == ["attend"]
    assert Priced.costs["attend"]() == Cost(0, 0)


def test_a_formula_for_what_the_backend_has_one_for(install: Any, priced: BackendInfo) -> None:
    install("a", "one", backends=offering(priced), op_costs=lambda: {"own": free})
    message = (
        "plugin 'a' of one 1.0 offers a cost formula that the priced backend has already: operator own has a cost "
        "formula already; uninstall that package, or switch the plugin off: PROFILERKIT_DISABLE_PLUGINS=a"
    )
    with pytest.raises(RegistrationConflictError) as caught:
        Profiler(FakeModel())
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ([free], "raised TypeError: it returned .*, which is no mapping of operators to formulas"),
        ({"attend": 3}, "raised TypeError: the formula for attend is 3, which cannot be called"),
    ],
)
def test_formulas_of_the_wrong_kind_are_left_out(install: Any, priced: BackendInfo, costs: Any, message: str) -> None:
    install("a", "one", backends=offering(priced), op_costs=lambda: costs)
    with pytest.warns(PluginWarning, match=f"hook profilerkit_op_costs of plugin 'a' of one 1.0 {message}"):
        Profiler(FakeModel())
    assert Priced.costs == {}


def test_a_backend_that_takes_no_formulas_goes_on_without(install: Any) -> None:
    install("a", "one", backends=offering(FAKE), op_costs=lambda: {"attend": free})
    message = (
        "cost formulas of plugin 'a' of one 1.0 for the fake backend are left out: NotOfferedError: the fake backend"
    )
    with pytest.warns(PluginWarning, match=message):
        Profiler(FakeModel())
    Profiler(FakeModel())  # said once


def test_torch_takes_formulas_for_operators_and_modules() -> None:
    torch = pytest.importorskip("torch")
    from profilerkit_torch import TorchBackend
    from profilerkit_torch.costs import registry

    class Attention(torch.nn.Module):  # type: ignore[misc, name-defined]
        """A module with a formula of its own."""

    with registry.scoped_costs():
        TorchBackend().add_costs({"mylib::attend": free, Attention: free})
        assert registry.module_cost(Attention()) is free
        assert registry.COSTS.get("mylib::attend") is free
        with pytest.raises(RegistrationConflictError, match="aten::mm.* has a cost formula already"):
            TorchBackend().add_costs({"mylib::new": free, "aten::mm": free})
        assert registry.COSTS.get("mylib::new") is None, "all of them or none"


def test_tensorflow_takes_formulas_for_operators_and_layers() -> None:
    tf = pytest.importorskip("tensorflow")
    from profilerkit_tensorflow import TFBackend
    from profilerkit_tensorflow.costs import registry

    class Attention(tf.keras.layers.Layer):  # type: ignore[misc, name-defined]
        """A layer with a formula of its own."""

    with registry.scoped_costs():
        TFBackend().add_costs({"MyAttend": free, Attention: free})
        assert registry.layer_cost(Attention()) is free
        assert registry.COSTS.get("MyAttend") is free
        with pytest.raises(RegistrationConflictError, match="operator MatMul has a cost formula already"):
            TFBackend().add_costs({"MyNew": free, "MatMul": free})
        assert registry.COSTS.get("MyNew") is None, "all of them or none"


# Results --------------------------------------------------------------------------------------------------------------


def remember(told: list[Any]) -> Callable[[Any], None]:
    def report_created(report: Any) -> None:
        told.append(report)

    return report_created


def test_plugins_are_told_once_of_each_result(install: Any) -> None:
    told: list[Report | Comparison] = []
    install("store", "my-store", report_created=remember(told))
    install("mine", backends=offering(FAKE), profiler_functions=offering(ComputeDepth()))
    report = profile(FakeModel())
    assert told == [report]
    comparison = compare(FakeModel(), FakeModel())
    assert told[1:] == [comparison], "and not of the reports in it"
    profiler = Profiler(FakeModel()).register_defaults()
    again = profiler.report()
    assert told[2:] == [again]
    other = profiler.clone().compare(profiler, print_mode=None)
    assert told[3:] == [other]


def test_showing_is_no_new_result(install: Any, core: None, caplog: pytest.LogCaptureFixture) -> None:
    told: list[Any] = []
    install("store", "my-store", report_created=remember(told))
    profiler = Profiler(FakeModel(), backend=FakeBackend())
    with caplog.at_level("INFO", logger="profilerkit"):
        profiler.compute_network_status(print_mode="info")
        profiler.display_status(profiler)
    assert told == []
    assert "FakeModel" in caplog.text


@pytest.mark.parametrize("error", [OSError("disk full"), SystemExit(1)])
def test_a_plugin_that_fails_to_store_a_result_does_not_lose_it(install: Any, error: BaseException) -> None:
    told: list[Any] = []
    install("bad", "a-store", report_created=raising(error))
    install("good", "b-store", report_created=remember(told))
    install("mine", backends=offering(FAKE), profiler_functions=offering(ComputeDepth()))
    message = "hook profilerkit_report_created of plugin 'bad' of a-store 1.0 raised .*; profilerkit goes on without it"
    with pytest.warns(PluginWarning, match=message):
        report = profile(FakeModel())
    assert report["depth"] == 1
    assert told == [report]
