"""Which cases there are: all models with all calls; every fault; every context."""

from __future__ import annotations

from attack_cases import NO_CONTEXT, NO_FAULT, Case
from attack_sampling import WHOLE

from .calls import CALLS
from .contexts import CONTEXTS
from .faults import FAULTS
from .harness import model_names

__all__ = ["WITH_CONTEXTS", "WITH_FAULTS", "WITH_NOTHING_WRONG", "light"]

#: What these calls do covers most of what the others do.
FEW = ("static_profile", "default_profile", "metric_training_time", "metric_layer_times", "evaluation")
#: One model of each kind: batch norm in training, a scripted one, hooks, caches, buffers that change, values asked for.
KINDS = ("plain", "scripted", "hooks_on_parameters", "slots", "running_statistics", "asks_for_values", "lazy")

WITH_NOTHING_WRONG = [Case(model, call) for model in model_names() for call in CALLS]
WITH_FAULTS = [
    *(Case("plain", call, fault) for call in CALLS for fault in FAULTS),
    *(Case(model, call, fault) for model in KINDS[1:] for call in FEW for fault in FAULTS),
]
_CONTEXTS = [context for context in CONTEXTS if context != NO_CONTEXT]
WITH_CONTEXTS = [
    *(Case("plain", call, NO_FAULT, context) for call in CALLS for context in _CONTEXTS),
    *(Case(model, call, NO_FAULT, context) for model in KINDS[1:] for call in FEW for context in _CONTEXTS),
    *(Case(model, "static_profile", NO_FAULT, context) for model in model_names() for context in _CONTEXTS),
    *(Case("plain", call, fault, context) for call in FEW[:3:2] for fault in FAULTS[::2] for context in _CONTEXTS),
]

#: Models and calls that take seconds before they begin.
_HEAVY = ("transformers_", "compiled", "exported", "quantised_statically", "orthogonal")


def light(cases: list[Case]) -> list[Case]:
    """Return the cases from which a sample is taken: all of them where it is the whole that is run."""
    if WHOLE:
        return cases
    return [case for case in cases if not case.model.startswith(_HEAVY) and case.call != "profile_compiled"]
