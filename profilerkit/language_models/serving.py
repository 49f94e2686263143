"""What a device makes of a language model at one batch size: bounds of its times, and of its tokens per second."""

from __future__ import annotations

from dataclasses import dataclass

from .step_cost import Step, StepCost

__all__ = ["ASSUMPTIONS", "Serving", "serving"]

#: What holds for every predicted time, in words.
ASSUMPTIONS = (
    "times are lower bounds: the greater of products at the dense peak and compulsory bytes at the bandwidth; "
    "no launch, host or communication",
    "attention of the engine counts as attended: causal, and inside the window; as written it counts in full",
    "no queue, no continuous batching: all prompts of a batch start together and have the same length",
    "routing of experts is taken to be uniform",
)


@dataclass(frozen=True, slots=True)
class Serving:
    """The predictions for one batch size; all of the execution model "engine".

    Attributes:
        batch: Sequences.
        prompt: Tokens of each prompt.
        new: Tokens that are generated for each.
        prefill: The step over the prompts.
        decode: The last step, with the longest cache.
        time_to_first_token: Seconds of the prefill; None if a figure of the device is not known.
        time_per_output_token: The mean seconds of a later step; None also if there is none.
        decode_tokens_per_second: Tokens of all sequences in a second of decoding.
        tokens_per_second: New tokens of all sequences over the whole time.
        cache_bytes: Bytes of the paged cache at the end.
        requires_devices: How many devices are needed to hold it; None if that is not known or never enough.
    """

    batch: int
    prompt: int
    new: int
    prefill: Step
    decode: Step
    time_to_first_token: float | None
    time_per_output_token: float | None
    decode_tokens_per_second: float | None
    tokens_per_second: float | None
    cache_bytes: int
    requires_devices: int | None = None


def serving(cost: StepCost, batch: int, prompt: int, new: int, requires_devices: int | None = None) -> Serving:
    """Return the predictions for a batch of prompts, each of which gets so many new tokens.

    The prefill makes the first token, each later step one more: ``new - 1`` steps.
    """
    prefill = cost(batch, prompt, 0)
    steps = [cost(batch, 1, prompt + index) for index in range(new - 1)]
    seconds = [step.seconds for step in steps]
    known = [each for each in seconds if each is not None]
    first = prefill.seconds
    later = sum(known) / len(known) if known and len(known) == len(steps) else None
    total = None if first is None or (steps and later is None) else first + (later or 0.0) * len(steps)
    return Serving(
        batch,
        prompt,
        new,
        prefill,
        steps[-1] if steps else prefill,
        first,
        later,
        batch / later if later else None,
        batch * new / total if total else None,
        cost.cache_bytes(prompt + new - 1, batch),
        requires_devices,
    )
