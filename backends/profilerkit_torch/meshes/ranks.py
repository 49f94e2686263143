"""One training step of one rank: the model is built, spread and run without values, and without the other ranks.

The process is used for nothing else: its group of processes stays, and stands for all ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from profilerkit import InputError, ModelInputs, ModelTrace
from profilerkit.arguments.structures import tensors_in
from profilerkit_predict.meshes.layout import RankModel
from profilerkit_predict.meshes.records import PlacedCollective, RankTrace, note_idle

from ..compat.meshes import call_for_context_parallel, make_fake_store, require_collectives
from ..compat.modules import read_buffers, read_parameters
from ..compat.tensors import FAKE_MODULE, FakeTensorMode
from ..training.differentiation import note_unused
from .faults import note_repeated_reductions, note_whole_weights
from .pipeline import Pipeline
from .rank_layers import RankLayers
from .rank_memory import count_bytes, find_share
from .recorder import RankRecorder
from .schemes import spread_attention, spread_by_config, spread_by_scheme
from .step_scheme import StepScheme, rehearse
from .step_watch import watch_step

__all__ = ["trace_rank"]


def trace_rank(model: RankModel, inputs: ModelInputs) -> RankTrace:
    """Return a training step of a rank: of ``model.build()``, spread by ``model.parallelize``, with its own inputs.

    The model is built without values. Raises `InputError` if the result is no module, and if the model asks for a
    value; other errors of the user's code pass through.
    """
    device_mesh = _make_mesh(model)
    with torch.device("meta"):
        module = _require_module(model.build(), "the function that builds the model")
    module, scheme = _spread(module, model.parallelize, device_mesh)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, _refuse_values():
        _allocate(module)
        chosen = scheme.select_inputs(inputs)
        called = chosen.map(lambda leaf: mode.from_tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf)
        recorder = RankRecorder(RankLayers(module))
        scheme.prepare(module, lambda: rehearse(module, called))
        return _trace_step(model, module, called, scheme, recorder)


def _make_mesh(model: RankModel) -> DeviceMesh:
    """Return torch's mesh over a group of processes of which only this one exists."""
    if dist.is_initialized():
        raise InputError("a mesh needs a process of its own: this one is part of a group of processes already")
    require_collectives()
    dist.init_process_group("fake", store=make_fake_store(), rank=model.rank, world_size=model.ranks)
    return init_device_mesh("cpu", tuple(model.mesh.values()), mesh_dim_names=tuple(model.mesh))


def _allocate(module: nn.Module) -> None:
    """Give a module memory without values, in training mode; shared tensors stay shared.

    torch's ``to_empty`` makes one tensor for each place, so that tied weights would count twice, and fails for a layer
    that is in two places.
    """
    places: dict[int, list[tuple[nn.Module, str]]] = {}
    for part in module.modules():
        for name, tensor in (*read_parameters(part).items(), *read_buffers(part).items()):
            if tensor is not None:
                places.setdefault(id(tensor), []).append((part, name))
    for part in module.modules():
        part.to_empty(device="cpu", recurse=False)
    module.train()
    for (first, first_name), *others in places.values():
        for part, name in others:
            if getattr(part, name) is not getattr(first, first_name):
                setattr(part, name, getattr(first, first_name))


def _require_module(model: Any, source: str) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise InputError(f"{source} returned a {type(model).__name__}; a mesh needs a torch.nn.Module")
    return model


def _spread(model: nn.Module, parallelize: Any, device_mesh: DeviceMesh) -> tuple[nn.Module, StepScheme]:
    """Return the model as the scheme, or the user's function, spreads it; and the scheme of its step."""
    spread_attention()
    call_for_context_parallel(_refuse_context_parallel)
    if isinstance(parallelize, str):
        return model, spread_by_scheme(parallelize, model, device_mesh)
    if parallelize is not None and not callable(parallelize):
        return spread_by_config(parallelize, model, device_mesh), StepScheme()
    result = None if parallelize is None else parallelize(model, device_mesh)
    if isinstance(result, tuple) and len(result) == 2:
        pipeline = Pipeline(*result)
        return pipeline.model, pipeline
    spread = model if result is None else _require_module(result, "parallelize")
    return spread, StepScheme()


def _refuse_context_parallel() -> None:
    raise InputError(
        "the model uses torch's context parallel attention, which torch has for the kernels of GPUs alone: without one "
        "its collectives are not known; spread the heads instead (tensor parallel), or profile it without cp"
    )


@contextmanager
def _refuse_values() -> Iterator[None]:
    """Raise `InputError` if a model asks for the value of a tensor: there are only shapes."""
    try:
        yield
    except RuntimeError as error:
        if type(error).__module__ != FAKE_MODULE:
            raise
        raise InputError(
            f"the model asks for the value of a tensor ({error}), and a rank of a mesh is traced on shapes alone; give "
            "it inputs with which it does not, or a model that does without"
        ) from error


def _trace_step(
    rank: RankModel, model: nn.Module, inputs: ModelInputs, scheme: StepScheme, recorder: RankRecorder
) -> RankTrace:
    """Return the record of the passes of a step, forward and backward; the first note names the rank.

    The model is spread and has no values; ``scheme`` does the work of the way of spreading beside torch's own.
    """
    for _, share in recorder.layers.list_shares(scheme.find_share):
        recorder.live.add(share, 0)  # the bytes of weights do not count among the bytes alive
    weights = recorder.layers.count_weight_bytes(scheme.find_share)
    recorder.memory.start_with(tensors_in(tuple(inputs.leaves()), torch.is_tensor))
    one_thread = torch.autograd.set_multithreading_enabled(False)
    with watch_step(recorder), one_thread, scheme.in_step(recorder):
        notes = scheme.run(model, inputs, recorder, rank.passes) or _note_untrained(model, recorder)
        left = recorder.memory.list_alive()  # with the tensors that the scheme keeps for the next step
    exchanged = tuple(recorder.exchanges.list_placed(rank.mesh, len(recorder.operators)))
    faults = _note_faults(rank, model, recorder, exchanged)
    trace = ModelTrace(
        recorder.layers.list_records(scheme.find_share),
        tuple(recorder.operators),
        recorder.timeline(weights.total(), left.total()),
        uncounted=recorder.uncounted,
        method="fake tensors",
        notes=(rank.describe(), *notes, *faults),
    )
    return RankTrace(
        trace,
        gradient_bytes=_count_gradient_bytes(model) if scheme.gradient_bytes is None else scheme.gradient_bytes,
        peak=weights + recorder.memory.peak,
        left=weights + left,
        unknown=dict(recorder.exchanges.unknown),
        optimizer_share=scheme.optimizer_share,
        exchanged=exchanged,
        description=rank.describe(),
    )


def _note_faults(
    rank: RankModel, model: nn.Module, recorder: RankRecorder, exchanged: Iterable[PlacedCollective]
) -> Iterator[str]:
    """Yield notes on what costs more than it needs in the plan of a mesh."""
    yield from note_idle(rank.mesh, (placed.collective for placed in exchanged))
    yield from note_whole_weights(model)
    yield from note_repeated_reductions(recorder.exchanges.by_operator.values())


def _count_gradient_bytes(model: nn.Module) -> int:
    """Return the bytes of this rank's shares of the gradients that the parameters have."""
    return count_bytes(find_share(parameter.grad) for parameter in model.parameters() if parameter.grad is not None)


def _note_untrained(model: nn.Module, recorder: RankRecorder) -> list[str]:
    """Return a note that names the weights that got no gradient; none if all have one."""
    return note_unused(
        [
            name
            for name, weight in model.named_parameters()
            if weight.requires_grad
            and weight.grad is None
            and id(weight) not in recorder.trained  # a scheme may have taken its gradient away
        ]
    )
