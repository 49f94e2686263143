"""The rows of the table of operators, worked out from a trace: one for each call of an operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .bounds import WORK

if TYPE_CHECKING:
    from .records import OpRecord

__all__ = ["TRAFFIC", "list_operator_rows", "read_work"]

#: The columns of bytes that an operator moves.
TRAFFIC = ("bytes_read", "bytes_written")
_COLUMNS = ("operator", "layer", "call", "phase", *WORK, *TRAFFIC)


def list_operator_rows(operators: Sequence[OpRecord], live: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each operator, with the bytes alive after it; of columns that few traces fill, those that do."""
    has_nodes, has_reads = any(op.node for op in operators), any(op.reads for op in operators)
    has_gaps = any(op.missing for op in operators)
    for index, op in enumerate(operators):
        yield {
            **{name: getattr(op, name) for name in _COLUMNS},
            "live_bytes": live[index] if index < len(live) else None,
            **(dict(zip(("graph", "node"), op.node or ("", ""), strict=True)) if has_nodes else {}),
            **({"reads": op.reads} if has_reads else {}),
            **({"missing": op.missing and f"not counted: {op.missing}"} if has_gaps else {}),
        }


def read_work(row: Mapping[str, Any], column: str) -> Any:
    """Return a column of an operator's row; of one that is not counted no MACs and no FLOPs, which are unknown."""
    return None if column in WORK and row.get("missing") else row.get(column)
