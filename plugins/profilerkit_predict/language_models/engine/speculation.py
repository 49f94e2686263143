"""Speculative decoding: drafted tokens, how many of them a step accepts, and the drafter."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from profilerkit.arguments.checks import at_least, between
from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError, InputError

from ...checkpoints.formats import WeightKind
from ..facts.model_cache import CacheGrowth
from ..facts.records import ExecutionModel, ModelFacts, WeightPart
from ..facts.work import Law, Term, Work
from .layout import Layout
from .step import Step
from .step_cost import StepCost

#: The value of ``draft=`` for layers of the model itself that predict further tokens.
_OWN_HEADS = "mtp"


@dataclass(frozen=True, slots=True)
class Speculation:
    """Tokens that are drafted for each step, which checks all of them and makes one more.

    Attributes:
        draft_tokens: How many tokens are drafted for a step, one after the other; 0 if none are.
        acceptance: The probability that a drafted token is accepted if all drafted tokens before it were.
        drafter: The cost of a step of the drafter, for one token; None if it is not counted.
        drafters: The number of drafters, such as layers that take turns: each has its weights and its cache, and reads
            the prompts.
        stages: The stages of the model, the last of which drafts.
    """

    draft_tokens: int
    acceptance: float
    drafter: StepCost | None = None
    drafters: int = 1
    stages: int = 1

    @property
    def tokens_per_step(self) -> float:
        """How many tokens a step makes on average: one, and each drafted one as long as all before it are accepted.

        ``(1 - a ** (k + 1)) / (1 - a)`` for ``k`` tokens of acceptance ``a``.

        >>> Speculation(3, 0.5).tokens_per_step
        1.875
        """
        return self.count_tokens(self.draft_tokens)

    def count_tokens(self, drafted: int) -> float:
        """Return how many tokens a step makes on average for which so many are drafted."""
        return sum(self.acceptance**count for count in range(drafted + 1))

    def count_drafted(self, cached: int, longest_context: int | None) -> int:
        """Return how many tokens are drafted after so many: fewer just before the longest context of the model.

        >>> [Speculation(3, 0.5).count_drafted(cached, longest_context=100) for cached in (50, 97, 99)]
        [3, 2, 0]
        """
        return self.draft_tokens if longest_context is None else min(self.draft_tokens, longest_context - cached - 1)

    def draft(self, batch: int, cached: int) -> Step | None:
        """Return the step that drafts one token for each sequence that is in the last stage at the same time.

        None if drafting is not counted.
        """
        return None if self.drafter is None else self.drafter(math.ceil(batch / self.stages), 1, cached)

    def draft_prompts(self, batch: int, new_tokens: int, cached: int) -> Step | None:
        """Return the pass of all drafters over so many prompts; None if drafting is not counted."""
        return None if self.drafter is None else self.drafter(batch, new_tokens, cached).repeat(self.drafters)

    def with_uniform_routing(self) -> Speculation:
        """Return the same with a drafter whose tokens choose experts at random."""
        return replace(self, drafter=self.drafter and replace(self.drafter, has_uniform_routing=True))

    def list_stage_bytes(self, context: int, batch: int, layout: Layout) -> list[float]:
        """Return the bytes of all drafters on a device in each stage of a pipeline: weights and cache.

        Drafters are in the last stage whole, with a copy of the model's table, which is in the first stage.
        """
        stages = [0.0] * layout.pipeline
        if self.drafter is None:
            return stages
        (of_one,) = self.drafter.list_stage_bytes(context, batch, replace(layout, pipeline=1))
        stages[-1] = self.drafters * sum(of_one)
        for part in self.drafter.facts.weights:
            if part.is_shared and part.kind is WeightKind.EMBEDDING and layout.pipeline > 1:
                stages[-1] += part.count_bytes(self.drafter.weights) / layout.tensor
        return stages


#: Steps that check no drafted token, and make one each.
NOTHING_DRAFTED = Speculation(0, 0.0)


def read_speculation(draft_tokens: Any, acceptance: Any, draft: Any = None) -> Speculation:
    """Return the speculation of the first two arguments.

    Raises `ArgumentError` for some of them without the others.
    """
    if draft_tokens is None and acceptance is None and draft is None:
        return NOTHING_DRAFTED
    if draft_tokens is None or acceptance is None:
        lacking = "draft_tokens" if draft_tokens is None else "acceptance"
        raise ArgumentError(
            f"{lacking} is missing: speculation needs draft_tokens (--draft-tokens), the tokens that are drafted for a "
            "step, and acceptance (--acceptance), the share of them that is accepted"
        )
    share = between(0, 1, "the share of drafted tokens that is accepted, from 0 to 1")
    return Speculation(at_least(1)("draft_tokens", draft_tokens), float(share("acceptance", acceptance)))


def find_drafter(draft: Any, facts: ModelFacts, follow: Callable[[Any], ModelFacts]) -> ModelFacts | None:
    """Return the drafter that ``draft`` names, whose facts ``follow`` finds if it is a model; None if not counted."""
    if draft is None:
        return None
    parameters = read_parameters(draft)
    if parameters is not None:
        return make_drafter(facts, parameters)
    if draft == _OWN_HEADS:
        return _require_own_layer(facts)
    drafter = follow(draft)
    if drafter.unknown_storage:
        raise InputError(f"draft: {drafter.name} is stored in a format whose bytes are not known; give another model")
    if drafter.is_encoder_decoder:
        raise InputError(f"draft: {drafter.name} is an encoder-decoder; give a model that has a decoder alone")
    return drafter


def _require_own_layer(facts: ModelFacts) -> ModelFacts:
    """Return a model's own layer that predicts a further token; raises `InputError` if it has none that is counted."""
    if facts.mtp_layer is not None:
        return facts.mtp_layer
    reason = "names no layers that predict further tokens (num_nextn_predict_layers)"
    if facts.mtp_layer_count:
        reason = (
            f"names layers that predict further tokens ({facts.mtp_layer_count:,}), but the work of the layer that "
            "they are like is not known"
        )
    raise InputError(
        f"draft='mtp' (--draft mtp): the configuration of {facts.name} {reason}; give the number of parameters that "
        "draft a token, or a model"
    )


def add_drafter(speculation: Speculation, cost: StepCost, drafter: ModelFacts | None) -> Speculation:
    """Return a speculation with the cost of the drafter, which shares the engine of the model, and its last stage.

    vLLM too puts a drafter on the last stage whole, however many layers it has (``gpu_model_runner.py``). A drafter has
    its stored format, no adapters and no images. The model's own layers have the format of the model, and each drafts
    one token of a step: layers beyond the drafted tokens are left out, and fewer layers take turns.
    """
    if drafter is None:
        return speculation
    last_stage, is_own_layer = replace(cost.layout, pipeline=1), drafter is cost.facts.mtp_layer
    weights = cost.weights if is_own_layer else None
    return replace(
        speculation,
        drafter=replace(cost, facts=drafter, layout=last_stage, weights=weights, adapters=None, inputs=()),
        drafters=min(cost.facts.mtp_layer_count, speculation.draft_tokens) if is_own_layer else 1,
        stages=cost.layout.pipeline,
    )


def read_parameters(draft: Any) -> int | None:
    """Return the parameters that ``draft`` gives as a number or its text, "250e6"; None for anything else.

    Raises `ArgumentError` for a number that is none of parameters.
    """
    try:
        number = float(draft) if isinstance(draft, (str, int, float)) and not isinstance(draft, bool) else None
    except ValueError:
        return None
    if number is None:
        return None
    if not number >= 1 or not number.is_integer():  # nor are "nan" and "inf"
        raise ArgumentError(f"draft={shown(draft)}: give the parameters that draft a token, a whole number from 1")
    return int(number)


def make_drafter(facts: ModelFacts, parameters: int) -> ModelFacts:
    """Return heads of so many parameters, each of which multiplies every token, as a model without a cache."""
    part = WeightPart(WeightKind.MATRIX, parameters, parameters * facts.element_bytes, facts.dtype)
    return ModelFacts(
        name="heads of a size that was given",
        execution=ExecutionModel("engine", "a number of parameters"),
        parameters=parameters,
        weights=(part,),
        dtype=facts.dtype,
        sizes=replace(facts.sizes, layers=0),
        work=Work((Term(Law.TOKEN, parameters),)),
        cache=CacheGrowth(()),
    )
