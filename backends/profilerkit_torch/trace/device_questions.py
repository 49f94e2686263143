"""Where a model's tensors are: on the meta device its questions get the answers of a run, and it moves nothing.

What the model then makes "there", on the device of the answers, is made on the meta device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from ..compat.tensors import FakeTensor, tensor_classes
from .asked_names import PassMode

if TYPE_CHECKING:
    from .recorder import Recorder

__all__ = ["DEVICE_HANDLERS", "UNKNOWN_DEVICE_HANDLERS", "DeviceQuestions", "Handler", "name_function", "stands_in"]

_CPU = torch.device("cpu")
_META = torch.device("meta")
_TENSOR: Any = torch.Tensor


class DeviceQuestions(PassMode):
    """Knows the device of a run, None where there is no single one, and answers and moves as a tensor there would.

    Each handler below gets a function of torch's that the model calls, and its arguments.
    """

    def __init__(self, recorder: Recorder, device: torch.device | None) -> None:
        super().__init__()
        self._recorder = recorder
        self._device = device
        #: Whether the model has moved a tensor elsewhere: the meta device does not tell which.
        self._moved = False

    def _redirect(self, kwargs: Any) -> Any:
        """Return the keyword arguments of a function, with the meta device for that of the answers."""
        if self._device is None or kwargs.get("device") is None:
            return kwargs
        return {**kwargs, "device": self._redirect_device(kwargs["device"])}

    def _redirect_device(self, value: Any) -> Any:
        """Return the meta device for that of the answers; another one, and what is no device, as it is."""
        here = self._device
        if here is None or not isinstance(value, (str, torch.device)):
            return value
        device = torch.device(value)
        if device.type == here.type and (device == here or None in (device.index, here.index)):
            return _META
        self._moved |= device.type != "meta"
        return value

    # Questions --------------------------------------------------------------------------------------------------------

    def _tell_device(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Answer as a tensor on the device of a run does."""
        if not args[0].is_meta:
            return func(*args, **kwargs)
        if self._moved or self._device is None:
            return self._note_unknown(func, args, kwargs)
        return _ANSWERS[func](func(*args, **kwargs), self._device)

    def _tell_on_cpu(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Answer as a tensor on the CPU does; what one elsewhere answers only a run can tell."""
        if self._device == _CPU and not self._moved and args[0].is_meta:
            return func(torch.empty(0), *args[1:], **kwargs)
        return self._note_unknown(func, args, kwargs)

    def _note_unknown(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Note a question that only the tensors of a run can answer, unless it is asked of one."""
        if stands_in(args[0]):
            self._recorder.unanswered.append(name_function(func))
        return func(*args, **kwargs)

    # Moves ------------------------------------------------------------------------------------------------------------

    def _move(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Move a tensor: one on the meta device stays there, where it would stay in a run."""
        if isinstance(args[0], torch.Tensor) and args[0].is_meta:
            args = (args[0], *map(self._redirect_device, args[1:]))
            kwargs = self._redirect(kwargs)
        return func(*args, **kwargs)

    def _move_to_kind(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Move a tensor to the CPU or a GPU: one that is there in a run stays as it is."""
        here = self._device
        if here is None or not args[0].is_meta or len(args) > 1 or kwargs:
            return func(*args, **kwargs)
        if here.type == func.__name__:
            return args[0]
        self._moved = True
        return func(*args)

    def _change_type(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Convert a tensor to a type such as ``torch.FloatTensor``, or give the name of its own type."""
        kind = args[1] if len(args) > 1 else kwargs.get("dtype")
        if kind is None:
            return self._tell_device(func, args, kwargs)
        tensor_type = _TYPES_BY_NAME.get(_name_type(kind))
        if tensor_type is None or not args[0].is_meta:
            return func(*args, **kwargs)
        device_type = tensor_type.__module__.partition(".")[2] or "cpu"
        return self._move(_TENSOR.to, (args[0], device_type), {"dtype": tensor_type.dtype})

    def _change_type_as(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Convert a tensor to the type of another, where one of them is real and the other stands in."""
        tensor, other = args[0], args[1] if len(args) > 1 else kwargs["other"]
        if not tensor.is_meta or other.is_meta:
            return func(*args, **kwargs)
        return self._move(_TENSOR.to, (tensor, other.device), {"dtype": other.dtype})

    def _make_of_values(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Make a tensor of given values: a real one, which keeps them."""
        is_method = func is torch.Tensor.new_tensor
        data = args[1:2] if is_method else args[:1]
        if any(isinstance(item, torch.Tensor) and item.is_meta for item in data):  # whose values are not known
            return func(*args, **self._redirect(kwargs))
        is_like_stand_in = is_method and kwargs.get("device") is None and args[0].is_meta
        if is_like_stand_in or self._redirect(kwargs).get("device") == _META:
            kwargs = {**kwargs, "device": _CPU}
        return func(*args, **kwargs)


def stands_in(tensor: Any) -> bool:
    """Return whether a tensor has no values of its own."""
    return tensor.is_meta or isinstance(tensor, FakeTensor)


def name_function(func: Any) -> str:
    """Return the name of a function of torch's for messages: ``Tensor.device`` of the one that reads it."""
    name = func.__self__.__name__ if func.__name__ == "__get__" else func.__name__
    return f"Tensor.{name}" if hasattr(torch.Tensor, name) else f"torch.{name.lstrip('_')}"


def _name_type(kind: Any) -> str:
    """Return the name of `torch.FloatTensor` or the like, which may be given by its name."""
    return kind if isinstance(kind, str) else f"{getattr(kind, '__module__', '')}.{getattr(kind, '__name__', '')}"


#: ``torch.FloatTensor`` and the like, but for sparse ones.
_TYPES_BY_NAME: dict[str, Any] = {
    f"{kind.__module__}.{kind.__name__}": kind for kind in tensor_classes if "sparse" not in kind.__module__
}


# Answers: from that of the meta device and the device of a run --------------------------------------------------------


def _tell(answer: Any, device: torch.device) -> torch.device:
    return device


def _tell_index(answer: Any, device: torch.device) -> int:
    return -1 if device.type == "cpu" else device.index or 0


def _tell_type(answer: Any, device: torch.device) -> Any:
    prefix = "torch." if device.type == "cpu" else f"torch.{device.type}."
    return answer.replace("torch.meta.", prefix) if isinstance(answer, str) else answer


def _make_kind_question(kind: str) -> Callable[[Any, torch.device], bool]:
    """Return the answer to ``x.is_cuda`` or the like."""
    return lambda answer, device: device.type == kind


_KINDS = ("cpu", "cuda", "meta", "mps", "xpu", "xla", "ipu", "maia", "mtia", "vulkan")
_ANSWERS: dict[Any, Callable[[Any, torch.device], Any]] = {
    _TENSOR.device.__get__: _tell,
    **dict.fromkeys((_TENSOR.get_device, torch.get_device), _tell_index),
    _TENSOR.type: _tell_type,
    **{
        getattr(_TENSOR, f"is_{kind}").__get__: _make_kind_question(kind)
        for kind in _KINDS
        if hasattr(_TENSOR, f"is_{kind}")
    },
}
Handler: TypeAlias = Callable[[Any, Any, Any, Any], Any]
#: By function, where all tensors are on one device in a run: what handles a call of it.
DEVICE_HANDLERS: dict[Any, Handler] = {
    **dict.fromkeys(_ANSWERS, DeviceQuestions._tell_device),
    **dict.fromkeys(
        (_TENSOR.__dlpack_device__, _TENSOR.__cuda_array_interface__.__get__), DeviceQuestions._tell_on_cpu
    ),
    _TENSOR.type: DeviceQuestions._change_type,
    _TENSOR.type_as: DeviceQuestions._change_type_as,
    _TENSOR.to: DeviceQuestions._move,
    **dict.fromkeys((_TENSOR.cpu, _TENSOR.cuda), DeviceQuestions._move_to_kind),
    **dict.fromkeys(
        (torch.tensor, torch.as_tensor, torch.asarray, _TENSOR.new_tensor), DeviceQuestions._make_of_values
    ),
}
#: The same, where they are on several.
UNKNOWN_DEVICE_HANDLERS: dict[Any, Handler] = dict.fromkeys(_ANSWERS, DeviceQuestions._note_unknown)
