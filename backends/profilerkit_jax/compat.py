"""The private names of JAX, and the releases that the tests are run with; importing this does not import it.

No other file of this backend has private names. A comment states the use of each name, and the effect of its lack. JAX
documents the structure of jaxprs (``eqns``, ``invars``, ``aval``), but not the parameters of their primitives: without
one that is read, an equation is not counted, and the counts are partial.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from profilerkit import NotOfferedError
from profilerkit.backend_kit.installed import find_version, require_version
from profilerkit.backend_kit.operator_calls import UnknownCostError
from profilerkit.backend_kit.private_names import find

__all__ = [
    "ATTRIBUTES",
    "MINIMUM",
    "PATHS",
    "TESTED",
    "NeededPart",
    "ScopeName",
    "add_scope",
    "evaluate",
    "find_needed_part",
    "find_source",
    "find_versions",
    "make_function",
    "open_jaxpr",
    "parameters",
    "scope_names",
]

#: The oldest and the newest releases that the tests are run with.
TESTED = {"jax": ("0.10", "0.12"), "flax": ("0.12", "0.12"), "equinox": ("0.13", "0.13")}
#: The oldest release of jax that is supported.
MINIMUM = (0, 10)

#: Names of modules of JAX.
PATHS = (
    # Leaves out unused equations. Without it unused equations are counted, and the counts are partial.
    "jax.interpreters.partial_eval.dce_jaxpr",
    # Runs a jaxpr. Without it the turns of a ``while`` loop are not known, and the counts are partial.
    "jax.extend.core.jaxpr_as_fun",
    # These make a jaxpr of one equation, to run it. Without them no input decides a branch or the turns of a loop.
    "jax.extend.core.Jaxpr",
    "jax.extend.core.ClosedJaxpr",
    "jax.api_util.debug_info",
)
#: Attributes of objects of JAX.
ATTRIBUTES = (
    # The scopes of an equation. Without them there are no layers and no backward pass, and the counts are partial.
    "source_info.name_stack.stack",
    # Adds a scope to an equation. Without it ranks of a mesh are refused.
    "source_info.name_stack.extend",
    # The source location of a compiled function. Without it an activation function of JAX makes the counts partial.
    "debug_info.func_src_info",
)


def find_versions() -> dict[str, str]:
    """Return the versions of jax, and of Flax, Equinox and Keras where they are installed, without importing them.

    Raises ImportError where jax is missing or too old.
    """
    version = find_version("jax")
    require_version("jax", version, MINIMUM)
    versions = {"jax": version}
    for name in ("flax", "equinox", "keras"):
        try:
            versions[name] = find_version(name)
        except ImportError:
            continue
    return versions


class _Parameters(dict[str, Any]):
    """The parameters of an equation; one that is not there makes its cost unknown: another release has other names."""

    def __init__(self, equation: Any) -> None:
        super().__init__(equation.params)

    def __missing__(self, name: str) -> Any:
        raise UnknownCostError


def parameters(equation: Any) -> Mapping[str, Any]:
    """Return the parameters of an equation; reading one that it lacks raises `UnknownCostError`."""
    return _Parameters(equation)


def attribute(value: Any, path: str) -> Any:
    """Return an attribute of an object of JAX, by its dotted path; None if it has none."""
    for name in path.split("."):
        value = getattr(value, name, None)
    return value


# Jaxprs ---------------------------------------------------------------------------------------------------------------


def open_jaxpr(jaxpr: Any) -> Any:
    """Return a jaxpr without the constants that it closes over; an open one as it is."""
    return getattr(jaxpr, "jaxpr", jaxpr)


class NeededPart(NamedTuple):
    """The part of a closed jaxpr that some of its outputs need, and which of the inputs of the whole it reads."""

    jaxpr: Any
    reads: list[bool]


def find_needed_part(closed: Any, outputs: Sequence[bool], instantiate: bool = False) -> NeededPart | None:
    """Return the part of a closed jaxpr that some of its outputs need.

    With ``instantiate`` it keeps all of its inputs. None if this release has another way to find out.
    """
    leave_out = find("jax.interpreters.partial_eval.dce_jaxpr")
    if leave_out is None:
        return None
    part, needed = leave_out(closed.jaxpr, list(outputs), instantiate=instantiate)
    return NeededPart(closed.replace(jaxpr=part), list(needed))


def make_function(closed: Any) -> Callable[..., Sequence[Any]]:
    """Return a closed jaxpr as a function; raises `NotOfferedError` if this release has no such way to run one."""
    function = find("jax.extend.core.jaxpr_as_fun")
    if function is None:
        raise NotOfferedError("this release of JAX cannot run a jaxpr by itself")
    made: Callable[..., Sequence[Any]] = function(closed)
    return made


def evaluate(equation: Any, arrays: Sequence[Any]) -> Sequence[Any]:
    """Return the outputs of one equation for the arrays that it reads; raises as its primitive does.

    Raises `NotOfferedError` if this release has no such way to run an equation.
    """
    jaxpr, closed_jaxpr = find("jax.extend.core.Jaxpr"), find("jax.extend.core.ClosedJaxpr")
    debug_info = find("jax.api_util.debug_info")
    if jaxpr is None or closed_jaxpr is None or debug_info is None:
        raise NotOfferedError("this release of JAX cannot run an equation by itself")
    # A variable that the equation reads twice is one input; numbers that stand in the equation are none.
    pairs = zip(equation.invars, arrays, strict=True)
    inputs = {variable: array for variable, array in pairs if not hasattr(variable, "val")}
    about = debug_info("a value", evaluate, (), {}, result_paths_thunk=lambda: ())
    program = jaxpr((), list(inputs), equation.outvars, [equation], debug_info=about)
    return make_function(closed_jaxpr(program, ()))(*inputs.values())


class ScopeName(NamedTuple):
    """A scope that an equation was traced in, or a transformation of it such as "transpose"."""

    name: str
    is_transform: bool


def scope_names(equation: Any) -> list[ScopeName] | None:
    """Return the scopes of an equation, the outermost first; None if this release keeps them otherwise."""
    stack = attribute(equation, "source_info.name_stack.stack")
    kinds = {type(element).__name__ for element in stack} if stack is not None else {""}
    if not kinds <= {"Scope", "Transform"}:
        return None
    return [ScopeName(str(element.name), type(element).__name__ == "Transform") for element in stack]


def add_scope(equation: Any, name: str) -> Any:
    """Return an equation in one scope more, the innermost; raises `NotOfferedError` if this release has no such way."""
    if attribute(equation, "source_info.name_stack.extend") is None:
        raise NotOfferedError("this release of JAX keeps the scopes of equations otherwise: ranks are not traced")
    info = equation.source_info
    return equation.replace(source_info=info.replace(name_stack=info.name_stack.extend(name)))


def find_source(jaxpr: Any) -> str:
    """Return the source location of the function of a jaxpr; an empty text if this release does not tell."""
    return str(attribute(jaxpr, "debug_info.func_src_info") or "")
