"""The base of every protocol."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from simfl.protocols.clock import Process
from simfl.protocols.patience import Patience

if TYPE_CHECKING:
    from simfl.protocols.run import Run


class Protocol(ABC):
    """A choreography: a SimPy process over a `Run`, which it drives through its methods.

    It holds keyed handles and never a tensor. `hierarchical` says whether clients belong to edge
    servers that aggregate for the cloud; `overlapping` whether a server selects clients while
    others that it has selected are under way.
    """

    name: ClassVar[str]
    hierarchical: ClassVar[bool] = False
    overlapping: ClassVar[bool] = False

    @property
    def takes_stale_updates(self) -> bool:
        """Whether clients' updates may be aggregated some versions after their download."""
        patience = getattr(self, "patience", None)
        return isinstance(patience, Patience) and patience.late == "carry_over"

    @property
    def most_updates(self) -> int | None:
        """The most updates that an aggregation takes; None is as many as were selected."""
        return None

    @abstractmethod
    def process(self, run: Run) -> Process:
        """The protocol from time 0 until `run.publish` says that the run is over."""
