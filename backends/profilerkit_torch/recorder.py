"""Watches every operator of a forward pass: its cost, its layer, and the bytes alive after it.

It works on meta tensors, fake tensors and real ones. On meta tensors an operator that was met with the same shapes
before is not run again: its outputs are made from what is remembered, which makes repeated blocks nearly free.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from profilerkit.cost import Cost, Shape, evaluated
from profilerkit.trace import LayerCall, MemoryTimeline, OpRecord, TensorInfo

from .costs import Kind, classify, module_cost
from .layers import LayerStack, tensor_info
from .live import LiveBytes
from .replay import Plan, plan_of, signature, tensors_in, without_running
from .trial_steps import TrialSteps
from .weights import size_of

__all__ = ["Recorder"]

_NOTHING = Cost(0, 0)


class Recorder(TorchDispatchMode):
    """A dispatch mode that records the operators of one forward pass."""

    supports_higher_order_operators = True

    def __init__(self, layers: LayerStack, *, on_meta: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.layers = layers
        self.on_meta = on_meta
        #: Which part of a step runs: see `OpRecord`.
        self.phase = "forward"
        self.operators: list[OpRecord] = []
        self.live = LiveBytes()
        self.live_bytes: list[int] = []
        self.uncounted: Counter[str] = Counter()
        self._plans: dict[Any, Plan] = {}
        #: Twins on the meta device, each for as long as its real tensor is alive.
        self._onto_meta: Any = WeakTensorKeyDictionary()
        self._covered = 0
        self._trials = TrialSteps()
        layers.on_call = lambda module: self._trials.called(module, len(self.operators))
        layers.on_enter = self._layer_begins
        layers.on_leave = self._layer_ends

    def timeline(self, weight_bytes: int, input_bytes: int) -> MemoryTimeline:
        """Return the memory timeline recorded so far."""
        return MemoryTimeline(weight_bytes, input_bytes, tuple(self.live_bytes))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run or remember the operator, and record it."""
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            return self._opaque(func, args, kwargs)
        kind = classify(func)
        if kind is Kind.COMPOSITE:
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
            kind = Kind.UNKNOWN
        if self.on_meta:
            args, kwargs = self._all_on_meta(args, kwargs)
        return self._view(func, args, kwargs) if kind is Kind.VIEW else self._operator(func, kind, args, kwargs)

    def _operator(self, func: Any, kind: Kind, args: Any, kwargs: Any) -> Any:
        key = signature(func, args, kwargs)
        plan = self._plans.get(key) if key is not None else None
        if plan is not None and plan.rebuild is not None and self.on_meta:
            result = plan.replayed(args)
        else:
            result = without_running(func, args, kwargs) if self.on_meta else None
            result = func(*args, **kwargs) if result is None else result
        if plan is None:
            plan = plan_of(func, kind, args, kwargs, result)
            if key is not None:
                self._plans[key] = plan
        for tensor in tensors_in(result):
            self.live.add(tensor)
        if not plan.counted and not self._covered:
            self.uncounted[str(func._schema.name)] += 1
        self._record(plan.name, plan.cost, plan.bytes_read, plan.bytes_written, plan.outputs)
        return result

    def _view(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator that returns a view, or a copy where it cannot: only the copy is work."""
        result = func(*args, **kwargs)
        before = self.live.total
        for tensor in tensors_in(result):
            self.live.add(tensor)
        if self.live.total != before:
            self._moved_data(str(func), result)
        return result

    def _opaque(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator that takes functions, such as a condition: the work inside is not seen."""
        result = func(*args, **kwargs)
        for tensor in tensors_in(result):
            self.live.add(tensor)
        name = f"{func.namespace}::{func.name()}"
        if not self._covered:
            self.uncounted[name] += 1
        self._moved_data(name, result)
        return result

    def _moved_data(self, name: str, result: Any) -> None:
        outputs = list(tensors_in(result))
        written = sum(map(size_of, outputs))
        self._record(name, _NOTHING, written, written, tuple(map(tensor_info, outputs)))

    def _record(self, name: str, cost: Cost, read: int, written: int, outputs: tuple[TensorInfo, ...]) -> None:
        if self._covered:
            cost = _NOTHING
        layers = self.layers
        self.operators.append(
            OpRecord(
                name, layers.current, layers.current_call, cost.macs, cost.flops, read, written, outputs, self.phase
            )
        )
        self.live_bytes.append(self.live.total)

    def _all_on_meta(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Let real tensors meet meta ones: a model may make tensors, or be given integers, that keep their values."""
        meta = [tensor.is_meta for tensor in tensors_in((args, tuple(kwargs.values())))]
        if not any(meta):
            return args, kwargs
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": torch.device("meta")}
        if all(meta):
            return args, kwargs
        return self._moved(args), {name: self._moved(value) for name, value in kwargs.items()}

    def _moved(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and not value.is_meta:
            twin = self._onto_meta.get(value)
            if twin is None:
                twin = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
                self._onto_meta[value] = twin
            return twin
        if isinstance(value, (list, tuple)):
            return type(value)(self._moved(item) for item in value)
        return value

    def _layer_begins(self, module: nn.Module, path: str, call: int) -> None:
        self._trials.begins(module)
        if module_cost(module) is not None:
            self._covered += 1

    def _layer_ends(self, module: nn.Module, call: LayerCall, finished: bool) -> None:
        for place in self._trials.ends(module, call, finished):
            self.operators[place] = replace(self.operators[place], macs=0, flops=0)
        formula = module_cost(module)
        if formula is None:
            return
        self._covered -= 1
        name = type(module).__name__
        if not finished:  # there are no outputs to give to the formula
            self.uncounted[f"module::{name}"] += not self._covered
            return
        inputs, outputs = (tuple(Shape(info.shape) for info in infos) for infos in (call.inputs, call.outputs))
        cost = evaluated(
            f"module {name}",
            lambda: formula(module, inputs, outputs),
            lambda: f"inputs={inputs!r} and outputs={outputs!r}",
        )
        self._record(f"module::{name}", cost, 0, 0, call.outputs)
