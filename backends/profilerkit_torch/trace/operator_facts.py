"""Facts of torch's operators by their schemas and tags, and the tensors among their arguments."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import torch

from ..compat.operators import (
    HigherOrderOperator,
    find_operator,
    find_tag,
    has_nested_kernel,
    read_schema,
    take_apart,
)
from ..compat.recording import is_forward_ad_active
from ..compat.tensors import FAKE_MODULE
from ..untouched.write_guard import may_write

__all__ = [
    "FROM_SHAPES",
    "LIFT",
    "OperatorCall",
    "depends_on_values",
    "find_nature",
    "is_error_of_stand_ins",
    "is_question_of_dtype",
    "may_return_arguments",
    "reads_numbers",
    "run_parts",
    "tensors_among",
    "tensors_in",
]

#: Tags of operators whose results have a shape, or are numbers, that depend on values.
_BY_VALUES = frozenset((find_tag("dynamic_output_shape"), find_tag("data_dependent_output")))
#: It reads a value, though its tags do not say so.
_IS_NONZERO = find_operator("aten.is_nonzero.default")
_MAYBE_ALIASING = find_tag("maybe_aliasing_or_mutating")
#: The operator that `torch.tensor` ends with; its schema declares a view.
LIFT = find_operator("aten.lift_fresh.default")
#: Operators whose results depend on the shape of their tensor alone, not on its values.
FROM_SHAPES = frozenset(
    f"aten::{name}" for name in ("ones_like", "zeros_like", "full_like", "new_ones", "new_zeros", "new_full")
)
#: Parts of the names of operators whose results have no values that could be known, beside those tagged as random.
_WITHOUT_VALUES = ("empty", "resize", "aten::set_", "aten::rand", "_quantize")
_SEEDED = find_tag("nondeterministic_seeded")


@cache
def depends_on_values(func: Any) -> bool:
    """Return whether the shapes of an operator's outputs depend on the values of its arguments."""
    return func is _IS_NONZERO or not _BY_VALUES.isdisjoint(func.tags)


class ValueNature(NamedTuple):
    """How an operator uses values.

    Attributes:
        writes: Whether it writes to an argument.
        has_values: Whether the values of its result can be known: not if they are random numbers.
        from_shapes: Whether these values depend on no tensor's values.
        takes_device: Whether it has an argument with the device of its result.
    """

    writes: bool
    has_values: bool
    from_shapes: bool
    takes_device: bool


@cache
def find_nature(func: Any) -> ValueNature:
    """Return how an operator uses values."""
    schema = read_schema(func)
    takes_tensors = any("Tensor" in str(argument.type) for argument in schema.arguments)
    return ValueNature(
        writes=may_write(func),
        has_values=_SEEDED not in func.tags and not any(part in schema.name for part in _WITHOUT_VALUES),
        from_shapes=schema.name in FROM_SHAPES or not takes_tensors,
        takes_device=any(argument.name == "device" for argument in schema.arguments),
    )


@cache
def may_return_arguments(func: Any) -> bool:
    """Return whether an operator may return its arguments, or views of them."""
    schema = read_schema(func)
    if any(argument.alias_info is not None for argument in (*schema.arguments, *schema.returns)):
        return True
    return _MAYBE_ALIASING in func.tags and schema.name != "aten::batch_norm"


def reads_numbers(func: Any) -> bool:
    """Return whether an operator reads the numbers of its tensors; making a view or new memory reads none.

    A higher-order operator reads none: the operators inside it do.
    """
    if isinstance(func, HigherOrderOperator):
        return False
    schema = read_schema(func)
    returns_tensors = any("Tensor" in str(returned.type) for returned in schema.returns)
    if not (schema.is_mutable or returns_tensors or depends_on_values(func)):  # a question of a size or a device
        return False
    name = str(schema.name).partition("::")[2]
    makes_new = schema.name in FROM_SHAPES or name.endswith("_like") or name.startswith(("new_", "_unsafe_view"))
    return not (func.is_view or makes_new)


def is_question_of_dtype(func: Any) -> bool:
    """Return whether torch runs an operator only to learn the dtype of a sum with derivatives that are zero.

    Torch runs this sum on the meta device, where its kernel is Python code that calls such primitives.
    """
    return is_forward_ad_active() and func.namespace == "prims"


def is_error_of_stand_ins(func: Any, error: Exception) -> bool:
    """Return whether an operator failed because of a stand-in, and not because of the model."""
    is_of_fake_tensors = type(error).__module__ == FAKE_MODULE
    if is_of_fake_tensors or isinstance(error, NotImplementedError) or " meta " in str(error):
        return True
    return not isinstance(func, HigherOrderOperator) and depends_on_values(func)


def tensors_in(value: Any) -> Iterable[torch.Tensor]:
    """Yield the tensors among arguments or results, also inside lists and tuples."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def tensors_among(args: Any, kwargs: Any) -> Iterable[torch.Tensor]:
    """Yield the tensors among the arguments of an operator."""
    return tensors_in((args, tuple(kwargs.values())) if kwargs else args)


class OperatorCall(NamedTuple):
    """An operator, or a function of torch's, and its arguments."""

    func: Any
    args: Any
    kwargs: Any

    @property
    def tensors(self) -> Iterable[torch.Tensor]:
        """The tensors among the arguments."""
        return tensors_among(self.args, self.kwargs)

    def run(self) -> Any:
        """Return what the operator or function makes."""
        return self.func(*self.args, **self.kwargs)


def run_parts(mode: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Have torch take a composite operator apart into others, which a mode sees; NotImplemented if it does not."""
    if has_nested_kernel(func) and any(tensor.is_nested for tensor in tensors_in(args)):
        return NotImplemented
    with mode:
        return take_apart(func, args, kwargs)
