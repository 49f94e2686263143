"""Hooks are called by pluggy: order, wrappers, historic calls, monitoring and the rest are what pluggy documents."""

import re
import types
from typing import Any, NamedTuple

import pluggy
import pytest
from hook_plugins import (
    HOOK,
    Priced,
    free,
    loader,
    make_drawing,
    make_plugin,
    mark_hook,
    renderer_names,
    sources,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from plugin_fixtures import info, make_offering, make_raising

from profilerkit import (
    BackendInfo,
    InputError,
    PluginWarning,
    RegistrationConflictError,
    hookimpl,
    hookspecs,
)
from profilerkit.hooks import offers as plugins
from profilerkit.hooks.backend_additions import equip
from profilerkit.hooks.backends import backends
from profilerkit.hooks.hook_manager import Manager
from profilerkit.hooks.manager import list_plugins
from profilerkit.hooks.manager import manager as plugin_manager
from profilerkit.hooks.plugin_info import Offer
from profilerkit.hooks.renderers import renderer
from profilerkit.models import loaders
from profilerkit.process.containment import collect_notes

# The order, compared with pluggy's -----------------------------------------------------------------------------------


class Options(NamedTuple):
    """How an implementation is marked, and whether it has anything to offer."""

    first: bool
    last: bool
    is_empty: bool


OPTIONS = st.builds(Options, st.booleans(), st.booleans(), st.booleans())


def make_logging(name: str, options: Options, log: list[str]) -> types.ModuleType:
    """Return a plugin that logs each call of its hook."""

    def hook() -> list[str] | None:
        log.append(name)
        return None if options.is_empty else [name]

    return make_plugin(renderers=mark_hook(hook, tryfirst=options.first, trylast=options.last))


def call_hooks(manager: pluggy.PluginManager, every: list[Options], removed: set[int], passed_over: set[int]) -> Any:
    """Return what a manager calls, in its order, and the results, of plugins that are registered with it."""
    log: list[str] = []
    made = [make_logging(f"plugin {number}", options, log) for number, options in enumerate(every)]
    for number, plugin in enumerate(made):
        manager.register(plugin, name=f"plugin {number}")
    for number in removed:
        manager.unregister(made[number])
    caller = manager.subset_hook_caller(HOOK, [made[number] for number in passed_over - removed])
    results = [list(result.item) if isinstance(result, Offer) else result for result in caller()]
    return log, results


@settings(max_examples=200)
@given(every=st.lists(OPTIONS, max_size=7), draw=st.data())
def test_the_order_and_the_results_are_those_of_pluggys_own_manager(every: list[Options], draw: Any) -> None:
    numbers = st.sets(st.integers(0, len(every) - 1)) if every else st.just(set())
    removed, passed_over = draw.draw(numbers), draw.draw(numbers)
    plain = pluggy.PluginManager("profilerkit")
    plain.add_hookspecs(hookspecs)
    expected = call_hooks(plain, every, removed, passed_over)
    assert call_hooks(Manager(), every, removed, passed_over) == expected


def test_own_plugins_are_called_before_others_unless_these_are_to_be_first(install: Any, core: None) -> None:
    own_names = renderer_names()
    plugins.forget()
    vars(install("last", "a-last"))[HOOK] = hookimpl(make_drawing("last"), trylast=True)
    install("b", "b-pack", renderers=make_drawing("b"))
    install("c", "c-pack", renderers=make_drawing("c"))
    vars(install("first", "d-first"))[HOOK] = hookimpl(make_drawing("first"), tryfirst=True)
    assert renderer_names() == ["first", *own_names, "b", "c", "last"]
    plugin_manager().register(make_plugin(renderers=make_drawing("by code")), name="code")
    assert renderer_names() == ["first", *own_names, "by code", "b", "c", "last"], "pluggy calls the last one first"
    plugin_manager().register(make_plugin(renderers=hookimpl(make_drawing("now"), tryfirst=True)), name="now")
    assert renderer_names()[:2] == ["now", "first"]


# Historic calls ------------------------------------------------------------------------------------------------------


def test_a_plugin_that_is_registered_later_is_configured_then(manager: Manager) -> None:
    seen: list[Any] = []

    def configure(manager: Any) -> None:
        seen.append(manager)

    plugin = make_plugin(configure=configure)
    manager.register(plugin, name="late")
    assert seen == [manager]
    renderer_names()
    plugin_manager()
    assert seen == [manager], "once"
    manager.unregister(plugin)
    manager.register(plugin, name="later")
    assert seen == [manager, manager]


def test_a_plugin_registered_by_a_configure_is_configured_once(install: Any) -> None:
    seen: list[str] = []

    def configure(manager: Any) -> None:
        seen.append("outer")
        manager.register(make_plugin(configure=lambda: seen.append("inner"), renderers=make_drawing("x")), name="inner")

    install("outer", "a-pack", configure=configure)
    install("last", "b-pack", configure=lambda: seen.append("last"))
    assert sources() == [("inner", "x")]
    assert sorted(seen) == ["inner", "last", "outer"]


def test_a_late_configure_that_raises_is_a_warning(manager: Manager) -> None:
    plugin = make_plugin(configure=make_raising(ValueError("no such file")), renderers=make_drawing("x"))
    message = (
        "hook profilerkit_configure of plugin 'late' of no package .registered by code. raised ValueError: no such"
    )
    with pytest.warns(PluginWarning, match=message) as caught:
        manager.register(plugin, name="late")
    assert sources() == [("late", "x")], "the rest of it is used"
    assert [warning.filename for warning in caught] == [__file__], "the line that led to it, not one of pluggy's"


def test_a_late_configure_that_is_interrupted_leaves_nothing(manager: Manager) -> None:
    asked: list[int] = []

    def configure() -> None:
        asked.append(1)
        if len(asked) == 1:
            raise KeyboardInterrupt

    plugin = make_plugin(backends=make_offering(info("fake", "x")), configure=configure, renderers=make_drawing("x"))
    with pytest.raises(KeyboardInterrupt) as caught:
        manager.register(plugin, name="late")
    [note] = collect_notes(caught.value)
    assert note.startswith("profilerkit was waiting for hook profilerkit_configure of plugin 'late' of no package")
    assert not manager.is_registered(plugin)
    assert (backends(), sources()) == ((), [])
    manager.register(plugin, name="late")
    assert sources() == [("late", "x")]


@pytest.mark.parametrize("mark", ["wrapper", "hookwrapper"])
@pytest.mark.parametrize("hook", ["renderers", "configure"])
def test_a_wrapper_is_refused(manager: Manager, hook: str, mark: str) -> None:
    def wrapper() -> Any:
        yield

    plugin = make_plugin(**{hook: mark_hook(wrapper, **{mark: True})})
    message = f"^profilerkit_{hook} is marked as a wrapper, and profilerkit_{hook} takes none; return what the plugin"
    with pytest.raises(ValueError, match=message):
        manager.register(plugin, name="wraps")
    assert not manager.is_registered(plugin)


def test_an_installed_wrapper_is_left_out(install: Any) -> None:
    def wrapper() -> Any:
        yield

    module = install("wraps", "a-pack", renderers=make_drawing("x"))
    vars(module)["profilerkit_backends"] = hookimpl(wrapper, wrapper=True)
    with pytest.warns(PluginWarning, match="plugin 'wraps' of a-pack 1.0 cannot be loaded .ValueError: .* takes none"):
        assert renderer_names() == []
    assert list_plugins() == ()


# Monitoring, unregistering, blocking ---------------------------------------------------------------------------------


def test_monitoring_sees_each_call_with_its_offers(install: Any) -> None:
    install("mine", "my-pack", renderers=make_drawing("x"))
    seen: list[Any] = []

    def after(outcome: pluggy.Result[Any], hook: str, implementations: Any, kwargs: Any) -> None:
        seen.append((hook, [str(offer.plugin) for offer in outcome.get_result()]))

    undo = plugin_manager().add_hookcall_monitoring(lambda *call: None, after)
    plugin_manager().hook.profilerkit_renderers()
    undo()
    plugin_manager().hook.profilerkit_renderers()
    assert seen == [(HOOK, ["'mine' of my-pack 1.0"])]


def test_unregistering_takes_a_plugin_out(install: Any, core: None) -> None:
    own_names = renderer_names()
    plugins.forget()
    module = install("mine", "my-pack", renderers=make_drawing("mine"))
    assert renderer_names() == [*own_names, "mine"]
    assert plugin_manager().unregister(name="mine") is module
    assert renderer_names() == own_names
    assert [plugin.name for plugin in list_plugins()] == ["core", "audits", "budgets", "pages", "predict"]
    assert plugin_manager().unregister(name="mine") is None


def test_what_an_own_plugin_marks_as_last_is_called_last(install: Any) -> None:
    vars(install("late", "profilerkit"))[HOOK] = hookimpl(make_drawing("own"), trylast=True)
    install("mine", "my-pack", renderers=make_drawing("mine"))
    assert renderer_names() == ["mine", "own"]


def test_a_plugin_may_be_registered_anew_under_another_name(manager: Manager) -> None:
    plugin = make_plugin(renderers=make_drawing("x"))
    manager.register(plugin, name="one")
    manager.unregister(plugin)
    manager.register(plugin, name="two")
    assert sources() == [("two", "x")]
    with pytest.raises(ValueError, match="already registered"):
        manager.register(plugin, name="three")
    with pytest.raises(ValueError, match="already registered"):
        manager.register(make_plugin(renderers=make_drawing("y")), name="two")
    assert sources() == [("two", "x")], "and what was registered is there"
    assert len(manager._sources) == len(manager.get_plugins())


def test_a_name_that_is_blocked_is_taken_out_and_not_let_in(manager: Manager) -> None:
    plugin = make_plugin(renderers=make_drawing("x"))
    manager.register(plugin, name="mine")
    manager.set_blocked("mine")
    assert renderer_names() == []
    assert not manager._sources
    assert manager.register(plugin, name="mine") is None
    assert renderer_names() == []
    assert manager.unblock("mine")
    assert manager.register(plugin, name="mine") == "mine"
    assert renderer_names() == ["x"]


# Plugins of code, and hooks of plugins -------------------------------------------------------------------------------


def test_a_plugin_of_code_is_guarded_and_labelled(manager: Manager) -> None:
    manager.register(make_plugin(renderers=make_raising(SystemExit(3))), name="bad")
    manager.register(make_plugin(renderers=make_drawing("x")), name="good")
    message = (
        f"hook {HOOK} of plugin 'bad' of no package (registered by code) raised SystemExit: 3; what it offers is left "
        "out; to do without it, leave out the code that registers it"
    )
    with pytest.warns(PluginWarning, match=f"^{re.escape(message)}$") as caught:
        [result] = manager.hook.profilerkit_renderers()
    assert [warning.filename for warning in caught] == [__file__]
    assert isinstance(result, Offer)
    assert (result.plugin.name, result.plugin.is_by_code) == ("good", True)
    assert [renderer.name for renderer in result.item] == ["x"]


def test_a_misspelt_hook_is_reported_once(install: Any) -> None:
    def configure(manager: Any) -> None:
        manager.register(make_plugin(renderer=make_drawing("x")), name="inner")

    install("outer", "a-pack", configure=configure)
    with pytest.warns(PluginWarning, match="plugin 'inner' .* has a hook 'profilerkit_renderer' that") as caught:
        plugin_manager()
    assert len(caught) == 1


def test_what_a_plugin_returns_that_is_only_told_is_of_no_consequence(
    manager: Manager, recwarn: pytest.WarningsRecorder
) -> None:
    manager.register(make_plugin(report_created=lambda: 7, configure=lambda: 8), name="mine")
    [offer] = manager.hook.profilerkit_report_created(report=None)
    assert (offer.plugin.name, offer.item) == ("mine", 7)
    assert [str(warning.message) for warning in recwarn] == []


class Specs:
    """A hook that a plugin adds for other plugins."""

    @staticmethod
    @pluggy.HookspecMarker("profilerkit")
    def energy_meters(place: str) -> Any:
        """Return meters."""


def test_hooks_that_a_plugin_adds_are_left_as_they_are(
    install: Any,
    recwarn: pytest.WarningsRecorder,
) -> None:
    def configure(manager: Any) -> None:
        manager.add_hookspecs(Specs)

    install("energy", "a-pack", configure=configure)
    module = install("meters", "b-pack")
    vars(module)["energy_meters"] = hookimpl(lambda place: f"meter of {place}")
    vars(module)["of_another"] = hookimpl(lambda: None, optionalhook=True)
    hooks = plugin_manager().hook
    assert hooks.energy_meters(place="the GPU") == ["meter of the GPU"]
    assert [str(warning.message) for warning in recwarn if issubclass(warning.category, PluginWarning)] == []


# Conflicts -----------------------------------------------------------------------------------------------------------


def test_a_conflict_with_a_plugin_of_code_names_both(install: Any, core: None) -> None:
    install("a", "one", renderers=make_drawing("x"), model_loaders=make_offering(loader("hub", "hub:")))
    code = make_plugin(renderers=make_drawing("x"), model_loaders=make_offering(loader("hubs", "hub")))
    plugin_manager().register(code, name="mine")
    both = "'a' of one 1.0 and 'mine' of no package (registered by code)"
    with pytest.raises(RegistrationConflictError) as caught:
        renderer("x")
    assert str(caught.value) == f"two plugins offer renderer 'x': {both}; leave out the code that registers 'mine'"
    with pytest.raises(
        InputError, match="several model loaders take 'hub:x': .*; leave out the code that registers 'mi"
    ):
        loaders.load_model("hub:x")
    plugin_manager().unregister(code)
    plugin_manager().register(make_plugin(renderers=make_drawing("y", "y")), name="twice")
    message = r"^plugin 'twice' of no package .* offers renderer 'y' twice; change the code that registers it$"
    with pytest.raises(RegistrationConflictError, match=message):
        renderer("y")


# Cost formulas -------------------------------------------------------------------------------------------------------


def test_a_plugin_that_is_registered_later_gives_its_formulas_too(manager: Manager, priced: BackendInfo) -> None:
    asked: list[str] = []

    def formulas(name: str) -> Any:
        def op_costs(backend: Any) -> Any:
            asked.append(name)
            return {name: free}

        return make_plugin(op_costs=op_costs)

    manager.register(formulas("first"), name="first")
    manager.register(make_plugin(op_costs=lambda: None), name="nothing")
    equip(Priced())
    equip(Priced())
    assert asked == ["first"]
    manager.register(formulas("second"), name="second")
    equip(Priced())
    assert sorted(asked[1:]) == ["first", "second"], "what was given before is not given again"
    asked.clear()
    equip(Priced())
    assert asked == []
    assert sorted(Priced.costs) == ["first", "second"]
