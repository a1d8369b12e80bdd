"""The API for your own parts: base classes, and the types that their methods get and return.

    from simfl.plugins import Algorithm, Update, weighted_sum

All names here keep their meaning as long as the first number of `API_VERSION` stays the same; a
`DeprecationWarning` announces a removal one version ahead. docs/api.md lists the names, and
docs/plugins.md explains how to use them. Modules of `simfl` that are not listed there may change at
any time.
"""

from __future__ import annotations

from simfl.algorithms.base import Algorithm, ClientFacts, ServerState, Standing, Work
from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.common.model_work import ModelWork
from simfl.decisions.base import (
    Allocation,
    Association,
    Estimator,
    QueryingSelection,
    Scheduling,
    Selection,
    Staleness,
)
from simfl.decisions.sampling import CountedSelection
from simfl.decisions.views import AssociationView, ClientView, EdgeView
from simfl.learning.codecs.base import ValueCodec
from simfl.learning.datasets.base import Data, Dataset, Examples
from simfl.learning.evaluate import Evaluator
from simfl.learning.federation import Federation
from simfl.learning.job import Brief, LocalTraining, Memory, Price, Recipe, Update
from simfl.learning.minibatch import Features, Minibatch, plain_loss
from simfl.learning.models.base import Model
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters, add, squared_distance
from simfl.learning.partitions.base import Partition, require_enough, sorted_rows
from simfl.learning.sums import weighted_mean, weighted_sum
from simfl.measures.base import Measure, ModelMeasure
from simfl.protocols.base import Protocol
from simfl.protocols.clock import Process
from simfl.protocols.deadline_policy import DeadlinePolicy
from simfl.protocols.deliveries import Delivered
from simfl.protocols.run import Run
from simfl.protocols.state_ref import StateRef
from simfl.protocols.wait_for import WaitFor
from simfl.runs.runfolder import LoadedRun
from simfl.streams import Streams
from simfl.system.availability.base import Availability
from simfl.system.catalogue import Catalogue
from simfl.system.codecs.base import Codec, bit_bytes, value_count
from simfl.system.cost import ComputeCost, TransferCost
from simfl.system.cpu import Cpu
from simfl.system.link import FixedRateLink, Link
from simfl.system.populations.base import Population
from simfl.system.populations.catalogue import CatalogueMix
from simfl.system.processor import Processor
from simfl.system.sharing.base import Flows, Sharing
from simfl.system.world import World

API_VERSION = "1.0"
"""Of `simfl`, `simfl.algorithms` and `simfl.plugins`; breaking changes raise the first number."""

__all__ = [
    "API_VERSION",
    "Algorithm",
    "Allocation",
    "Association",
    "AssociationView",
    "Availability",
    "BoolArray",
    "Brief",
    "Catalogue",
    "CatalogueMix",
    "ClientFacts",
    "ClientView",
    "Codec",
    "ComputeCost",
    "CountedSelection",
    "Cpu",
    "Data",
    "Dataset",
    "DeadlinePolicy",
    "Delivered",
    "EdgeView",
    "Estimator",
    "Evaluator",
    "Examples",
    "Features",
    "Federation",
    "FixedRateLink",
    "FloatArray",
    "Flows",
    "IntArray",
    "Link",
    "LoadedRun",
    "LocalTraining",
    "Measure",
    "Memory",
    "Minibatch",
    "Model",
    "ModelMeasure",
    "ModelWork",
    "Network",
    "Parameters",
    "Partition",
    "Population",
    "Price",
    "Process",
    "Processor",
    "Protocol",
    "QueryingSelection",
    "Recipe",
    "Run",
    "Scheduling",
    "Selection",
    "ServerState",
    "Sharing",
    "Staleness",
    "Standing",
    "StateRef",
    "Streams",
    "TransferCost",
    "Update",
    "ValueCodec",
    "WaitFor",
    "Work",
    "World",
    "add",
    "bit_bytes",
    "plain_loss",
    "require_enough",
    "sorted_rows",
    "squared_distance",
    "value_count",
    "weighted_mean",
    "weighted_sum",
]
