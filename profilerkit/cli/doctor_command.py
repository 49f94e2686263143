"""``profilerkit doctor``: what is installed here, and what can be done with it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import click

from . import emit

if TYPE_CHECKING:
    from ..backend import Backend

__all__ = ["command"]

#: What profilerkit can make use of where it is installed, and what for.
OPTIONAL = {
    "torch": "PyTorch models",
    "tensorflow": "TensorFlow and Keras models",
    "pandas": "to_pandas()",
    "matplotlib": "figures",
    "timm": "timm:NAME on the command line",
    "torchvision": "torchvision:NAME on the command line",
    "transformers": "hf:NAME on the command line",
}


@click.command("doctor")
def command() -> None:
    """Show what is installed, and what each backend can do here.

    Useful for a bug report, and before a measurement.
    """
    from ..piping.quantity import Scale, scale_value
    from ..plugging import offers
    from ..process import environment

    emit(click.style("This machine", bold=True))
    for name, value in environment.machine().items():
        if name.endswith("_bytes"):
            name, value = name.removesuffix("_bytes"), str(scale_value(int(value), "B", Scale.IEC))
        _line(name, value)
    emit(click.style("\nPackages", bold=True))
    _line("profilerkit", version("profilerkit"))
    for package, use in OPTIONAL.items():
        _line(package, f"{_installed(package)}  ({use})")
    emit(click.style("\nBackends", bold=True))
    for info in offers.backends():
        try:
            backend = offers.load(info)
        except Exception as error:  # whatever a plugin does wrong, the others go on
            _line(info.name, f"cannot be used: {' '.join(str(error).split())}")
            continue
        _line(info.name, ", ".join(f"{name} {value}" for name, value in backend.environment().items()) or "ready")
        for what, answer in _abilities(backend):
            emit(f"  {'':<16} {what}: {answer}")


def _line(name: str, value: str) -> None:
    emit(f"  {name:<16} {value}".rstrip())


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _abilities(backend: Backend) -> list[tuple[str, str]]:
    """Return what a backend offers beyond what every one must: the protocols that it is an instance of."""
    from ..protocols import CAPABILITIES

    abilities = [
        (capability.offers, "yes" if isinstance(backend, capability.protocol) else "not offered")
        for capability in CAPABILITIES
        if capability.offers
    ]
    options = ", ".join(backend.offered_options) or "none"
    return [*abilities, ("runs models as", ", ".join(backend.execution_modes)), ("options of a run", options)]
