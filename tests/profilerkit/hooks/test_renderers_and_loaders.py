"""Renderers and loaders that plugins offer, and what plugins are told of each result."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hook_plugins import loader
from plugin_fixtures import FAKE, ComputeDepth, EntryPoints, make_offering, make_raising

from profilerkit import (
    Comparison,
    InputError,
    LoaderInfo,
    ModelFailedError,
    NotOfferedError,
    PluginFailedError,
    PluginWarning,
    Profiler,
    RendererInfo,
    Report,
    compare,
    profile,
)
from profilerkit.models import loaders
from profilerkit.render import render, renderer
from profilerkit.testing import FakeBackend, FakeModel

# Renderers ------------------------------------------------------------------------------------------------------------


def test_renderers_are_found_by_the_hook(install: Any, core: None) -> None:
    def shout(result: Report | Comparison) -> str:
        return f"{type(result).__name__}!"

    def detailed(result: Report | Comparison, details: bool = False) -> str:
        return f"details={details}"

    def free(result: Report | Comparison, details: bool = False, **options: Any) -> str:
        return f"{details} {options}"

    mine = [
        RendererInfo("shout", lambda: shout),
        RendererInfo("detailed", lambda: detailed, "with options"),
        RendererInfo("free", lambda: free),
    ]
    install("mine", backends=make_offering(FAKE), renderers=make_offering(*mine))
    report = profile(FakeModel())
    assert renderer("shout")(report) == "Report!"
    assert render(report, "shout", details=True) == "Report!"
    assert render(report, "detailed", details=True) == "details=True"
    assert render(report, "free", details=True, depth=2, ink="red") == "True {'depth': 2, 'ink': 'red'}"
    assert render(report) == report.to_text() == str(report)
    assert json.loads(render(report, "json")) == report.to_dict()
    comparison = compare(FakeModel(), FakeModel())
    assert render(comparison, "shout") == "Comparison!"
    assert json.loads(render(comparison, "json")) == comparison.to_dict()
    assert render(comparison, details=True) == comparison.to_text(details=True)


@pytest.mark.parametrize("drawn", [None, b"bytes"])
def test_a_renderer_that_returns_no_text_names_its_plugin(install: Any, core: None, drawn: Any) -> None:
    mine = RendererInfo("mute", lambda: lambda result: drawn)
    install("mine", backends=make_offering(FAKE), renderers=make_offering(mine))
    with pytest.raises(PluginFailedError, match="renderer 'mute' of plugin 'mine' of .* returned .*, which is no text"):
        render(profile(FakeModel()), "mute")


def test_an_unknown_renderer_lists_the_known_ones(core: None) -> None:
    with pytest.raises(NotOfferedError, match="no renderer 'jsn'; installed, nearest first: json, "):
        renderer("jsn")


def test_no_renderer_at_all_is_an_error(entry_points: EntryPoints) -> None:
    with pytest.raises(
        NotOfferedError, match="no renderer 'table'; installed, nearest first: none: reinstall profiler"
    ):
        renderer("table")


def test_a_renderer_that_cannot_be_loaded_gives_the_reason(install: Any) -> None:
    install(
        "plot",
        "my-plots",
        renderers=make_offering(RendererInfo("plot", make_raising(ImportError("No module 'plotlib'")))),
    )
    message = "renderer 'plot' of plugin 'plot' of my-plots 1.0 cannot be used .ImportError: No module 'plotlib'"
    with pytest.raises(NotOfferedError, match=message):
        renderer("plot")


def test_profilerkits_own_renderers_and_loaders_come_through_the_hooks(entry_points: EntryPoints) -> None:
    """Without the entry points nothing is there: no metric, no loader, no form to print."""
    report = profile(FakeModel(), backend=FakeBackend())
    assert list(report) == []
    with pytest.raises(NotOfferedError):
        str(report)
    with pytest.raises(InputError, match="give .no plugin offers a way to load one"):
        loaders.load_model("json:loads")


# Loaders --------------------------------------------------------------------------------------------------------------


def test_loaders_of_other_packages_take_precedence(install: Any, core: None) -> None:
    install("hub", "my-hub", model_loaders=make_offering(loader("hub", "hub:", lambda spec: spec.removeprefix("hub:"))))
    assert loaders.load_model("hub:net") == "net", "our own loader of modules would take it too"
    assert loaders.load_model("json:JSONDecoder").__class__.__name__ == "JSONDecoder"
    assert loaders.find_loader("models/net.py:Net").item.name == "file"
    assert loaders.find_loader("package.module:Net").item.name == "module"


def test_a_text_that_two_packages_accept_is_an_error(install: Any, core: None) -> None:
    install("a", "one", model_loaders=make_offering(loader("hub", "hub:")))
    install("b", "two", model_loaders=make_offering(loader("hubs", "hub")))
    message = (
        "several model loaders take 'hub:net': 'hub' (plugin 'a' of one 1.0) and 'hubs' (plugin 'b' of two 1.0); "
        "switch one off: PROFILERKIT_DISABLE_PLUGINS=b"
    )
    with pytest.raises(InputError, match=re.escape(message)):
        loaders.load_model("hub:net")
    assert loaders.load_model("hubs") == "hubs"


def test_a_text_that_no_loader_accepts_lists_the_forms(install: Any, core: None) -> None:
    install("hub", "my-hub", model_loaders=make_offering(loader("hub", "hub:")))
    message = "'net' does not say where the model is; give package.module:name, path/to/file.py:name or hub:NAME"
    with pytest.raises(InputError, match=re.escape(message)):
        loaders.load_model("net")


def test_a_loader_whose_accepts_raises_is_left_out(install: Any, core: None) -> None:
    def accepts(spec: str) -> bool:
        raise KeyError("no table")

    install("bad", "worse", model_loaders=make_offering(LoaderInfo("bad", accepts, str, "bad:NAME")))
    with pytest.warns(
        PluginWarning, match="model loader 'bad' of plugin 'bad' of worse 1.0 raised KeyError: 'no table'"
    ):
        assert loaders.find_loader("json:loads").item.name == "module"


def test_a_loader_that_fails_is_named(install: Any, core: None) -> None:
    def load(spec: str) -> Any:
        if spec == "hub:none":
            raise InputError("the hub has no 'none'")
        if spec == "hub:forgotten":
            return None
        raise OSError("offline")

    install("hub", "my-hub", model_loaders=make_offering(loader("hub", "hub:", load)))
    with pytest.raises(
        ModelFailedError, match="model loader 'hub' of plugin 'hub' of my-hub 1.0 raised OSError for 'hub:n"
    ):
        loaders.load_model("hub:net")
    with pytest.raises(InputError, match="^the hub has no 'none'$"):
        loaders.load_model("hub:none")
    with pytest.raises(ModelFailedError, match="'hub:forgotten' gave None instead of a model; is there a return"):
        loaders.load_model("hub:forgotten")


@pytest.mark.parametrize("spec", ["..:name", "no.such.package:name", "json.nothing:name"])
def test_a_module_that_does_not_exist(core: None, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(
        InputError, match=f"cannot import '{re.escape(spec.partition(':')[0])}': there is no such module"
    ):
        loaders.load_model(spec)


def test_a_package_that_imports_a_missing_module_is_not_missing_itself(
    core: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_installed").mkdir()
    (tmp_path / "half_installed" / "__init__.py").write_text("import no_such_framework", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    message = "half_installed.models raised ModuleNotFoundError: No module named 'no_such_framework'"
    with pytest.raises(ModelFailedError, match=message):
        loaders.load_model("half_installed.models:net")


# Results --------------------------------------------------------------------------------------------------------------


def remember(told: list[Any]) -> Callable[[Any], None]:
    def report_created(report: Any) -> None:
        told.append(report)

    return report_created


def test_plugins_are_notified_once_of_each_result(install: Any) -> None:
    told: list[Report | Comparison] = []
    install("store", "my-store", report_created=remember(told))
    install("mine", backends=make_offering(FAKE), profiler_functions=make_offering(ComputeDepth()))
    report = profile(FakeModel())
    assert told == [report]
    comparison = compare(FakeModel(), FakeModel())
    assert told[1:] == [comparison], "and not of the reports in it"
    profiler = Profiler(FakeModel()).register_defaults()
    again = profiler.report()
    assert told[2:] == [again]
    other = profiler.clone().compare(profiler, print_mode=None)
    assert told[3:] == [other]


def test_showing_a_result_is_no_notification(install: Any, core: None, caplog: pytest.LogCaptureFixture) -> None:
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
    install("bad", "a-store", report_created=make_raising(error))
    install("good", "b-store", report_created=remember(told))
    install("mine", backends=make_offering(FAKE), profiler_functions=make_offering(ComputeDepth()))
    message = "hook profilerkit_report_created of plugin 'bad' of a-store 1.0 raised .*; profilerkit goes on without it"
    with pytest.warns(PluginWarning, match=message):
        report = profile(FakeModel())
    assert report["depth"] == 1
    assert told == [report]
