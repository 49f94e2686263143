"""Wrappers of hooks: they see and change results; what they do wrong is held."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hook_plugins import (
    HOOK,
    Priced,
    free,
    make_drawing,
    make_plugin,
    mark_hook,
    new_wrapper,
    renderer_names,
    sources,
)
from plugin_fixtures import info, make_offering, make_raising

from profilerkit import BackendInfo, PluginWarning, RegistrationConflictError, RendererInfo, hookimpl, profile
from profilerkit.plugging import offers as plugins
from profilerkit.plugging.manager import Manager, announce
from profilerkit.plugging.offered_formulas import equip
from profilerkit.plugging.offered_formulas import op_costs as costs_of_plugins
from profilerkit.plugging.sources import Offer
from profilerkit.process.containment import collect_notes
from profilerkit.testing import FakeModel


def test_a_wrapper_sees_the_results_and_changes_them(manager: Manager) -> None:
    seen: list[tuple[str, list[str]]] = []

    def change(results: list[Offer[Any]]) -> list[Any]:
        seen.extend((offer.plugin.name, [renderer.name for renderer in offer.item]) for offer in results)
        kept = [replace(offer, item=[item for item in offer.item if item.name != "bad"]) for offer in results]
        return [*kept, [RendererInfo("added", lambda: str)]]

    manager.register(make_plugin(renderers=make_drawing("good", "bad")), name="two")
    manager.register(make_plugin(renderers=make_drawing("other")), name="one")
    assert sources() == [("one", "other"), ("two", "good"), ("two", "bad")]
    wrapper = make_plugin(renderers=new_wrapper(change))
    manager.register(wrapper, name="wraps")
    assert sources() == [("one", "other"), ("two", "good"), ("wraps", "added")]
    assert seen == [("one", ["other"]), ("two", ["good", "bad"])]
    manager.unregister(wrapper)
    assert sources() == [("one", "other"), ("two", "good"), ("two", "bad")]


def test_a_wrapper_of_an_installed_plugin_needs_no_warning(
    install: Any,
    recwarn: pytest.WarningsRecorder,
) -> None:
    told: list[str] = []

    def telling(report: Any) -> Any:
        told.append(f"before {report.name}")
        result = yield
        told.append("after")
        return result

    module = install("wraps", "a-pack")
    vars(module)["profilerkit_report_created"] = hookimpl(telling, wrapper=True)
    install(
        "fake",
        "b-pack",
        backends=make_offering(info("fake", "profilerkit")),
        report_created=lambda: told.append("told"),
    )
    profile(FakeModel())
    assert told == ["before FakeModel", "told", "after"]
    assert [str(warning.message) for warning in recwarn if issubclass(warning.category, PluginWarning)] == []


def fails_before() -> Any:
    raise ValueError("too early")
    yield


def does_not_yield() -> Any:
    if plugins is None:
        yield


def yields_twice() -> Any:
    yield
    yield


def leaves(results: list[Offer[Any]]) -> Any:
    results.clear()  # what it does to the list is undone too
    raise SystemExit("enough")


FAILING = [
    (lambda wrapping, marks: mark_hook(fails_before, **marks), "raised ValueError: too early"),
    (lambda wrapping, marks: mark_hook(does_not_yield, **marks), "raised RuntimeError: it did not yield"),
    (lambda wrapping, marks: mark_hook(yields_twice, **marks), "raised RuntimeError: it yielded twice"),
    (lambda wrapping, marks: wrapping(leaves), "raised SystemExit: enough"),
    (
        lambda wrapping, marks: wrapping(lambda results: None),
        "raised TypeError: it made None of the results, which is no list of them",
    ),
    (lambda wrapping, marks: wrapping(lambda results: [7]), "raised TypeError: 'int' object is not iterable"),
    (
        lambda wrapping, marks: wrapping(lambda results: [replace(results[0], item=7)]),
        "raised TypeError: 'int' object is not iterable",
    ),
]


@pytest.mark.parametrize(("make", "said"), FAILING, ids=[said for _, said in FAILING])
def test_a_wrapper_that_fails_is_left_out_with_a_warning(manager: Manager, make: Any, said: str) -> None:
    manager.register(make_plugin(renderers=make_drawing("good")), name="good")
    outer = make_plugin(renderers=new_wrapper(lambda results: [*results, make_drawing("outer")()]))
    manager.register(make_plugin(renderers=make(new_wrapper, {"wrapper": True})), name="bad")
    manager.register(outer, name="outer")
    workaround = "profilerkit goes on without it; to do without it, leave out the code that registers it"
    message = f"wrapper of hook {HOOK} of plugin 'bad' of no package (registered by code) {said}; {workaround}"
    with pytest.warns(PluginWarning, match=f"^{re.escape(message)}$"):
        assert sources() == [("good", "good"), ("outer", "outer")]


def test_a_wrapper_of_the_old_kind_is_refused(manager: Manager) -> None:
    def wrapper() -> Any:
        yield

    with pytest.raises(
        ValueError, match=r"^profilerkit_renderers is marked hookwrapper=True; mark it wrapper=True, and"
    ):
        manager.register(make_plugin(renderers=hookimpl(wrapper, hookwrapper=True)), name="old")
    assert manager.get_plugin("old") is None


def test_a_wrapper_of_what_is_only_told_may_return_anything(manager: Manager, recwarn: pytest.WarningsRecorder) -> None:
    def wrapper() -> Any:
        yield  # and returns None

    manager.register(make_plugin(report_created=hookimpl(wrapper, wrapper=True)), name="wraps")
    announce("a report")  # type: ignore[arg-type]
    assert [str(warning.message) for warning in recwarn] == []


@pytest.mark.filterwarnings("error::profilerkit.PluginWarning")
def test_an_error_that_goes_through_a_wrapper_is_not_the_wrappers(manager: Manager) -> None:
    """The user made an error of the warning that another plugin's hook raised."""
    seen: list[str] = []

    def new() -> Any:
        try:
            return (yield)
        except PluginWarning as error:
            seen.append(type(error).__name__)
            raise

    manager.register(make_plugin(renderers=make_raising(OSError("disk full"))), name="bad")
    manager.register(make_plugin(renderers=mark_hook(new, wrapper=True)), name="wraps")
    with pytest.raises(PluginWarning, match=r"^hook profilerkit_renderers of plugin 'bad' of .* raised OSError: disk"):
        renderer_names()
    assert seen == ["PluginWarning"]


@pytest.mark.filterwarnings("error::profilerkit.PluginWarning")
def test_a_wrapper_may_go_on_after_an_error(manager: Manager) -> None:
    def new() -> Any:
        try:
            return (yield)
        except PluginWarning:
            return [make_drawing("instead")()]

    manager.register(make_plugin(renderers=make_raising(OSError("disk full"))), name="bad")
    manager.register(make_plugin(renderers=mark_hook(new, wrapper=True)), name="wraps")
    assert sources() == [("wraps", "instead")]


@pytest.mark.parametrize("ending", ["passes on", "holds", "fails"])
def test_an_interruption_goes_through_every_wrapper(manager: Manager, ending: str) -> None:
    cleaned: list[str] = []

    def finish() -> list[Any]:
        cleaned.append(ending)
        if ending == "fails":
            raise ValueError("in the middle")
        return []

    def new() -> Any:
        try:
            return (yield)
        except KeyboardInterrupt:
            made = finish()
            if ending == "holds":
                return made
            raise

    manager.register(make_plugin(renderers=make_raising(KeyboardInterrupt())), name="slow")
    manager.register(make_plugin(renderers=mark_hook(new, wrapper=True)), name="wraps")
    with pytest.raises(KeyboardInterrupt) as caught, _expect_warning(ending == "fails"):
        renderer_names()
    assert cleaned == [ending]
    [note] = collect_notes(caught.value)
    assert note.startswith(f"profilerkit was waiting for hook {HOOK} of plugin 'slow' of ")


def _expect_warning(is_expected: bool) -> Any:
    message = "wrapper of hook .* of plugin 'wraps' .* raised ValueError: in the middle"
    return pytest.warns(PluginWarning, match=message) if is_expected else pytest.MonkeyPatch.context()


def test_an_interruption_within_a_wrapper_names_it(manager: Manager) -> None:
    manager.register(make_plugin(renderers=new_wrapper(raise_interrupt)), name="slow")
    with pytest.raises(KeyboardInterrupt) as caught:
        renderer_names()
    [note] = collect_notes(caught.value)
    assert note.startswith(f"profilerkit was waiting for wrapper of hook {HOOK} of plugin 'slow' of no package")


def raise_interrupt(results: Any) -> Any:
    raise KeyboardInterrupt


def test_a_wrapper_changes_formulas(manager: Manager, priced: BackendInfo) -> None:
    calls: list[list[str]] = []

    def change(results: list[Offer[Any]]) -> list[Any]:
        calls.append([offer.plugin.name for offer in results])
        kept = [replace(offer, item={op: offer.item[op] for op in offer.item if op != "bad"}) for offer in results]
        return [*kept, {"added": free}]

    def op_costs(backend: Any) -> Any:
        return (yield from new_wrapper(change)())

    both = make_plugin(op_costs=lambda: {"of both": free})
    vars(both)["wrapping"] = mark_hook(op_costs, specname="profilerkit_op_costs", wrapper=True)
    manager.register(make_plugin(op_costs=lambda: {"good": free, "bad": free}), name="mine")
    manager.register(both, name="wraps")
    for _ in range(2):
        equip(Priced())
    assert calls == [["wraps", "mine"]], "asked once"
    assert sorted(Priced.costs) == ["added", "good", "of both"]
    manager.register(make_plugin(op_costs=lambda: {"bad": free, "late": free}), name="late")
    equip(Priced())
    assert calls[1:] == [["late", "wraps", "mine"]], "wrappers take part"
    assert {plugin.name: sorted(costs) for plugin, costs in costs_of_plugins(Priced())} == {
        "mine": ["good"],
        "wraps": ["added", "of both"],
        "late": ["late"],
    }


def test_a_conflict_with_what_a_wrapper_adds_names_both_packages(install: Any) -> None:
    install("a", "one", renderers=make_drawing("x"))
    wrapper = install("b", "two")
    vars(wrapper)["profilerkit_renderers"] = new_wrapper(lambda results: [*results, make_drawing("x")()])
    message = (
        "two plugins offer renderer 'x': 'a' of one 1.0 and 'b' of two 1.0; uninstall one of the packages, or switch "
        "one plugin off: PROFILERKIT_DISABLE_PLUGINS=b"
    )
    with pytest.raises(RegistrationConflictError, match=f"^{re.escape(message)}$"):
        plugins.list_renderers()
