"""The passes of a program in a profiler session, with the place of each node that ran, by layers and directions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from profilerkit import ModelInputs

from ..operator_timing.events import PassTimes, op_seconds
from ..operator_timing.node_owners import NodeOwners, NodePlace, XlaCall
from ..operator_timing.profiled_programs import fresh_call
from ..trace.program import Program

__all__ = ["TimedPasses", "time_passes"]


@dataclass(frozen=True)
class TimedPasses:
    """The passes of a program; a pass may lack nodes that another has.

    Attributes:
        passes: The seconds of the nodes, pass by pass.
        places: Where each node belongs, by the name under which it ran.
        compiled: The calls of functions that XLA compiles, whose nodes are not seen.
    """

    passes: Sequence[PassTimes]
    places: Mapping[str, NodePlace]
    compiled: AbstractSet[XlaCall]

    def sum_by_layer(self, backward: bool) -> list[Mapping[str, float]]:
        """Return the seconds of each layer in one direction, pass by pass."""
        sums: list[Mapping[str, float]] = []
        for times in self.passes:
            seconds: defaultdict[str, float] = defaultdict(float)
            for name, node in times.nodes.items():
                if self.places[name].backward == backward:
                    seconds[self.places[name].owner.path] += node.share_seconds
            sums.append(seconds)
        return sums

    def list_places(self, backward: bool) -> Iterable[NodePlace]:
        """Return the places of the nodes of one direction."""
        return [node_place for node_place in self.places.values() if node_place.backward == backward]


def time_passes(
    owners: NodeOwners, program: Program, inputs: ModelInputs, passes: int, synchronized: bool
) -> TimedPasses:
    """Run a program so many times in one profiler session; return the seconds of its nodes, and where each belongs.

    ``synchronized`` says whether a pass is over only when the device is done, as on a GPU.
    """
    timed = op_seconds(fresh_call(program, inputs, synchronized), passes)
    places: dict[str, NodePlace] = {}
    for times in timed:
        places.update(owners.locate(times))
    compiled = owners.find_compiled()  # in the functions that the nodes located before have led to
    return TimedPasses(timed, places, compiled)
