"""Meshes: a step of one rank of many, in one process.

Torch's distributed parts are imported when a mesh is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from profilerkit import InputError
from profilerkit.backend_kit.private_names import field, find

from .names import read_attribute, refuse


def make_fake_store() -> Any:
    """Return the store of a group of processes that sends nothing; importing it makes such groups known to torch."""
    path = "torch.testing._internal.distributed.fake_pg.FakeStore"
    return (find(path) or refuse(path, "follows one rank of a mesh without the others"))()


def find_process_group(name: str) -> Any:
    """Return the group of processes of a name, which collectives of functions are called with."""
    path = "torch.distributed.distributed_c10d._resolve_process_group"
    return (find(path) or refuse(path, "tells which ranks a collective is between"))(name)


def find_sharding_planner() -> tuple[Any, str]:
    """Return the class that finds how the result of an operator is spread, with the name of its method.

    It runs operators at the shapes of the whole model, which are no work of a rank.
    """
    path = "torch.distributed.tensor._sharding_prop.ShardingPropagator.propagate_op_sharding_non_cached"
    if find(path) is None:
        refuse(path, "tells the work of a rank from that of planning it")()
    owner, _, method = path.rpartition(".")
    return find(owner), method


def find_parameter_group() -> Any:
    """Return the class of what ``fully_shard`` gathers and reduces together."""
    path = "torch.distributed.fsdp._fully_shard._fsdp_param_group.FSDPParamGroup"
    return find(path) or refuse(path, "tells which layer's weights are gathered")()


def read_group_path(group: Any) -> str:
    """Return the path of the module whose weights a group of ``fully_shard`` has, from the module around all."""
    purpose = "tells which layer's weights are gathered"
    return read_attribute(group, field("_module_fqn"), "FSDPParamGroup._module_fqn", purpose) or ""


def read_group_gradients(group: Any) -> Iterator[torch.Tensor]:
    """Yield this rank's share of the gradients that a group of ``fully_shard`` has reduced."""
    for parameter in read_attribute(
        group, "fsdp_params", "FSDPParamGroup.fsdp_params", "finds the gradients of a rank"
    ):
        gradient = parameter.sharded_param.grad
        if gradient is not None:
            yield gradient.to_local()


def call_for_context_parallel(call: Callable[[], None]) -> None:
    """Have a function called where torch's attention on parts of samples is switched on; a torch without it has none.

    It stays so: the process is one that traces a rank, and nothing else.
    """
    attention = find("torch.distributed.tensor.experimental._context_parallel._attention")
    switch = field("_enable_cp_dtensor_dispatcher")
    if hasattr(attention, switch):
        setattr(attention, switch, call)


def use_given_shapes(stage: Any, schedule: Any) -> None:
    """Have a stage of a pipeline receive what it was told to, instead of asking the ranks before and after it.

    Raises `InputError` where it was not told. A torch without such a question asks nobody where shapes are given.
    """
    mode = find("torch.distributed.pipelining._utils.InferenceMode")
    question, answer = field("_warmup_p2p"), field("_inference_mode")
    if mode is None or not hasattr(schedule, question):
        return
    purpose = "has a stage of a pipeline receive what it was told to"
    told = read_attribute(stage, field("_user_meta"), "PipelineStage._user_meta", purpose)
    read_attribute(stage, answer, "PipelineStage._inference_mode", purpose)
    if mode.needs_dynamic(told, stage_has_backward=True):
        raise InputError(
            f"stage {stage.stage_index} of the pipeline was not told what it receives and returns, and the ranks that "
            "could tell are not here; give PipelineStage(..., input_args=, output_args=) tensors of one microbatch"
        )
    setattr(stage, answer, mode.STATIC)
    setattr(schedule, question, lambda stages, has_backward, p2p_done: None)
