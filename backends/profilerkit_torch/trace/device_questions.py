"""Questions about devices in a pass on the meta device: they get the answers of a run, and moving does nothing.

A tensor that the model then makes on the device of such an answer is made on the meta device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch

from ..compat.tensors import stands_in
from .operator_facts import OperatorCall
from .pass_record import PassRecord

__all__ = ["Call", "DeviceQuestions", "Handler"]


class Call(OperatorCall):
    """A call of a function of torch's, which is mostly a method of tensors, or the getter of an attribute of theirs."""

    __slots__ = ()

    @property
    def tensor(self) -> Any:
        """The tensor whose method is called: the first argument."""
        return self.args[0]

    @property
    def name(self) -> str:
        """The name of the function for messages: ``Tensor.device`` of the getter ``Tensor.device.__get__``."""
        function = self.func
        name = function.__self__.__name__ if function.__name__ == "__get__" else function.__name__
        return f"Tensor.{name}" if hasattr(torch.Tensor, name) else f"torch.{name.lstrip('_')}"


#: Handles a call of the model and returns its result.
Handler: TypeAlias = Callable[[Call], Any]


_CPU = torch.device("cpu")
_META = torch.device("meta")
_TENSOR: Any = torch.Tensor


class DeviceQuestions:
    """Answers for tensors on the meta device, and moves them, as tensors on the device of a run would.

    Args:
        recorder: Of the pass; it notes the questions without an answer.
        device: The device of a run; None where there are several, or where stand-ins know their device themselves.
    """

    def __init__(self, recorder: PassRecord, device: torch.device | None) -> None:
        self._recorder = recorder
        self._device = device
        #: Whether the model has moved a tensor to another device. The meta device does not tell which ones.
        self._has_moved = False

    def list_handlers(self) -> dict[Any, Handler]:
        """Return the handlers of calls in a pass on the meta device, by the function that is called."""
        if self._device is None:
            return dict.fromkeys((*_ANSWERS, _TENSOR.type), self.note_unknown)
        return {
            **dict.fromkeys(_ANSWERS, self._tell_device),
            **dict.fromkeys((_TENSOR.__dlpack_device__, _TENSOR.__cuda_array_interface__.__get__), self.note_unknown),
            _TENSOR.type: self._change_type,
            _TENSOR.type_as: self._change_type_as,
            _TENSOR.to: self._move,
            **dict.fromkeys((_TENSOR.cpu, _TENSOR.cuda), self._move_to_kind),
            **dict.fromkeys((torch.tensor, torch.as_tensor, torch.asarray, _TENSOR.new_tensor), self._make_with_values),
        }

    def redirect(self, kwargs: Any) -> Any:
        """Return the keyword arguments of a function, with the meta device for the device of a run."""
        if self._device is None or kwargs.get("device") is None:
            return kwargs
        return {**kwargs, "device": self._redirect_device(kwargs["device"])}

    def _redirect_device(self, value: Any) -> Any:
        """Return the meta device in place of the device of a run; any other device or value as it is."""
        here = self._device
        if here is None or not isinstance(value, (str, torch.device)):
            return value
        device = torch.device(value)
        if device.type == here.type and (device == here or None in (device.index, here.index)):
            return _META
        self._has_moved |= device.type != "meta"
        return value

    # Questions --------------------------------------------------------------------------------------------------------

    def is_on_cpu(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is on the CPU in a run; False where a meta tensor may be anywhere."""
        if not tensor.is_meta:
            return tensor.device == _CPU
        return self._device == _CPU and not self._has_moved

    def note_unknown(self, call: Call) -> Any:
        """Note a question that only the tensors of a run can answer, unless it is asked of one."""
        if stands_in(call.tensor):
            self._recorder.unanswered.append(call.name)
        return call.run()

    def _tell_device(self, call: Call) -> Any:
        """Answer as a tensor on the device of a run does."""
        if not call.tensor.is_meta:
            return call.run()
        if self._device is None or self._has_moved:
            return self.note_unknown(call)
        return _ANSWERS[call.func](call.run(), self._device)

    # Moves ------------------------------------------------------------------------------------------------------------

    def _move(self, call: Call) -> Any:
        """Move a tensor: one on the meta device stays there, where it would stay in a run."""
        if not call.tensor.is_meta:
            return call.run()
        args = (call.tensor, *map(self._redirect_device, call.args[1:]))
        return call.func(*args, **self.redirect(call.kwargs))

    def _move_to_kind(self, call: Call) -> Any:
        """Answer ``x.cpu()`` or ``x.cuda()`` like ``x.to("cpu")`` or ``x.to("cuda")``."""
        if len(call.args) > 1 or call.kwargs:
            return call.run()
        return self._move(Call(_TENSOR.to, (call.tensor, call.func.__name__), {}))

    def _change_type(self, call: Call) -> Any:
        """Convert to a dtype by ``x.type(dtype)``; of a type such as ``torch.FloatTensor`` fake tensors know more."""
        is_to_dtype = len(call.args) > 1 and isinstance(call.args[1], torch.dtype)
        return call.run() if is_to_dtype else self.note_unknown(call)

    def _change_type_as(self, call: Call) -> Any:
        """Convert a tensor that stands in to the type, and so to the device, of a real one."""
        other = call.args[1] if len(call.args) > 1 else call.kwargs["other"]
        if not call.tensor.is_meta or other.is_meta:
            return call.run()
        return self._move(Call(_TENSOR.to, (call.tensor, other.device), {"dtype": other.dtype}))

    def _make_with_values(self, call: Call) -> Any:
        """Make a tensor of given values: a real one on the CPU, which keeps them, for one on the device of a run."""
        is_method = call.func is _TENSOR.new_tensor
        data = call.args[1:2] if is_method else call.args[:1]
        kwargs = self.redirect(call.kwargs)
        if any(isinstance(item, torch.Tensor) and item.is_meta for item in data):  # whose values are not known
            return call.func(*call.args, **kwargs)
        is_like_stand_in = is_method and kwargs.get("device") is None and call.tensor.is_meta
        if is_like_stand_in or kwargs.get("device") == _META:
            return call.func(*call.args, **{**kwargs, "device": _CPU})
        return call.run()


# Answers of a tensor on the device of a run; the first argument is the answer of a tensor on the meta device ----------


def _answer_kind(kind: str, of_meta: Any, device: torch.device) -> bool:
    """Answer ``x.is_cuda`` or the like."""
    return device.type == kind


_KINDS = ("cpu", "cuda", "meta", "mps", "xpu", "xla", "ipu", "maia", "mtia", "vulkan")
_ANSWERS: dict[Any, Callable[[Any, torch.device], Any]] = {
    _TENSOR.device.__get__: lambda of_meta, device: device,
    **dict.fromkeys(
        (_TENSOR.get_device, torch.get_device),
        lambda of_meta, device: -1 if device.type == "cpu" else device.index or 0,
    ),
    **{
        getattr(_TENSOR, f"is_{kind}").__get__: partial(_answer_kind, kind)
        for kind in _KINDS
        if hasattr(_TENSOR, f"is_{kind}")
    },
}
