"""The mode in which a model's own code runs on tensors without values, which stand in for its own.

Calls such as ``x.device``, ``x.item()`` and ``x.data_ptr()`` would give other answers there than in a run. Each has a
handler, which gives the answer of a run, notes that there is none, or refuses the pass. Those that ask for a device are
in `device_questions`, those that ask for values in `value_questions`; here are those of new memory and of autograd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import torch

from ..compat.autograd import make_dual
from ..compat.modes import are_subclasses_asked
from ..compat.modules import GLOBAL_CALL_HOOKS, call_hooks
from ..compat.recordings import find_transform_level
from ..compat.tensors import VIEW_QUESTIONS, tensor_classes
from ..model.inventory import Inventory
from ..model.tensors import is_wrapper_class
from .asked_calls import Call, Handler
from .asked_names import PassMode
from .device_questions import DeviceQuestions
from .grad_modes import Refusal
from .value_questions import ValueQuestions

if TYPE_CHECKING:
    from ..untouched.write_guard import WriteGuard
    from .recorder import Recorder

__all__ = ["Questions", "has_type_question", "runs_other_code"]

_TENSOR: Any = torch.Tensor
#: Functions that return memory which they do not write to.
_MAKERS: tuple[Any, ...] = (
    *(torch.empty, torch.empty_like, torch.empty_strided, torch.empty_permuted),
    *(_TENSOR.new_empty, _TENSOR.new_empty_strided),
)
_PLAIN_INDICES = frozenset((int, slice, type(None), type(Ellipsis), torch.Tensor))
_TYPE_NAMES = frozenset(kind.__name__ for kind in tensor_classes)


def runs_other_code(inventory: Inventory) -> bool:
    """Return whether a call of a model runs code that is not torch's, of other classes or hooks: only that may ask."""
    if any(is_wrapper_class(type(tensor)) for tensor in inventory.tensors):
        return True
    if any(GLOBAL_CALL_HOOKS) or not all(kind.__module__.startswith("torch.nn.") for kind in inventory.kinds):
        return True
    return any(
        "forward" in attributes or any(call_hooks(module)) for module, attributes in inventory.further_attributes
    )


def has_type_question(names: frozenset[str]) -> bool:
    """Return whether code that uses these names may ask ``isinstance(x, torch.FloatTensor)``: only a run can tell."""
    return "isinstance" in names and not names.isdisjoint(_TYPE_NAMES)


class Questions(PassMode):
    """The mode: it sees each call of a function of torch's by the model's code, and handles those that ask.

    It is off while it handles a call, so that what torch's own functions ask of their tensors is not seen.

    Args:
        recorder: Of the pass.
        device: The device of a run; None where there are several, or where stand-ins know their device themselves.
        guard: Keeps the values of memory that leaves torch, where it is written to unseen.
    """

    def __init__(self, recorder: Recorder, device: torch.device | None, guard: WriteGuard) -> None:
        super().__init__()
        self._recorder = recorder
        self._devices = DeviceQuestions(recorder, device)
        # No function has two handlers: the order of these tables does not matter.
        self._handlers: dict[Any, Handler] = {
            **dict.fromkeys(_MAKERS, self._make_empty),
            _TENSOR.new: self._make_new,
            **ValueQuestions(recorder, self._devices, guard).list_handlers(),
        }
        if recorder.stands_in:  # a real run makes such tensors with their values
            self._handlers |= dict.fromkeys((_TENSOR.__getitem__, _TENSOR.__setitem__), self._index)
        if recorder.on_meta:  # other stand-ins have the device of a run
            self._handlers |= self._devices.list_handlers()
        if recorder.below_autograd:  # no tensor has a graph there, and none is a view
            self._handlers |= {**dict.fromkeys(VIEW_QUESTIONS, self._refuse_view), make_dual: self._refuse_dual}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Handle a question; run any other call, on the meta device where it names the device of a run.

        A device that is no keyword argument, as of ``x.to("cuda")``, is the matter of `DeviceQuestions`.
        """
        handle = self._handlers.get(func)
        if handle is not None:
            return handle(Call(func, args, kwargs or {}))
        if any(map(is_wrapper_class, types)) and are_subclasses_asked():  # torch calls the code of the subclass first
            return NotImplemented
        if not kwargs:
            return func(*args)
        return func(*args, **self._devices.redirect(kwargs))

    # What no operator shows -------------------------------------------------------------------------------------------

    def _make_empty(self, call: Call) -> Any:
        """Make memory without writing to it, and note it: code that is not torch's may fill it unseen."""
        result = call.func(*call.args, **self._devices.redirect(call.kwargs))
        self._recorder.origins.note_empty(result)
        return result

    def _make_new(self, call: Call) -> Any:
        """Make a tensor of the type of another by ``x.new(...)``: of a list of values, or of a size, without values."""
        tensor, *values = call.args
        has_values = len(values) == 1 and isinstance(values[0], (list, tuple)) and not isinstance(values[0], torch.Size)
        if not has_values:
            return self._make_empty(call)
        if self._recorder.on_meta and tensor.is_meta:
            return torch.tensor(values[0], dtype=tensor.dtype, device="cpu")
        return call.run()

    def _index(self, call: Call) -> Any:
        """Index a tensor; where an index has sequences, torch makes tensors of them that no operator shows."""
        index, newcomers = call.args[1], self._recorder.origins.newcomers
        parts = index if type(index) is tuple else (index,)
        if all(type(part) in _PLAIN_INDICES for part in parts):
            return call.run()
        newcomers.is_indexing = True
        try:
            return call.run()
        finally:
            newcomers.is_indexing = False

    # What a pass without autograd cannot do: another kind of pass follows ---------------------------------------------

    def _refuse_view(self, call: Call) -> NoReturn:
        """Refuse to tell whether a tensor is a view: in such a pass one that a transform makes is none."""
        self._recorder.refuse(Refusal.VIEW)

    def _refuse_dual(self, call: Call) -> Any:
        """Refuse to give a tensor its derivative along with it; in transforms, which have their own way, do it."""
        if find_transform_level() is None:
            self._recorder.refuse(Refusal.GRADIENTS)
        return call.run()
