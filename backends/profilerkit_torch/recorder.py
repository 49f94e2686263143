"""Watches every operator of a forward pass: its cost, its layer, and the bytes alive after it.

It works on meta tensors, fake tensors and real ones. On meta tensors an operator that was met with the same shapes
before is not run again: its outputs are made from what is remembered, which makes repeated blocks nearly free.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from profilerkit.trace import LayerCall, MemoryTimeline, OpRecord, TensorInfo

from .costs import Cost, Kind, Shape, classify, module_cost, op_cost
from .layers import LayerStack, tensor_info

__all__ = ["LiveBytes", "Recorder"]

_NOTHING = Cost(0, 0)


class LiveBytes:
    """Counts the bytes of all storages alive: each one once, from its first tensor until it is freed."""

    def __init__(self) -> None:
        self.total = 0
        self._watched: dict[int, weakref.ref[Any]] = {}

    def add(self, tensor: torch.Tensor, size: int | None = None) -> None:
        """Count the tensor's storage, if it is not counted already; ``size=0`` for a weight, counted elsewhere."""
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse and other tensors without one storage
            return
        key = storage._cdata
        if key in self._watched:
            return
        counted = storage.nbytes() if size is None else min(size, storage.nbytes())
        self.total += counted

        def freed(_: Any) -> None:
            self.total -= counted
            del self._watched[key]

        self._watched[key] = weakref.ref(storage, freed)


@dataclass(slots=True)
class _Plan:
    """What is remembered of an operator with certain shapes."""

    cost: Cost
    bytes_read: int
    bytes_written: int
    outputs: tuple[TensorInfo, ...]
    counted: bool
    #: How to make the outputs again: strides and dtypes; None where the operator must run.
    rebuild: tuple[tuple[torch.Size, tuple[int, ...], torch.dtype] | None, ...] | None
    single: bool
    in_place: bool


class Recorder(TorchDispatchMode):
    """A dispatch mode that records the operators of one forward pass."""

    supports_higher_order_operators = True

    def __init__(self, layers: LayerStack, *, on_meta: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.layers = layers
        self.on_meta = on_meta
        self.operators: list[OpRecord] = []
        self.live = LiveBytes()
        self.live_bytes: list[int] = []
        self.uncounted: Counter[str] = Counter()
        self._plans: dict[Any, _Plan] = {}
        self._onto_meta: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._covered = 0
        layers.on_enter = self._layer_begins
        layers.on_leave = self._layer_ends

    def timeline(self, weight_bytes: int, input_bytes: int) -> MemoryTimeline:
        """Return the memory timeline recorded so far."""
        return MemoryTimeline(weight_bytes, input_bytes, tuple(self.live_bytes))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run or remember the operator, and record it."""
        if isinstance(func, HigherOrderOperator):
            return self._opaque(func, args, kwargs or {})
        return self._operator(func, args, kwargs or {})

    def _opaque(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator that takes functions, such as flex attention or a condition: its work is not seen."""
        result = func(*args, **kwargs)
        outputs = list(_tensors(result))
        for tensor in outputs:
            self.live.add(tensor)
        name = f"{func.namespace}::{func.name()}"
        if not self._covered:
            self.uncounted[name] += 1
        self._record(name, _NOTHING, 0, sum(map(_bytes, outputs)), tuple(map(tensor_info, outputs)))
        return result

    def _operator(self, func: Any, args: Any, kwargs: Any) -> Any:
        kind = classify(func)
        if kind is Kind.COMPOSITE:
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
            kind = Kind.UNKNOWN
        if self.on_meta:
            args, kwargs = self._all_on_meta(args, kwargs)
        if kind is Kind.VIEW:
            return self._view(func, args, kwargs)
        key = _signature(func, args, kwargs)
        plan = self._plans.get(key) if key is not None else None
        if plan is not None and plan.rebuild is not None and self.on_meta:
            result = args[0] if plan.in_place else _rebuilt(plan)
        else:
            result = func(*args, **kwargs)
            if plan is None:
                plan = self._plan(func, kind, args, kwargs, result)
                if key is not None:
                    self._plans[key] = plan
        for tensor in _tensors(result):
            self.live.add(tensor)
        if not plan.counted and not self._covered:
            self.uncounted[_name(func)] += 1
        self._record(str(func), plan.cost, plan.bytes_read, plan.bytes_written, plan.outputs)
        return result

    def _view(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator that returns a view, or a copy where it cannot: only the copy is work."""
        result = func(*args, **kwargs)
        before = self.live.total
        for tensor in _tensors(result):
            self.live.add(tensor)
        if self.live.total != before:
            infos = tuple(map(tensor_info, _tensors(result)))
            moved = sum(map(_bytes, _tensors(result)))
            self._record(str(func), _NOTHING, moved, moved, infos)
        return result

    def _plan(self, func: Any, kind: Kind, args: Any, kwargs: Any, result: Any) -> _Plan:
        cost = op_cost(func, kind, args, kwargs, result)
        outputs = list(_tensors(result))
        read = sum(_bytes(tensor) for tensor in _tensors((args, tuple(kwargs.values()))))
        in_place = isinstance(result, torch.Tensor) and bool(args) and result is args[0]
        metadata = None
        reshaped = torch.Tag.inplace_view in func.tags
        if (in_place and not reshaped) or (not _aliases(func) and all(tensor.is_meta for tensor in outputs)):
            flat = (result,) if isinstance(result, torch.Tensor) else result
            if isinstance(flat, tuple) and all(item is None or isinstance(item, torch.Tensor) for item in flat):
                metadata = tuple(None if item is None else (item.shape, item.stride(), item.dtype) for item in flat)
        return _Plan(
            cost=cost or _NOTHING,
            bytes_read=read,
            bytes_written=sum(map(_bytes, outputs)),
            outputs=tuple(map(tensor_info, outputs)),
            counted=cost is not None,
            rebuild=metadata,
            single=isinstance(result, torch.Tensor),
            in_place=in_place,
        )

    def _record(self, name: str, cost: Cost, read: int, written: int, outputs: tuple[TensorInfo, ...]) -> None:
        if self._covered:
            cost = _NOTHING
        layers = self.layers
        self.operators.append(
            OpRecord(name, layers.current, layers.current_call, cost.macs, cost.flops, read, written, outputs)
        )
        self.live_bytes.append(self.live.total)

    def _all_on_meta(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Let real tensors meet meta ones: a model may make tensors, or be given integers, that keep their values."""
        tensors = list(_tensors((args, tuple(kwargs.values()))))
        if all(tensor.is_meta for tensor in tensors):
            if tensors and kwargs.get("device") is not None:
                kwargs = {**kwargs, "device": torch.device("meta")}
            return args, kwargs
        if not any(tensor.is_meta for tensor in tensors):
            return args, kwargs
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": torch.device("meta")}
        return self._moved(args), {name: self._moved(value) for name, value in kwargs.items()}

    def _moved(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and not value.is_meta:
            known = self._onto_meta.get(id(value))
            if known is None or known[0] is not value:
                twin = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
                known = self._onto_meta[id(value)] = (value, twin)
            return known[1]
        if isinstance(value, (list, tuple)):
            return type(value)(self._moved(item) for item in value)
        return value

    def _layer_begins(self, module: nn.Module, path: str, call: int) -> None:
        if module_cost(module) is not None:
            self._covered += 1

    def _layer_ends(self, module: nn.Module, call: LayerCall) -> None:
        formula = module_cost(module)
        if formula is None:
            return
        self._covered -= 1
        shapes = [tuple(Shape(info.shape) for info in infos) for infos in (call.inputs, call.outputs)]
        self._record(f"module::{type(module).__name__}", formula(module, *shapes), 0, 0, call.outputs)


def _name(func: Any) -> str:
    return str(func._schema.name)


def _aliases(func: Any) -> bool:
    if any(argument.alias_info is not None for argument in (*func._schema.arguments, *func._schema.returns)):
        return True
    return torch.Tag.maybe_aliasing_or_mutating in func.tags and func._schema.name != "aten::batch_norm"


def _tensors(value: Any) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _signature(func: Any, args: Any, kwargs: Any) -> Any:
    """Return what an operator's cost and output shapes depend on, or None where that cannot be told."""
    try:
        key = (func, _facet(args), tuple((name, _facet(value)) for name, value in kwargs.items()))
        hash(key)
    except (TypeError, RuntimeError, NotImplementedError):
        return None
    return key


def _facet(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.shape, value.stride(), value.dtype, value.is_meta
    if isinstance(value, (list, tuple)):
        return tuple(map(_facet, value))
    return type(value), value


def _rebuilt(plan: _Plan) -> Any:
    made = tuple(
        None if facts is None else torch.empty_strided(facts[0], facts[1], dtype=facts[2], device="meta")
        for facts in plan.rebuild or ()
    )
    return made[0] if plan.single else made
