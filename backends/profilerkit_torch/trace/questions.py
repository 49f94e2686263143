"""Questions that a model asks of its tensors, and that stand-ins for them would answer wrongly: device and address.

The shape pass runs on the meta device. A model that asks where a tensor is gets the answer of a run, and what it then
makes "there" is made on the meta device. Nobody knows an address: a pass in which a model asks for one is void, and so
is one in which it formats a tensor as text, or asks for values that are unknown and goes on, in a ``try``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..compat import (
    GLOBAL_CALL_HOOKS,
    VIEW_QUESTIONS,
    FakeTensor,
    call_hooks,
    make_dual,
    tensor_classes,
    transform_level,
)
from .asked_names import PassMode
from .grad_modes import GradientsError, ViewError

if TYPE_CHECKING:
    from ..untouched.write_guard import WriteGuard
    from .recorder import Recorder

__all__ = ["Questions", "UnansweredError", "can_ask", "has_type_question"]

_CPU = torch.device("cpu")
_META = torch.device("meta")


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


class Questions(PassMode):
    """While it is active, the model's questions get the answers of a run on ``device``, or the recorder notes them.

    ``device`` is None where the stand-ins know their device themselves, or where there are several. A mode is off while
    it handles a function: what torch's own functions ask their tensors is not seen. The guard keeps what is in memory
    that leaves torch, where it is written to unseen.
    """

    def __init__(self, recorder: Recorder, device: torch.device | None, guard: WriteGuard) -> None:
        super().__init__()
        self._recorder = recorder
        self._guard = guard
        self._device = device
        self._handlers: dict[Any, Handler] = {**_EMPTY, **_OF_ELEMENTS}
        #: Whether the model has moved a tensor elsewhere: the meta device does not tell which.
        self._moved = False
        if not recorder.stands_in:
            self._handlers |= _LEAVING
        else:
            self._handlers |= {**_NOT_ANSWERED, **_OF_VALUES}
        if recorder.on_meta:
            self._handlers |= dict.fromkeys(_OF_DEVICE, Questions._note_unknown) if device is None else _WHERE_ALL_ARE
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

    def _redirect(self, kwargs: Any) -> Any:
        if self._device is None or kwargs.get("device") is None:
            return kwargs
        return {**kwargs, "device": self._on_meta(kwargs["device"])}

    def _on_meta(self, value: Any) -> Any:
        """Return the meta device for that of the answers; another one, and what is no device, as it is."""
        here = self._device
        if here is None or not isinstance(value, (str, torch.device)):
            return value
        device = torch.device(value)
        if device.type == here.type and (device == here or None in (device.index, here.index)):
            return _META
        self._moved |= device.type != "meta"
        return value

    def _on_device(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensor = args[0]
        if not tensor.is_meta:
            return func(*args, **kwargs)
        if self._moved or self._device is None:
            return self._note_unknown(func, args, kwargs)
        return _OF_DEVICE[func](func(*args, **kwargs), self._device)

    def _on_cpu(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Answer as a tensor on the CPU does; what one elsewhere answers only a run can tell."""
        here = torch.empty(0) if self._device == _CPU and not self._moved and args[0].is_meta else None
        return self._note_unknown(func, args, kwargs) if here is None else func(here, *args[1:], **kwargs)

    def _note_unknown(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Note a question that only the tensors of a run can answer, unless it is asked of one."""
        if _stands_in(args[0]):
            self._recorder.unanswered.append(_name(func))
        return func(*args, **kwargs)

    def _refuse_address(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Refuse to give the memory of a tensor that has none: code that reads at address 0 ends the process."""
        if not _stands_in(args[0]):
            return self._leave(func, args, kwargs)
        self._recorder.unanswered.append(_name(func))
        raise UnansweredError([_name(func)])

    def _ask_for_view(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Have a pass without autograd be void: there a tensor that a transform makes is no view."""
        self._recorder.refuse(ViewError)

    def _refuse_dual(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Have a pass without autograd be void where a tensor carries its derivative; transforms have their own way."""
        if transform_level() is None:
            self._recorder.refuse(GradientsError)
        return func(*args, **kwargs)

    def _move(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Move a tensor: one on the meta device stays there, where it would stay in a run."""
        if isinstance(args[0], torch.Tensor) and args[0].is_meta:
            args = (args[0], *map(self._on_meta, args[1:]))
            kwargs = self._redirect(kwargs)
        return func(*args, **kwargs)

    def _change_type(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Convert a tensor to a type such as ``torch.FloatTensor``, or give the name of its own type."""
        kind = args[1] if len(args) > 1 else kwargs.get("dtype")
        if kind is None:
            return self._on_device(func, args, kwargs)
        type_ = _TYPES_BY_NAME.get(_name_of_type(kind))
        if type_ is None or not args[0].is_meta:
            return func(*args, **kwargs)
        device_type = type_.__module__.partition(".")[2] or "cpu"
        return self._move(_TENSOR.to, (args[0], device_type), {"dtype": type_.dtype})

    def _change_type_as(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Convert a tensor to the type of another, where one of them is real and the other stands in."""
        tensor, other = args[0], args[1] if len(args) > 1 else kwargs["other"]
        if not tensor.is_meta or other.is_meta:
            return func(*args, **kwargs)
        return self._move(_TENSOR.to, (tensor, other.device), {"dtype": other.dtype})

    def _move_to_kind(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Move a tensor to the CPU or a GPU: one that is there in a run stays as it is."""
        here = self._device
        if here is None or not args[0].is_meta or len(args) > 1 or kwargs:
            return func(*args, **kwargs)
        if here.type == func.__name__:
            return args[0]
        self._moved = True
        return func(*args)

    def _make_of_values(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Make a tensor of given values: a real one, which keeps them."""
        data = args[1:2] if func is torch.Tensor.new_tensor else args[:1]
        if any(isinstance(item, torch.Tensor) and item.is_meta for item in data):  # whose values are not known
            return func(*args, **self._redirect(kwargs))
        of_tensor = func is torch.Tensor.new_tensor and kwargs.get("device") is None and args[0].is_meta
        if of_tensor or self._redirect(kwargs).get("device") == _META:
            kwargs = {**kwargs, "device": _CPU}
        return func(*args, **kwargs)

    def _read(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Give values to Python or numpy: those of the tensor on the CPU that has them."""
        tensor, recorder = args[0], self._recorder
        values = recorder.values.of(tensor)
        if values is not None or not _stands_in(tensor):
            self._note_leaving(func, tensor, tensor if values is None else values)
        if values is not None:
            return recorder.values.real(func, (values, *args[1:]), kwargs)
        if recorder.values.is_overwritten(tensor):
            recorder.unanswered.append(_name(func))
        try:
            if func in _OF_DLPACK and isinstance(tensor, FakeTensor):  # another library would read at address 0
                raise BufferError(f"{_name(func)}: a fake tensor has no values")
            return func(*args, **kwargs)
        except Exception:
            recorder.unanswered.append(_name(func))
            raise

    def _make_empty(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Make memory that nothing is written to: torch's own functions do so too, and fill it unseen."""
        result = func(*args, **self._redirect(kwargs))
        self._recorder.origins.note_empty(result)
        return result

    def _new(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Make a tensor of the type of another, of values or without any."""
        tensor, *values = args
        if len(values) == 1 and isinstance(values[0], (list, tuple)) and not isinstance(values[0], torch.Size):
            is_meta = self._recorder.on_meta and tensor.is_meta
            return torch.tensor(values[0], dtype=tensor.dtype, device=_CPU) if is_meta else func(*args, **kwargs)
        return self._make_empty(func, args, kwargs)

    def _index(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Index a tensor; where an index has sequences, torch makes tensors of them that no operator shows."""
        index, origins = args[1], self._recorder.origins
        if type(index) in _PLAIN_INDICES or (
            type(index) is tuple and all(type(item) in _PLAIN_INDICES for item in index)
        ):
            return func(*args, **kwargs)
        origins.is_indexing = True
        try:
            return func(*args, **kwargs)
        finally:
            origins.is_indexing = False

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

    def _call_on_elements(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Miss what a function of Python's does to each element: no operator shows it.

        A tensor without values on the meta device is left as it is, and at the address of a fake one nothing is.
        """
        if any(map(_stands_in, args[:-1])):
            self._recorder.unanswered.append(_name(func))
            raise UnansweredError([_name(func)])
        self._guard.keep(args[:1])
        self._recorder.miss(_name(func))
        return func(*args, **kwargs)

    def _format(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Format a tensor as text: by its values, if they are known and on the CPU in a run too."""
        tensor, recorder = args[0], self._recorder
        if not (_stands_in(tensor) or recorder.values.is_overwritten(tensor)):
            return func(*args, **kwargs)
        device = self._device if recorder.on_meta else tensor.device
        values = recorder.values.of(tensor) if device == _CPU and not self._moved else None
        if values is not None:
            return recorder.values.real(func, (values, *args[1:]), kwargs)
        recorder.formatted.append(_name(func))
        return func(*args, **kwargs)


def _stands_in(tensor: Any) -> bool:
    return tensor.is_meta or isinstance(tensor, FakeTensor)


def _name(func: Any) -> str:
    asked = func.__self__.__name__ if func.__name__ == "__get__" else func.__name__
    return f"Tensor.{asked}" if hasattr(torch.Tensor, asked) else f"torch.{asked.lstrip('_')}"


def _name_of_type(kind: Any) -> str:
    """Return the name of `torch.FloatTensor` or the like, which may be given by its name."""
    return kind if isinstance(kind, str) else f"{getattr(kind, '__module__', '')}.{getattr(kind, '__name__', '')}"


def _is_kind(kind: str) -> Callable[..., bool]:
    return lambda answer, device: device.type == kind


def _type_name(answer: Any, device: torch.device) -> Any:
    kind = "torch." if device.type == "cpu" else f"torch.{device.type}."
    return answer.replace("torch.meta.", kind) if isinstance(answer, str) else answer


_TENSOR: Any = torch.Tensor
_PLAIN_INDICES = frozenset((int, slice, type(None), type(Ellipsis), torch.Tensor))
#: ``torch.FloatTensor`` and the like, but for sparse ones.
_TYPES_BY_NAME: dict[str, Any] = {
    f"{kind.__module__}.{kind.__name__}": kind for kind in tensor_classes if "sparse" not in kind.__module__
}
_TYPE_NAMES = frozenset(kind.__name__ for kind in tensor_classes)
_KINDS = ("cpu", "cuda", "meta", "mps", "xpu", "xla", "ipu", "maia", "mtia", "vulkan")
Handler = Callable[[Questions, Any, Any, Any], Any]
#: By question: the answer, from that of the meta device and the device of a run.
_OF_DEVICE: dict[Any, Callable[[Any, torch.device], Any]] = {
    _TENSOR.device.__get__: lambda answer, device: device,
    **{getattr(_TENSOR, f"is_{kind}").__get__: _is_kind(kind) for kind in _KINDS if hasattr(_TENSOR, f"is_{kind}")},
    **dict.fromkeys(
        (_TENSOR.get_device, torch.get_device),
        lambda answer, device: -1 if device.type == "cpu" else device.index or 0,
    ),
    _TENSOR.type: _type_name,
}
_WHERE_ALL_ARE: dict[Any, Handler] = {
    **dict.fromkeys(_OF_DEVICE, Questions._on_device),
    **dict.fromkeys((_TENSOR.__dlpack_device__, _TENSOR.__cuda_array_interface__.__get__), Questions._on_cpu),
    _TENSOR.type: Questions._change_type,
    _TENSOR.type_as: Questions._change_type_as,
    _TENSOR.to: Questions._move,
    **dict.fromkeys((_TENSOR.cpu, _TENSOR.cuda), Questions._move_to_kind),
    **dict.fromkeys((torch.tensor, torch.as_tensor, torch.asarray, _TENSOR.new_tensor), Questions._make_of_values),
}
_EMPTY: dict[Any, Handler] = {
    **dict.fromkeys(
        (
            *(torch.empty, torch.empty_like, torch.empty_strided, torch.empty_permuted),
            *(_TENSOR.new_empty, _TENSOR.new_empty_strided),
        ),
        Questions._make_empty,
    ),
    _TENSOR.new: Questions._new,
}
_OF_ELEMENTS: dict[Any, Handler] = dict.fromkeys(
    (_TENSOR.apply_, _TENSOR.map_, _TENSOR.map2_), Questions._call_on_elements
)
_OF_DLPACK: tuple[Any, ...] = (_TENSOR.__dlpack__, vars(torch.utils.dlpack)["to_dlpack"])
_OF_VALUES: dict[Any, Handler] = {
    **dict.fromkeys((_TENSOR.numpy, _TENSOR.tolist, _TENSOR.__array__, *_OF_DLPACK), Questions._read),
    **dict.fromkeys((_TENSOR.__repr__, _TENSOR.__format__), Questions._format),
    **dict.fromkeys((_TENSOR.__getitem__, _TENSOR.__setitem__), Questions._index),
}
_OF_AUTOGRAD: dict[Any, Handler] = {
    **dict.fromkeys(VIEW_QUESTIONS, Questions._ask_for_view),
    make_dual: Questions._refuse_dual,
}
#: What gives the memory that a tensor is in; ``pickle`` reads it.
_OF_MEMORY = ("data_ptr", "const_data_ptr", "untyped_storage", "storage", "_typed_storage", "__reduce_ex__")
#: The same, and questions of where it lies.
_OF_ADDRESS = (*_OF_MEMORY, "is_pinned", "is_shared", "share_memory_", "pin_memory")
_NOT_ANSWERED: dict[Any, Handler] = {
    **dict.fromkeys(
        (getattr(_TENSOR, name) for name in _OF_ADDRESS if hasattr(_TENSOR, name)), Questions._refuse_address
    ),
    _TENSOR.storage_type: Questions._note_unknown,
}
#: In a real run: what takes numbers out of torch.
_LEAVING: dict[Any, Handler] = {
    **dict.fromkeys((_TENSOR.numpy, _TENSOR.tolist, _TENSOR.__array__, *_OF_DLPACK), Questions._leave),
    **dict.fromkeys((getattr(_TENSOR, name) for name in _OF_MEMORY if hasattr(_TENSOR, name)), Questions._leave),
    _TENSOR.__cuda_array_interface__.__get__: Questions._leave,
}
