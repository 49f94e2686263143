"""Layers of a checkpoint that predict further tokens (MTP), as a separate model: transformers does not have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from profilerkit_predict.checkpoints.formats import WeightKind
from profilerkit_predict.language_models.facts.laws import Passes, find_terms
from profilerkit_predict.language_models.facts.model_cache import CacheGrowth
from profilerkit_predict.language_models.facts.records import ModelFacts, WeightPart
from profilerkit_predict.language_models.facts.weights import LayerWeight, weight_parts
from profilerkit_predict.language_models.facts.work import Law, Term, Work

from .checkpoints import Storage
from .configurations import find_number, find_text_configuration

__all__ = ["add_mtp_layer"]

#: The names in configurations of the number of these layers.
_COUNTS = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers")
#: The weights of the model that an MTP layer shares.
_SHARED = (WeightKind.HEAD, WeightKind.EMBEDDING)
_LIKE_THE_LAST = "layers that predict further tokens are taken to be like the model's last layer, with its cache"


def add_mtp_layer(
    model: Any, facts: ModelFacts, passes: Passes, weights: Sequence[LayerWeight], storage: Storage
) -> ModelFacts:
    """Return a model's facts with a layer that predicts a further token, as a separate model, if it has such a layer.

    It is a layer like the last layer, with a product of twice the features that joins the last layer's output with the
    embedding of the next token; the table and the head are the model's (DeepSeek-V3, section 2.2 of
    https://arxiv.org/abs/2412.19437). The facts only have the number of these layers if the last layer, the width, or
    a token's own work is not known, because the library runs all experts for it.
    """
    count = find_number(find_text_configuration(model.config), *_COUNTS)
    if not count:
        return facts
    facts = replace(facts, mtp_layer_count=count)
    layers, width = facts.sizes.layers, facts.sizes.width
    if not layers or not width or facts.work.unrouted_macs:
        return facts
    last = _find_last_layer(model, layers, passes)
    if last is None:
        return facts
    parts = _list_weights(facts, [weight for weight in weights if _is_inside(weight.layer.path, last)], width, storage)
    layer = replace(
        facts,
        name=f"its own layer {layers:,}",
        parameters=sum(part.elements for part in parts if not part.is_shared),
        weights=parts,
        sizes=replace(facts.sizes, layers=1),
        work=_find_work(facts, passes, last, width),
        cache=_select_cache(facts.cache, index=layers - 1),
        matrices=(),
        traced=None,
        notes=(_LIKE_THE_LAST,),
        mtp_layer_count=0,
    )
    return replace(facts, mtp_layer=layer)


def _list_weights(
    facts: ModelFacts, inside: Sequence[LayerWeight], width: int, storage: Storage
) -> tuple[WeightPart, ...]:
    """Return the weights of the further layer: like the last layer's, the joining product, and the model's own.

    Norms are applied to both inputs of the product, and before the head.
    """
    joined = 2 * width * width
    shared = (replace(part, is_shared=True) for part in facts.weights if part.kind in _SHARED)
    item = facts.element_bytes
    product = WeightPart(WeightKind.MATRIX, joined, joined * item, facts.dtype)
    norms = WeightPart(WeightKind.OTHER, 3 * width, 3 * width * item, facts.dtype)
    return (*weight_parts(inside, storage.formats, storage.packed), product, norms, *shared)


def _find_work(facts: ModelFacts, passes: Passes, last: str, width: int) -> Work:
    """Return the work of the further layer: of the last layer, of the joining product, and of the model's head."""
    prefill = [operator for operator in passes.prefill if _is_inside(operator.layer, last)]
    decode = [operator for operator in passes.decode if _is_inside(operator.layer, last)]
    terms, _ = find_terms(passes._replace(prefill=prefill, decode=decode))
    head = (term for term in facts.work.terms if term.law is Law.LAST)
    latent = facts.work.latent
    if latent is not None:  # index_bytes are those of all layers
        latent = replace(latent, layers=1, index_bytes=latent.index_bytes // latent.layers)
    return Work((*terms, Term(Law.TOKEN, 2 * width * width), *head), latent)


def _select_cache(cache: CacheGrowth, index: int) -> CacheGrowth:
    """Return the parts of a cache that belong to the layer of an index: the first number in their paths."""
    parts = tuple(part for part in cache.parts if _find_number(part.path) == str(index))
    return CacheGrowth(parts, repeats=cache.repeats)


def _find_number(path: str) -> str | None:
    return next(filter(str.isdecimal, path.split(".")), None)


def _find_last_layer(model: nn.Module, layers: int, passes: Passes) -> str | None:
    """Return the path of the last of so many layers that text goes through; None if no list has as many."""
    used = {operator.layer for operator in passes.decode}
    for path, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == layers:
            last = f"{path}.{layers - 1}"
            if any(_is_inside(layer, last) for layer in used):
                return last
    return None


def _is_inside(path: str, layer: str) -> bool:
    return path == layer or path.startswith(f"{layer}.")
