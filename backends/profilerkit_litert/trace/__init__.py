"""One pass over the graphs of a file, on shapes alone: shapes, operators and their work."""

from __future__ import annotations

from . import computed_shapes, moved_shapes

#: The modules with the rules for shapes, which register them in `shapes`.
RULES = (computed_shapes, moved_shapes)

__all__ = ["RULES"]
