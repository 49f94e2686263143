"""Questions that a model asks of its tensors, which stand-ins would answer wrongly: of devices, values, addresses.

The shape pass runs on the meta device. A model that asks where a tensor is gets the answer of a run: see
`device_questions`. Nobody knows an address: a pass in which a model asks for one is void, and so is one in which it
formats a tensor as text, or asks for values that are unknown and goes on, in a ``try``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..compat.autograd import make_dual
from ..compat.modules import GLOBAL_CALL_HOOKS, call_hooks
from ..compat.recordings import transform_level
from ..compat.tensors import VIEW_QUESTIONS, FakeTensor, tensor_classes
from .device_questions import (
    DEVICE_HANDLERS,
    UNKNOWN_DEVICE_HANDLERS,
    DeviceQuestions,
    Handler,
    name_function,
    stands_in,
)
from .grad_modes import GradientsError, ViewError

if TYPE_CHECKING:
    from ..untouched.write_guard import WriteGuard
    from .recorder import Recorder

__all__ = ["Questions", "UnansweredError", "can_ask", "has_type_question"]

_CPU = torch.device("cpu")
_TENSOR: Any = torch.Tensor
_PLAIN_INDICES = frozenset((int, slice, type(None), type(Ellipsis), torch.Tensor))
_TYPE_NAMES = frozenset(kind.__name__ for kind in tensor_classes)


class UnansweredError(RuntimeError):
    """Raised for a pass in which a model asked what its stand-ins do not know, and went on without the answer."""

    def __init__(self, questions: Iterable[str]) -> None:
        asked = ", ".join(dict.fromkeys(questions))
        super().__init__(
            f"the model asks its tensors for what only a run can tell ({asked}), and goes on by the answer, or by the "
            "error; give it weights with values, or take the question out of its forward pass"
        )


def can_ask(modules: Iterable[nn.Module]) -> bool:
    """Return whether code that is not torch's runs in a call of these modules: classes of others, or hooks."""
    if any(GLOBAL_CALL_HOOKS):
        return True
    return any(
        not type(module).__module__.startswith("torch.nn.") or any(call_hooks(module)) or "forward" in module.__dict__
        for module in modules
    )


def has_type_question(names: frozenset[str]) -> bool:
    """Return whether code that uses these names may ask ``isinstance(x, torch.FloatTensor)``: only a run can tell."""
    return "isinstance" in names and not names.isdisjoint(_TYPE_NAMES)


class Questions(DeviceQuestions):
    """While it is active, the model's questions get the answers of a run on ``device``, or the recorder notes them.

    ``device`` is None where the stand-ins know their device themselves, or where there are several. A mode is off while
    it handles a function: what torch's own functions ask their tensors is not seen. The guard keeps what is in memory
    that leaves torch, where it is written to unseen.
    """

    def __init__(self, recorder: Recorder, device: torch.device | None, guard: WriteGuard) -> None:
        super().__init__(recorder, device)
        self._guard = guard
        self._handlers: dict[Any, Handler] = {**_OF_EMPTY, **_OF_ELEMENTS}
        if recorder.stands_in:
            self._handlers |= {**_OF_ADDRESSES, **_OF_VALUES}
        else:
            self._handlers |= _OF_LEAVING
        if recorder.on_meta:
            self._handlers |= UNKNOWN_DEVICE_HANDLERS if device is None else DEVICE_HANDLERS
        if recorder.below_autograd:
            self._handlers |= _OF_AUTOGRAD

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer a question; call any other function, with the meta device for that of the answers."""
        handler = self._handlers.get(func)
        if handler is not None:
            return handler(self, func, args, kwargs or {})
        if not kwargs:
            return func(*args)
        return func(*args, **self._redirect(kwargs))

    # Values -----------------------------------------------------------------------------------------------------------

    def _read(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Give values to Python or numpy: those of the tensor on the CPU that has them."""
        tensor, recorder = args[0], self._recorder
        values = recorder.values.find(tensor)
        if values is not None or not stands_in(tensor):
            self._note_leaving(func, tensor, tensor if values is None else values)
        if values is not None:
            return recorder.values.run(func, (values, *args[1:]), kwargs)
        if recorder.values.is_overwritten(tensor):
            recorder.unanswered.append(name_function(func))
        try:
            if func in _DLPACK and isinstance(tensor, FakeTensor):  # another library would read at address 0
                raise BufferError(f"{name_function(func)}: a fake tensor has no values")
            return func(*args, **kwargs)
        except Exception:
            recorder.unanswered.append(name_function(func))
            raise

    def _format(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Format a tensor as text: by its values, if they are known and on the CPU in a run too."""
        tensor, recorder = args[0], self._recorder
        if not (stands_in(tensor) or recorder.values.is_overwritten(tensor)):
            return func(*args, **kwargs)
        device = self._device if recorder.on_meta else tensor.device
        values = recorder.values.find(tensor) if device == _CPU and not self._moved else None
        if values is not None:
            return recorder.values.run(func, (values, *args[1:]), kwargs)
        recorder.formatted.append(name_function(func))
        return func(*args, **kwargs)

    def _index(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Index a tensor; where an index has sequences, torch makes tensors of them that no operator shows."""
        index, origins = args[1], self._recorder.origins
        parts = index if type(index) is tuple else (index,)
        if all(type(part) in _PLAIN_INDICES for part in parts):
            return func(*args, **kwargs)
        origins.is_indexing = True
        try:
            return func(*args, **kwargs)
        finally:
            origins.is_indexing = False

    def _call_on_elements(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Miss what a function of Python's does to each element: no operator shows it.

        A tensor without values on the meta device is left as it is, and at the address of a fake one nothing is.
        """
        if any(map(stands_in, args[:-1])):
            self._refuse(func)
        self._guard.keep(args[:1])
        self._recorder.miss(name_function(func))
        return func(*args, **kwargs)

    # Memory -----------------------------------------------------------------------------------------------------------

    def _make_empty(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Make memory that nothing is written to: torch's own functions do so too, and fill it unseen."""
        result = func(*args, **self._redirect(kwargs))
        self._recorder.origins.note_empty(result)
        return result

    def _make_new(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Make a tensor of the type of another, of values or without any."""
        tensor, *values = args
        if len(values) == 1 and isinstance(values[0], (list, tuple)) and not isinstance(values[0], torch.Size):
            is_meta = self._recorder.on_meta and tensor.is_meta
            return torch.tensor(values[0], dtype=tensor.dtype, device=_CPU) if is_meta else func(*args, **kwargs)
        return self._make_empty(func, args, kwargs)

    def _give_address(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Refuse to give the memory of a tensor that has none: code that reads at address 0 ends the process."""
        if stands_in(args[0]):
            self._refuse(func)
        return self._leave(func, args, kwargs)

    def _refuse(self, func: Any) -> None:
        """Note a question, and raise the error that says so."""
        self._recorder.unanswered.append(name_function(func))
        raise UnansweredError([name_function(func)])

    def _leave(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Give the values or the memory of a tensor to what is not torch."""
        self._note_leaving(func, args[0], args[0])
        return func(*args, **kwargs)

    def _note_leaving(self, func: Any, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """Note that the numbers of a tensor leave torch, with the memory that they are in but for a list."""
        is_copied = func is _TENSOR.tolist
        if not is_copied:
            self._guard.keep([values])
        self._recorder.origins.expose(tensor, values, copied=is_copied)

    # Autograd ---------------------------------------------------------------------------------------------------------

    def _ask_for_view(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Have a pass without autograd be void: there a tensor that a transform makes is no view."""
        self._recorder.refuse(ViewError)

    def _refuse_dual(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Have a pass without autograd be void where a tensor carries its derivative; transforms have their own way."""
        if transform_level() is None:
            self._recorder.refuse(GradientsError)
        return func(*args, **kwargs)


# What handles a call of a function of torch's -------------------------------------------------------------------------


def _list_methods(*names: str) -> list[Any]:
    """Return the methods of tensors of these names, without those that this release of torch lacks."""
    return [getattr(_TENSOR, name) for name in names if hasattr(_TENSOR, name)]


_DLPACK: tuple[Any, ...] = (_TENSOR.__dlpack__, vars(torch.utils.dlpack)["to_dlpack"])
_READERS: tuple[Any, ...] = (_TENSOR.numpy, _TENSOR.tolist, _TENSOR.__array__, *_DLPACK)
#: What gives the memory that a tensor is in; ``pickle`` reads it.
_GIVERS = _list_methods("data_ptr", "const_data_ptr", "untyped_storage", "storage", "_typed_storage", "__reduce_ex__")
_MAKERS: tuple[Any, ...] = (
    *(torch.empty, torch.empty_like, torch.empty_strided, torch.empty_permuted),
    *(_TENSOR.new_empty, _TENSOR.new_empty_strided),
)
_OF_EMPTY: dict[Any, Handler] = {
    **dict.fromkeys(_MAKERS, Questions._make_empty),
    _TENSOR.new: Questions._make_new,
}
_OF_ELEMENTS: dict[Any, Handler] = dict.fromkeys(
    (_TENSOR.apply_, _TENSOR.map_, _TENSOR.map2_), Questions._call_on_elements
)
#: On stand-ins: what reads values, gives memory, or tells where that lies.
_OF_VALUES: dict[Any, Handler] = {
    **dict.fromkeys(_READERS, Questions._read),
    **dict.fromkeys((_TENSOR.__repr__, _TENSOR.__format__), Questions._format),
    **dict.fromkeys((_TENSOR.__getitem__, _TENSOR.__setitem__), Questions._index),
}
_OF_ADDRESSES: dict[Any, Handler] = {
    **dict.fromkeys(
        (*_GIVERS, *_list_methods("is_pinned", "is_shared", "share_memory_", "pin_memory")), Questions._give_address
    ),
    _TENSOR.storage_type: Questions._note_unknown,
}
#: In a real run: what takes numbers out of torch.
_OF_LEAVING: dict[Any, Handler] = {
    **dict.fromkeys((*_READERS, *_GIVERS), Questions._leave),
    _TENSOR.__cuda_array_interface__.__get__: Questions._leave,
}
_OF_AUTOGRAD: dict[Any, Handler] = {
    **dict.fromkeys(VIEW_QUESTIONS, Questions._ask_for_view),
    make_dual: Questions._refuse_dual,
}
