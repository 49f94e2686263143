"""Watches every operator of a forward pass: its cost, its layer, and the bytes alive after it.

It works on meta tensors, fake tensors and real ones. On meta tensors an operator that was met with the same shapes
before is not run again: its outputs are made from what is remembered, which makes repeated blocks nearly free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import nn
from torch.utils.weak import WeakTensorKeyDictionary

from profilerkit.backend_kit.branch_memory import Window, peak_spread
from profilerkit.costs import Cost, Formula, Shape, evaluate_formula
from profilerkit.trace.bounds import Choice, PeakSpread
from profilerkit.trace.records import LayerCall, MemoryTimeline, OpRecord, TensorInfo

from .. import compat
from ..costs import Kind, classify, module_cost, require_plain
from ..model.weights import size_of
from ..untouched.write_guard import WriteGuard
from .attention_masks import macs_under_mask
from .fused_layers import find_fused_bytes, may_be_fused
from .grad_modes import AutocastError, GradientsError, PassError
from .higher_order import run_higher_order
from .kept_casts import KeptCasts
from .keras_attention import without_masks
from .keras_trial_steps import TrialSteps
from .known_values import FakeValues, KnownValues
from .layers import LayerStack, tensor_info
from .live_bytes import LiveBytes
from .meta_layouts import as_in_a_run, at_the_beginning
from .meta_outputs import multiply_groups, without_running
from .origins import EMPTY, Origins
from .replay import Plan, depends_on_values, is_of_stand_ins, make_plan, signature, tensors_among, tensors_in

__all__ = ["Recorder"]

_NOTHING = Cost(0, 0)
_is_grad_enabled = torch.is_grad_enabled
#: Of the input, how likely an element is dropped, and whether any is.
_DROPOUT = compat.operator("aten.dropout.default")


class Recorder(compat.TorchDispatchMode):
    """A dispatch mode that records the operators of one forward pass."""

    supports_higher_order_operators = True
    #: Whether work outside a branch depends on which one was taken, as gradients do.
    DECIDED_BY_BRANCHES: ClassVar[bool] = False
    #: The ``id`` of each sparse or nested tensor of the model's or of its inputs: nothing can stand in for it.
    unread: frozenset[int] = frozenset()
    #: The device of the model's tensors; None where they are on several.
    device: torch.device | None = None
    #: The device on which a run takes layers of attention as one kernel; None where the user has switched that off.
    fuses_on: torch.device | None = None

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep torch from wrapping each dispatch once more: nothing is compiled while a mode like this is active."""
        return False

    def __init__(self, layers: LayerStack, *, on_meta: bool, stands_in: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.layers = layers
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
        self.refusal: type[PassError] | None = None
        self.live: LiveBytes = LiveBytes()
        self.values: KnownValues | FakeValues = KnownValues() if on_meta else FakeValues()
        self._twins = self.values.twins
        self.origins: Origins = Origins(self.live, self.values.stands_in if self.stands_in else None, self._miss_origin)
        #: Makes what is active while code of the model's runs, and answers what it asks of its stand-ins.
        self.questions: Callable[[], AbstractContextManager[Any]] = nullcontext
        #: Which part of a step runs: see `OpRecord`.
        self.phase: str = "forward"
        self.operators: list[OpRecord] = []
        self.casts: KeptCasts = KeptCasts(self.live, self.stands_in)
        self.live_bytes: list[int] = []
        self.uncounted: Counter[str] = Counter()
        self.unsized: Counter[str] = Counter()
        #: Where one of several branches is taken, and nobody knows which.
        self.choices: list[Choice] = []
        #: The same, for the bytes alive.
        self.windows: list[Window] = []
        #: Notes on how something was counted.
        self.notes: list[str] = []
        #: Of all operators, each by its own formula: those in layers with a formula of their own too.
        self.operator_macs: int = 0
        self._plans: dict[Any, Plan] = {}
        #: Operators that return views of their only tensor.
        self._views: set[int] = set()
        #: Twins on the meta device, each for as long as its real tensor is alive.
        self._onto_meta: Any = WeakTensorKeyDictionary()
        #: Gets what is about to be written to, where it is not active as a mode itself.
        self.guard: WriteGuard | None = None
        self._covered = 0
        self._formulas: dict[type, Formula | None] = {}
        #: Of each layer around that a run may take as one kernel: its first operator, and the bytes alive before.
        self._fused: list[tuple[int, int]] = []
        self._trials = TrialSteps() if layers.holds_keras else None
        if self._trials is not None:
            layers.on_call = self._begin_module
        layers.on_enter = self._layer_begins
        layers.on_leave = self._layer_ends

    @property
    def recomputes(self) -> bool:
        """Whether what runs now repeats work of the forward pass."""
        return False

    def timeline(self, weight_bytes: int, input_bytes: int) -> MemoryTimeline:
        """Return the memory timeline recorded so far."""
        return MemoryTimeline(weight_bytes, input_bytes, tuple(self.live_bytes), unsized=self.unsized)

    def peak_spread(self, input_bytes: int) -> PeakSpread | None:
        """Return how much the peak may differ by branches; None where the gradients of a step depend on them."""
        if self.DECIDED_BY_BRANCHES and self.choices:
            return None
        return peak_spread(self.live_bytes, input_bytes, self.windows)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run or remember the operator, and record it."""
        if compat.is_function_mode_active():  # an operator that no function of torch's called: of a script, under vmap
            with compat.unseen_by_functions():  # our own questions are none of the model's
                result = self.__torch_dispatch__(func, types, args, kwargs)
                if func in EMPTY:
                    self.origins.note_empty(result)
                return result
        if self.below_autograd and _is_grad_enabled():
            self._require_no_gradients(args, kwargs)
        if not self.casts.are_kept:
            return self._dispatch(func, args, kwargs)
        result = self._dispatch(func, args, kwargs)
        self.casts.note(func, args, result)
        return result

    def _dispatch(self, func: Any, args: Any, kwargs: Any) -> Any:
        if not kwargs:
            kwargs = {}
            if id(func) in self._views:
                return self._view(func, args, kwargs)
        elif self.on_meta and kwargs.get("device") is not None:
            return at_the_beginning(self._notice(func, args, kwargs, None, are_known=False))
        key, are_known = signature(func, args, kwargs, self.live.by_storage)
        try:
            plan = self._plans.get(key)
        except TypeError:  # something among the arguments has no hash
            plan = None
        if plan is not None and plan.rebuild is not None and self.on_meta:
            if not are_known:
                self.origins.check(func, args, kwargs)
            result = plan.replay(args)
            if plan.has_values or (plan.in_place and self.values.storages) or id(args[0]) in self._twins:
                self.values.follow(func, args, kwargs, result)
            self.origins.renew()
            return self._ran(plan, result, (func, args, kwargs))
        return self._notice(func, args, kwargs, key, are_known)

    def _notice(self, func: Any, args: Any, kwargs: Any, key: Any, are_known: bool) -> Any:
        """Run an operator that is not remembered; note an error that is none of the model's, which may catch it."""
        if not are_known:
            self.origins.check(func, args, kwargs)
        for tensor in tensors_among(args, kwargs) if self.unread else ():
            if id(tensor) in self.unread:
                self.unanswered.append(str(func))
                require_plain(tensor)
        try:
            result = self._not_remembered(func, args, kwargs, key)
            self.origins.renew()
            return result
        except Exception as error:
            if self.stands_in and is_of_stand_ins(func, error):
                self.unanswered.append(str(func))
            raise

    def _require_no_gradients(self, args: Any, kwargs: Any) -> None:
        """Refuse an operator whose result would have a gradient in a run."""
        if any(tensor.requires_grad for tensor in tensors_among(args, kwargs)):
            self.refuse(GradientsError)

    def refuse(self, error: type[PassError]) -> None:
        """Raise an error that the model may catch, and have the pass be void."""
        self.refusal = error
        raise error

    def _not_remembered(self, func: Any, args: Any, kwargs: Any, key: Any) -> Any:
        if isinstance(func, compat.HigherOrderOperator):
            return run_higher_order(self, func, args, kwargs)
        kind = classify(func)
        if kind is Kind.COMPOSITE:
            if func is _DROPOUT and not (args[1] and args[2]):
                return args[0]  # as its kernel does, where torch's decomposition makes a copy
            if not (compat.has_nested_kernel(func) and any(tensor.is_nested for tensor in tensors_in(args))):
                named = self.values.with_size(func, args, kwargs) if self.stands_in else kwargs
                with self:
                    result = func.decompose(*args, **named)
                if result is not NotImplemented:
                    return result
            kind = Kind.UNKNOWN
        if not self.on_meta:
            if kind is Kind.VIEW:
                return self._view(func, args, kwargs)
            return self._operator(func, kind, args, kwargs, (args, kwargs) if self.stands_in else None, key)
        return self._not_remembered_on_meta(func, kind, args, kwargs, key)

    def _not_remembered_on_meta(self, func: Any, kind: Kind, args: Any, kwargs: Any, key: Any) -> Any:
        on_meta, named = self._all_on_meta(args, kwargs)
        if kind is Kind.VIEW:
            if len(list(tensors_among(args, kwargs))) < 2:
                self._views.add(id(func))
            return self._view(func, on_meta, named)
        if on_meta is not args or named is not kwargs:
            key, _ = signature(func, on_meta, named, self.live.by_storage)
        return self._operator(func, kind, on_meta, named, (args, kwargs), key)

    def _operator(self, func: Any, kind: Kind, args: Any, kwargs: Any, model_args: Any, key: Any) -> Any:
        """Run an operator of a signature; ``model_args`` are its arguments as the model has them, some of them real."""
        result = None
        if depends_on_values(func) and not self._knows_values(args, kwargs):
            key = None
        elif model_args is not None:
            result = self._by_values(func, *model_args)
            key = key if result is None else None
        try:
            plan = self._plans.get(key)
        except TypeError:
            plan = key = None
        is_remembered = result is not None
        if not is_remembered:
            result = (without_running if self.on_meta else multiply_groups)(func, args, kwargs)
        if result is None:
            self._watch_writes(func, *(model_args or (args, kwargs)))
            result = as_in_a_run(func, args, func(*args, **kwargs)) if self.stands_in else func(*args, **kwargs)
        if plan is None:
            plan = make_plan(func, kind, args, kwargs, result, self.device)
            if key is not None:
                self._plans[key] = plan
        if model_args is not None and not is_remembered and any(map(self.values.stands_in, tensors_in((args, result)))):
            self.values.follow(func, model_args[0], model_args[1], result)
        self._ran(plan, result, (func, *(model_args or (args, kwargs))))
        if not plan.fresh:
            self.live.made_anew(tensors_in(result), tensors_among(args, kwargs))
        return result

    def _knows_values(self, args: Any, kwargs: Any) -> bool:
        """Return whether an operator may be answered by known values: real tensors alone have their own on meta."""
        if not self.on_meta:
            return self.stands_in
        return all(tensor.is_meta for tensor in tensors_among(args, kwargs))

    def _by_values(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what an operator makes on the meta device by the values of its tensors, or None."""
        if not depends_on_values(func):
            return self.values.on_cpu(func, args, kwargs)
        result = self.values.answer(func, args, kwargs)
        return None if result is NotImplemented else result

    def _ran(self, plan: Plan, result: Any, call: tuple[Any, Any, Any]) -> Any:
        """Record an operator that was run or remembered."""
        for tensor in (result,) if plan.single else tensors_in(result):
            self.live.add(tensor, None, plan.fresh)
        self.operator_macs += plan.cost.macs
        if not plan.counted and not self._covered:
            self.uncounted[plan.schema] += 1
        self._record(plan.name, plan.cost, plan.bytes_read, plan.bytes_written, plan.outputs)
        if (plan.is_masked or plan.attended_macs is not None) and not self._covered:
            left = macs_under_mask(*call, plan.cost.macs, self.values) if plan.is_masked else plan.attended_macs
            self.operators[-1] = replace(self.operators[-1], attended_macs=left, is_masked=plan.is_masked)
        if plan.product_dtype is not None and not self._covered:
            self.operators[-1] = replace(self.operators[-1], product_dtype=plan.product_dtype)
        self.live_bytes[-1] += plan.bytes_inside
        if plan.unknown_inside:
            self.unsized[plan.unknown_inside] += 1
        return result

    def _watch_writes(self, func: Any, args: Any, kwargs: Any) -> None:
        if self.guard is not None:
            self.guard.watch(func, args, kwargs)

    def _view(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator that returns a view, or a copy where it cannot: only the copy is work."""
        result = func(*args, **kwargs)
        if self._twins and args and id(args[0]) in self._twins:
            self.values.follow(func, args, kwargs, result)
        before = self.live.total
        for tensor in tensors_in(result):
            self.live.add(tensor)
        if self.live.total != before:
            self.origins.meet_views(result, tensors_among(args, kwargs))
            self.live.made_anew(tensors_in(result), tensors_among(args, kwargs))
            self._record_move(str(func), result)
        return result

    def opaque(self, func: Any, args: Any, kwargs: Any, name: str = "") -> Any:
        """Run an operator that takes functions whose work inside is not seen."""
        result = self.run_whole(func, args, kwargs)
        name = name or f"{func.namespace}::{func.name()}"
        self.miss(name)
        self.record(name, _NOTHING, args, result)
        return result

    def run_whole(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator without looking into it."""
        with self.guard or nullcontext():
            result = func(*args, **kwargs)
        for tensor in tensors_in(result):
            self.live.add(tensor)
        return result

    def miss(self, name: str) -> None:
        """Count a call of an operator without a formula."""
        if not self._covered:
            self.uncounted[name] += 1

    def _miss_origin(self) -> None:
        """Count work that was done elsewhere: what came back of it has reached the layer that runs."""
        layer = f"layer {self.layers.current}" if self.layers.current else "the model itself"
        name = f"work outside torch's operators in {layer}"
        self.miss(name)
        self.unsized[name] += 1

    def record(self, name: str, cost: Cost, arguments: Any, result: Any) -> None:
        """Record an operator that was run without looking into it."""
        outputs = list(tensors_in(result))
        read, written = (sum(map(size_of, tensors)) for tensors in (tensors_in(arguments), outputs))
        self._record(name, cost, read, written, tuple(map(tensor_info, outputs)))

    def _record_move(self, name: str, result: Any) -> None:
        self.record(name, _NOTHING, result, result)

    def _record(self, name: str, cost: Cost, read: int, written: int, outputs: tuple[TensorInfo, ...]) -> None:
        if self._covered:
            cost = _NOTHING
        layers, work = self.layers, (cost.macs, cost.flops, read, written)
        caller = (name, layers.current, layers.current_call)
        self.operators.append(OpRecord(*caller, *work, outputs, self.phase, self.recomputes))
        self.live_bytes.append(self.live.total)

    def _all_on_meta(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Let real tensors meet meta ones: a model may make tensors, or get integers, that keep their values."""
        meta = [tensor.is_meta for tensor in tensors_among(args, kwargs)]
        if not any(meta) and not any(map(self.values.is_overwritten, tensors_among(args, kwargs))):
            return args, kwargs
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": torch.device("meta")}
        if all(meta):
            return args, kwargs
        return self._move_to_meta(args), {name: self._move_to_meta(value) for name, value in kwargs.items()}

    def _move_to_meta(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and not value.is_meta:
            twin = self._onto_meta.get(value)
            if twin is None:
                twin = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
                self._onto_meta[value] = twin
            return twin
        if isinstance(value, (list, tuple)):
            return type(value)(self._move_to_meta(item) for item in value)
        return value

    def _begin_module(self, module: nn.Module) -> None:
        if self._trials is not None:
            self._trials.begin(module, len(self.operators))

    def _layer_begins(self, module: nn.Module, path: str, call: int) -> None:
        if compat.is_any_autocast_enabled() and (self.on_meta or self.below_autograd):
            self.refuse(AutocastError)
        if self._trials is not None:
            self._trials.begins(module)
        if self.fuses_on is not None and may_be_fused(module):
            self._fused.append((len(self.live_bytes), self.live.total))
        if self._find_formula(module) is not None:
            self._covered += 1

    def _fuse(self, module: nn.Module, arguments: Any, first: int, alive: int) -> None:
        """Give the operators of a layer that a run takes as one kernel the bytes that this kernel has alive."""
        inside = None
        if arguments is not None and self.fuses_on is not None and first < len(self.live_bytes):
            inside = find_fused_bytes(module, arguments[0], arguments[1], self.fuses_on)
        if inside is None:
            return
        of_parts = self.live_bytes[first:]
        largest = first + of_parts.index(max(of_parts))
        self.live_bytes[first:] = [min(value, alive + inside) for value in of_parts]
        self.live_bytes[largest] = alive + inside

    def _find_formula(self, module: nn.Module) -> Formula | None:
        kind = type(module)
        if kind not in self._formulas:
            self._formulas[kind] = module_cost(module)
        return self._formulas[kind]

    def _layer_ends(self, module: nn.Module, call: LayerCall, arguments: Any, output: Any) -> None:
        if self.fuses_on is not None and may_be_fused(module):
            self._fuse(module, arguments, *self._fused.pop())
        if self._trials is not None:
            for index in self._trials.ends(module, call, arguments is not None):
                self.operators[index] = replace(self.operators[index], macs=0, flops=0)
            where = self.layers.current, self.layers.current_call
            for index, record in without_masks(self.operators, module, call, where):
                self.operators[index] = record
        formula = self._find_formula(module)
        if formula is None:
            return
        self._covered -= 1
        self.origins.accept(output)
        name = type(module).__name__
        if arguments is None:  # there are no outputs to give to the formula
            self.uncounted[f"module::{name}"] += not self._covered
            return
        inputs, outputs = (tuple(Shape(info.shape) for info in infos) for infos in (call.inputs, call.outputs))
        cost = evaluate_formula(
            f"module {name}",
            lambda: formula(module, inputs, outputs),
            lambda: f"inputs={inputs!r} and outputs={outputs!r}",
        )
        self._record(f"module::{name}", cost, 0, 0, call.outputs)
