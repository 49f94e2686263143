"""One training step of one rank: the model is built, spread and run without values, and without the other ranks.

The process belongs to this: its group of processes stays, and is that of all ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import prod
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from profilerkit import InputError, ModelInputs, ModelTrace
from profilerkit.backend_kit.call_stack import tensors_in
from profilerkit.trace.records import MemoryTimeline
from profilerkit_predict.meshes.exchanges import Exchanges, describe_rank, note_idle
from profilerkit_predict.meshes.records import RankTrace

from ..compat.meshes import call_for_context_parallel, make_fake_store
from ..compat.tensors import FAKE_MODULE, FakeTensorMode
from ..trace.live_bytes import LiveBytes
from ..training.differentiation import note_unused
from .attention import spread_attention
from .equal_blocks import find_equal_blocks
from .extension import extend_step
from .faults import note_repeated_reductions, note_whole_weights
from .passes import rehearse
from .pipeline import Pipeline
from .rank_layers import RankLayers
from .recorder import RankRecorder
from .schemes import spread_by_scheme
from .shares import count_bytes, count_weight_bytes, find_gradient, list_rank_layers
from .skipped_blocks import DifferentBlocksError, SkippedBlocks
from .step_scheme import StepScheme
from .step_watch import watch_step
from .transformers_config import spread_by_config

__all__ = ["trace_rank"]


def trace_rank(
    build: Callable[[], Any],
    inputs: ModelInputs,
    mesh: Mapping[str, int],
    parallelize: Any,
    rank: int,
    passes: int = 1,
) -> RankTrace:
    """Return a training step of a rank: of ``build()``, spread by ``parallelize``, with the inputs of that rank.

    Its gradients are those of so many passes added up. The model is built without values; of many equal blocks a few
    run, where all do the same. Raises `InputError` for what is no module, and where the model asks for a value; what
    else the user's code raises passes through.
    """
    device_mesh, note = _make_mesh(mesh, rank), describe_rank(mesh, rank, passes)

    def trace(leaves_out: bool) -> RankTrace:
        with torch.device("meta"):
            model = _require_module(build(), "the function that builds the model")
        model, scheme = _spread(model, parallelize, device_mesh)
        with FakeTensorMode(allow_non_fake_inputs=True) as mode, _refuse_values():
            model.to_empty(device="cpu").train()
            chosen = scheme.select_inputs(inputs)
            called = chosen.map(lambda leaf: mode.from_tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf)
            recorder = RankRecorder(RankLayers(model), Exchanges(mesh))
            scheme.prepare(model, lambda: rehearse(model, called))
            equal = find_equal_blocks(recorder.layers.inventory) if leaves_out and scheme.IS_BY_BLOCK else []
            return _trace_step(model, called, SkippedBlocks(equal, recorder), scheme, passes, note)

    with suppress(DifferentBlocksError):
        return trace(leaves_out=True)
    return trace(leaves_out=False)


def _make_mesh(mesh: Mapping[str, int], rank: int) -> DeviceMesh:
    """Return torch's mesh over a group of processes of which there is this one alone."""
    if dist.is_initialized():
        raise InputError("a mesh needs a process of its own: this one is part of a group of processes already")
    dist.init_process_group("fake", store=make_fake_store(), rank=rank, world_size=prod(mesh.values()))
    return init_device_mesh("cpu", tuple(mesh.values()), mesh_dim_names=tuple(mesh))


def _require_module(model: Any, source: str) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise InputError(f"{source} returned a {type(model).__name__}; a mesh needs a torch.nn.Module")
    return model


def _spread(model: nn.Module, parallelize: Any, device_mesh: DeviceMesh) -> tuple[nn.Module, StepScheme]:
    """Return the model as the scheme, or the user's function, spreads it; and what that does in the step."""
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
    """Raise `InputError` where a model asks for the value of a tensor: there are shapes alone."""
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
    model: nn.Module, inputs: ModelInputs, skipped: SkippedBlocks, scheme: StepScheme, passes: int, note: str
) -> RankTrace:
    """Return what the passes of a model show, forward and back; it is spread, and has no values.

    Raises `DifferentBlocksError` where blocks are left out and may not be.
    """
    recorder = skipped.recorder
    weights = [scheme.find_share(tensor) for tensor in (*model.parameters(), *model.buffers())]
    weight_bytes = _count_weights(weights, recorder.live)
    input_bytes = _count_inputs(inputs, recorder.live)
    one_thread = torch.autograd.set_multithreading_enabled(False)
    with watch_step(recorder), one_thread, scheme.in_step(recorder), skipped.follow():
        notes = scheme.run(model, inputs, recorder, passes)
    growth = extend_step(recorder, skipped)
    memory = _make_timeline(recorder, weight_bytes, input_bytes)
    collectives = recorder.exchanges.list_collectives()
    trace = ModelTrace(
        list_rank_layers(recorder.layers.inventory, recorder.layers.calls, scheme.find_share),
        tuple(recorder.operators),
        memory,
        uncounted=recorder.uncounted,
        method="fake tensors",
        notes=(
            note,
            *(notes or _note_untrained(model, recorder)),
            *note_idle(recorder.exchanges.mesh, collectives),
            *note_whole_weights(model),
            *note_repeated_reductions(recorder.exchanged.values()),
            *growth,
        ),
    )
    return RankTrace(
        trace,
        collectives,
        _count_gradients(model) if scheme.gradient_bytes is None else scheme.gradient_bytes,
        {"weights": weight_bytes, **recorder.peak_parts},
        dict(recorder.unknown),
        scheme.optimizer_share,
        recorder.exchanges.list_in_order(len(recorder.operators)),
    )


def _note_untrained(model: nn.Module, recorder: RankRecorder) -> list[str]:
    """Return a note that names the weights that got no gradient; none if all have one."""
    return note_unused(
        (name, weight)
        for name, weight in model.named_parameters()
        if weight.requires_grad and id(weight) not in recorder.trained  # a scheme may have taken its gradient away
    )


def _count_weights(weights: Sequence[torch.Tensor], live: LiveBytes) -> int:
    """Return the bytes of a rank's weights; what counts the bytes alive knows them, and leaves them out."""
    for weight in weights:
        live.add(weight, 0)
    return count_weight_bytes(weights)


def _count_inputs(inputs: ModelInputs, live: LiveBytes) -> int:
    """Return the bytes alive before a step: those of the inputs."""
    for tensor in tensors_in(tuple(inputs.leaves()), torch.is_tensor):
        live.add(tensor)
    return live.total


def _count_gradients(model: nn.Module) -> int:
    """Return the bytes of the gradients that a step leaves in the parameters."""
    gradients = map(find_gradient, model.parameters())
    return count_bytes(gradient for gradient in gradients if gradient is not None)


def _make_timeline(recorder: RankRecorder, weight_bytes: int, input_bytes: int) -> MemoryTimeline:
    """Return the bytes alive in a step that is over, and those that it left."""
    return MemoryTimeline(
        weight_bytes,
        input_bytes,
        tuple(recorder.live_bytes),
        unsized=recorder.unsized,
        parts=_join_parts(recorder.peak_parts),
        left_bytes=recorder.live.total if recorder.left_bytes is None else recorder.left_bytes,
    )


def _join_parts(parts: Mapping[str, int]) -> dict[str, int]:
    """Return the parts that every training step has; what a mesh adds is among the others."""
    named = {name: parts.get(name, 0) for name in ("inputs", "activations", "gradients")}
    return {**named, "other": sum(parts.values()) - sum(named.values())}
