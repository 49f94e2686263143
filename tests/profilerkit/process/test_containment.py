"""Code of plugins while it runs: whatever it raises, the others go on; whoever waits for it learns whose it is."""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from plugin_fixtures import EntryPoints, add_entry_point, info, make_offering, make_raising

from profilerkit import (
    BackendInfo,
    BackendNotInstalledError,
    CostFormulaError,
    Metric,
    ModelFailedError,
    NotOfferedError,
    PluginFailedError,
    PluginWarning,
    Profiler,
    ProfilerFunction,
    compare,
    profile,
)
from profilerkit.costs import Cost, evaluate_formula
from profilerkit.hooks import offers as plugins
from profilerkit.hooks.backend_additions import equip
from profilerkit.hooks.backends import backend_named, backends
from profilerkit.hooks.infos import LoaderInfo, RendererInfo
from profilerkit.hooks.manager import announce, find_offer, list_infos, manager
from profilerkit.hooks.plugin_info import PluginInfo
from profilerkit.models.loaders import load_model
from profilerkit.models.recognition import find_backend
from profilerkit.process.containment import collect_notes, contained, describe_origin
from profilerkit.render import render
from profilerkit.testing import FakeBackend, FakeModel, FakeTensor

X = FakeTensor((2, 3))


class Abandon(BaseException):
    """What a timer or the handler of a signal raises to stop what runs."""


#: Each with its argument: an error is made anew for each test, as it is for each call.
ESCAPING = [(SystemExit, 3), (GeneratorExit, ""), (StopIteration, 4)]
WAY_OUT = "to do without it, set PROFILERKIT_DISABLE_PLUGINS=bad, or run profilerkit --no-plugins"


class Depth(Metric):
    """How deep it is."""

    NAME = "depth"


class ComputeDepth(ProfilerFunction):
    """Raises what it is given."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def get_bounded_status_keys(self) -> type[Metric]:
        return Depth

    def __call__(self) -> int:
        raise self.error


@pytest.fixture(params=ESCAPING, ids=lambda made: made[0].__name__)
def error(request: pytest.FixtureRequest) -> BaseException:
    kind, argument = request.param
    made: BaseException = kind(argument)
    return made


@pytest.fixture
def error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def is_warned(warned: list[Any], text: str) -> bool:
    return any(text in str(warning.message) for warning in warned)


def test_a_module_that_raises_at_import_is_left_out(
    entry_points: EntryPoints,
    install: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    error_text: str,
) -> None:
    monkeypatch.setattr("builtins.raised_at_import", error, raising=False)
    (tmp_path / "escaping_plugin.py").write_text("raise raised_at_import")
    monkeypatch.syspath_prepend(str(tmp_path))
    add_entry_point(entry_points, "bad", "escaping_plugin", "worse")
    install("fine", "zz-fine", backends=make_offering(info("mine", "profilerkit")))
    with pytest.warns(PluginWarning) as warned:
        assert find_backend(FakeModel()).name == "mine"
    assert is_warned(
        warned.list,
        f"plugin 'bad' of worse 1.0 cannot be loaded ({error_text} (line 1 of escaping_plugin)) and is left out",
    )
    assert is_warned(warned.list, WAY_OUT)


@pytest.mark.parametrize(
    ("hook", "ask"),
    [
        ("backends", backends),
        ("profiler_functions", lambda: plugins.default_functions(FakeBackend())),
        ("status_keys", plugins.list_status_keys),
        ("op_costs", lambda: equip(FakeBackend())),
        ("renderers", lambda: list_infos(RendererInfo)),
        ("model_loaders", lambda: list_infos(LoaderInfo)),
        ("configure", manager),
        ("report_created", lambda: announce("a report")),  # type: ignore[arg-type]
    ],
)
def test_a_hook_that_raises_is_left_out(
    install: Any,
    hook: str,
    ask: Callable[[], Any],
    error: BaseException,
    error_text: str,
) -> None:
    install("bad", "worse", **{hook: make_raising(error)})
    with pytest.warns(PluginWarning) as warned:
        ask()
    assert is_warned(warned.list, f"hook profilerkit_{hook} of plugin 'bad' of worse 1.0 raised {error_text};")
    assert is_warned(warned.list, WAY_OUT)


def test_claims_and_load_of_a_backend(install: Any, error: BaseException, error_text: str) -> None:
    def claims(model: Any) -> bool:
        raise error

    bad = BackendInfo("bad", ("profilerkit",), FakeBackend, "bad", claims)
    install("bad", "worse", backends=make_offering(bad, info("good", "profilerkit")))
    with pytest.warns(PluginWarning, match=re.escape(f"raised {error_text}; it is left out; {WAY_OUT}")):
        assert find_backend(FakeModel()).name == "good"
    broken = BackendInfo("broken", (), make_raising(error), "broken")
    install("broken", "breaking", backends=make_offering(broken))
    plugins.forget()
    with pytest.raises(BackendNotInstalledError) as caught:
        backend_named("broken")
    assert f"of plugin 'broken' of breaking 1.0 cannot be used: {error_text}; " in str(caught.value)
    assert "set PROFILERKIT_DISABLE_PLUGINS=broken, or run" in str(caught.value)


def test_renderers(install: Any, core: None, error: BaseException, error_text: str) -> None:
    def draw(result: Any) -> str:
        raise error

    install(
        "bad",
        "worse",
        renderers=make_offering(RendererInfo("draws", lambda: draw), RendererInfo("loads", make_raising(error))),
    )
    report = profile(FakeModel(), X, backend=FakeBackend(), metrics=[])
    with pytest.raises(
        PluginFailedError, match=re.escape(f"renderer 'draws' of plugin 'bad' of worse 1.0 raised {error_text}")
    ):
        render(report, "draws")
    with pytest.raises(
        NotOfferedError, match=re.escape(f"'loads' of plugin 'bad' of worse 1.0 cannot be used ({error_text})")
    ):
        render(report, "loads")


def test_model_loaders(install: Any, core: None, error: BaseException, error_text: str) -> None:
    def raise_it(spec: str) -> Any:
        raise error

    install("bad", "worse", model_loaders=make_offering(LoaderInfo("bad", raise_it, raise_it, "bad:...")))
    with pytest.warns(
        PluginWarning, match=re.escape(f"model loader 'bad' of plugin 'bad' of worse 1.0 raised {error_text}")
    ):
        load_model("collections:OrderedDict")


def test_a_model_loader_that_loads(install: Any, core: None, error: BaseException, error_text: str) -> None:
    def raise_it(spec: str) -> Any:
        raise error

    install("bad", "worse", model_loaders=make_offering(LoaderInfo("bad", lambda spec: True, raise_it, "bad:...")))
    with pytest.raises(ModelFailedError) as caught:
        load_model("collections:OrderedDict")
    assert type(error).__name__ in str(caught.value)
    assert WAY_OUT in str(caught.value)


def test_the_function_of_a_metric(install: Any, core: None, error: BaseException, error_text: str) -> None:
    install("bad", "worse", profiler_functions=lambda backend: [ComputeDepth(error)])
    report = profile(FakeModel(), X, backend=FakeBackend())
    record = report.status("depth")
    assert error_text in record.missing[0]
    assert WAY_OUT in record.missing[0] + record.note
    comparison = compare(FakeModel(), FakeModel(), inputs=X, backend=FakeBackend())
    assert comparison.reference["depth"] is None
    assert "plugin 'bad' of worse 1.0" in str(report)


def test_a_function_of_the_user_may_end_the_program() -> None:
    """It is no plugin's: sys.exit() in it, or pytest.fail(), is meant."""
    with pytest.raises(SystemExit):
        profile(FakeModel(), X, backend=FakeBackend(), functions=ComputeDepth(SystemExit(3)), metrics="depth")


def test_cost_formulas(install: Any, error: BaseException, error_text: str) -> None:
    taken: dict[str, Any] = {}

    class Priced(FakeBackend):
        name = "priced"

        def add_costs(self, costs: Mapping[Any, Callable[..., Any]]) -> None:
            taken.update(costs)

    def formula(shape: Any, *, out: Any) -> Cost:
        raise error

    install("bad", "worse", op_costs=lambda: {"attend": formula})
    equip(Priced())
    with pytest.raises(CostFormulaError) as caught:
        evaluate_formula("attend", lambda: taken["attend"]((1,), out=(1,)), lambda: "(1,)")
    assert f"raised {error_text}" in str(caught.value)
    assert "plugin 'bad' of worse 1.0" in str(caught.value) or not isinstance(error, Exception)
    with pytest.raises(CostFormulaError, match=type(error).__name__):
        evaluate_formula("mine", lambda: formula((1,), out=(1,)), lambda: "(1,)")


# Interruption ---------------------------------------------------------------------------------------------------------


def interrupt(*args: Any, **kwargs: Any) -> Any:
    """Stand for a plugin that hangs until the user presses Ctrl-C."""
    raise KeyboardInterrupt


class ComputeForEver(ComputeDepth):
    def __call__(self) -> int:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("hooks", "ask", "waiting"),
    [
        ({"backends": interrupt}, backends, "hook profilerkit_backends"),
        ({"configure": interrupt}, manager, "hook profilerkit_configure"),
        ({"report_created": interrupt}, lambda: Profiler(FakeModel(), backend=FakeBackend()).report(), "hook profi"),
        (
            {"backends": make_offering(BackendInfo("slow", ("profilerkit",), interrupt, "slow"))},
            lambda: find_backend(FakeModel()),
            "loading the slow backend",
        ),
        (
            {"renderers": make_offering(RendererInfo("slow", lambda: interrupt))},
            lambda: render(profile(FakeModel(), X, backend=FakeBackend(), metrics=[]), "slow"),
            "renderer 'slow'",
        ),
        (
            {"model_loaders": make_offering(LoaderInfo("slow", lambda spec: True, interrupt, "slow"))},
            lambda: load_model("slow"),
            "model loader 'slow'",
        ),
        (
            {"profiler_functions": lambda backend: [ComputeForEver(SystemExit())]},
            lambda: profile(FakeModel(), X, backend=FakeBackend(), metrics="depth"),
            "ComputeForEver",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_interruption_names_the_plugin_that_was_running(
    install: Any,
    hooks: dict[str, Any],
    ask: Callable[[], Any],
    waiting: str,
) -> None:
    install("bad", "worse", **hooks)
    with pytest.raises(KeyboardInterrupt) as caught:
        ask()
    (note,) = collect_notes(caught.value)
    assert note.startswith(f"profilerkit was waiting for {waiting}")
    assert note.endswith(f"of plugin 'bad' of worse 1.0; {WAY_OUT}")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, asyncio.CancelledError, Abandon])
def test_every_kind_of_interruption_is_raised_unchanged(kind: type[BaseException]) -> None:
    def stop() -> Cost:
        raise kind

    plugin = PluginInfo("bad", "bad", "worse", "1.0")
    with pytest.raises(kind) as caught, contained(plugin, "renderer 'loud'"):
        raise kind
    assert collect_notes(caught.value) == [
        f"profilerkit was waiting for renderer 'loud' of plugin 'bad' of worse 1.0; {WAY_OUT}"
    ]
    with pytest.raises(kind):
        evaluate_formula("aten::relu", stop, str)


def test_an_interruption_says_nothing_of_profilerkits_own_plugins() -> None:
    """The user called what was running then; to leave out "core" or the backend is no advice."""
    offer = find_offer(RendererInfo, "table")
    assert offer is not None
    own = offer.plugin
    assert own.is_own
    with pytest.raises(KeyboardInterrupt) as caught, contained(own, "renderer 'console'"):
        raise KeyboardInterrupt
    assert collect_notes(caught.value) == []


def test_an_interrupted_loading_starts_again(install: Any) -> None:
    asked = []

    def slow() -> Iterator[Any]:
        asked.append(1)
        if len(asked) == 1:
            raise KeyboardInterrupt
        return iter(())

    install("bad", "worse", configure=slow)
    with pytest.raises(KeyboardInterrupt):
        manager()
    manager()
    assert len(asked) == 2, "nothing is loaded by halves"


def test_an_interruption_of_the_users_code_has_no_note() -> None:
    function = ComputeForEver(SystemExit())
    with pytest.raises(KeyboardInterrupt) as caught:
        profile(FakeModel(), X, backend=FakeBackend(), functions=function, metrics="depth")
    assert collect_notes(caught.value) == []


def test_the_workaround_for_each_kind_of_plugin() -> None:
    for plugin, way in (
        (PluginInfo("bad", "bad", "worse", "1.0"), f"{WAY_OUT}$"),
        (PluginInfo("bad", "bad", "profilerkit", "0.1"), "set PROFILERKIT_DISABLE_PLUGINS=bad$"),
        (PluginInfo("bad", "bad", is_by_code=True), "leave out the code that registers it$"),
    ):
        with pytest.raises(PluginFailedError, match=way), contained(plugin, "it"):
            raise SystemExit
    with pytest.raises(Abandon), contained(None, "it"):
        raise Abandon


def test_attributes_that_an_error_makes_up_hide_no_origin() -> None:
    class Obliging(Exception):
        def __getattr__(self, name: str) -> None:
            """Has every attribute."""

    plugin = PluginInfo("bad", "bad", "worse", "1.0")
    with pytest.raises(Obliging) as caught, contained(plugin, "drawing"):
        raise Obliging
    assert describe_origin(caught.value).startswith("raised by plugin 'bad'")


def test_an_error_without_a_message_is_contained() -> None:
    """Neither one whose own code cannot write it, nor one that says nothing."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    plugin = PluginInfo("bad", "bad", "profilerkit-bad")
    for error in (Mute(), ValueError()):
        with (
            pytest.raises(PluginFailedError, match=rf"^drawing of plugin .* raised {type(error).__name__}; "),
            contained(plugin, "drawing", wrapped=True),
        ):
            raise error
