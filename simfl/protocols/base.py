"""The base of every protocol."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from simfl.protocols.clock import Process
from simfl.protocols.deadline_policy import DeadlinePolicy
from simfl.protocols.learned_values import LearnedValues, ValueStore
from simfl.protocols.run import Run
from simfl.protocols.timing_only import TimingOnly
from simfl.protocols.wait_for import WaitFor
from simfl.streams import Streams


class Protocol(ABC):
    """A SimPy process that drives a `Run` through its methods.

    It holds keyed handles and never a tensor. It declares the properties that algorithms may
    refuse: `hierarchical`, whether clients belong to edge servers that aggregate for the cloud;
    `overlapping`, whether a server selects clients while others that it has selected are under way;
    `takes_stale_updates` and `most_updates`. `asks` names the decision rules that it uses; the user
    is warned of keys of other rules, which nothing reads.
    """

    name: ClassVar[str]
    hierarchical: ClassVar[bool] = False
    overlapping: ClassVar[bool] = False
    gives_up_edge_servers: ClassVar[bool] = False
    """Whether the cloud stops waiting for an edge server that has crashed."""
    brings_values: ClassVar[bool] = False
    """Whether learned values come from the protocol, and not from algorithm, model and data."""

    @property
    def idle_keys(self) -> dict[str, str]:
        """Own keys (dotted) that nothing reads, given the other keys, each with the reason."""
        idle = {}
        patience, wait_for = getattr(self, "patience", None), getattr(self, "wait_for", None)
        if isinstance(patience, DeadlinePolicy) and not patience.leaves_behind:
            idle["patience.late"] = "without deadline_s and over_selection nobody is late"
        if isinstance(wait_for, WaitFor) and wait_for.clients == 1:
            idle["wait_for.limit_s"] = (
                "with clients: 1 the server waits for the first client anyway"
            )
        return idle

    @property
    def carries_over(self) -> bool:
        """Whether a round takes updates that were too late for an earlier one."""
        patience = getattr(self, "patience", None)
        return isinstance(patience, DeadlinePolicy) and patience.late == "carry_over"

    @property
    def takes_stale_updates(self) -> bool:
        """Whether clients' updates may be aggregated some versions after their download."""
        return self.overlapping or self.carries_over

    @property
    def may_ask(self) -> frozenset[str]:
        """Which of association, scheduling and staleness its tiers allow."""
        tiers = {"association", "scheduling"} if self.hierarchical else set[str]()
        return frozenset({*tiers, "staleness"})

    @property
    def asks(self) -> frozenset[str]:
        """Which of those rules it uses; by default all."""
        return self.may_ask

    @property
    def most_updates(self) -> int | None:
        """The most updates per aggregation; None: as many as were selected."""
        return None

    def values(
        self,
        plain: TimingOnly,
        streams: Streams,
        store: ValueStore | None,
        platform: Mapping[str, Any],
    ) -> LearnedValues:
        """Learned values if the algorithm learns nothing: `plain`, or the protocol's own.

        `store` keeps results for other runs, `platform` is the numeric platform of their bits.
        """
        return plain

    @abstractmethod
    def process(self, run: Run) -> Process:
        """The protocol's process, from time 0 until `run.publish` returns that the run is over."""
