"""The model's modules as layers: what each owns, and which one is running."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit.keras_layers import is_keras, own_states
from profilerkit.layering import CallStack, depth_of, shown_layers, tensors_in
from profilerkit.trace import LayerCall, LayerRecord, TensorInfo, WeightRecord

from .keras_layers import is_unbuilt, own_keras_weights, trained_by_keras
from .modules import buffers_of, elements_of, modules_of, named_layers, parameters_of

__all__ = ["LayerStack", "is_lazy", "layer_records", "size_of", "tensor_info"]


def tensor_info(tensor: torch.Tensor) -> TensorInfo:
    """Return shape and dtype of a tensor."""
    return TensorInfo(tuple(map(int, tensor.shape)), str(tensor.dtype).removeprefix("torch."))


def infos_in(structure: Any) -> tuple[TensorInfo, ...]:
    """Return shape and dtype of every tensor in a nested structure: tuples, mappings and dataclasses."""
    return tuple(map(tensor_info, tensors_in(structure, _is_tensor)))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def is_lazy(model: nn.Module) -> bool:
    """Say whether the model has parameters or buffers that no forward pass has sized yet, or layers without theirs."""
    return is_unbuilt(modules_of(model)) or any(
        is_unsized(tensor) for tensor in (*parameters_of(model), *buffers_of(model))
    )


class LayerStack(CallStack):
    """Follows which module runs. While it is active two hooks for all modules are registered; the model gets none."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(named_layers(model))
        self._held = set(map(id, modules_of(model)))
        self._thread = threading.get_ident()
        #: Types of modules with parameters that are not the model's: it makes them while it runs.
        self.strangers: list[str] = []
        #: Layers that the model runs in threads of its own, where its operators are not seen.
        self.elsewhere: Counter[str] = Counter()
        #: Called with every module that begins, the model's or not.
        self.on_call: Callable[[nn.Module], None] = lambda module: None
        #: Called with (module, path, call index) when one of the model's begins; with its tensors, and whether it got
        #: through without raising, when it ends.
        self.on_enter: Callable[[nn.Module, str, int], None] = lambda module, path, call: None
        self.on_leave: Callable[[nn.Module, LayerCall, bool], None] = lambda module, call, finished: None

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow the calls of the model's modules in this thread."""
        handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, with_kwargs=True, always_call=True),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
                torch_module._global_forward_hooks_with_kwargs.pop(handle.id, None)  # torch leaves these behind
                torch_module._global_forward_hooks_always_called.pop(handle.id, None)

    def _enter(self, module: nn.Module, args: Any) -> None:
        if threading.get_ident() != self._thread:
            if self.knows(module):
                self.elsewhere[f"{type(module).__name__} in another thread"] += 1
            return
        self.on_call(module)
        if not self.knows(module):
            if module._parameters or (id(module) not in self._held and any(True for _ in own_keras_weights(module))):
                self.strangers.append(type(module).__name__)
            return
        self.begin(module)
        self.on_enter(module, self.current, self.current_call)

    def _leave(self, module: nn.Module, *seen: Any) -> None:
        if not self.is_innermost(module) or threading.get_ident() != self._thread:
            return
        *inputs, output = seen  # args, kwargs, output; torch leaves out kwargs where the module raised
        call = LayerCall(infos_in(inputs), infos_in(output))
        self.note(call)
        self.on_leave(module, call, len(inputs) == 2)
        self.end()


def layer_records(model: nn.Module, calls: dict[str, list[LayerCall]]) -> tuple[LayerRecord, ...]:
    """Return a record for each module, and for each further path under which a shared one was called."""
    identities: dict[Any, int] = {}
    records = []
    layers = list(named_layers(model))
    trained = trained_by_keras(model)
    for path, module in shown_layers(layers, calls):
        not_saved = module._non_persistent_buffers_set
        parameters = [
            _weight(name, tensor, identities) for name, tensor in module._parameters.items() if tensor is not None
        ]
        parameters += [_weight(name, tensor, identities, key=key) for name, key, tensor in _packed(module)]
        parameters += [
            replace(_weight(name, tensor, identities), trainable=id(tensor) in trained)
            for name, tensor in own_keras_weights(module)
        ]
        buffers = [
            _weight(name, tensor, identities, persistent=name not in not_saved)
            for name, tensor in module._buffers.items()
            if tensor is not None
        ]
        buffers += [
            replace(_weight(name, state._value, identities, persistent=False), trainable=False)
            for name, state in (own_states(module) if is_keras(module) else ())
            if state._value is not None
        ]
        records.append(
            LayerRecord(
                path=path,
                type=type(module).__name__,
                depth=depth_of(path),
                parameters=tuple(parameters),
                buffers=tuple(buffers),
                calls=tuple(calls.get(path, ())),
            )
        )
    return tuple(records)


def _packed(module: nn.Module) -> Iterator[tuple[str, Any, torch.Tensor]]:
    """Yield name, identity and value of the weights that a quantised module keeps packed, outside its parameters."""
    for name, value in module.__dict__.items():
        if isinstance(value, torch.ScriptObject) and "PackedParams" in str(value._type()):
            values = [tensor for tensor in tensors_in(value.__getstate__(), _is_tensor) if not _is_setting(tensor)]
            yield from ((f"{name}.{index}", (id(value), index), tensor) for index, tensor in enumerate(values))


def _is_setting(tensor: torch.Tensor) -> bool:
    """Say whether a tensor holds strides and paddings, which convolutions pack with their weights."""
    return not (tensor.is_quantized or tensor.is_floating_point())


def _weight(
    name: str, tensor: torch.Tensor, identities: dict[Any, int], *, persistent: bool = True, key: Any = None
) -> WeightRecord:
    lazy = is_unsized(tensor)
    return WeightRecord(
        name=name,
        identity=identities.setdefault(key or _identity(tensor, lazy), len(identities)),
        count=0 if lazy else tensor.numel(),
        bytes=0 if lazy else size_of(tensor),
        dtype=str(tensor.dtype).removeprefix("torch."),
        trainable=tensor.requires_grad and key is None,
        persistent=persistent,
    )


def size_of(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor's elements: of those a sparse tensor stores, of the tensors a subclass wraps."""
    if tensor.layout is not torch.strided:
        return sum(getattr(tensor, name)().nbytes for name in _STORED[tensor.layout])
    if hasattr(tensor, "__tensor_flatten__"):
        return sum(size_of(getattr(tensor, name)) for name in tensor.__tensor_flatten__()[0])
    return tensor.numel() * tensor.element_size()


#: What a sparse tensor of each layout is stored as.
_BY_ROW, _BY_COLUMN = (("crow_indices", "col_indices", "values"), ("ccol_indices", "row_indices", "values"))
_STORED: dict[torch.layout, tuple[str, ...]] = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: _BY_ROW,
    torch.sparse_bsr: _BY_ROW,
    torch.sparse_csc: _BY_COLUMN,
    torch.sparse_bsc: _BY_COLUMN,
}


def _identity(tensor: torch.Tensor, lazy: bool) -> Any:
    """Return what two parameters share exactly where they are tied: the same elements of the same storage."""
    shared = None if lazy or tensor.numel() == 0 else elements_of(tensor)
    return id(tensor) if shared is None else shared
