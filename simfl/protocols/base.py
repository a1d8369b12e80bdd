"""The base of every protocol."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from simfl.protocols.clock import Process

if TYPE_CHECKING:
    from simfl.protocols.run import Run


class Protocol(ABC):
    """A choreography: a SimPy process over a `Run`, which it drives through its methods.

    It holds keyed handles and never a tensor. `hierarchical` says whether clients belong to edge
    servers that aggregate for the cloud.
    """

    name: ClassVar[str]
    hierarchical: ClassVar[bool] = False

    @abstractmethod
    def process(self, run: Run) -> Process:
        """The protocol from time 0 until `run.publish` says that the run is over."""
