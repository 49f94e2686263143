"""Values that are made when they are read; in every other respect a dict of them."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from profilerkit.piping.values import Values

WHOLE = {"macs": 16, "table": "a text", "flops": 34}


def made() -> tuple[Values, list[str]]:
    calls: list[str] = []

    def write() -> str:
        calls.append("table")
        return "a text"

    return Values({"macs": 16, "table": None, "flops": 34}, {"table": write}), calls


@pytest.mark.parametrize("read", [len, list, bool, Values.keys, lambda v: "table" in v, lambda v: v["macs"]])
def test_what_does_not_read_it_does_not_make_it(read: Callable[[Values], Any]) -> None:
    values, calls = made()
    read(values)
    assert calls == []


def _update(target: dict[str, Any], values: Values) -> dict[str, Any]:
    target.update(values)
    return target


READS: dict[str, tuple[Callable[[Values], Any], Any]] = {
    "an item": (lambda v: v["table"], "a text"),
    "get": (lambda v: v.get("table"), "a text"),
    "get of none": (lambda v: v.get("other", 1), 1),
    "pop": (lambda v: v.pop("table"), "a text"),
    "pop of none": (lambda v: v.pop("other", 1), 1),
    "popitem": (lambda v: v.popitem(), ("flops", 34)),
    "setdefault": (lambda v: (v.setdefault("table", 1), v["table"])[1], "a text"),
    "values": (lambda v: list(v.values()), [16, "a text", 34]),
    "items": (lambda v: list(v.items()), list(WHOLE.items())),
    "a dict of it": (dict, WHOLE),
    "unpacked": (lambda v: {**v}, WHOLE),
    "updated": (lambda v: _update({}, v), WHOLE),
    "joined": (lambda v: v | {"more": 1}, {**WHOLE, "more": 1}),
    "joined to": (lambda v: {"more": 1} | v, {"more": 1, **WHOLE}),
    "compared": (lambda v: v == WHOLE, True),
    "compared, the other way round": (lambda v: v == WHOLE, True),
    "told apart": (lambda v: v != WHOLE, False),
    "shown": (repr, repr(WHOLE)),
    "json": (lambda v: json.loads(json.dumps(v)), WHOLE),
    "json, with indent": (lambda v: json.loads(json.dumps(v, indent=1)), WHOLE),
    "copied": (lambda v: v.copy(), WHOLE),
    "copied by copy": (copy.copy, WHOLE),
    "copied deeply": (copy.deepcopy, WHOLE),
    "pickled": (lambda v: pickle.loads(pickle.dumps(v)), WHOLE),
    "split": (lambda v: v["table"].split(), ["a", "text"]),
    "printed": (lambda v: f"{v['table']}", "a text"),
}


@pytest.mark.parametrize("read", READS)
def test_every_way_to_read_it_finds_it(read: str) -> None:
    values, calls = made()
    look, expected = READS[read]
    assert look(values) == expected
    assert len(calls) <= 1


def test_it_is_made_once_and_not_where_it_was_replaced() -> None:
    values, calls = made()
    assert [values["table"], values["table"]] == ["a text"] * 2
    assert calls == ["table"]
    values, calls = made()
    values["table"] = 1
    assert (values["table"], calls) == (1, [])
    values, calls = made()
    del values["table"]
    assert (dict(values), calls) == ({"macs": 16, "flops": 34}, [])
