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

from ..compat.modes import WatchingMode, is_any_autocast_enabled, is_function_mode_active, unseen_by_functions
from ..compat.operators import HigherOrderOperator, find_operator, has_nested_kernel, take_apart
from ..compat.tensors import FakeTensor
from ..costs import Kind, classify, is_plain, require_plain
from ..model.tensors import is_wrapper_class, storage_key
from ..untouched.write_guard import WriteGuard, may_write
from .higher_order import run_higher_order
from .kept_casts import KeptCasts
from .kernel_outputs import lay_out_as_kernels, leave_out
from .known_values import FakeValues, KnownValues
from .layers import EndedCall, LayerStack
from .live_bytes import select_makers
from .masked_attention import count_macs_under_mask
from .meta_outputs import without_running
from .onto_meta import OntoMeta, move_to_start
from .operator_facts import (
    depends_on_values,
    is_error_of_stand_ins,
    is_question_of_dtype,
    tensors_among,
    tensors_in,
)
from .origins import EMPTY, Origins
from .pass_errors import PassError, Refusal
from .pass_record import NOTHING, PassRecord
from .plan_store import PlanStore
from .plans import Plan, make_plan
from .signatures import Signature, read_signature
from .value_answers import add_size, answer_by_values, move_to_cpu

__all__ = ["Recorder"]

_is_grad_enabled = torch.is_grad_enabled
#: Returns a nested tensor that stands for all with one tensor of values.
_JAGGED_EXAMPLE = find_operator("aten._nested_get_jagged_dummy.default")
#: Returns the derivatives of what has none, for forward-mode autograd.
_ZEROS_WITHOUT_MEMORY = find_operator("aten._efficientzerotensor.default")
_DETACH, _TO_COPY = find_operator("aten.detach.default"), find_operator("aten._to_copy.default")
#: Views that take of a second tensor its size, or read it on the CPU: no tensor has to be moved for them.
_NEVER_MOVED = frozenset(
    map(
        find_operator,
        (
            "aten.expand_as.default",
            "aten.reshape_as.default",
            "aten.tensor_split.tensor_indices_or_sections",
            "aten.view_as.default",
        ),
    )
)


class Recorder(WatchingMode, PassRecord):
    """A dispatch mode that records the operators of one forward pass.

    An operator comes in at `__torch_dispatch__`. One that is remembered is replayed; any other is run, by its kind.
    """

    supports_higher_order_operators = True
    #: Whether a tensor of the model's or of its inputs is sparse or nested: nothing can stand in for it.
    has_unread = False
    #: The device of the model's tensors and inputs that have values; None where they are on several.
    device: torch.device | None = None
    #: The device on whose kernels the model would run; None where that is not known.
    kernels: torch.device | None = None
    #: The device of the model's first tensor, which may be the meta device.
    model_device: torch.device = torch.device("cpu")

    def __init__(self, layers: LayerStack, *, on_meta: bool, stands_in: bool = False) -> None:
        super().__init__()
        PassRecord.__init__(self, layers)
        self.on_meta = on_meta
        #: Whether something without values stands in for the model's tensors.
        self.stands_in: bool = stands_in or on_meta
        #: What was asked of stand-ins that they do not know: a model that goes on has taken a way of its own.
        self.unanswered: list[str] = []
        #: How tensors without values were formatted as text.
        self.formatted: list[str] = []
        #: Whether the pass is without autograd's kernels.
        self.below_autograd = False
        #: Why this kind of pass must give way to the next: a model may take the error that says so.
        self.refusal: Refusal | None = None
        self.values: KnownValues | FakeValues = KnownValues() if on_meta else FakeValues()
        self._concrete = self.values.concrete
        self._originals = self.values.originals
        self._onto_meta = OntoMeta(self.values.is_overwritten, self.live)
        self.origins: Origins = Origins(self.live, self.values.stands_in if self.stands_in else None, self.miss_origin)
        #: Makes the mode that is active while the model's code runs, and that answers its questions about stand-ins.
        self.questions: Callable[[], AbstractContextManager[Any]] = nullcontext
        self.casts: KeptCasts = KeptCasts(self.live, self.stands_in)
        #: What is remembered of operators, by their signatures.
        self.plans: PlanStore = PlanStore({}, {})
        #: Operators that return views of their only tensor.
        self._views: set[int] = set()
        #: Gets what is about to be written to, where it is not active as a mode itself.
        self.guard: WriteGuard | None = None

    def refuse(self, reason: Refusal) -> NoReturn:
        """Raise an error that the model may catch, and have the pass be void."""
        self.refusal = reason
        raise PassError(reason)

    # The way of an operator -------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run or replay an operator, and record it; a wrapper class turns it into other operators, which come here."""
        if types and any(map(is_wrapper_class, types)):
            return NotImplemented
        if is_function_mode_active():  # an operator that no function of torch's called: of a script, under vmap
            with unseen_by_functions():  # our own questions are none of the model's
                result = self.__torch_dispatch__(func, types, args, kwargs)
                if func in EMPTY:
                    self.origins.note_empty(result)
                return result
        if self.below_autograd and _is_grad_enabled():
            self._require_no_gradients(args, kwargs)
        result = self._dispatch(func, args, kwargs)
        if self.casts.are_kept:
            self.casts.note(func, args, result)
        return result

    def _require_no_gradients(self, args: Any, kwargs: Any) -> None:
        """Refuse an operator whose result would have a gradient in a run."""
        if any(tensor.requires_grad for tensor in tensors_among(args, kwargs)):
            self.refuse(Refusal.GRADIENTS)

    def _dispatch(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Replay an operator that is remembered, or run it."""
        if not kwargs:
            kwargs = {}
            if id(func) in self._views:
                return self._run_view(func, args, kwargs)
        elif self.on_meta and kwargs.get("device") is not None:  # it may leave the meta device: never remembered
            if func is _TO_COPY and self._stays(args[0], **kwargs):
                args, _ = self._onto_meta.move(args, {})
                return move_to_start(self._run_view(_DETACH, args, {}))
            return move_to_start(self._run(func, args, kwargs, None, are_known=False))
        call = read_signature(func, args, kwargs, self.live.by_storage)
        plan = self.plans.find(call.key)
        if plan is not None and plan.rebuild is not None and self.on_meta:
            return self._replay(plan, func, args, kwargs, call)
        return self._run(func, args, kwargs, call.key, call.are_known)

    def _stays(self, tensor: torch.Tensor, device: Any, dtype: Any = None, **_: Any) -> bool:
        """Return whether a tensor is moved to the device where it already is in a run, as hooks of saved tensors do.

        No function mode has seen the call of such a hook. A copy from the meta device to itself is one that the model
        requests.
        """
        target = torch.device(device)
        is_there = target == self.device or (target.type == "meta" and tensor.device == self.device)
        return is_there and dtype is tensor.dtype

    def _replay(self, plan: Plan, func: Any, args: Any, kwargs: Any, call: Signature) -> Any:
        """Make the outputs of an operator that is remembered, without running it."""
        if not call.are_known:
            self.origins.check(func, args, kwargs)
        result = plan.replay(args)
        if plan.has_values or (plan.in_place and self._concrete.storages) or self._may_be_known(args[0]):
            self.values.follow(func, args, kwargs, result)
        if not call.are_known:
            self.origins.renew()
        self._record_run(plan, result, func, args, kwargs, select_makers(call.makers, len(self.operators)))
        return result

    def _may_be_known(self, argument: Any) -> bool:
        """Return whether an argument is a tensor without values that has a concrete one, or stands in for one."""
        return id(argument) in self._concrete.by_id or id(argument) in self._originals.by_id

    def _run(self, func: Any, args: Any, kwargs: Any, key: Any, are_known: bool) -> Any:
        """Run an operator that is not remembered; note an error that is none of the model's, which may catch it."""
        if not are_known:
            self.origins.check(func, args, kwargs)
        for tensor in tensors_among(args, kwargs) if self.has_unread else ():
            if not is_plain(tensor):
                self.unanswered.append(str(func))
                require_plain(tensor)
        try:
            return self._run_by_kind(func, args, kwargs, key)
        except Exception as error:
            if self.stands_in and is_error_of_stand_ins(func, error):
                self.unanswered.append(str(func))
            raise
        finally:
            self.origins.renew()

    def _run_by_kind(self, func: Any, args: Any, kwargs: Any, key: Any) -> Any:
        """Run an operator by its kind: higher-order, composed of other operators, a view, or any other."""
        if isinstance(func, HigherOrderOperator):
            return run_higher_order(self, func, args, kwargs)
        if func is _JAGGED_EXAMPLE or is_question_of_dtype(func):  # neither has values on any device
            return func(*args, **kwargs)
        kind = classify(func)
        if kind is Kind.COMPOSITE:
            result = self._decompose(func, args, kwargs)
            if result is not NotImplemented:
                return result
            kind = Kind.UNKNOWN
        if kind is Kind.VIEW and self.on_meta and (func in _NEVER_MOVED or len(list(tensors_among(args, kwargs))) < 2):
            self._views.add(id(func))  # its tensors stay where they are: a real one keeps its values
            return self._run_view(func, args, kwargs)
        run_args, run_kwargs = self._onto_meta.move(args, kwargs) if self.on_meta else (args, kwargs)
        if kind is Kind.VIEW:
            return self._run_view(func, run_args, run_kwargs)
        if run_args is args and run_kwargs is kwargs:
            return self._run_operator(func, kind, (args, kwargs), (args, kwargs), key)
        moved_key = read_signature(func, run_args, run_kwargs, self.live.by_storage).key
        result = self._run_operator(func, kind, (run_args, run_kwargs), (args, kwargs), moved_key)
        self._remember_unmoved(func, args, kwargs, key, self.plans.find(moved_key))
        return result

    def _remember_unmoved(self, func: Any, args: Any, kwargs: Any, key: Any, plan: Plan | None) -> None:
        """Remember what was run with stand-ins for real tensors by the signature that the model calls it with, too.

        Not what writes to its arguments, or returns them: a real one may be the caller's. Real tensors have values.
        """
        if plan is None or not plan.fresh or may_write(func):
            return
        if any(tensor.is_meta for tensor in tensors_among(args, kwargs)):
            self.plans.remember(func, key, replace(plan, has_values=True))

    def _decompose(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Have torch take a composite operator apart into others, which come here; NotImplemented if it does not."""
        if has_nested_kernel(func) and any(tensor.is_nested for tensor in tensors_in(args)):
            return NotImplemented
        named = add_size(self.values, func, args, kwargs) if self.stands_in else kwargs
        with self:
            return take_apart(func, args, named)

    def _run_view(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator that returns a view, or a copy where it cannot: only the copy is work."""
        result = func(*args, **kwargs)
        if args and self._may_be_known(args[0]):
            self.values.follow(func, args, kwargs, result)
        new = [tensor for tensor in tensors_in(result) if self.live.add(tensor)]
        if new:
            self.origins.meet_views(result, tensors_among(args, kwargs))
            self.live.mark_as_made(tensors_in(result), tensors_among(args, kwargs))
            if self._discount_shared(new, args, kwargs) < len(new):
                self.record(str(func), NOTHING, result, result, sources=(args, tuple(kwargs.values())))
        return result

    def _discount_shared(self, new: list[torch.Tensor], args: Any, kwargs: Any) -> int:
        """Count as nothing which of the storages that were met now are of arguments; return how many these are.

        A table outside of the model, of which a pass has a view, is there before and afterwards. A pass on fake tensors
        makes one of it, which stands for the same memory.
        """
        mode: Any = next((tensor.fake_mode for tensor in new if isinstance(tensor, FakeTensor)), None)
        keys = set()
        for tensor in tensors_among(args, kwargs):
            if mode is not None and not isinstance(tensor, FakeTensor):
                tensor = mode.from_tensor(tensor)
            keys.add(storage_key(tensor))
        shared = [tensor for tensor in new if storage_key(tensor) in keys]
        for tensor in shared:
            self.live.discount(tensor)
        return len(shared)

    def _run_operator(self, func: Any, kind: Kind, run_call: Any, model_call: Any, key: Any) -> Any:
        """Run an operator, follow its effect on known values, and remember it by its signature.

        A call is a pair of arguments and keyword arguments. ``model_call`` is the call of the model. In ``run_call``,
        with which the operator runs, real tensors are replaced by stand-ins on the meta device.
        """
        (args, kwargs), (model_args, model_kwargs) = run_call, model_call
        runs_on_values = depends_on_values(func) and not self._lacks_values(args, kwargs)
        result = None
        if self.stands_in and not runs_on_values:
            result = self._answer_by_values(func, model_args, model_kwargs)
        is_answered = result is not None
        if not is_answered:
            result = self._run_kernel(func, args, kwargs, model_call)
        if is_answered or runs_on_values:
            key = None  # other values may lead to another result
        plan = self.plans.find(key)
        if plan is None:
            plan = make_plan(func, kind, args, kwargs, result, self.kernels)
            self.plans.remember(func, key, plan)
        if self.stands_in and not is_answered and any(map(self.values.stands_in, tensors_in((args, result)))):
            self.values.follow(func, model_args, model_kwargs, result)
        reads = self.live.list_makers(tensors_among(model_args, model_kwargs), len(self.operators))
        self._record_run(plan, result, func, model_args, model_kwargs, reads)
        if not plan.fresh:
            self.live.mark_as_made(tensors_in(result), tensors_among(args, kwargs))
        return result

    def _lacks_values(self, args: Any, kwargs: Any) -> bool:
        """Return whether an operator gets tensors without values: on the meta device it may get real ones alone."""
        if not self.on_meta:
            return self.stands_in
        return all(tensor.is_meta for tensor in tensors_among(args, kwargs))

    def _answer_by_values(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what an operator makes by the values of its tensors, or None."""
        if not depends_on_values(func):
            return move_to_cpu(self.values, func, args, kwargs)
        return answer_by_values(self.values, func, args, kwargs)

    def _run_kernel(self, func: Any, args: Any, kwargs: Any, model_call: Any) -> Any:
        """Return what an operator makes; the guard keeps what of the model's it is about to write to."""
        result = without_running(func, args, kwargs) if self.stands_in else None
        if result is not None:
            return result
        if self.guard is not None:
            self.guard.watch(func, *model_call)
        result = func(*args, **kwargs)
        if not self.stands_in:
            return result
        return lay_out_as_kernels(func, args, leave_out(func, args, result, self.device))

    def _record_run(self, plan: Plan, result: Any, func: Any, args: Any, kwargs: Any, reads: tuple[int, ...]) -> None:
        """Record an operator that was run or remembered; ``reads`` are the operators that wrote to its tensors."""
        operator, index, size = plan.operator, len(self.operators), 0 if func is _ZEROS_WITHOUT_MEMORY else None
        if self._moves_to_host(func, args, kwargs):
            self.live.add_stand_in(args[0], result)  # it counts as if it stayed on the device
            self.live.mark_as_made((result,), args[:1])
        results = (result,) if plan.single else tensors_in(result)
        new = [tensor for tensor in results if self.live.add(tensor, size, plan.fresh, index)]
        if new and not plan.fresh:
            self._discount_shared(new, args, kwargs)
        self.operator_macs += operator.macs
        if operator.missing:
            self.miss(operator.missing)
        if operator.is_masked and not self._covered:
            attended_macs = count_macs_under_mask(func, args, kwargs, operator.macs, self.values)
            operator = replace(operator, attended_macs=attended_macs)
        self._record(operator, reads, plan.bytes_inside)
        if plan.unknown_inside:
            self.unsized[plan.unknown_inside] += 1

    def _moves_to_host(self, func: Any, args: Any, kwargs: Any) -> bool:
        """Return whether an operator copies all of a tensor's memory from another device to that of the host."""
        device = kwargs.get("device") if func is _TO_COPY and is_plain(args[0]) else None
        if device is None or self.device is None or self.device.type == "cpu" or torch.device(device).type != "cpu":
            return False
        size = args[0].numel() * (kwargs.get("dtype") or args[0].dtype).itemsize
        return bool(args[0].untyped_storage().nbytes() == size)

    def opaque(self, func: Any, args: Any, kwargs: Any, name: str = "") -> Any:
        """Run an operator that takes functions whose work inside is not seen."""
        result = self.run_whole(func, args, kwargs)
        name = name or f"{func.namespace}::{func.name()}"
        self.miss(name)
        self.record(name, NOTHING, args, result, missing=name)
        return result

    def run_whole(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator without looking into it."""
        with self.guard or nullcontext():
            result = func(*args, **kwargs)
        for tensor in tensors_in(result):
            self.live.add(tensor)
        return result

    # Layers -----------------------------------------------------------------------------------------------------------

    def begin_layer(self, module: nn.Module, path: str, call: int) -> None:
        """Refuse a pass under autocast if autocast would act otherwise than in a run."""
        super().begin_layer(module, path, call)  # first: torch ends the layer also where this refuses the pass
        if is_any_autocast_enabled() and (self.on_meta or self.below_autograd):
            self.refuse(Refusal.AUTOCAST)

    def _count_by_formula(self, module: nn.Module, call: EndedCall, formula: Formula) -> None:
        """Know the output of a layer that has a formula of its own, wherever that was made."""
        self.origins.accept(call.output)
        super()._count_by_formula(module, call, formula)
