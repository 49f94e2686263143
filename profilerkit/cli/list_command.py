"""``profilerkit list``: what is installed, and where it comes from."""

from __future__ import annotations

import click

__all__ = ["command"]


@click.command("list", help="List backends and metrics, and the package each comes from.")
def command() -> None:
    """Print plugins, backends and metrics; a backend that cannot be used says what to install."""
    from rich.console import Console

    from ..errors import BackendNotInstalledError
    from ..plugins import backends, default_functions, installed_plugins, load
    from ..registry import Registry

    console = Console(soft_wrap=True, highlight=False)
    console.print("[bold]Plugins[/bold]")
    for plugin in installed_plugins():
        console.print(f"  {plugin.name:<12} {plugin.distribution}  ({plugin.module})")
    console.print("\n[bold]Backends[/bold]")
    usable = []
    for info in backends():
        try:
            backend = load(info)
        except BackendNotInstalledError as error:
            console.print(f"  {info.name:<12} {error}", markup=False)
        else:
            usable.append(backend)
            facts = ", ".join(f"{name} {value}" for name, value in backend.environment().items())
            console.print(f"  {info.name:<12} {facts}", markup=False)
    for backend in usable:
        console.print(f"\n[bold]Status keys of the {backend.name} backend[/bold]")
        registry = Registry()
        for function in default_functions(backend):
            registry.register(function)
        for binding in registry:
            source = f"{type(binding.function).__module__}:{type(binding.function).__name__}"
            console.print(f"  {binding.key.NAME:<20} {source}", markup=False)
