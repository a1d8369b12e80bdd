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
    """A choreography: a SimPy process over a `Run`, which it drives through its methods.

    It holds keyed handles and never a tensor. What algorithms may refuse it for it says itself:
    `hierarchical`, whether clients belong to edge servers that aggregate for the cloud;
    `overlapping`, whether a server selects clients while others that it has selected are under
    way; `takes_stale_updates` and `most_updates`. `asks` says which rules it goes by; a key of the
    scenario that belongs to others is told to the user as one that nothing reads.
    """

    name: ClassVar[str]
    hierarchical: ClassVar[bool] = False
    overlapping: ClassVar[bool] = False
    brings_values: ClassVar[bool] = False
    """Whether what is learned comes with the protocol, and not from algorithm, model and data."""

    @property
    def idle_keys(self) -> dict[str, str]:
        """Own keys (dotted) that nothing reads beside the others, each with the reason."""
        idle = {}
        patience, wait_for = getattr(self, "patience", None), getattr(self, "wait_for", None)
        if isinstance(patience, DeadlinePolicy) and not patience.leaves_behind:
            idle["patience.late"] = "without deadline_s and over_selection nobody is late"
        if isinstance(wait_for, WaitFor) and wait_for.clients == 1:
            idle["wait_for.limit_s"] = "with clients of 1 the first to come is waited for anyway"
        return idle

    @property
    def carries_over(self) -> bool:
        """Whether a round takes in updates that were too late for an earlier one."""
        patience = getattr(self, "patience", None)
        return isinstance(patience, DeadlinePolicy) and patience.late == "carry_over"

    @property
    def takes_stale_updates(self) -> bool:
        """Whether clients' updates may be aggregated some versions after their download."""
        return self.overlapping or self.carries_over

    @property
    def may_ask(self) -> frozenset[str]:
        """Of the decisions association, scheduling and staleness, those that its tiers allow."""
        tiers = {"association", "scheduling"} if self.hierarchical else set[str]()
        return frozenset({*tiers, "staleness"})

    @property
    def asks(self) -> frozenset[str]:
        """Of those, the ones whose rules it ever asks: all."""
        return self.may_ask

    @property
    def most_updates(self) -> int | None:
        """The most updates that an aggregation takes; None is as many as were selected."""
        return None

    def values(
        self,
        plain: TimingOnly,
        streams: Streams,
        store: ValueStore | None,
        platform: Mapping[str, Any],
    ) -> LearnedValues:
        """What a run learns whose algorithm learns nothing: `plain`, unless the protocol does.

        `store` keeps results for other runs, `platform` is what their bits depend on.
        """
        return plain

    @abstractmethod
    def process(self, run: Run) -> Process:
        """The protocol from time 0 until `run.publish` says that the run is over."""
