"""Private names of torch's distributed parts, for a step of one rank of many in one process.

They are looked up when a mesh is needed, because torch imports these parts only then. Names in `field` are attributes
of torch's objects that may be missing in another release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from profilerkit import InputError
from profilerkit.backend_kit.private_names import field, find

from .autograd import read_node_number
from .names import look_up, read_attribute, refuse


def make_fake_store() -> Any:
    """Return the store of a group of processes that sends nothing; its import makes this kind of group available."""
    store = look_up(
        "torch.testing._internal.distributed.fake_pg.FakeStore", "follows one rank of a mesh without the others"
    )
    return store()


def require_collectives() -> None:
    """Raise `NotOfferedError` for torch 2.6, whose collectives cannot run on shapes alone."""
    has_kernel = find("torch._C._dispatch_has_kernel_for_dispatch_key")
    if has_kernel is not None and not has_kernel("c10d::_allgather_base_", "Meta"):
        refuse("c10d::_allgather_base_ for meta tensors", "follows one rank of a mesh without the others")()


def find_process_group(name: str) -> Any:
    """Return the group of processes of a name; functional collectives are called with the name."""
    path = "torch.distributed.distributed_c10d._resolve_process_group"
    return look_up(path, "tells which ranks a collective is between")(name)


def find_sharding_planner() -> tuple[Any, tuple[str, ...]]:
    """Return the class that finds how the result of an operator is spread, with the names of its methods.

    The methods run operators at the shapes of the whole model, which are no work of a rank. The second is called alone
    for a loss on logits that are spread; if it is missing, the first does all.
    """
    path = "torch.distributed.tensor._sharding_prop.ShardingPropagator.propagate_op_sharding_non_cached"
    look_up(path, "tells the work of a rank from that of planning it")
    name, _, method = path.rpartition(".")
    owner, of_loss = find(name), field("_propagate_tensor_meta_non_cached")
    return owner, (method, of_loss) if hasattr(owner, of_loss) else (method,)


def find_parameter_group() -> Any:
    """Return the class of the groups of parameters that ``fully_shard`` gathers and reduces together."""
    path = "torch.distributed.fsdp._fully_shard._fsdp_param_group.FSDPParamGroup"
    return look_up(path, "tells which layer's weights are gathered")


def read_group_path(group: Any) -> str:
    """Return the path of the module whose weights a group of ``fully_shard`` has, from the root module."""
    purpose = "tells which layer's weights are gathered"
    return read_attribute(group, field("_module_fqn"), "FSDPParamGroup._module_fqn", purpose) or ""


def read_group_gradients(group: Any) -> Iterator[torch.Tensor]:
    """Yield this rank's share of the gradients that a group of ``fully_shard`` has: reduced, or whole and added up."""
    for parameter in read_attribute(
        group, "fsdp_params", "FSDPParamGroup.fsdp_params", "finds the gradients of a rank"
    ):
        whole = getattr(parameter, field("_unsharded_param"), None)
        added_up = getattr(parameter, "unsharded_accumulated_grad", None), getattr(whole, "grad", None)
        for gradient in (parameter.sharded_param.grad, *added_up):
            if gradient is not None:
                yield gradient.to_local() if hasattr(gradient, "to_local") else gradient


#: The nodes that spread a tensor over ranks, or return one rank's part: they compute nothing.
_SPREADING = frozenset({"_FromTorchTensorBackward", "_ToTorchTensorBackward", "RedistributeBackward"})


def find_source(node: Any) -> tuple[int, int] | None:
    """Return the number of the node, and of its output, that made the tensor whose gradient a node prepares.

    Nodes that only spread the tensor are skipped. None for several tensors, and for a weight, which no node has made.
    """
    while True:
        following = [(source, output) for source, output in node.next_functions if source is not None]
        if len(following) != 1 or hasattr(following[0][0], "variable"):
            return None
        node, output = following[0]
        if node.name() not in _SPREADING:
            return read_node_number(node), output


def call_for_context_parallel(call: Callable[[], None]) -> None:
    """Have a function called if torch's attention on parts of samples is switched on; nothing if torch has none.

    The change stays: the process only traces a rank.
    """
    attention = find("torch.distributed.tensor.experimental._context_parallel._attention")
    switch = field("_enable_cp_dtensor_dispatcher")
    if hasattr(attention, switch):
        setattr(attention, switch, call)


def use_given_shapes(stage: Any, schedule: Any) -> None:
    """Let a stage of a pipeline receive tensors of the given shapes, without asking the ranks before and after it.

    It also sends these ranks no number before the first step, as torch 2.10 does: that is no work of a step. Raises
    `InputError` if no shapes were given. A torch without the question never asks if shapes are given.
    """
    greeting = field("_get_init_p2p_neighbors_ops")
    if hasattr(stage, greeting):
        setattr(stage, greeting, list)
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
