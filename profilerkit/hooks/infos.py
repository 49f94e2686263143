"""Offers of a plugin by name, each with a function that loads it: backends, renderers, loaders, engines, commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from ..arguments.checks import FLAG, Check, at_least, instance, mapping, text, texts, to_call
from ..error_text import shown
from ..errors import InputError

if TYPE_CHECKING:
    import click

    from ..backend import Backend

__all__ = [
    "API_VERSION",
    "OLDEST_API_VERSION",
    "BackendInfo",
    "CommandInfo",
    "EngineInfo",
    "FigureInfo",
    "HasReports",
    "Info",
    "LoadedModel",
    "LoaderInfo",
    "Named",
    "OptionInfo",
    "PlacementInfo",
    "Renderer",
    "RendererInfo",
    "import_later",
    "make_refusal",
]

#: Called with a `Report` or `Comparison`, and by name with the options that are in its signature, such as ``details``;
#: with all options if it takes ``**options``.
Renderer: TypeAlias = "Callable[..., Any]"


#: The version of the interface between backends and the library; it rises when existing backends must be changed.
API_VERSION = 1
#: The oldest version that is still supported.
OLDEST_API_VERSION = 1


def _check(check: Check) -> dict[str, Check]:
    """Return the metadata of a field with the check of its value."""
    return {"check": check}


def _read_command_load(value: Any) -> Any:
    if not callable(value) or hasattr(value, "make_context"):  # a command itself, which runs when it is called
        raise ValueError
    return value


_NAME = _check(text("its name, a text that is not empty"))
_LOAD = _check(to_call("a function that imports and returns it, such as lambda: ..."))
_CALLED = _check(to_call("a function"))
_CALLED_OR_NONE = _check(to_call("a function, or None").or_none())
_WORDS = _check(instance(str, "a text"))
_TEXTS = _check(texts("a tuple of texts, such as ('torch',)"))


class Named(Protocol):
    """An offer of a plugin by name.

    Attributes:
        HOOK: The hook that returns such offers.
        WHAT: The kind of the offer, for messages.
    """

    HOOK: ClassVar[str]
    WHAT: ClassVar[str]

    @property
    def name(self) -> str: ...


class HasReports(Protocol):
    """A result, as renderers and plugins get it: a `Report`, or a `Comparison` of several."""

    @property
    def reports(self) -> tuple[Any, ...]: ...


@dataclass(frozen=True)
class Info:
    """An offer of a plugin by name, with a function that loads it. Raises `ArgumentError` for an invalid field."""

    HOOK: ClassVar[str]
    WHAT: ClassVar[str]
    name: str = field(metadata=_NAME)

    def __init_subclass__(cls, hook: str, what: str) -> None:
        cls.HOOK, cls.WHAT = hook, what

    def __post_init__(self) -> None:
        for one_field in fields(self):
            title = f"{one_field.name} of {self.WHAT} {shown(self.name)}"
            one_field.metadata["check"](title, getattr(self, one_field.name))


@dataclass(frozen=True)
class BackendInfo(Info, hook="profilerkit_backends", what="backend"):
    """The description of a backend, which is loaded when it is needed.

    Args:
        name: The name in reports and in ``backend=``.
        frameworks: The packages ("torch"), modules ("torch.onnx") or classes (with their module) whose classes mark a
            model as this backend's. The longest name that matches a class counts.
        load: Imports the framework and returns the backend, which all profilers share.
        requirement: The package to install if loading fails.
        claims: Returns False for a model of such a class that belongs to another backend; None if there are none. If no
            backend can profile the model, it raises `BackendNotFoundError` with the advice. It need not import the
            framework.
        installed: Returns the versions of the installed packages without importing them, and raises `ImportError` if
            one is missing or too old. With it, ``profilerkit list`` need not load the backend.
        api_version: The version of the interface that the backend is written for. Write it as a number: then a backend
            that is newer than the library is refused, with a message that names the package to upgrade.
        suffixes: The file name suffixes that only this backend opens, such as ``(".onnx",)``: a path with one of them
            needs no ``backend=``. The backend implements `profilerkit.protocols.OpensModels`.
        tested: The oldest and the newest release of each framework that the backend is tested with:
            ``{"torch": ("2.10", "2.13")}``. If another one is installed, errors of the backend say so.
        preload: The modules that an audit imports once for many models of this backend, in an interpreter that is
            forked for each; empty for a framework that does not survive a fork, and if it is fast to import.
    """

    frameworks: tuple[str, ...] = field(metadata=_TEXTS)
    load: Callable[[], Backend] = field(metadata=_LOAD)
    requirement: str = field(metadata=_check(text("what to install, such as 'profilerkit[torch]'")))
    claims: Callable[[Any], bool] | None = field(default=None, metadata=_CALLED_OR_NONE)
    installed: Callable[[], Mapping[str, str]] | None = field(default=None, metadata=_CALLED_OR_NONE)
    api_version: int = field(
        default=API_VERSION, metadata=_check(at_least(1, "the version of the interface it is written for, such as 1"))
    )
    suffixes: tuple[str, ...] = field(
        default=(), metadata=_check(texts("the suffixes of its files as a tuple of texts, such as ('.onnx',)", "."))
    )
    preload: tuple[str, ...] = field(default=(), metadata=_TEXTS)
    tested: Mapping[str, tuple[str, str]] = field(default_factory=dict, metadata=_check(mapping("releases by package")))


@dataclass(frozen=True)
class RendererInfo(Info, hook="profilerkit_renderers", what="renderer"):
    """An output form of reports, by name: ``profilerkit profile --format NAME``.

    ``load`` imports and returns the renderer: a function that takes a `Report` or a `Comparison` and returns text. If
    the renderer has a parameter ``details``, it gets whether descriptions and layers are requested. Without ``is_text``
    it returns another object, such as a figure, and no command offers it as a format.
    """

    load: Callable[[], Renderer] = field(metadata=_LOAD)
    description: str = field(default="", metadata=_WORDS)
    is_text: bool = field(default=True, metadata=_check(FLAG))


@dataclass(frozen=True)
class FigureInfo(Info, hook="profilerkit_figures", what="figure"):
    """A kind of figure by name: ``report.plot(NAME)``.

    ``load`` imports and returns the function that draws it: it takes a `Report` or a `Comparison`, and its own options
    by name, and returns a ``matplotlib.figure.Figure``.
    """

    load: Callable[[], Callable[..., Any]] = field(metadata=_LOAD)
    description: str = field(default="", metadata=_WORDS)


@dataclass(frozen=True)
class LoadedModel:
    """A model that a loader returns, with inputs for it: example inputs, or the shapes of one sample.

    These inputs are used if the user gives none. ``name`` is the model's name in reports; None for the usual one.
    """

    model: Any
    inputs: Any = None
    input_shape: Any = None
    name: str | None = None


@dataclass(frozen=True)
class LoaderInfo(Info, hook="profilerkit_model_loaders", what="model loader"):
    """A way to load a model that is named by a text.

    ``accepts`` returns whether the loader handles a text, without importing anything heavy. ``load`` returns the model,
    or a `LoadedModel` that also has inputs for it; it raises `InputError` if the text names no model. If ``load`` has a
    parameter ``trust``, it gets whether the user trusts the file: without trust, it must refuse a file that may run
    code when it is loaded. ``description`` is the form of such a text: ``package.module:name``.

    Args:
        names: Returns every text that the loader knows, for patterns such as ``torchvision:*`` in the plan of an audit;
            it may import the library, and raises `InputError` if that is not installed. None if they cannot be listed.
        packages: The packages whose versions determine the model, such as ``("torchvision",)``.
        frameworks: The packages that are imported when a model is loaded, such as ``("torch",)``.
        preload: Modules that an audit imports once, beside the backend's modules, before it copies the interpreter for
            each model; no module that starts threads or opens a device.
    """

    accepts: Callable[[str], bool] = field(metadata=_CALLED)
    load: Callable[..., Any] = field(metadata=_CALLED)
    description: str = field(metadata=_WORDS)
    names: Callable[[], Iterable[str]] | None = field(default=None, metadata=_CALLED_OR_NONE)
    packages: tuple[str, ...] = field(default=(), metadata=_TEXTS)
    frameworks: tuple[str, ...] = field(default=(), metadata=_TEXTS)
    preload: tuple[str, ...] = field(default=(), metadata=_TEXTS)


@dataclass(frozen=True)
class EngineInfo(Info, hook="profilerkit_engines", what="engine"):
    """An engine by name: ``profilerkit audit --engine NAME``.

    Args:
        name: The name.
        load: Imports the packages that the engine needs and returns its class, a `profilerkit_audits.Engine`; raises
            `ImportError` if a package is missing.
        description: The description of the engine, in a line.
        requirement: The package to install if loading fails.
    """

    load: Callable[[], type[Any]] = field(metadata=_LOAD)
    description: str = field(default="", metadata=_WORDS)
    requirement: str = field(default="profilerkit[audit]", metadata=_WORDS)


@dataclass(frozen=True)
class CommandInfo(Info, hook="profilerkit_commands", what="command"):
    """A command by name: ``profilerkit NAME``.

    Args:
        name: The name that users type.
        load: Imports the command and returns it, a ``click.Command``; called when the command is used.
        description: A sentence about it for ``profilerkit --help``.
        examples: Lines that users may type, shown below the command's help.
    """

    load: Callable[[], click.Command] = field(
        metadata=_check(Check("a function that returns the command, such as lambda: command", _read_command_load))
    )
    description: str = field(metadata=_WORDS)
    examples: tuple[str, ...] = field(default=(), metadata=_TEXTS)


@dataclass(frozen=True)
class OptionInfo(Info, hook="profilerkit_options", what="option"):
    """An option that a plugin adds to the command ``profile``: for a use of the report, or an argument of ``profile``.

    Args:
        name: The option as users type it: "--store".
        load: Imports the option and returns it, a ``click.Option``; its callback checks the value, before a model is
            loaded.
        load_use: Imports and returns the function that is called if the option was given, after the report was printed:
            with the value, the report, and the text that names the model.
        argument: The argument of `profilerkit.profile` that gets the value, instead of a use.
    """

    load: Callable[[], click.Option] = field(metadata=_LOAD)
    load_use: Callable[[], Callable[[Any, Any, str], None]] | None = field(default=None, metadata=_CALLED_OR_NONE)
    argument: str = field(default="", metadata=_WORDS)


@dataclass(frozen=True)
class PlacementInfo(Info, hook="profilerkit_placements", what="placement"):
    """Arguments of `profilerkit.profile` that replace the model by another one, such as one rank of a mesh.

    Args:
        name: The name of the purpose: "mesh".
        arguments: The names of the arguments. If none of them is given, the model is profiled as it is.
        load: Imports and returns the function that is called with the model as the user gave it, the backend or None,
            these arguments by name, and whether files that may run code are loaded. It returns the model to profile and
            its backend.
    """

    arguments: tuple[str, ...] = field(metadata=_TEXTS)
    load: Callable[[], Callable[[Any, Any, Mapping[str, Any], bool], tuple[Any, Backend]]] = field(metadata=_LOAD)


def import_later(path: str) -> Callable[[], Any]:
    """Return a function that imports a module and returns an object in it: the ``load`` of a plugin's offer.

    >>> import_later("math:sqrt")()(9)
    3.0
    """
    module, _, name = path.partition(":")

    def load() -> Any:
        return getattr(import_module(module), name)

    return load


def make_refusal(spec: object, finding: str) -> InputError:
    """Return the error for a file that may run code; ``finding`` says why, such as "holds a pickled model ..."."""
    return InputError(
        f"{spec} {finding}; profilerkit does not load it, since it could run any code. If you trust its author, give "
        "--trust on the command line, or load_model(..., trust=True) in Python"
    )
