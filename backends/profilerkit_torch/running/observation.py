"""The multiply-accumulates of a pass on real tensors, which are compared with the static trace.

A pass without gradients shows operators after torch has taken composite ones apart, the static pass mostly before. So
the operators are not compared, but the multiply-accumulates: by the formulas they are the same either way.
"""

from __future__ import annotations

from typing import Any

from profilerkit.trace.observed_runs import ObservedRun

from ..compat.modes import TorchDispatchMode, WatchingMode
from ..compat.operators import HigherOrderOperator, find_operator
from ..costs import Kind, are_as_shipped, classify, op_cost
from ..trace.operator_facts import run_parts, tensors_in
from ..untouched.write_guard import WriteGuard

__all__ = ["Observation", "ObservingGuard"]

#: Operators of these kinds multiply and add nothing.
_WITHOUT_MACS = frozenset((Kind.VIEW, Kind.FREE, Kind.POINTWISE, Kind.REDUCTION))


#: Attention and encoder layers that torch runs as one operator if possible.
_FUSED_LAYERS = (
    find_operator("aten._transformer_encoder_layer_fwd.default"),
    find_operator("aten._native_multi_head_attention.default"),
)


class Observation(WatchingMode):
    """While it is active, adds up the multiply-accumulates of each operator by its formula.

    The sum is unknown after an operator that takes functions, has no formula, or has a formula that fails. It is also
    unknown if the user has formulas for operators of torch: they may not fit the operators that torch makes of these.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.macs: int | None = 0
        self._is_comparable = are_as_shipped()

    def begin(self) -> None:
        """Set the sum to zero."""
        self.macs = 0

    def run(self, name: str) -> ObservedRun:
        """Return the sum since `begin`, as a run with a name."""
        return ObservedRun(name, self.macs if self._is_comparable else None)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator and add its cost."""
        return self.observe(self, func, args, kwargs or {})

    def observe(self, mode: TorchDispatchMode, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator that this mode or another mode has received, and add its cost."""
        kind = Kind.UNKNOWN if isinstance(func, HigherOrderOperator) else classify(func)
        if kind in _WITHOUT_MACS:
            return func(*args, **kwargs)
        if kind is Kind.COMPOSITE:
            result = run_parts(mode, func, args, kwargs)
            if result is not NotImplemented:
                return result
            kind = Kind.UNKNOWN
        result = func(*args, **kwargs)
        if self.macs is not None:
            macs = None if kind is Kind.UNKNOWN else _count_macs(func, kind, args, kwargs, result)
            self.macs = None if macs is None else self.macs + macs
        return result


def _count_macs(func: Any, kind: Kind, args: Any, kwargs: Any, result: Any) -> int | None:
    """Return the multiply-accumulates of a call; None if they are unknown, as of layers that leave padding out."""
    if func in _FUSED_LAYERS and any(tensor.is_nested for tensor in tensors_in(args)):
        return None
    try:
        cost = op_cost(func, kind, args, kwargs, result)
    except MemoryError:
        raise
    except Exception:  # any error of a formula or a subclass of tensors: the trace reports it
        return None
    return None if cost is None else int(cost.macs)


class ObservingGuard(WriteGuard):
    """A guard that adds up the costs of operators, and notices the tensors that they write to."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.observation: Observation = Observation()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator, keep the values that it overwrites, and add its cost."""
        kwargs = kwargs or {}
        self.watch(func, args, kwargs)
        return self.observation.observe(self, func, args, kwargs)
