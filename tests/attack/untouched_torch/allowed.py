"""The one table of differences that are expected, each with its reason."""

from __future__ import annotations

from attack_cases import Allowed, Case, find_unexpected

from .harness import find_case_differences

__all__ = ["ALLOWED", "surprises"]


def surprises(case: Case) -> list[str]:
    """Run a case and return in words what differs and is not expected."""
    return find_unexpected(case, find_case_differences(case), ALLOWED)


_OUTPUT = "output afterwards"
ALLOWED: tuple[Allowed, ...] = (
    Allowed(
        "an evaluation runs the model as often as its data ask for, without keeping copies of the parameters: what "
        "forward writes to them stays, with a ModelChangedWarning",
        ("model*_parameters* values", "model*_parameters* version", _OUTPUT),
        models=("moving_average", "swaps_data"),
        calls=("evaluation*", "get_*", "eval_loss"),
    ),
    Allowed(
        "the guard against writes is there for the first timed pass; a fault that changes parameters later is warned "
        "of, with a ModelChangedWarning",
        ("model*_parameters* values", "model*_parameters* version", _OUTPUT),
        faults=("changes_parameters@*",),
    ),
    Allowed(
        "the same, where the parameters are those of a scripted model",
        ("model*.weight values", "model*.weight version", _OUTPUT),
        models=("scripted",),
        faults=("changes_parameters@*",),
    ),
    Allowed(
        "buffers that the model makes longer have their values and sizes back, in memory that torch has moved",
        ("model*_buffers* address",),
        models=("observed_for_quantisation",),
    ),
    Allowed(
        "torch.compile marks the weights of a model that it compiles anew in the caller's own steps",
        ("model*_parameters*.__dict__*", "model*_buffers*.__dict__*"),
        models=("compiled*",),
        calls=("watched_loop", "watched_steps"),
    ),
    Allowed(
        "torch.compile writes TORCHINDUCTOR_CACHE_DIR into the environment where it is not set, in a plain call too",
        ("process environment",),
        calls=("profile_compiled",),
    ),
    Allowed(
        "torch.compile starts the monitor of tqdm, a daemon thread, in a plain call too",
        ("process threads",),
        calls=("profile_compiled",),
    ),
    Allowed(
        "the same, by the caller's own torch.compile around the call",
        ("process environment",),
        contexts=("compiled",),
    ),
    Allowed(
        "the batches of an evaluation are the caller's, and what his model writes to them is his own doing",
        ("inputs*", "gradients of a pass from before", _OUTPUT),
        models=("changes_its_input",),
        calls=("evaluation*", "get_*", "eval_loss"),
    ),
)
