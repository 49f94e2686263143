"""What hooks may return, and what happens where two plugins offer one name."""

from collections.abc import Callable
from typing import Any

import click
import pytest
from hook_plugins import loader, make_plugin
from plugin_fixtures import FAKE, ComputeDepth, Depth, info, make_offering

from profilerkit import (
    InputError,
    Metric,
    PluginWarning,
    Profiler,
    ProfilerFunction,
    RegistrationConflictError,
    RendererInfo,
    StatusKey,
    UnknownStatusError,
    compare,
    hookspecs,
    profile,
)
from profilerkit.devices.catalog import device
from profilerkit.devices.info import DeviceInfo
from profilerkit.hooks import offers as plugins
from profilerkit.hooks.backend_additions import equip
from profilerkit.hooks.backends import backend_named, backends
from profilerkit.hooks.commands import load_command
from profilerkit.hooks.infos import (
    CommandInfo,
    EngineInfo,
    FigureInfo,
    LoaderInfo,
    OptionInfo,
    PlacementInfo,
)
from profilerkit.hooks.manager import find_offer, list_infos, manager
from profilerkit.hooks.renderers import list_forms
from profilerkit.models import loaders
from profilerkit.render import renderer
from profilerkit.testing import FakeBackend, FakeModel
from profilerkit_audits.engine import Engine, find_engine
from profilerkit_pages.figures import draw, kinds

COMMAND = CommandInfo("weigh", lambda: click.Command("weigh"), "Weigh a model.")
HOOKS = [name for name in vars(hookspecs) if name.startswith("profilerkit_")]


# What hooks may return ------------------------------------------------------------------------------------------------


class OtherDepth(Metric):
    """Another depth."""

    NAME = "depth"


class ComputeOtherDepth(ProfilerFunction):
    def get_bounded_status_keys(self) -> type[StatusKey]:
        return OtherDepth

    def __call__(self) -> int:
        return -1


class Width(Metric):
    """A width."""

    NAME = "width"


class ComputeWidth(ComputeDepth):
    def get_bounded_status_keys(self) -> type[StatusKey]:
        return Width


class Greedy(ProfilerFunction):
    def get_bounded_status_keys(self) -> type[StatusKey]:
        return Depth

    def __call__(self, **kwargs: Any) -> int:
        return 0


class Nameless(ComputeDepth):
    def get_bounded_status_keys(self) -> type[StatusKey]:
        return StatusKey


def test_a_hook_that_returns_none_offers_nothing(install: Any) -> None:
    install("none", **dict.fromkeys(HOOKS, offer_none))
    assert backends() == ()
    assert plugins.default_functions(FakeBackend()).functions() == []
    equip(FakeBackend())
    assert plugins.list_status_keys() == []


def offer_none() -> None:
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
def test_an_item_of_the_wrong_kind_is_left_out(install: Any, hook: str, item: Any, message: str) -> None:
    install("wrong", "odd", **{hook: make_offering(item)})
    install("fine", "pure", profiler_functions=make_offering(ComputeDepth()))
    with pytest.warns(PluginWarning, match=f"hook profilerkit_{hook} of plugin 'wrong' of odd 1.0 {'.*' + message}"):
        functions = plugins.default_functions(FakeBackend()).functions()
        backends()
        list_forms()
        list_infos(LoaderInfo)
    assert [type(function) for function in functions] == [ComputeDepth]


def test_every_hook_has_a_docstring_of_one_line() -> None:
    assert len(HOOKS) == 16
    for name in HOOKS:
        documentation = getattr(hookspecs, name).__doc__
        assert documentation.endswith(".")
        assert "\n" not in documentation


# Conflicts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hook", "item", "what", "find"),
    [
        ("backends", info("mine", "x"), "backend 'mine'", lambda: backend_named("mine")),
        ("renderers", RendererInfo("latex", lambda: str), "renderer 'latex'", lambda: renderer("latex")),
        ("model_loaders", loader("hub", "hub:"), "model loader 'hub'", lambda: find_offer(LoaderInfo, "hub")),
        ("engines", EngineInfo("fast", lambda: Engine), "engine 'fast'", lambda: find_engine("fast")),
        ("figures", FigureInfo("pie", lambda: print), "figure 'pie'", lambda: find_offer(FigureInfo, "pie")),
        ("commands", COMMAND, "command 'weigh'", lambda: load_command("weigh")),
        ("devices", DeviceInfo("toy"), "device 'toy'", lambda: device("Toy")),
    ],
)
def test_two_plugins_of_one_name_are_an_error_that_names_both(
    install: Any, monkeypatch: pytest.MonkeyPatch, hook: str, item: Any, what: str, find: Callable[[], object]
) -> None:
    install("a", "one", "1.5", **{hook: make_offering(item)})
    install("b", "two", "2.5", **{hook: make_offering(item)})
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


def test_a_name_that_two_plugins_offer_stops_nobody_who_asks_for_another(install: Any, core: None) -> None:
    twice = {
        "backends": make_offering(info("mine", "x")),
        "renderers": make_offering(RendererInfo("latex", lambda: str)),
        "model_loaders": make_offering(loader("hub", "hub:")),
        "figures": make_offering(FigureInfo("icicle", lambda: print)),
        "commands": make_offering(COMMAND),
        "devices": make_offering(DeviceInfo("toy")),
    }
    install("a", "one", **twice)
    install("b", "two", **twice)
    install("c", "three", backends=make_offering(FAKE))
    report = profile(FakeModel(), name="net")
    assert renderer("json")(report)
    assert "roofline" in kinds()
    assert load_command("doctor") is not None
    assert device("h100").name == "h100-sxm"
    for ask in (lambda: renderer("latex"), lambda: load_command("weigh"), lambda: draw(report, "icicle")):
        with pytest.raises(RegistrationConflictError, match="two plugins offer .*: '.*' of .* and '.*' of "):
            ask()
    with pytest.raises(InputError, match="several model loaders take 'hub:net': 'hub' .plugin 'a'.* and 'hub' .plugin"):
        loaders.load_model("hub:net")


@pytest.mark.parametrize(
    ("kind", "arguments", "said"),
    [
        (CommandInfo, (3, print, ""), "name of command 3=3: give its name, a text that is not empty;"),
        (CommandInfo, ("weigh", click.Command("weigh"), ""), "load of command 'weigh'=.* such as lambda: command;"),
        (CommandInfo, ("weigh", print, "", "text"), "examples of command 'weigh'='text': give a tuple of texts"),
        (CommandInfo, ("weigh", print, None), "description of command 'weigh'=None: give a text;"),
        (RendererInfo, (3, print), "name of renderer 3=3: give its name"),
        (RendererInfo, ("", print), "name of renderer ''='': give its name"),
        (RendererInfo, ("x", "json:dumps"), "load of renderer 'x'='json:dumps': give a function that"),
        (FigureInfo, ("x", 3), "load of figure 'x'=3: give a function that"),
        (LoaderInfo, ("x", None, str, ""), "accepts of model loader 'x'=None: give a function;"),
        (OptionInfo, ("--x", click.Option(["--x"])), "load of option '--x'=.*: give a function that"),
        (PlacementInfo, ("x", "mesh", print), "arguments of placement 'x'='mesh': give a tuple of texts"),
    ],
)
def test_a_field_that_is_wrong_is_named_with_the_package(
    install: Any, core: None, kind: Any, arguments: tuple[Any, ...], said: str
) -> None:
    install("wrong", "odd", **{kind.HOOK: lambda: [kind(*arguments)]})
    with pytest.warns(
        PluginWarning, match=f"^hook {kind.HOOK} of plugin 'wrong' of odd 1.0 raised ArgumentError: {said}"
    ):
        list_infos(kind)


def test_one_plugin_that_offers_a_name_twice(install: Any) -> None:
    install("a", "one", renderers=make_offering(RendererInfo("x", lambda: str), RendererInfo("x", lambda: str)))
    with pytest.raises(
        RegistrationConflictError, match="plugin 'a' of one 1.0 offers renderer 'x' twice; update or un"
    ):
        renderer("x")


def test_two_plugins_that_offer_one_status_key(install: Any) -> None:
    install("a", "one", profiler_functions=make_offering(ComputeDepth()))
    install("b", "two", profiler_functions=make_offering(ComputeOtherDepth()))
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
    install("a", "one", profiler_functions=make_offering(ComputeDepth()))
    install("b", "two", profiler_functions=make_offering(ComputeOtherDepth()))
    for leave_out in ("depth", ["depth"]):
        left = Profiler(FakeModel(), backend=FakeBackend()).register_defaults(leave_out=leave_out)
        assert list(left.status_keys()) == []
    assert list(profile(FakeModel(), backend=FakeBackend(), leave_out="depth")) == []
    assert list(compare(FakeModel(), FakeModel(), backend=FakeBackend(), leave_out="depth").reference) == []
    with pytest.raises(UnknownStatusError, match="^unknown metric 'dept'; leave_out knows, nearest first: depth$"):
        Profiler(FakeModel(), backend=FakeBackend()).register_defaults(leave_out="dept")
    report = profile(FakeModel(), backend=FakeBackend(), functions=[ComputeOtherDepth()])
    assert report["depth"] == -1


def test_one_key_for_two_backends_is_no_conflict(install: Any) -> None:
    def for_fake(backend: Any) -> list[ProfilerFunction] | None:
        return [ComputeDepth()] if backend.name == "fake" else None

    def for_other(backend: Any) -> list[ProfilerFunction] | None:
        return [ComputeDepth()] if backend.name == "other" else None

    install("a", "one", profiler_functions=for_fake, status_keys=make_offering(Depth))
    install("b", "two", profiler_functions=for_other, status_keys=make_offering(Depth))
    assert len(plugins.default_functions(FakeBackend()).functions()) == 1
    assert len(plugins.default_functions(info("other").load()).functions()) == 1


def test_plugins_are_asked_once_for_each_class_of_backends(install: Any) -> None:
    def answer(backend: Any) -> list[ProfilerFunction]:
        asked.append(type(backend))
        return [ComputeDepth()]

    class Derived(FakeBackend):
        """Another class of the same name."""

    asked: list[type] = []
    install("a", "one", profiler_functions=answer)
    for backend in (FakeBackend(), FakeBackend(), Derived(), Derived()):
        profiler = Profiler(FakeModel(), backend=backend).register_defaults()
        assert list(profiler.status_keys()) == ["depth"]
    assert asked == [FakeBackend, Derived]
    manager().register(make_plugin(profiler_functions=make_offering(ComputeWidth())), name="late")
    late = Profiler(FakeModel(), backend=FakeBackend()).register_defaults()
    assert set(late.status_keys()) == {"depth", "width"}


def test_two_keys_of_one_name_are_a_conflict_whatever_computes_them(install: Any) -> None:
    install("a", "one", status_keys=make_offering(Depth))
    install("b", "two", status_keys=make_offering(OtherDepth))
    with pytest.raises(
        RegistrationConflictError, match="two plugins offer status key 'depth': 'a' of one 1.0 and 'b' of"
    ):
        plugins.list_status_keys()
    with pytest.raises(RegistrationConflictError, match="two plugins offer status key 'depth'"):
        plugins.default_functions(FakeBackend())
    assert plugins.default_functions(FakeBackend(), leave_out=["depth"]).functions() == []


def test_a_key_that_another_plugin_names_as_its_own_is_a_conflict(install: Any, core: None) -> None:
    class Trace(StatusKey):
        """Not the trace of the core."""

        NAME = "trace"

    class ComputeOther(ComputeDepth):
        def get_bounded_status_keys(self) -> type[StatusKey]:
            return Trace

        def __call__(self, inputs: Any) -> int:
            return 0

    install("a", "one", profiler_functions=make_offering(ComputeOther()))
    with pytest.raises(
        RegistrationConflictError, match="'trace' to the fake backend: 'core' of profilerkit 0.1 and 'a' o"
    ):
        plugins.default_functions(FakeBackend())
