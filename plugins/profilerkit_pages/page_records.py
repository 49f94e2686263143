"""The contract between the Python code and the scripts of a page: the JSON that the scripts read, key by key.

Conventions: sizes are bytes, times are seconds. A ``list[int]`` of layers or operators holds their places, counted from
0, and -1 for none. Numbers that JSON lacks, such as infinity, are texts (`columns.make_plain`). A ``Packed`` list
is a list, or ``{"of": distinct values, "at": places}`` if this form is shorter (`page_parts.pack`). All text is
visible text, never markup.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypeAlias, TypedDict

#: A list, or its distinct values and the place of each.
Packed: TypeAlias = Any
#: A number, the text of a number that JSON lacks, or None.
Number: TypeAlias = Any


class PageData(TypedDict):
    """All that a page draws."""

    reports: list[ReportData]
    #: For each model beside the first: both models' layers in one tree; None if a model has no layers.
    sides: list[dict[str, Any] | None]


class ReportData(TypedDict):
    """One report."""

    name: str
    backend: str
    #: The inputs in words, such as "(x: float32 [1, 3, 224, 224])".
    inputs: str
    #: The tree of layers, as `layer_tree.describe_layers` makes it; without names if the model was not traced.
    layers: dict[str, Any]
    operators: OperatorData | None
    #: Further tables, as `page_tables.list_tables` makes them.
    tables: list[dict[str, Any]]
    #: None without times of operators.
    timeline: TimelineData | None
    #: None if no memory was followed.
    memory: MemoryData | None
    roofline: RooflineData
    #: By the key of the metric.
    metrics: dict[str, MetricData]
    measurements: list[MeasuredData]


class ColumnData(TypedDict):
    """A column of a table or tree, as `columns.describe_column` makes it."""

    key: str
    title: str
    #: The unit of its numbers: "B", "s"; empty for counts and texts.
    unit: str
    #: How numbers get prefixes: a value of `Scale`.
    scale: str
    #: Whether it has numbers, and not texts.
    numeric: bool
    #: Whether its numbers add up over the layers inside, so that each is a share of the whole.
    share: bool
    #: Whether the column is shown at first; the reader can choose other columns.
    shown: bool
    #: Whether a count of 0 is a dash.
    dashes: bool
    #: An item for each row.
    values: Packed
    #: By the row, the sign and the number of a count that is a bound: ``["≥ ", 12]``; not there without one.
    signed: NotRequired[dict[int, list[Any]]]
    #: The whole that shares are of; absent if it is the first row.
    whole: NotRequired[Number]
    #: Of two models: "" for the reference, "_other", and "_difference".
    suffix: NotRequired[str]


class OperatorData(TypedDict):
    """The operators of the trace, in the order in which they ran: one item of each list for an operator."""

    names: Packed
    #: The place of the layer that ran it.
    layers: Packed
    #: "forward" or "backward".
    phases: Packed
    #: The operators whose results it reads, as the steps back to each: 1 is the operator just before. 0 is an input of
    #: the model. None if it is not known for any operator.
    reads: Packed | None
    #: The work of an operator. It is here only if the operator's layer has other layers inside: the work of all others
    #: is the own work of their layer, in the table of layers already, and they have 0 here.
    macs: Packed
    flops: Packed
    #: One number for each *layer*: layers with the same number are of the same kind, and drawn as repetitions.
    kinds: Packed


class TimelineData(TypedDict):
    """A pass as boxes inside boxes, each after the box around it: phases, layers and operators in the order of time."""

    #: The place of the box around each; -1 for the whole pass.
    parents: list[int]
    names: Packed
    #: The type of the layer, which gives the box its color.
    types: Packed
    #: The place of the layer.
    layers: Packed
    #: The name of the operator; empty for a box around operators.
    operators: Packed
    #: Seconds, MACs, and the reasons why MACs are missing.
    columns: list[ColumnData]


class MemoryData(TypedDict):
    """The bytes that are alive during a pass."""

    #: The sign before the bytes at the peak: "≤ " for an upper bound, empty if they are exact.
    sign: str
    weights: int
    input: int
    #: After each operator, without the weights.
    live: Packed
    #: The operator with the most bytes alive; -1 if the peak is before the first operator.
    peak: int
    #: The parts of the bytes at the peak, in bytes by name.
    parts: dict[str, int]
    note: str
    #: The uncounted parts, a line each.
    missing: list[str]


class RooflineData(TypedDict):
    """The own work of layers in the forward pass: one item of each list for a layer that has work."""

    #: The places of the layers.
    layers: list[int]
    flops: list[int]
    #: Bytes read and written.
    bytes: list[int]
    #: None if the layer was not timed, or its time includes layers inside.
    seconds: list[Number]


class MetricData(TypedDict):
    """A metric as a download has it."""

    #: A number in its base unit, of a measurement the median; a text for other values; None for no value.
    value: Number
    #: Empty for a text.
    unit: str
    completeness: str
    #: The uncounted parts, a line each; absent if nothing is missing.
    missing: NotRequired[list[str]]


class MeasuredData(TypedDict):
    """A metric that was measured, with its samples."""

    key: str
    title: str
    unit: str
    #: How numbers get prefixes such as milli or Mi: a value of `Scale`.
    scale: str
    #: In the order in which they were taken.
    samples: list[Number]
    #: The first samples, which do not count.
    warmup: list[Number]
    #: Both ends of the interval of the median.
    interval: list[Number]
    intervalName: str
    #: By the per cent; None if there are too few samples.
    percentiles: dict[str, Number]
    #: The conditions of the machine, a line each.
    conditions: list[str]
