"""The time of a rank's training step on a device: of its work, and of its collectives by the links between devices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from profilerkit import ModelTrace, Noted, Partial, Unavailable
from profilerkit.arguments.checks import Check, at_least, positive
from profilerkit.backend import Backend
from profilerkit.devices import DeviceInfo, DeviceInfoLike, UnknownPeakError, device
from profilerkit.errors import ArgumentError
from profilerkit.piping.function import Keys
from profilerkit.trace.bounds import Bounds

from ..predicted_time import PredictingFunction
from ..prediction import NothingToPredictError, Prediction, predict_trace
from ..rank_metrics import TIMES, CollectiveTime, ExposedTime, RankStepTime
from .layout import RankModel
from .records import Collective, RankTrace

NETWORK: Check = positive("network=50e9, bytes per second of each device").or_none()
RANKS_PER_NODE: Check = at_least(1)
_UNKNOWN_NETWORK = "the network between nodes, which is not known (give its bytes per second and device: network=50e9)"


@dataclass(frozen=True)
class Links:
    """The links between the devices of a mesh whose ranks are numbered through the nodes."""

    #: The sizes of the mesh's dimensions by name, the outermost first.
    mesh: Mapping[str, int]
    rank: int
    #: Bytes per second from a device to others of its node, in one direction.
    link: float
    #: Bytes per second from a device to other nodes; None if not known.
    network: float | None
    ranks_per_node: int

    def count_partners(self, collective: Collective) -> tuple[int, int]:
        """Return how many ranks take part in a collective, and how many of them are in this rank's node."""
        partners = collective.list_partners(self.rank, self.mesh)
        node = self.rank // self.ranks_per_node
        return len(partners), sum(rank // self.ranks_per_node == node for rank in partners)

    def list_unknown(self, collectives: Iterable[Collective]) -> tuple[str, ...]:
        """Return the unknown links that some of the collectives use, in words."""
        in_nodes = all(ranks == in_node for ranks, in_node in map(self.count_partners, collectives))
        return () if in_nodes or self.network is not None else (_UNKNOWN_NETWORK,)

    def find_seconds(self, collective: Collective) -> float:
        """Return the least seconds that a collective takes; if the network is not known, the seconds of the link alone.

        In a ring, the data leave a node through all of its participating devices, each with its share. In an
        all-to-all, each other device gets an equal part; parts for other nodes leave through this device's own network
        link.
        """
        ranks, in_node = self.count_partners(collective)
        sent = collective.sent_bytes
        if in_node == ranks or self.network is None:
            return sent / self.link
        if collective.kind == "all-to-all":
            to_one = sent / (ranks - 1)
            return max(to_one * (in_node - 1) / self.link, to_one * (ranks - in_node) / self.network)
        return max(sent / self.link if in_node > 1 else 0.0, sent / (in_node * self.network))


class UnknownLinkError(ArgumentError):
    """A rank exchanges something, and how fast the link of its device is is not known."""


def find_links(
    step: RankTrace, target: DeviceInfo, mesh: Mapping[str, int], rank: int, network: float | None, ranks_per_node: int
) -> Links:
    """Return the links of the devices of a rank's step; raises `UnknownLinkError` if it uses an unknown link."""
    if step.collectives and target.link is None:
        raise UnknownLinkError(
            f"the bandwidth between devices of {target.name} is not known; add link_bandwidth to its file"
        )
    return Links(mesh, rank, (target.link or math.inf) / 2, network, ranks_per_node)


class ComputeRankTime(PredictingFunction):
    """Predicts the time of a rank's step on a device, from its trace. Computed only if a device is given."""

    KEYS: ClassVar[Keys] = TIMES
    CHECKS: ClassVar[Mapping[str, Check]] = {"network": NETWORK, "ranks_per_node": RANKS_PER_NODE}
    COMPUTED_WITH: ClassVar[tuple[str, ...]] = ("on",)

    def __call__(
        self,
        model: RankModel,
        backend: Backend,
        training_trace: ModelTrace,
        on: DeviceInfoLike | None = None,
        dtype: str | None = None,
        network: float | None = None,
        ranks_per_node: int = 8,
    ) -> dict[str, Any]:
        """Return the seconds.

        Args:
            model: One rank's share of a model.
            backend: Its backend.
            training_trace: The trace of a training step of the rank.
            on: The device of each rank: a `DeviceInfo`, a name, or the path of a file.
            dtype: The dtype of matrix products. Default: the dtype in the trace.
            network: Bytes per second between nodes, of each device in one direction; 400 Gbit/s are 50e9.
            ranks_per_node: How many devices a node has.
        """
        step: RankTrace = backend.step  # type: ignore[attr-defined]
        if on is None:
            return _give_no_time("no device was given; give one: on='h100'")
        target = device(on)
        try:
            links = find_links(step, target, model.mesh, model.rank, network, ranks_per_node)
            work = predict_trace(training_trace, target, dtype=dtype)
        except (UnknownLinkError, UnknownPeakError, NothingToPredictError) as error:
            return _give_no_time(str(error))
        return _predict(work, step.collectives, links)


def _give_no_time(reason: str) -> dict[str, Any]:
    """Return each metric as unavailable."""
    return dict.fromkeys((metric.NAME for metric in TIMES), Unavailable(reason))


def _predict(work: Prediction, collectives: Iterable[Collective], links: Links) -> dict[str, Any]:
    """Return the values, as bounds if the device is known by its data sheet.

    Collectives that overlap run beside the work; for all others the work waits.
    """
    seconds = {collective: links.find_seconds(collective) for collective in collectives}
    beside = sum(took for collective, took in seconds.items() if collective.overlaps)
    waited = sum(took for collective, took in seconds.items() if not collective.overlaps)
    missing = links.list_unknown(seconds)
    in_collectives = beside + waited
    exposed = waited + max(0.0, beside - work.seconds)
    value = waited + max(work.seconds, beside)
    low = waited + max(work.low, beside)
    high = None if work.high is None or missing else waited + max(work.high, beside)
    is_bound = work.estimate is None
    of_work = "what the device does not reach of its peaks" if is_bound else "predicted, not measured"
    of_links = "what the links do not reach of their bandwidth"
    note = f"on {work.device.name} ({work.tier}), {work.seconds:.3g} s of work"
    return {
        RankStepTime.NAME: Noted(Partial(value, (of_work, *missing), Bounds(low, high)), note),
        CollectiveTime.NAME: Partial(in_collectives, (of_links, *missing), Bounds(in_collectives, None)),
        ExposedTime.NAME: Partial(exposed, (of_work, *missing), Bounds(waited, None)),
    }
