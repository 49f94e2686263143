"""``profilerkit list``: what is installed, and where it comes from."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..backend import Backend
    from ..plugin_manager import Offer, PluginInfo

__all__ = ["command", "place_of"]


@click.command("list", help="List what plugins offer, and the package each comes from.")
@click.option("-v", "--verbose", is_flag=True, help="Show for each thing its plugin, package, file and line.")
def command(verbose: bool) -> None:
    """Print what all plugins offer; a backend that cannot be used says what to install."""
    from .. import plugins

    listing = _Listing(verbose)
    listing.plugins()
    usable = listing.backends()
    for backend in usable:
        listing.functions(backend)
    if verbose or not usable:
        listing.section("Status keys", plugins.offered_status_keys(), name="NAME", text=inspect.getdoc)
    listing.section("Renderers", plugins.offered_renderers(), place="load")
    listing.section("Model loaders", plugins.offered_loaders(), place="load")
    for backend in usable:
        listing.formulas(backend)


class _Listing:
    """Prints section by section; ``verbose`` adds below each line where it comes from."""

    def __init__(self, verbose: bool) -> None:
        self.verbose = verbose
        self.sections = 0

    def title(self, text: str) -> None:
        click.echo(("\n" if self.sections else "") + click.style(text, bold=True))
        self.sections += 1

    def line(self, name: str, text: str, plugin: PluginInfo, thing: Any = None) -> None:
        click.echo(f"  {name:<20} {text}".rstrip())
        if self.verbose:
            click.echo(f"  {'':<20}   {', '.join(filter(None, [f'plugin {plugin}', place_of(thing)]))}")

    def section(
        self, title: str, offers: Iterable[Offer[Any]], name: str = "name", place: str = "", text: Any = None
    ) -> None:
        self.title(title)
        for offer in offers:
            said = (text(offer.item) or "").partition("\n")[0] if text else offer.item.description
            thing = getattr(offer.item, place) if place else offer.item
            self.line(getattr(offer.item, name), said, offer.plugin, thing)

    def plugins(self) -> None:
        from .. import plugins

        self.title("Plugins")
        manager = plugins.manager()
        for plugin in plugins.installed_plugins():
            click.echo(f"  {plugin.name:<20} {plugin.distribution}  ({plugin.module})")
            if self.verbose:
                click.echo(f"  {'':<20}   {place_of(manager.get_plugin(plugin.name))}")
        for plugin in plugins.switched_off_plugins():
            click.echo(f"  {plugin.name:<20} {plugin.distribution}  ({plugin.module}), switched off")

    def backends(self) -> list[Backend]:
        """Print the backends and return those that can be used here."""
        from .. import plugins
        from ..errors import BackendNotInstalledError

        self.title("Backends")
        usable = []
        for offer in plugins.offered_backends():
            try:
                backend = plugins.load(offer.item)
            except BackendNotInstalledError as error:
                said = str(error)
            else:
                usable.append(backend)
                said = ", ".join(f"{name} {value}" for name, value in backend.environment().items())
            self.line(offer.item.name, said, offer.plugin, offer.item.load)
        return usable

    def functions(self, backend: Backend) -> None:
        from .. import plugins
        from ..function import describe

        plugins.default_functions(backend)  # raises where two plugins claim one key
        self.title(f"{'Functions for' if self.verbose else 'Status keys of'} the {backend.name} backend")
        for offer in plugins.functions_offered(backend):
            keys = [key.NAME for key in offer.item.bounded_keys()]
            if self.verbose:
                self.line(describe(offer.item), ", ".join(keys), offer.plugin, offer.item)
                continue
            for key in keys:
                self.line(key, f"{type(offer.item).__module__}:{type(offer.item).__name__}", offer.plugin)

    def formulas(self, backend: Backend) -> None:
        from .. import plugins

        found = [(plugin, op, formula) for plugin, costs in plugins.op_costs(backend) for op, formula in costs.items()]
        if found:
            self.title(f"Cost formulas of plugins for the {backend.name} backend")
        for plugin, op, formula in found:
            name = op.__qualname__ if isinstance(op, type) else str(op)
            self.line(name, f"{formula.__module__}:{getattr(formula, '__qualname__', formula)}", plugin, formula)


def place_of(thing: Any) -> str:
    """Return the file and line where a module, class or function is defined; of an instance, where its class is."""
    wrapped = getattr(thing, "func", None)
    defined = inspect.unwrap(wrapped if callable(wrapped) else thing) if callable(thing) else thing
    if not (inspect.ismodule(defined) or inspect.isclass(defined) or inspect.isroutine(defined)):
        defined = type(defined)
    try:
        file = inspect.getsourcefile(defined)
        line = 1 if inspect.ismodule(defined) else inspect.getsourcelines(defined)[1]
    except (TypeError, OSError):
        return "place unknown"
    return f"{file}:{line}"
