"""What `llm` makes of a small configuration of transformers, beside a model with values that runs.

Compared are the parameters, the bytes of the cache at eight lengths, and the multiply-accumulates of a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import transformers
from real_language_models import RealModel

from profilerkit import InputError, llm

__all__ = ["BY_THEIR_TEXT", "CACHED", "LENGTHS", "NAMES", "Counts", "Outcome", "Verdict", "follow", "judge"]

_MAPPINGS: Any = transformers.models.auto.modeling_auto
#: Every type of configuration that generates text.
NAMES = tuple(
    dict.fromkeys(
        (*_MAPPINGS.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *_MAPPINGS.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES)
    )
)
#: Those whose parts cannot be small one by one.
BY_THEIR_TEXT = ("dots3_note",)
#: Below, at and above windows of 8 and chunks of 16, and far away.
LENGTHS = (5, 7, 8, 9, 16, 23, 33, 65)
PROMPT, CACHED = 12, 33


class Verdict(StrEnum):
    """How `llm` does with a configuration."""

    RIGHT = "right"
    BOUND = "lower bound"
    REFUSED = "refused"
    WRONG = "wrong"


class Counts(NamedTuple):
    """Parameters, bytes of the cache after each of `LENGTHS` tokens, and the work of a step after `CACHED` tokens.

    The step of an encoder-decoder is that after its first token.
    """

    parameters: int
    cache: tuple[int, ...]
    step: int


@dataclass(frozen=True)
class Outcome:
    """A verdict with what it is by: the counts of the model that runs, or the reason of a refusal."""

    verdict: Verdict
    counts: Counts | None = None
    reason: str = ""


def follow(config: Any) -> Any:
    """Return the report of a small configuration; of Whisper the prompt is as long as its encoder."""
    prompt = config.max_source_positions if config.model_type == "whisper" else PROMPT
    return llm(config, prompt=prompt, new=4, dtype="fp32")


def judge(config: Any) -> Outcome:
    """Return how `llm` does with a small configuration."""
    try:
        report = follow(config)
    except InputError as error:
        return Outcome(Verdict.REFUSED, None, " ".join(str(error).split()))
    mine, expected = _count_followed(report), _count_real(config, report)
    if mine == expected and _agrees_with_engine(report, mine):
        return Outcome(Verdict.RIGHT, expected)
    is_bound = any("lower bound for longer ones" in note for note in report.facts.notes)
    if is_bound and mine[:2] == expected[:2] and mine.step < expected.step:
        return Outcome(Verdict.BOUND, expected, "the work of a step, which grows with the cache")
    return Outcome(Verdict.WRONG, expected, f"{mine} instead of {expected}")


def _count_followed(report: Any) -> Counts:
    cache = tuple(sum(layer.count_paged_bytes(tokens, 1) for layer in report.facts.cache.parts) for tokens in LENGTHS)
    is_sequence = report.facts.is_encoder_decoder
    step = report.facts.traced.decode.macs if is_sequence else report.cost.as_written(1, 1, CACHED)
    return Counts(report.facts.parameters, cache, step)


def _count_real(config: Any, report: Any) -> Counts:
    real, source = RealModel(config), report.prompt
    cache = tuple(real.count_cache_bytes(tokens, source) for tokens in LENGTHS)
    return Counts(real.parameters, cache, real.count_macs(1, 1 if report.facts.is_encoder_decoder else CACHED, source))


def _agrees_with_engine(report: Any, counts: Counts) -> bool:
    """Return whether an engine's step is the same, where no rewrite makes it smaller."""
    work = report.facts.work
    is_rewritten = work.latent is not None or work.unrouted_macs or any(term.most_attended for term in work.terms)
    return bool(report.facts.is_encoder_decoder or is_rewritten or report.cost(1, 1, CACHED).macs == counts.step)
