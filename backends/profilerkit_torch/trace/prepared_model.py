"""A model with its stand-ins and inputs: the bytes alive before it runs, and the known values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

import torch

from profilerkit import ModelInputs

from ..costs import is_plain
from ..model.inventory import Inventory
from ..model.packed_weights import list_beside_packed
from ..model.storages import storage_key
from ..model.tensors import PLAIN_TYPES, list_wrapped
from ..model.weights import list_viewed_bytes
from ..untouched.mutable_inputs import InputObjects, list_input_tensors
from .live_bytes import INPUT, LiveBytes
from .pass_record import PassRecord

__all__ = ["AliveBytes", "PreparedModel", "count_alive", "has_unread", "share_values"]


class PreparedModel(NamedTuple):
    """A model with stand-ins in it, and its inputs.

    Attributes:
        inventory: The inventory of the model; of a lazy model with the weights that it has made now.
        stand_ins: The stand-in of each tensor of the model, by the ``id`` of the tensor; empty in a real run.
        inputs: The inputs with their stand-ins.
        user_inputs: The inputs as the user gave them. Tensors in objects among them have no stand-ins.
    """

    inventory: Inventory
    stand_ins: dict[int, torch.Tensor]
    inputs: ModelInputs
    user_inputs: InputObjects


class AliveBytes(NamedTuple):
    """The bytes alive before the first operator, without those of weights.

    Attributes:
        of_model: Bytes of tensors that the model holds beside its weights (tables, caches), which stay like weights.
        of_inputs: Bytes of the inputs.
    """

    of_model: int
    of_inputs: int


def count_alive(recorder: PassRecord, prepared: PreparedModel) -> AliveBytes:
    """Tell the recorder the tensors that are alive before the first operator, and return their bytes.

    The tensors of the model are of three groups. Parameters, buffers and what packed layers keep beside them are the
    weights: a trace has their bytes beside the bytes alive, so the recorder counts them as 0. Other tensors may be
    views of weights. A view has no bytes of its own, but its stand-in does not share the memory of the weight's
    stand-in, so it would count as one more tensor: it is added among the weights too. The bytes of all further tensors
    (tables, caches) are ``of_model``.

    What was ``made`` for the pass, a stand-in or a copy of an input, should be gone after it; the user's tensors stay.
    """
    inventory = prepared.inventory
    beside = [list_beside_packed(module).values() for module, _ in inventory.further_attributes]
    weights = [*inventory.parameters, *inventory.buffers, *chain.from_iterable(beside)]
    others = [tensor for tensor in inventory.attributes if id(tensor) not in inventory.of_training]
    storages = set(map(storage_key, weights)) if others else set()
    views = [tensor for tensor in others if storage_key(tensor) in storages]
    _add_weights(recorder.live, prepared, [*weights, *views])
    of_model = _add_weights(recorder.live, prepared, others)  # a storage that is known already adds nothing
    user_ids = set(map(id, prepared.user_inputs.all_tensors))
    inputs = list_input_tensors(prepared.inputs)
    _add_inputs(recorder.live, [tensor for tensor in inputs if id(tensor) in user_ids], made=False)
    _add_inputs(recorder.live, [tensor for tensor in inputs if id(tensor) not in user_ids], made=True)
    return AliveBytes(of_model, recorder.live.total)


def _add_weights(live: LiveBytes, prepared: PreparedModel, tensors: Iterable[torch.Tensor]) -> int:
    """Count tensors of the model by their stand-ins as 0 bytes; return the bytes of the storages that were new."""
    nbytes = 0
    for tensor in tensors:
        stand_in = prepared.stand_ins.get(id(tensor), tensor)
        parts = [] if type(stand_in) in PLAIN_TYPES else list_wrapped(stand_in)
        for part in parts or [stand_in]:
            nbytes += live.add(part, size=0, made=stand_in is not tensor, is_weight=True)
    return nbytes


def _add_inputs(live: LiveBytes, tensors: Iterable[torch.Tensor], *, made: bool) -> None:
    for part, size in list_viewed_bytes(tensors):
        live.add(part, size, made=made, maker=INPUT)


def has_unread(prepared: PreparedModel) -> bool:
    """Return whether a model or its inputs have sparse or nested tensors: their shapes do not tell what they store.

    They have no stand-ins.
    """
    themselves = [stand_in for number, stand_in in prepared.stand_ins.items() if number == id(stand_in)]
    tensors = [*themselves, *(leaf for leaf in prepared.inputs.leaves() if isinstance(leaf, torch.Tensor))]
    return not all(map(is_plain, tensors))


def share_values(recorder: PassRecord, prepared: PreparedModel, buffers: Iterable[torch.Tensor]) -> None:
    """Tell the recorder the values of stand-ins for buffers and inputs of integers.

    It learns none of tensors that share memory: a write to one stand-in would not change the values of the other.
    """
    pairs = [(prepared.stand_ins.get(id(buffer), buffer), buffer) for buffer in buffers]
    pairs += [
        (stand_in, leaf)
        for leaf, stand_in in zip(prepared.user_inputs.leaves, prepared.inputs.leaves(), strict=True)
        if isinstance(leaf, torch.Tensor)
    ]
    originals = {
        id(stand_in): (stand_in, leaf) for stand_in, leaf in pairs if stand_in is not leaf and _has_integers(leaf)
    }
    sharing = Counter(storage_key(original) for _, original in originals.values())
    for stand_in, original in originals.values():
        if sharing[storage_key(original)] == 1:
            recorder.values.read_from(stand_in, original)


def _has_integers(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has values, and these are integers or booleans."""
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.is_meta)
