"""Which plans outlive a trace, and which are used in it alone.

Plans of torch's own operators are kept from one trace of a process to the next, because models share operators: a model
that is profiled again, the model that it is compared with, the next model of a family. A plan depends on its signature,
the device of the model, the formulas and the constants of the convention.

Other plans are used in one trace alone. A user's formula may read anything: if one is registered, no plan is kept.
Another library may give its operators other kernels: their plans are not kept either.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import torch

from profilerkit.costs import convention

from ..costs import are_as_shipped
from .plans import Plan

__all__ = ["PlanStore", "find_plans"]

#: Types of the parts of a key that are no objects of the user.
_PLAIN = frozenset(
    (
        *(int, float, complex, bool, str, type, type(None), tuple),
        *(torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format),
    )
)
#: The most plans of one device: they are some ten megabytes; the operators of a hundred models are fewer.
_MOST = 4096


class PlanStore(NamedTuple):
    """The plans of operators, by their signatures.

    Attributes:
        kept: Plans of torch's own operators, which later traces may share.
        others: All other plans, of this trace alone.
    """

    kept: dict[Any, Plan]
    others: dict[Any, Plan]

    def find(self, key: Any) -> Plan | None:
        """Return the plan of a signature; None where there is none."""
        try:
            plan = self.kept.get(key)
            if plan is None and self.others:
                return self.others.get(key)
        except TypeError:  # something among the arguments has no hash
            return None
        return plan

    def remember(self, func: Any, key: Any, plan: Plan) -> None:
        """Remember the plan of an operator; of one without a signature nothing."""
        if key is None:
            return
        try:
            (self.kept if _may_be_kept(func, key) else self.others)[key] = plan
        except TypeError:
            return
        if len(self.kept) > _MOST:
            self.kept.clear()


class _Shared(NamedTuple):
    """The conditions of plans that traces share, beside the signature: the model's device, and the convention."""

    device: torch.device | None
    numbers: tuple[Any, ...]


_plans: dict[_Shared, dict[Any, Plan]] = {}
_read_numbers = attrgetter(*(name for name in vars(convention) if name.isupper()))


def find_plans(device: torch.device | None) -> PlanStore:
    """Return the plans for a trace on the meta device of a model that would run on another one."""
    if not are_as_shipped():  # a formula of the user's
        return PlanStore({}, {})
    return PlanStore(_plans.setdefault(_Shared(device, _read_numbers(convention)), {}), {})


def _may_be_kept(func: Any, key: Any) -> bool:
    """Return whether a plan with this key may be kept for as long as the process lives.

    Another library may give its operators other kernels, and an object of the user's would be kept alive.
    """
    return key is not None and func.namespace == "aten" and _PLAIN.issuperset(map(type, key))
