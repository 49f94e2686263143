"""One training step of one rank of a mesh, read from the program that XLA divides for the ranks.

The process is used for nothing else: it has as many devices as the mesh, all on one CPU. Nothing runs on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple, cast

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from profilerkit import InputError, ModelInputs
from profilerkit_predict.meshes.layout import RankModel
from profilerkit_predict.meshes.records import PlacedCollective, RankTrace, make_collective, note_idle

from ..compat import make_function
from ..model.calls import is_trained, make_step
from ..model.subject import Leaf, Subject
from ..model.subjects import find_subject
from ..trace.program import Program, trace_program
from ..trace.program_trace import trace_of_program, walk_program
from .device_program import DeviceProgram, compile_program
from .exchanges import RankExchange, list_exchanges
from .numbered import number_equations
from .shardings import list_weight_shardings, make_whole, read_shardings
from .share_walk import ShareWalk, Spot
from .step_bytes import StepBytes

__all__ = ["trace_rank"]


def trace_rank(model: RankModel, inputs: ModelInputs) -> RankTrace:
    """Return a training step of a rank: of ``model.build()``, spread as ``model.parallelize`` says, with its inputs.

    Raises `InputError` for an object that is no model, for shardings that do not fit it, and for several passes; other
    errors of the user's code and of JAX pass through.
    """
    _require_function(model)
    device_mesh = Mesh(np.array(jax.devices()).reshape(tuple(model.mesh.values())), tuple(model.mesh))
    whole_model = model.build()
    shardings = read_shardings(None if model.parallelize is None else model.parallelize(whole_model, device_mesh))
    subject = find_subject(whole_model if shardings.model is None else shardings.model)
    whole_inputs, input_shardings = make_whole(shardings, inputs, device_mesh)
    argument_shardings = [*list_weight_shardings(shardings, subject.leaves, device_mesh), *input_shardings]
    with jax.set_mesh(device_mesh):
        traced = trace_program(subject, whole_inputs, make_step, training=True)
        traced.jaxpr = number_equations(traced.jaxpr)
        program = _divide(traced, subject, argument_shardings)
    return _read_step(_take_share(traced, subject, argument_shardings), program, model)


def _require_function(model: RankModel) -> None:
    """Raise `InputError` for a scheme of torch's, and for passes that the model's own code would make."""
    if isinstance(model.parallelize, str):
        raise InputError(
            f"parallelize={model.parallelize!r} is a scheme of torch; for a model of JAX give a function of the model "
            "and the mesh that returns profilerkit_jax.Shardings"
        )
    if model.passes > 1:
        raise InputError(
            "gradients are added up over passes by the model's own code in JAX; leave out "
            "gradient_accumulation_steps, and give a model that has the loop"
        )


def _divide(traced: Program, subject: Subject, shardings: Sequence[NamedSharding]) -> DeviceProgram:
    """Return the program of one device.

    The gradients are spread like the weights, and XLA spreads everything else. ``shardings`` has first the shardings of
    the weights, then the shardings of the inputs.
    """
    jaxpr = traced.jaxpr.jaxpr
    weights_first = zip(subject.leaves, shardings, strict=False)
    gradient_shardings = [sharding for leaf, sharding in weights_first if is_trained(leaf)]
    free = [None] * (len(jaxpr.outvars) - len(gradient_shardings))
    shapes = [jax.ShapeDtypeStruct(variable.aval.shape, variable.aval.dtype) for variable in jaxpr.invars]
    out_shardings = [*free, *gradient_shardings]  # the gradients come last
    step = jax.jit(make_function(traced.jaxpr), in_shardings=tuple(shardings), out_shardings=out_shardings)
    return compile_program(step.lower(*shapes))


class _Share(NamedTuple):
    """The share of one device in a step.

    Attributes:
        subject: The model, whose weights have the shapes of the device's share.
        traced: The step, whose inputs have the shapes of the device's share.
        whole: The weights of all devices together.
    """

    subject: Subject
    traced: Program
    whole: Sequence[Leaf]


def _take_share(traced: Program, subject: Subject, shardings: Sequence[NamedSharding]) -> _Share:
    variables = traced.jaxpr.jaxpr.invars
    shares = [
        jax.ShapeDtypeStruct(sharding.shard_shape(variable.aval.shape), variable.aval.dtype)
        for variable, sharding in zip(variables, shardings, strict=True)
    ]
    leaves = [replace(leaf, value=share) for leaf, share in zip(subject.leaves, shares, strict=False)]
    return _Share(replace(subject, leaves=leaves), replace(traced, inputs=shares[len(leaves) :]), subject.leaves)


def _read_step(share: _Share, program: DeviceProgram, model: RankModel) -> RankTrace:
    """Return the trace of the step of a rank."""
    waiting, unknown = list_exchanges(program, model.rank, model.ranks)
    walked = walk_program(share.subject, share.traced, partial(ShareWalk, program=program, waiting=waiting))
    walk = cast(ShareWalk, walked.walk)
    counted = trace_of_program(share.subject, share.traced, walked, training=True)
    step_bytes = StepBytes.read(share.subject.leaves, share.traced.inputs, program.memory)
    exchanged = tuple(_list_exchanged(walk, share, model.mesh))
    whole = {f"the share of {name}, which is counted as a whole": 1 for name in walk.unknown}
    trace = replace(
        counted,
        memory=step_bytes.make_timeline(len(counted.operators)),
        uncounted={**counted.uncounted, **whole},
        notes=(
            *(model.describe(), *counted.notes),
            *note_idle(model.mesh, (placed.collective for placed in exchanged)),
        ),
    )
    return RankTrace(
        trace,
        step_bytes.gradients,
        step_bytes.divide_by_layer(trace),
        step_bytes._replace(temporaries=0).divide_by_layer(trace),
        unknown + _count_in_branches(walk),
        exchanged=exchanged,
        description=model.describe(),
    )


def _find_positions(walk: ShareWalk) -> dict[int, int]:
    """Return the position of each counted operator, by its ``id``."""
    return {id(executed): index for index, executed in enumerate(walk.work.operators)}


def _count_in_branches(walk: ShareWalk) -> Counter[str]:
    """Return the exchanges in branches that are not counted, in words."""
    positions = _find_positions(walk)
    kinds = [one.exchange.message.kind for one in walk.exchanged if id(one.by) not in positions]
    return Counter(f"{kind} of a branch that is not counted" for kind in kinds)


def _list_exchanged(walk: ShareWalk, share: _Share, mesh: Mapping[str, int]) -> Iterator[PlacedCollective]:
    """Yield the exchanges of a rank in a step, in their order.

    Exchanges that no equation of the jaxpr asks for come last, and belong to no layer.
    """
    positions = _find_positions(walk)
    counted = [exchanged for exchanged in walk.exchanged if id(exchanged.by) in positions]
    for executed, exchange, spot in sorted(counted, key=lambda exchanged: positions[id(exchanged.by)]):
        phase = "backward" if executed.is_backward else "forward"
        overlaps = _is_of_weight(exchange, spot, share)
        collective = make_collective(exchange.message, executed.chain[-1].path, phase, overlaps, mesh)
        yield from [PlacedCollective(positions[id(executed)], collective)] * executed.times
    for exchange in chain.from_iterable(walk.waiting.values()):
        phase = "backward" if "transpose(" in exchange.instruction.scopes else "forward"
        yield PlacedCollective(len(positions), make_collective(exchange.message, "", phase, False, mesh))


def _is_of_weight(exchange: RankExchange, spot: Spot, share: _Share) -> bool:
    """Return whether an exchange gathers a weight, or reduces its gradient: XLA runs these beside other work.

    An exchange reduces a gradient if it comes after an equation of the backward pass that reads no weight, and whose
    result has the shape of a weight (in any order of dimensions), or of one layer of stacked weights.
    """
    if exchange.message.kind == "all-gather":
        return exchange.instruction.shape in spot.weights
    reads_weight = not _list_shapes(share.subject.leaves).isdisjoint(map(_sort, spot.weights))
    if not exchange.is_reduction or not spot.context.frame.is_backward or reads_weight:
        return False
    weights = _list_shapes((*share.whole, *share.subject.leaves))
    return not weights.isdisjoint(map(_sort, spot.outputs))


def _list_shapes(leaves: Iterable[Leaf]) -> set[tuple[int, ...]]:
    """Return the sorted sizes of weights, and of one layer of stacked weights."""
    shapes = [tuple(leaf.value.shape) for leaf in leaves if leaf.is_parameter]
    return {_sort(shape) for whole in shapes for shape in (whole, whole[1:])}


def _sort(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(shape))
