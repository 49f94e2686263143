"""What takes the numbers of a tensor out of torch: as a list, an array or text, or with the address of its memory.

Stand-ins have no numbers. Some are known all the same, as `KnownValues` says: a model that asks for these gets them. A
pass is void in which a model asks for others and goes on, in a ``try``, or asks for an address: nobody knows one. In a
real run every tensor answers, and it is only noted what has left, as code outside of torch may compute with it unseen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import torch

from ..compat.fake_tensors import FakeTensor
from .asked_calls import Call, Handler, UnansweredError, stands_in
from .device_questions import DeviceQuestions

if TYPE_CHECKING:
    from ..untouched.write_guard import WriteGuard
    from .recorder import Recorder

__all__ = ["ValueQuestions"]

_TENSOR: Any = torch.Tensor


def _list_methods(*names: str) -> list[Any]:
    """Return the methods of tensors of these names, without those that this release of torch lacks."""
    return [getattr(_TENSOR, name) for name in names if hasattr(_TENSOR, name)]


_DLPACK: tuple[Any, ...] = (_TENSOR.__dlpack__, vars(torch.utils.dlpack)["to_dlpack"])
#: What gives numbers to Python, to numpy or to another library.
_READERS: tuple[Any, ...] = (_TENSOR.numpy, _TENSOR.tolist, _TENSOR.__array__, *_DLPACK)
#: What gives the address of a tensor's memory.
_ADDRESSES = _list_methods("data_ptr", "const_data_ptr")
#: What gives the memory itself, or its address; ``pickle`` reads it.
_GIVERS = [*_ADDRESSES, *_list_methods("untyped_storage", "storage", "_typed_storage", "__reduce_ex__")]
#: What torch's allocators align memory to on every device, or to a multiple of it: in bytes.
_ALIGNMENT = 64
#: What asks where that memory lies, or moves it.
_PLACES = _list_methods("is_pinned", "is_shared", "share_memory_", "pin_memory")
#: What calls a function of Python's with each element.
_LOOPS = (_TENSOR.apply_, _TENSOR.map_, _TENSOR.map2_)


class ValueQuestions:
    """Hands out the numbers and the memory of tensors, and notes it; refuses what nobody knows.

    Args:
        recorder: Of the pass; it knows values, and notes the questions without an answer.
        devices: Tell whether a tensor is on the CPU in a run.
        guard: Keeps the values of what may be written to outside of torch.
    """

    def __init__(self, recorder: Recorder, devices: DeviceQuestions, guard: WriteGuard) -> None:
        self._recorder = recorder
        self._devices = devices
        self._guard = guard

    def list_handlers(self) -> dict[Any, Handler]:
        """Return what handles a call, by the function that is called: on stand-ins, or in a real run."""
        if not self._recorder.stands_in:
            leaving = (*_READERS, *_GIVERS, _TENSOR.__cuda_array_interface__.__get__)
            return {**dict.fromkeys(leaving, self._leave), **dict.fromkeys(_LOOPS, self._call_on_elements)}
        return {
            **dict.fromkeys(_READERS, self._read),
            **dict.fromkeys((_TENSOR.__repr__, _TENSOR.__format__), self._format),
            **dict.fromkeys((*_GIVERS, *_PLACES), self._give_memory),
            _TENSOR.storage_type: self._devices.note_unknown,
            **dict.fromkeys(_LOOPS, self._call_on_elements),
        }

    # Numbers ----------------------------------------------------------------------------------------------------------

    def _read(self, call: Call) -> Any:
        """Give the numbers of a tensor: its own, or those that are known of a stand-in."""
        values = self._recorder.values.find(call.tensor)
        if values is None:
            return self._read_unknown(call)
        self._note_leaving(call, values)
        return self._run_on(values, call)

    def _read_unknown(self, call: Call) -> Any:
        """Ask a tensor itself for numbers that are not known, and note that where they are not those of a run.

        A real tensor has other numbers than in a run if a stand-in was written to it. A stand-in raises.
        """
        unanswered = self._recorder.unanswered
        if not stands_in(call.tensor):
            self._note_leaving(call, call.tensor)
        if self._recorder.values.is_overwritten(call.tensor):
            unanswered.append(call.name)
        if call.func in _DLPACK and isinstance(call.tensor, FakeTensor):  # another library would read at address 0
            unanswered.append(call.name)
            raise BufferError(f"{call.name}: a fake tensor has no values")
        try:
            return call.run()
        except Exception:
            unanswered.append(call.name)
            raise

    def _format(self, call: Call) -> Any:
        """Format a tensor as text: by its values, if they are known and on the CPU in a run too."""
        tensor, recorder = call.tensor, self._recorder
        if not (stands_in(tensor) or recorder.values.is_overwritten(tensor)):
            return call.run()
        values = recorder.values.find(tensor) if self._devices.is_on_cpu(tensor) else None
        if values is not None:
            return self._run_on(values, call)
        recorder.formatted.append(call.name)
        return call.run()

    def _run_on(self, values: torch.Tensor, call: Call) -> Any:
        """Return what a call returns for the values of its tensor."""
        return self._recorder.values.run(call.func, (values, *call.args[1:]), call.kwargs)

    def _call_on_elements(self, call: Call) -> Any:
        """Let a function of Python's write each element of the first tensor; note that its work is not seen.

        Refused if a tensor has no values: on the meta device nothing would happen, and a fake one is at address 0.
        """
        *tensors, _ = call.args
        if any(map(stands_in, tensors)):
            self._refuse(call)
        self._guard.keep(call.args[:1])
        self._recorder.miss(call.name)
        return call.run()

    # Memory -----------------------------------------------------------------------------------------------------------

    def _give_memory(self, call: Call) -> Any:
        """Give the memory of a real tensor; a stand-in has none, and code that reads at address 0 ends the process."""
        if not stands_in(call.tensor):
            return self._leave(call)
        if call.func not in _ADDRESSES:
            self._refuse(call)
        return _UnknownAddress(call, self._recorder.unanswered)

    def _refuse(self, call: Call) -> NoReturn:
        """Note a question, and raise the error that says so."""
        self._recorder.unanswered.append(call.name)
        raise UnansweredError([call.name])

    def _leave(self, call: Call) -> Any:
        """Give the numbers or the memory of a real tensor to what is not torch."""
        self._note_leaving(call, call.tensor)
        return call.run()

    def _note_leaving(self, call: Call, values: torch.Tensor) -> None:
        """Note that the numbers of a tensor leave torch; unless they are copied to a list, their memory does too.

        ``values`` are the tensor itself, or what is known of a stand-in.
        """
        is_copied = call.func is _TENSOR.tolist
        if not is_copied:
            self._guard.keep([values])
        self._recorder.origins.expose(call.tensor, values, copied=is_copied)


class _UnknownAddress:
    """The address of a stand-in's memory, of which its remainders alone are known: torch aligns what it allocates.

    Whatever else a model does with it has no answer: so the question counts as one until a remainder is asked for.
    """

    def __init__(self, call: Call, unanswered: list[str]) -> None:
        self._name = call.name
        self._unanswered = unanswered
        self._is_answered = False
        self._offset = call.tensor.storage_offset() * call.tensor.element_size()
        unanswered.append(self._name)

    def __mod__(self, divisor: int) -> int:
        if _ALIGNMENT % divisor:
            raise UnansweredError([self._name])
        if not self._is_answered:
            self._unanswered.remove(self._name)
            self._is_answered = True
        return int(self._offset % divisor)
