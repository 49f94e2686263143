"""Recurrent layers on meta tensors give what torch's own kernel gives there; what it refuses goes to it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from profilerkit_torch.trace.meta_outputs import without_running

RECURRENT = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")


class Both(TorchDispatchMode):
    """Keeps what is known beforehand of each recurrent operator, and what torch's kernel makes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.pairs: list[tuple[Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func._schema.name in RECURRENT:
            self.pairs.append((without_running(func, args, kwargs or {}), result))
        return result


def describe(tensors: Any) -> list[Any]:
    return [(tensor.shape, tensor.stride(), tensor.dtype, tensor.device) for tensor in tensors]


def both(net: nn.Module, x: torch.Tensor, *states: Any) -> tuple[Any, Any]:
    with torch.no_grad(), torch._C._AutoDispatchBelowAutograd(), Both() as seen:
        net(x, *states)
    ((known, made),) = seen.pairs
    return known, made


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lstm", "projected", "gru", "tanh", "relu"])
def test_outputs_are_those_of_torch(kind: str) -> None:
    for two, first, layers, bias, train in product((False, True), (False, True), (1, 3), (False, True), (False, True)):
        options: dict[str, Any] = {"num_layers": layers, "bidirectional": two, "batch_first": first, "bias": bias}
        with torch.device("meta"):
            net: nn.Module = {  # type: ignore[no-untyped-call]
                "lstm": lambda: nn.LSTM(7, 9, **options),  # noqa: B023
                "projected": lambda: nn.LSTM(7, 9, proj_size=5, **options),  # noqa: B023
                "gru": lambda: nn.GRU(7, 9, **options),  # noqa: B023
                "tanh": lambda: nn.RNN(7, 9, **options),  # noqa: B023
                "relu": lambda: nn.RNN(7, 9, nonlinearity="relu", **options),  # noqa: B023
            }[kind]()
            known, made = both(net.train(train), torch.empty(2, 4, 7))
        assert known is not None
        assert describe(known) == describe(made), options


def test_other_dtypes_and_states_of_the_caller() -> None:
    with torch.device("meta"):
        net = nn.GRU(7, 9).to(torch.bfloat16)
        known, made = both(net, torch.empty(2, 4, 7, dtype=torch.bfloat16), torch.empty(1, 4, 9, dtype=torch.bfloat16))
    assert describe(known) == describe(made)


@pytest.mark.parametrize("which", ["features", "states", "weights", "dtype"])
def test_what_does_not_fit_goes_to_torch(which: str) -> None:
    def arguments() -> list[Any]:
        weights = [torch.empty(36, 7), torch.empty(36, 9), torch.empty(36), torch.empty(36)]
        x, states = torch.empty(2, 4, 7), [torch.empty(1, 4, 9), torch.empty(1, 4, 9)]
        return [x, states, weights, True, 1, 0.0, False, False, False]

    with torch.device("meta"):
        good, bad = arguments(), arguments()
        if which == "features":
            bad[0] = torch.empty(2, 4, 8)
        elif which == "states":
            bad[1] = [torch.empty(1, 3, 9), torch.empty(1, 3, 9)]
        elif which == "weights":
            bad[2] = bad[2][:3]
        else:
            bad[0] = bad[0].double()
        assert without_running(torch.ops.aten.lstm.input, good, {}) is not None
        assert without_running(torch.ops.aten.lstm.input, bad, {}) is None
