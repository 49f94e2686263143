"""The time of a rank's training step on a device: of its work, and of its collectives by the links between devices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

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

if TYPE_CHECKING:
    from .rank_backend import RankBackend

NETWORK: Check = positive("network=50e9, bytes per second of each device").or_none()
RANKS_PER_NODE: Check = at_least(1)
_UNKNOWN_NETWORK = "the network between nodes, which is not known (give its bytes per second and device: network=50e9)"
_OF_LINKS = "what the links do not reach of their bandwidth"


class Partners(NamedTuple):
    """How many ranks take part in a collective, this rank among them: all, and those in this rank's node."""

    ranks: int
    in_node: int

    @property
    def elsewhere(self) -> int:
        """How many are in other nodes."""
        return self.ranks - self.in_node


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

    def count_partners(self, collective: Collective) -> Partners:
        """Return how many ranks take part in a collective."""
        partners = collective.list_partners(self.rank, self.mesh)
        node = self.rank // self.ranks_per_node
        return Partners(len(partners), sum(rank // self.ranks_per_node == node for rank in partners))

    def list_unknown(self, collectives: Iterable[Collective]) -> tuple[str, ...]:
        """Return the unknown links that some of the collectives use, in words."""
        leaves_node = any(self.count_partners(collective).elsewhere for collective in collectives)
        return (_UNKNOWN_NETWORK,) if leaves_node and self.network is None else ()

    def find_seconds(self, collective: Collective) -> float:
        """Return the least seconds that a collective takes; if the network is not known, the seconds of the link alone.

        In a ring, the data leave a node through all of its participating devices, each with its share. In an
        all-to-all, each other device gets an equal part; parts for other nodes leave through this device's own network
        link. Both links work at the same time, so that the slower one counts.
        """
        partners, sent = self.count_partners(collective), collective.sent_bytes
        if self.network is None or not partners.elsewhere:
            return sent / self.link
        if collective.kind == "all-to-all":
            part = sent / (partners.ranks - 1)
            by_link, by_network = part * (partners.in_node - 1), part * partners.elsewhere
        else:
            by_link = sent if partners.in_node > 1 else 0
            by_network = sent / partners.in_node
        return max(by_link / self.link, by_network / self.network)


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
        step = cast("RankBackend", backend).step
        if on is None:
            return _give_no_time("no device was given; give one: on='h100'")
        target = device(on)
        try:
            links = find_links(step, target, model.mesh, model.rank, network, ranks_per_node)
            work = predict_trace(training_trace, target, dtype=dtype)
        except (UnknownLinkError, UnknownPeakError, NothingToPredictError) as error:
            return _give_no_time(str(error))
        return _predict(work, step, links)


def _give_no_time(reason: str) -> dict[str, Any]:
    """Return each metric as unavailable."""
    return dict.fromkeys((metric.NAME for metric in TIMES), Unavailable(reason))


def _predict(work: Prediction, step: RankTrace, links: Links) -> dict[str, Any]:
    """Return the values. What the links take beyond their least time is not known, so such a time has no upper end.

    Collectives that overlap run beside the work; for all others the work waits.
    """
    beside = sum(links.find_seconds(collective) for collective in step.collectives if collective.overlaps)
    waited = sum(links.find_seconds(collective) for collective in step.collectives if not collective.overlaps)
    of_work = "what the device does not reach of its peaks" if work.estimate is None else "predicted, not measured"
    of_links = (_OF_LINKS, *links.list_unknown(step.collectives), *step.list_unknown())
    is_alone = not step.collectives and not step.unknown

    step_seconds = waited + max(work.seconds, beside)
    step_bounds = Bounds(waited + max(work.low, beside), work.high if is_alone else None)
    step_missing = (of_work,) if is_alone else (of_work, *of_links)
    note = f"on {work.device.name} ({work.tier}), {work.seconds:.3g} s of work"
    exposed = waited + max(0.0, beside - work.seconds)
    return {
        RankStepTime.NAME: Noted(Partial(step_seconds, step_missing, step_bounds), note),
        CollectiveTime.NAME: Partial(beside + waited, of_links, Bounds(beside + waited, None)),
        ExposedTime.NAME: Partial(exposed, (of_work, *of_links), Bounds(waited, None)),
    }
