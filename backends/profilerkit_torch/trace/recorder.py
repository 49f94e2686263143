"""Watches every operator of a forward pass: its cost, its layer, and the bytes alive after it.

It works on meta tensors, fake tensors and real ones. On meta tensors an operator that was met with the same shapes
before is not run again: its outputs are made from what is remembered, which makes repeated blocks nearly free.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

import torch
from msgspec.structs import replace
from torch import nn

from profilerkit.costs import Formula

from ..compat.autograd import find_node_in_forward_pass
from ..compat.modes import WatchingMode, is_any_autocast_enabled, is_function_mode_active, unseen_by_functions
from ..compat.operators import HigherOrderOperator, find_operator
from ..compat.tensors import FakeTensor
from ..costs import Kind, classify, is_plain, require_plain
from ..model.storages import storage_key
from ..model.tensors import is_wrapper_class
from .higher_order import run_higher_order
from .layers import EndedCall, LayerStack
from .live_bytes import select_makers
from .masked_attention import count_macs_under_mask
from .node_memory import NodeMemory, count_beside_mask
from .operator_facts import (
    OperatorCall,
    is_error_of_stand_ins,
    is_question_of_dtype,
    run_parts,
    tensors_among,
    tensors_in,
)
from .operator_results import make_result
from .origins import EMPTY, Origins
from .pass_errors import PassError, Refusal
from .pass_record import NOTHING, PassRecord, PassSettings
from .plans import Plan, PlanStore, find_plans, make_plan
from .signatures import Signature, read_signature
from .stand_ins import OntoMeta, move_to_start

__all__ = ["PassSettings", "Recorder"]

_is_grad_enabled = torch.is_grad_enabled
#: Returns a nested tensor that stands for all with one tensor of values.
_JAGGED_EXAMPLE = find_operator("aten._nested_get_jagged_dummy.default")
#: Returns the derivatives of what has none, for forward-mode autograd.
_ZEROS_WITHOUT_MEMORY = find_operator("aten._efficientzerotensor.default")
#: What ``to`` is, before torch knows whether it copies.
_MOVES = frozenset(map(find_operator, ("aten.to.device", "aten.to.dtype_layout")))
_DETACH, _TO_COPY = find_operator("aten.detach.default"), find_operator("aten._to_copy.default")
#: Views that take of a second tensor its size, or read it on the CPU: no tensor has to be moved for them.
_NEVER_MOVED = frozenset(
    find_operator(f"aten.{name}")
    for name in (
        "expand_as.default",
        "reshape_as.default",
        "tensor_split.tensor_indices_or_sections",
        "view_as.default",
    )
)


class Recorder(WatchingMode, PassRecord):
    """A dispatch mode that records the operators of one forward pass.

    An operator comes in at `__torch_dispatch__`. One that is remembered is replayed; any other is run, by its kind.
    """

    supports_higher_order_operators = True

    def __init__(self, layers: LayerStack, settings: PassSettings) -> None:
        super().__init__()
        PassRecord.__init__(self, layers, settings)
        #: How tensors without values were formatted as text.
        self.formatted: list[str] = []
        #: Why this kind of pass must give way to the next: a model may take the error that says so.
        self.refusal: Refusal | None = None
        self._onto_meta = OntoMeta(self.values.is_overwritten, self.live)
        stands_in = self.values.stands_in if settings.stands_in else None
        self.origins: Origins = Origins(self.live, stands_in, self.miss_origin)
        #: Makes the mode that is active while the model's code runs, and that answers its questions about stand-ins.
        self.questions: Callable[[], AbstractContextManager[Any]] = nullcontext
        #: What is remembered of operators, by their signatures.
        self._plans: PlanStore = find_plans(settings.kernels) if settings.on_meta else PlanStore({}, {})
        #: Operators that return views of their only tensor.
        self._views: set[int] = set()
        self._node_memory = NodeMemory(self.live, self.operators, below_autograd=settings.below_autograd)
        #: The node of a backward pass that runs.
        self._node: Any = None

    def refuse(self, reason: Refusal) -> NoReturn:
        """Raise an error that the model may catch, and have the pass be void."""
        self.refusal = reason
        raise PassError(reason)

    def require_no_autocast(self) -> None:
        """Refuse a pass in which autocast, which is on, would act otherwise than in a run."""
        if is_any_autocast_enabled() and (self.settings.on_meta or self.settings.below_autograd):
            self.refuse(Refusal.AUTOCAST)

    # The way of an operator -------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run or replay an operator, and record it; a wrapper class turns it into other operators, which come here."""
        if types and any(map(is_wrapper_class, types)):
            return NotImplemented
        if is_function_mode_active():  # an operator that no function of torch's called: of a script, under vmap
            with unseen_by_functions():  # our own questions are none of the model's
                result = self.__torch_dispatch__(func, types, args, kwargs)
                if func in EMPTY:
                    self.origins.exposed.note_empty(result)
                return result
        if self.settings.below_autograd and _is_grad_enabled():
            self._require_no_gradients(args, kwargs)
        return self._dispatch(func, args, kwargs)

    def _require_no_gradients(self, args: Any, kwargs: Any) -> None:
        """Refuse an operator whose result would have a gradient in a run."""
        if any(tensor.requires_grad for tensor in tensors_among(args, kwargs)):
            self.refuse(Refusal.GRADIENTS)

    def _dispatch(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Replay an operator that is remembered, or run it."""
        self._node = self.most_alive = None
        if find_node_in_forward_pass() is not None:
            func = self._enter_node(func, args)
        if not kwargs:
            kwargs = {}
            if id(func) in self._views:
                return self._run_view(OperatorCall(func, args, kwargs))
        elif self.settings.on_meta and kwargs.get("device") is not None:
            return move_to_start(self._run_with_device(OperatorCall(func, args, kwargs)))
        signature = read_signature(func, args, kwargs, self.live.by_storage)
        kept, others = self._plans
        plan = kept.get(signature.key) or others.get(signature.key)
        call = OperatorCall(func, args, kwargs)
        if plan is not None and plan.make is not None and self.settings.on_meta:
            return self._replay(plan, plan.make(args), call, signature)
        return self._run(call, signature.key, signature.has_suspects)

    def _enter_node(self, func: Any, args: Any) -> Any:
        """Note the node of a backward pass that runs, and return the operator that a run without a mode would have."""
        self._node = self._find_node()
        func = self._node_memory.begin_operator(self._node, func, args)
        self.most_alive = self._node_memory.most_alive
        return func

    def _find_node(self) -> Any:
        """Return the node of a backward pass in which operators run without gradients of their own; else None."""
        return None if _is_grad_enabled() else find_node_in_forward_pass()

    def _run_with_device(self, call: OperatorCall) -> Any:
        """Run an operator that may leave the meta device: it is never remembered."""
        if call.func is _TO_COPY and self._stays(call.args[0], **call.kwargs):
            return self._run_view(self._onto_meta.move(OperatorCall(_DETACH, call.args, {})))
        return self._run(call, None, has_suspects=True)

    def _stays(self, tensor: torch.Tensor, device: Any, dtype: Any = None, **_: Any) -> bool:
        """Return whether a tensor is moved to the device where it already is in a run, as hooks of saved tensors do.

        No function mode has seen the call of such a hook. A copy from the meta device to itself is one that the model
        requests.
        """
        target, device_of_run = torch.device(device), self.settings.device
        is_there = target == device_of_run or (target.type == "meta" and tensor.device == device_of_run)
        return is_there and dtype is tensor.dtype

    def _joins_stand_ins(
        self, tensor: torch.Tensor, device: Any, dtype: Any = None, _: bool = False, copy: bool = False, **__: Any
    ) -> bool:
        """Return whether a real tensor is moved to stand-ins that are where it is already in a run, as by ``to(x)``."""
        is_there = device is not None and torch.device(device).type == "meta" and tensor.device == self.settings.device
        return self.settings.on_meta and is_there and not copy and dtype in (None, tensor.dtype)

    def _replay(self, plan: Plan, result: Any, call: OperatorCall, signature: Signature) -> Any:
        """Record an operator that is remembered, and whose outputs were made without running it."""
        if signature.has_suspects:
            self.origins.check(*call)
        self._record_run(plan, result, call, select_makers(signature.makers, len(self.operators)))
        nature = plan.nature
        is_known = nature.from_shapes or not signature.has_unknown_values
        if signature.has_known_values if nature.writes else is_known:
            self.values.follow(*call, result)
        if signature.has_suspects:
            self.origins.exposed.renew()
        return result

    # Operators that are not remembered --------------------------------------------------------------------------------

    def _run(self, call: OperatorCall, key: Any, has_suspects: bool) -> Any:
        """Run an operator by its kind; note an error that is none of the model's, which may catch it."""
        if has_suspects:
            self.origins.check(*call)
        for tensor in call.tensors if self.settings.has_unread else ():
            if not is_plain(tensor):
                self.unanswered.append(str(call.func))
                require_plain(tensor)
        try:
            if call.func in _MOVES and self._joins_stand_ins(*call.args, **call.kwargs):
                return self._run_view(OperatorCall(_DETACH, call.args[:1], {}))
            return self._run_by_kind(call, key)
        except Exception as error:
            if self.settings.stands_in and is_error_of_stand_ins(call.func, error):
                self.unanswered.append(str(call.func))
            raise
        finally:
            self.origins.exposed.renew()

    def _run_by_kind(self, call: OperatorCall, key: Any) -> Any:
        """Run an operator: a higher-order one, one composed of others, a view, or one that computes."""
        if isinstance(call.func, HigherOrderOperator):
            return run_higher_order(self, *call)
        if call.func is _JAGGED_EXAMPLE or is_question_of_dtype(call.func):  # neither has values on any device
            result = call.run()
            for tensor in tensors_in(result):
                self.live.add(tensor, 0)
            return result
        kind = classify(call.func)
        if kind is Kind.COMPOSITE:
            result = run_parts(self, *call)
            if result is not NotImplemented:
                return result
            kind = Kind.UNKNOWN
        return self._meet_view(call) if kind is Kind.VIEW else self._compute(call, kind, key)

    # Views ------------------------------------------------------------------------------------------------------------

    def _meet_view(self, call: OperatorCall) -> Any:
        """Run an operator that returns a view; on the meta device remember one whose tensors stay where they are."""
        if not self.settings.on_meta:
            return self._run_view(call)
        if call.func in _NEVER_MOVED or len(list(call.tensors)) < 2:  # a real tensor keeps its values
            self._views.add(id(call.func))
            return self._run_view(call)
        return self._run_view(self._onto_meta.move(call))

    def _run_view(self, call: OperatorCall) -> Any:
        """Run an operator that returns a view, or a copy where it cannot: only the copy is work."""
        result = call.run()
        new = [tensor for tensor in tensors_in(result) if self.live.add(tensor)]
        if new:
            if self.settings.stands_in:
                self.values.follow(*call, result)
            self.origins.check_views(result, call.tensors)
            self.live.mark_as_made(tensors_in(result), call.tensors)
            if self._discount_shared(new, call) < len(new):
                self.record(str(call.func), NOTHING, [*call.tensors], result)
        return result

    def _discount_shared(self, new: list[torch.Tensor], call: OperatorCall) -> int:
        """Count as nothing which of the storages that were met now are of arguments; return how many these are.

        A table outside of the model, of which a pass has a view, is there before and afterwards. A pass on fake tensors
        makes one of it, which stands for the same memory.
        """
        mode: Any = next((tensor.fake_mode for tensor in new if isinstance(tensor, FakeTensor)), None)
        keys = set()
        for tensor in call.tensors:
            if mode is not None and not isinstance(tensor, FakeTensor):
                tensor = mode.from_tensor(tensor)
            keys.add(storage_key(tensor))
        shared = [tensor for tensor in new if storage_key(tensor) in keys]
        for tensor in shared:
            self.live.discount(tensor)
        return len(shared)

    # Operators that compute -------------------------------------------------------------------------------------------

    def _compute(self, call: OperatorCall, kind: Kind, key: Any) -> Any:
        """Run and record an operator, and remember it by its signature.

        Where some of its tensors are on the meta device, stand-ins take the places of its real tensors.
        """
        moved = self._onto_meta.move(call) if self.settings.on_meta else call
        result, is_by_values = make_result(self, call, moved)
        if is_by_values:
            key = None  # other values may lead to another result
        elif moved is not call:
            key = read_signature(*moved, self.live.by_storage).key
        plan = self._plans.kept.get(key) or self._plans.others.get(key)
        if plan is None:
            plan = make_plan(moved, kind, result, self.settings.kernels)
            self._plans.remember(call.func, key, plan)
        self._record_run(plan, result, call, self.live.list_makers(call.tensors, len(self.operators)))
        if not plan.is_fresh:
            self.live.mark_as_made(tensors_in(result), moved.tensors)
        if self.settings.stands_in and any(map(self.values.stands_in, tensors_in((moved.args, result)))):
            self.values.follow(*call, result)
        return result

    def _record_run(self, plan: Plan, result: Any, call: OperatorCall, reads: tuple[int, ...]) -> None:
        """Record an operator that was run or remembered; ``reads`` are the operators that wrote to its tensors."""
        self._count_bytes(plan, result, call)
        operator = plan.operator
        self.operator_macs += operator.macs
        if operator.missing:
            self.miss(operator.missing)
        if operator.is_masked and not self._covered:
            operator = replace(operator, attended_macs=count_macs_under_mask(call, operator.macs, self.values))
        inside = plan.bytes_inside
        if self._node is not None:
            inside += count_beside_mask(self._node, call.func, call.args, self.settings.kernels)
        self._record(operator, reads, inside)
        if plan.unknown_inside:
            self.unsized[plan.unknown_inside] += 1

    def _count_bytes(self, plan: Plan, result: Any, call: OperatorCall) -> None:
        """Count the bytes of what an operator has made."""
        if call.func is _TO_COPY and self._moves_to_host(call.args[0], **call.kwargs):
            self.live.add_stand_in(call.args[0], result)  # it counts as if it stayed on the device
            self.live.mark_as_made((result,), call.args[:1])
        size, index = 0 if call.func is _ZEROS_WITHOUT_MEMORY else None, len(self.operators)
        for tensor in (result,) if isinstance(result, torch.Tensor) else tensors_in(result):
            if self.live.add(tensor, size, plan.is_fresh, index) and not plan.is_fresh:
                self._discount_shared([tensor], call)

    def _moves_to_host(self, tensor: torch.Tensor, device: Any = None, dtype: Any = None, **_: Any) -> bool:
        """Return whether a copy is of all of a tensor's memory, from another device to that of the host."""
        start = self.settings.device
        if device is None or start is None or start.type == "cpu" or torch.device(device).type != "cpu":
            return False
        size = tensor.numel() * (dtype or tensor.dtype).itemsize
        return is_plain(tensor) and bool(tensor.untyped_storage().nbytes() == size)

    # Layers -----------------------------------------------------------------------------------------------------------

    def _count_by_formula(self, module: nn.Module, call: EndedCall, formula: Formula) -> None:
        """Know the output of a layer that has a formula of its own, wherever that was made."""
        self.origins.accept(call.output)
        super()._count_by_formula(module, call, formula)
