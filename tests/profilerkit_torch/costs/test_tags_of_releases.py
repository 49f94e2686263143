"""The table that stands in for the tags of older releases agrees with the tags of the release it was made from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from profilerkit_torch.costs import Kind, classify
from profilerkit_torch.costs.pricing import POINTWISE, REDUCTIONS

HAS_REDUCTION = hasattr(torch.Tag, "reduction")
IS_2_13 = torch.__version__.startswith("2.13.")


def operators(*namespaces: str) -> Iterator[Any]:
    for name in torch._C._dispatch_get_all_op_names():
        space, _, rest = name.partition("::")
        operator, _, overload = rest.partition(".")
        if space in namespaces:
            packet = getattr(getattr(torch.ops, space), operator, None)
            if packet is not None and (overload or "default") in packet.overloads():
                yield getattr(packet, overload or "default")


@pytest.mark.skipif(not IS_2_13, reason="the table is that of torch 2.13")
def test_the_table_of_reductions_is_what_torch_tags() -> None:
    tagged = {func.name() for func in operators("aten", "prims") if torch.Tag.reduction in func.tags}
    assert tagged == REDUCTIONS
    assert len(REDUCTIONS) == 74


@pytest.mark.skipif(not HAS_REDUCTION, reason="this release of torch has no such tag")
def test_no_later_release_takes_a_tag_away() -> None:
    known = list(operators("aten", "prims"))
    tagged = {func.name() for func in known if torch.Tag.reduction in func.tags}
    assert tagged >= REDUCTIONS & {func.name() for func in known}


@pytest.mark.skipif(not IS_2_13, reason="the table is that of torch 2.13")
def test_torch_tags_the_element_wise_operators_of_the_table() -> None:
    tagged = {func.name() for func in operators("aten") if torch.Tag.pointwise in func.tags}
    assert tagged >= POINTWISE


def test_the_operators_of_the_table_are_known_with_and_without_tags() -> None:
    """A formula or a composition goes before a tag; none of them is unknown."""
    kinds = {func.name(): classify(func) for func in operators("aten") if func.name() in REDUCTIONS | POINTWISE}
    assert len(kinds) > 60
    assert Kind.UNKNOWN not in kinds.values()
