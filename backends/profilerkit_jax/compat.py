"""The private names of JAX, and the releases that the tests are run with; importing this does not import it.

No other file of this backend has private names. A comment states the use of each name, and the effect of its lack. JAX
documents the structure of jaxprs (``eqns``, ``invars``, ``aval``), but not the parameters of their primitives:
`PARAMETERS` lists the parameters that are read.
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
    "PARAMETERS",
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
#: The parameters that are read of each primitive. Without one of them it is not counted, and the counts are partial.
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "cond": ("branches",),
    "conv_general_dilated": ("dimension_numbers", "lhs_dilation", "padding", "rhs_dilation", "window_strides"),
    "custom_linear_solve": ("const_lengths", "jaxprs"),
    "dot_general": ("dimension_numbers",),
    "dot_product_attention_bwd": ("dropout_rate", "layout"),
    "dot_product_attention_bwd_wrapper": ("dropout_rate", "layout"),
    "dot_product_attention_fwd": ("dropout_rate", "layout", "variadic_args"),
    "dot_product_attention_fwd_wrapper": ("dropout_rate", "layout", "variadic_args"),
    "eig": ("compute_left_eigenvectors", "compute_right_eigenvectors"),
    "fft": ("fft_type", "fft_lengths"),
    "integer_pow": ("y",),
    "jit": ("jaxpr", "name"),
    "ormqr": ("left",),
    "qr": ("full_matrices",),
    "ragged_dot_general": ("ragged_dot_dimension_numbers",),
    "reduce": ("jaxpr",),
    "reduce_window": ("jaxpr", "window_dimensions"),
    "reduce_window_max": ("window_dimensions",),
    "reduce_window_min": ("window_dimensions",),
    "reduce_window_sum": ("window_dimensions",),
    "scan": ("jaxpr", "length"),
    "scatter": ("update_jaxpr",),
    "schur": ("compute_schur_vectors",),
    "select_and_gather_add": ("window_dimensions",),
    "shard_map": ("jaxpr", "mesh", "out_specs"),
    "svd": ("compute_uv", "full_matrices"),
    "symmetric_product": ("alpha", "beta"),
    "triangular_solve": ("left_side",),
    "while": ("cond_jaxpr", "body_jaxpr", "cond_nconsts", "body_nconsts"),
}


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
    """The parameters of an equation; one that is expected and not there makes its cost unknown."""

    def __init__(self, equation: Any) -> None:
        super().__init__(equation.params)
        self._primitive = equation.primitive.name

    def __missing__(self, name: str) -> Any:
        if name in PARAMETERS.get(self._primitive, ()):
            raise UnknownCostError
        raise KeyError(name)


def parameters(equation: Any) -> Mapping[str, Any]:
    """Return the parameters of an equation; reading one of `PARAMETERS` that is missing raises `UnknownCostError`."""
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
