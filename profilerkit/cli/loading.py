"""From what a user types as MODEL and --input-shape to a model and its inputs."""

from __future__ import annotations

from typing import Any

import click

from ..errors import InputError, ModelFailedError
from ..loaders import load_model
from . import MODEL_FAILED, fail

__all__ = ["loaded_model", "parse_shapes"]


def loaded_model(spec: str) -> Any:
    """Return the model that MODEL leads to, by the loader of a plugin; what is wrong with it is said in a line."""
    try:
        return load_model(spec)
    except InputError as error:
        raise click.BadParameter(str(error), param_hint="MODEL") from error
    except ModelFailedError as error:
        fail(str(error), MODEL_FAILED)


def parse_shapes(values: tuple[str, ...]) -> tuple[Any, int | None]:
    """Return (input_shape, batch size) for ``1,3,224,224`` or ``ids=1,128:int64``, several of either.

    The first dimension is the batch, which all inputs share.
    """
    positional: list[Any] = []
    named: dict[str, Any] = {}
    batches = set()
    for value in values:
        name, _, rest = value.rpartition("=")
        sizes, _, dtype = rest.partition(":")
        try:
            batch, *shape = (int(size) for size in sizes.split(","))
        except ValueError:
            raise click.BadParameter(
                f"{value!r} is no shape; give 1,3,224,224 (batch first), with a name and dtype ids=1,128:int64",
                param_hint="--input-shape",
            ) from None
        batches.add(batch)
        spec = (tuple(shape), dtype or "float32")
        if name:
            named[name] = spec
        else:
            positional.append(spec)
    if len(batches) > 1:
        raise click.BadParameter("the inputs have different batch sizes (first dimensions)", param_hint="--input-shape")
    if positional and named:
        raise click.BadParameter("name all inputs or none of them", param_hint="--input-shape")
    return (named or positional or None), (batches.pop() if batches else None)
